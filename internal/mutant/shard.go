package mutant

// The faults of the core that gets and keeps the state of shards.
const (
	EarlyBacklog     Name = "the backlog is handed over before the state is here"
	StateTwice       Name = "a state is restored once more behind the backlog"
	CompleteUnsynced Name = "a log counts as complete before its last record is durable"
	HalfLog          Name = "a log counts as complete when its source breaks off"
	PartialSource    Name = "a source gives the end of a log that lacks something"
)

// ShardNames are all of them.
var ShardNames = []Name{EarlyBacklog, StateTwice, CompleteUnsynced, HalfLog, PartialSource}
