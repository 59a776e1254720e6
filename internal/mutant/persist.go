package mutant

// The faults of persistence in the cores. What each must be caught as stands in the simulator's
// tests.
const (
	EchoUnrecorded Name = "a decision is echoed before it is on disk"
	EarlyPersisted Name = "what was delivered counts as persisted before it is on disk"
	NullsHold      Name = "nulls after the last message hold the persisted counter up"
	OwnFrontier    Name = "what is on the own disk counts as being on every disk"
	EarlyShown     Name = "the application sees one message more than every disk has"
	PartialWhole   Name = "a member says of a log that lacks something that it is whole"
	OwnTime        Name = "a record of another member's log gets a time of its own"
)

// PersistNames are all of them.
var PersistNames = []Name{
	EchoUnrecorded, EarlyPersisted, NullsHold, OwnFrontier, EarlyShown, PartialWhole, OwnTime,
}
