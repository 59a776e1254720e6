package mutant

// The faults of replicated objects and their clients. The tests of package squalltest find each.
const (
	ReplyDropped      Name = "a reply is kept until the next command of its session"
	SessionsLeftOut   Name = "sessions are not handed to new members"
	RepliesLeftOut    Name = "replies of sessions are not handed to new members"
	ExecutedAgain     Name = "a number that was executed is executed again"
	EarlyAcknowledged Name = "a client acknowledges numbers before one that has ended"
)

// UnendedFreed is a fault of objects whose commands are refused until replies are acknowledged.
const UnendedFreed Name = "an acknowledgement frees replies that it does not name"

// The faults of clients. The tests of package client find them.
const (
	SteadyLink Name = "a request is not late while later ones of its link are not"
	NoPermits  Name = "a refused command is sent again only when all before it have ended"
	NoneSaid   Name = "replies are not acknowledged while an earlier one is awaited"
)

// The faults of commands that share a message.
const (
	SameSeed      Name = "commands of one message get the same random numbers"
	EventsRestart Name = "the events of each command of a message are counted from 1"
	OutboxRestart Name = "what each command of a message sends is counted from 1"
	RecordDropped Name = "a message of several commands lacks the last one"
	RecordDoubled Name = "the last of several commands is sent with the next message, too"
	Overtaking    Name = "a command is sent at once although others wait"
	RoomOvertaken Name = "a command takes the room for which others wait"
)

// BatchNames are all of these.
var BatchNames = []Name{SameSeed, EventsRestart, OutboxRestart, RecordDropped, RecordDoubled, Overtaking, RoomOvertaken}

// The faults of objects in shards.
const (
	StaleRoute          Name = "a client whose member fails does not ask where the shard is now"
	ReadUnconfirmed     Name = "a query is answered without a confirmation"
	ProofWithoutService Name = "the proof of a forwarded command does not say for which shard it is"
	AnyShard            Name = "a shard executes what was sent to another one"
	ForeignCopy         Name = "a member serves a shard before it has its state"
	SourceForgotten     Name = "what handlers sent is executed each time that it comes"
	OrderedTwice        Name = "a forwarded command is ordered again while its record is in flight"
	GapExecuted         Name = "what a handler sent is executed although what it sent before was not"
)

// ShardedNames are those of objects in shards.
var ShardedNames = []Name{StaleRoute, ReadUnconfirmed, ProofWithoutService, AnyShard, ForeignCopy, SourceForgotten, OrderedTwice, GapExecuted}

// ObjectNames are those of the first kind.
var ObjectNames = []Name{ReplyDropped, SessionsLeftOut, RepliesLeftOut, ExecutedAgain, EarlyAcknowledged}
