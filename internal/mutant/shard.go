package mutant

// The faults of the core that gets and keeps the state of shards, and of the backlog.
const (
	EarlyBacklog     Name = "the backlog is handed over before the state is here"
	StateTwice       Name = "a state is restored once more after the backlog"
	CompleteUnsynced Name = "a log counts as complete before its last record is durable"
	HalfLog          Name = "a log counts as complete when its source breaks off"
	PartialSource    Name = "a source gives the end of a log that lacks something"
	EarlyFreed       Name = "a stay that is over frees the log that a later one holds"
	TwoAtOnce        Name = "an activity begins while another one is in progress"
	LeaverWaits      Name = "a member that left waits for the state that it still gets"
	NoOffer          Name = "the members that have a state never offer it"
	BacklogLoses     Name = "a backlog that is full drops what comes"
)

// ShardNames are all of them.
var ShardNames = []Name{
	EarlyBacklog, StateTwice, CompleteUnsynced, HalfLog, PartialSource, EarlyFreed, TwoAtOnce, NoOffer, BacklogLoses, LeaverWaits,
}
