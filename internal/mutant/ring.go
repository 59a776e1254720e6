package mutant

// The faults of the ring. The tests of package smc find each.
const (
	GapLost         Name = "a receiver takes the index after the last record for that of the next one"
	PadCounted      Name = "a pad takes an index"
	VoidTaken       Name = "an aborted claim is published as a message"
	HeaderTwice     Name = "a receiver loads a header again when it takes the record"
	LengthUnchecked Name = "a receiver takes what a header says for the length of a message"
	CheckpointEarly Name = "the space of a publication is free before its last message was delivered"
	GapCarried      Name = "a record that moves to the next view keeps its gap"
	FinishedTwice   Name = "a claim is finished twice"
	OpenOvertaken   Name = "what is sent after an open claim is published with it"
	WrapLost        Name = "what lies before a wrap is not pushed"
	ShutEarly       Name = "a ring is shut while a goroutine sends"
	PositionLate    Name = "sent is stored before the end of the records"
)

// RingNames are all of them, but for PositionLate, which the tests of package multicast find.
var RingNames = []Name{GapLost, PadCounted, VoidTaken, HeaderTwice, LengthUnchecked, CheckpointEarly, GapCarried, FinishedTwice, OpenOvertaken, WrapLost, ShutEarly}
