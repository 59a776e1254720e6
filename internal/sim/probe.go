package sim

import "fmt"

// Probe is a rare branch. A campaign that never took one has not tested it.
type Probe int

const (
	RingFull Probe = iota
	RingWrapped
	SocketFull
	HalfFrame
	Coalesced
	LongTail
	TornLine
	SharedPair
	SeepingPair
	LineLostInFlight
	NullsSent
	NullsDelivered
	RoundsSkipped
	EmptyMessage
	LargestMessage
	ClaimAborted
	OnlyAborted
	DeliveredPastOpenClaim
	RunRefused
	RunTakenInPart
	LongRun
	UnorderedDelivery
	SilentSender
	SilentGroup
	AloneInView
	SevenMembers
	ThreeSubgroups
	SlowMember
	MemberPaused
	WayCut
	CrashedInStep
	HeardOfEnd
	HeardSilence
	HeardLeave
	SpokeAgain
	HaltedUndelivered
	SendAfterHalt
	probes
)

var probeNames = [probes]string{
	"ring full", "ring wrapped", "socket full", "half a frame", "push coalesced", "long tail", "torn line", "shared pair", "seeping pair",
	"pieces lost with their host", "nulls sent", "nulls delivered", "rounds skipped", "empty message", "largest message", "claim aborted", "nothing but aborted claims",
	"delivered past an open claim", "run refused", "run taken in part", "long run", "unordered delivery", "silent sender", "silent group", "alone in the view", "seven members", "three subgroups",
	"slow member", "member paused", "way cut", "crash within a step", "end of a peer heard", "silence of a peer heard", "leave of a peer heard",
	"spoke again after a hang", "halted with messages undelivered", "send refused after halting",
}

func (p Probe) String() string { return probeNames[p] }

// Probes counts how often each branch was taken.
type Probes [probes]int

// Add adds another run's counts.
func (p *Probes) Add(q *Probes) {
	for i, n := range q {
		p[i] += n
	}
}

// Never lists the branches that were not taken.
func (p *Probes) Never() (never []Probe) {
	for i, n := range p {
		if n == 0 {
			never = append(never, Probe(i))
		}
	}
	return never
}

func (p *Probes) String() (s string) {
	for i, n := range p {
		s += fmt.Sprintf("%8d  %v\n", n, Probe(i))
	}
	return s
}

// sometimes notes that a branch was taken if it was.
func (w *world) sometimes(p Probe, taken bool) {
	if taken {
		w.probes[p]++
	}
}
