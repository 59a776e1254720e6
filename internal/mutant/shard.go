package mutant

// The faults of the core that gets and keeps the state of shards.
const (
	EarlyBacklog     Name = "the backlog is handed over before the state is here"
	StateTwice       Name = "a state is restored once more behind the backlog"
	OffersWithout    Name = "a state is offered by a member that does not have it"
	CompleteUnsynced Name = "a log counts as complete before its last record is durable"
	HalfLog          Name = "a log counts as complete when its source breaks off"
	EarlyRecover     Name = "an application recovers from its log before all of it is durable"
	LateResult       Name = "the result of a fetch that was superseded is taken"
	TwoAtOnce        Name = "a stay begins before the one before it has ended its work"
)

// ShardNames are all of them.
var ShardNames = []Name{EarlyBacklog, StateTwice, OffersWithout, CompleteUnsynced, HalfLog, EarlyRecover, LateResult, TwoAtOnce}
