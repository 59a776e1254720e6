package mutant

// The faults of what is written to disk. What each must be caught as stands in the tests of package
// persist.
const (
	NoDirSync      Name = "a directory is not synced after a name in it was made"
	DropBeforeSnap Name = "records are dropped before the snapshot that replaces them is durable"
	DropUnshared   Name = "retention drops what not every member's disk has"
)

// DiskNames are all of them.
var DiskNames = []Name{NoDirSync, DropBeforeSnap, DropUnshared}
