package mutant

// The faults of the core that gets and keeps the state of shards.
const (
	EarlyState       Name = "a state is taken over before the application has everything of earlier views"
	EarlyBacklog     Name = "the backlog is handed over before the state is here"
	StateTwice       Name = "a state is restored once more behind the backlog"
	OffersWithout    Name = "a state is offered by a member that does not have it"
	CompleteUnsynced Name = "a log counts as complete before its last record is durable"
	HalfLog          Name = "a log counts as complete when its source breaks off"
	LateResult       Name = "the result of a fetch that was superseded is taken"
	TwoAtOnce        Name = "a stay begins before the one before it has ended its work"
)

// ShardNames are all of them.
var ShardNames = []Name{EarlyState, EarlyBacklog, StateTwice, OffersWithout, CompleteUnsynced, HalfLog, LateResult, TwoAtOnce}
