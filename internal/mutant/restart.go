package mutant

// The faults of a restart. What each must be caught as stands in the tests of package restart, and
// in those of the simulator.
const (
	RestartAlone    Name = "a group restarts without a quorum of its last view"
	PromiseUnsynced Name = "a promise is given before it is durable"
	VoteUnsynced    Name = "a vote is given before it is durable"
	VoteForgotten   Name = "a vote does not outlive its process"
	ShortestLog     Name = "the agreed log is the shortest one"
	EchoFirst       Name = "the decision of a view change counts more than the votes of a restart"
	LastVote        Name = "the last vote counts, not that of the highest ballot"
	AnyPromise      Name = "a promise of another ballot counts"
	AnyVote         Name = "a vote in another ballot counts"
	FewEnter        Name = "a view is entered of which too few members have their logs ready"
	WholeForgotten  Name = "a log counts as incomplete when its process has installed a view that its disk does not have yet"
)

// RestartNames are all of them.
var RestartNames = []Name{
	RestartAlone, PromiseUnsynced, VoteUnsynced, VoteForgotten, ShortestLog, EchoFirst, LastVote, AnyPromise, AnyVote,
	FewEnter, WholeForgotten,
}
