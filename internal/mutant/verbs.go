package mutant

// The faults of RDMA links. The tests of package fabric/verbs find each, over its fake device.
const (
	LineFirst    Name = "lines are sent before the bytes that were pushed before them"
	FreezeAlive  Name = "a pair goes on after its row was frozen"
	EarlyReceive Name = "a receive is posted again before its message was used up"
	OldPair      Name = "a completion counts for the pair that has the number now"
	OneDomain    Name = "all peers share one protection domain"
	WholeReplica Name = "a peer can write the control part of its replica"
	ArmLate      Name = "a queue is not polled after it was armed"
	NoCredits    Name = "a message is sent whether the peer has a receive for it or not"
	NoteFirst    Name = "the note of a slot is sent before the slot's bytes"
	SlotEarly    Name = "a slot counts as free when its bytes came, and not when they were read"
	NoteOften    Name = "each slot that is free is reported by a note of its own"
	DeadlineMute Name = "a deadline that passes wakes neither a read nor a write"
	DeadlineKept Name = "a deadline that is taken back, or moved, stays"
	DeadlineBoth Name = "the deadline of reads ends writes"
)

// VerbsNames are all of them.
var VerbsNames = []Name{
	LineFirst, FreezeAlive, EarlyReceive, OldPair, OneDomain, WholeReplica, ArmLate, NoCredits, NoteFirst, SlotEarly, NoteOften, DeadlineMute, DeadlineKept,
	DeadlineBoth,
}
