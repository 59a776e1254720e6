package mutant

// The faults of the view change. What each must be caught as stands in the simulator's tests.
const (
	PlainHalf       Name = "any half of a view is a quorum"
	SilentSuspicion Name = "what another member suspects is not taken up"
	NoFreeze        Name = "the row of a suspect goes on changing"
	AckUnwedged     Name = "a proposal is acked and the view goes on"
	TrimByMaximum   Name = "the trim is what anybody has, not what everybody has"
	NoAdoption      Name = "a new leader decides anew whatever was decided"
	NoEchoQuorum    Name = "a decision is installed before others have it"
	NoCarry         Name = "what was not delivered is not sent again"
	NoTail          Name = "the rest of a view is not delivered"
	Impatient       Name = "the next view is delivered before the rest of the one before"
	BelievesAll     Name = "a member is believed that suspects so many that no quorum is left"
	Forgiving       Name = "who was suspected in one view is not suspected in the next"
	LongSlices      Name = "callbacks run on while a heartbeat waits for them"
	BeatsAlone      Name = "a heartbeat alone is a sign of life, and not the bytes that it waits for"
	AheadForgotten  Name = "what was delivered of a sender beyond the trim is forgotten when it was in another shard"
	HolderStays     Name = "the only process with the log of a shard stays in another shard that does not need it"
	NoRefill        Name = "a shard waits for the next change of members when it could have members"
)

// ViewNames are all of them.
var ViewNames = []Name{
	PlainHalf, SilentSuspicion, NoFreeze, AckUnwedged, TrimByMaximum, NoAdoption, NoEchoQuorum, NoCarry, NoTail, Impatient, Forgiving, BelievesAll, LongSlices,
	BeatsAlone, AheadForgotten, HolderStays, NoRefill,
}
