package mutant

// The faults of a restart. What each must be caught as stands in the tests of package restart.
const (
	RestartAlone    Name = "a group restarts without a quorum of its last view"
	PromiseUnsynced Name = "a promise is given before it is durable"
	VoteUnsynced    Name = "a vote is given before it is durable"
	ShortestLog     Name = "the agreed log is the shortest one"
)

// RestartNames are all of them.
var RestartNames = []Name{RestartAlone, PromiseUnsynced, VoteUnsynced, ShortestLog}
