package mutant

// The faults of large messages. What each must be caught as stands in the simulator's tests.
const (
	NotHeld    Name = "a large message that moves to the next view is published before its members have the body"
	EarlyPlace Name = "a large message takes its place before every member has the body"
	OldBody    Name = "who has a body in the view that ends counts as having it in the next one"

	EarlyBlock   Name = "a block is passed on while it is still coming"
	BlockMissing Name = "a body is whole although one block is missing"
	EarlyAck     Name = "a body is acknowledged when there is room for it"
	FirstAck     Name = "a body is everywhere when one member has it"
	AbortUnsaid  Name = "members are not told that a body is given up"
	TakenBack    Name = "members that have a body are not told that it is given up"
	OnlyOnce     Name = "a member that comes later is not told what was announced"
	HalfFreed    Name = "memory is given back while a block is being read into it"
	ViewUnsaid   Name = "the sender of a body is not told that a member still looks at it"
	RoomKept     Name = "a body that was given up still counts as in flight"
)

// LargeNames are all of them.
var LargeNames = []Name{NotHeld, EarlyPlace, OldBody, EarlyBlock, BlockMissing, EarlyAck, FirstAck, AbortUnsaid, TakenBack, OnlyOnce, HalfFreed, ViewUnsaid, RoomKept}
