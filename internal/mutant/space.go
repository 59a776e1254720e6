package mutant

// The faults of topic spaces. What each must be caught as stands in the tests of package
// dds/internal/space.
const (
	SpaceAnyOwner    Name = "a sample of a writer that does not own the instance takes effect"
	SpaceLapsedOwns  Name = "a writer that missed its deadline owns its instances still"
	SpaceSetAtOnce   Name = "a sample of a coherent set takes effect before the set ends"
	SpaceBrokenSet   Name = "a set of which a writer was closed takes effect"
	SpaceSetOfTheEnd Name = "open sets of a process that has ended stay"
	SpaceEndedStays  Name = "writers of a process that has ended stay"
	SpaceTooDeep     Name = "a history keeps one sample more than its depth"
	SpaceLocalStays  Name = "a TRANSIENT_LOCAL history does not end with its writer"
	SpaceLateFirst   Name = "a reader gets what comes before it has its history"
	SpaceViewBorrows Name = "a view of a history has borrowed data"
	SpaceSilentParts Name = "a writer whose lease has ended keeps its part in instances"
	SpaceSilentSet   Name = "a set that takes effect does not assert its writers"
	SpaceNoSweep     Name = "that a sample will expire is not noted"
	SpaceSourceBack  Name = "source times of a topic by source go back"
)

// SpaceNames are all of them.
var SpaceNames = []Name{
	SpaceAnyOwner, SpaceLapsedOwns, SpaceSetAtOnce, SpaceBrokenSet, SpaceSetOfTheEnd, SpaceEndedStays, SpaceTooDeep, SpaceLocalStays,
	SpaceLateFirst, SpaceViewBorrows, SpaceSilentParts, SpaceSilentSet, SpaceNoSweep, SpaceSourceBack,
}
