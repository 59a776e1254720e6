package mutant

// The faults of pairs. What each must be caught as stands in the tests of package
// ripc/internal/pair.
const (
	PairOverwrites    Name = "a frame is written over one that its reader has not freed"
	PairNoWindow      Name = "a channel sends beyond its window"
	PairNoRelief      Name = "frames that nobody receives hold up the ring"
	PairEarlyFree     Name = "a frame that is freed frees those before it"
	PairOldNotice     Name = "the first notice of a key stays, not the latest"
	PairUntold        Name = "a peer that waits for room is not told of room that moving frames aside made"
	PairCountsGivenUp Name = "a request that was given up counts as a message that was not received"
)

// PairNames are all of them.
var PairNames = []Name{PairOverwrites, PairNoWindow, PairNoRelief, PairEarlyFree, PairOldNotice, PairUntold, PairCountsGivenUp}
