package sim

import (
	"fmt"

	"github.com/squall-go/squall/internal/mutant"
)

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
	LoadBetween // only in builds in which rows change between the loads of a step
	FrozenUnseen
	NullsSent
	NullsDelivered
	RoundsSkipped
	EmptyMessage
	LargestMessage
	ClaimAborted
	OnlyAborted
	DeliveredPastOpenClaim
	RunRefused
	MessageKept // after its upcall
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
	UpcallSlow
	SliceOver // and the run went on in the next step
	ClockJumped
	CameBack
	HeardOfEnd
	HeardSilence
	HeardAccusation
	HaltedUndelivered
	SendAfterHalt
	LeaderDiedProposing
	LeaderDiedAcked
	LeaderDiedEchoed
	LeaderDiedInstalled
	TwoLeadersDied
	TookOver
	AdoptedDecision
	FoundNoDecision
	ProposedAgain
	MessageCarried
	ClaimCarried
	ClaimCarriedTwice
	TailSkipped
	LastWereNulls
	UnorderedAhead
	JoinerDiedAsking
	JoinerDiedMeeting
	JoinerDiedReady
	JoinerDiedEntered
	JoinerLost
	ManyJoined
	Redirected
	LeaverWasSenior
	AllLeft
	HalfWithSenior
	HalfWithoutSenior
	GroupLost
	SpokeAgain
	LayoutLost
	LayoutRegained
	SpareUsed
	MuteChanged
	UnableToSend
	FutureKept
	FutureBroken
	LargeDelivered
	LargeCarried
	LargeMovedAgain
	LargeHalf
	LargeWithdrawn
	BlockRelayed
	BlockCut
	BodyInPlace
	PeerSilent
	LinkReset
	LargeAborted
	LogFull
	CaughtUp
	TornTail
	LogCut
	CrashedInSync
	DiskFilled
	DiskReplaced
	FoundRunning
	Restarted
	RestartedWithout
	RestartWaited
	RestartCompletes
	RestartLearns
	RestartSuperseded
	RestartTwoVotes
	RestartChoseVote
	StalePromise
	StaleVote
	RecordedTwice
	PromiserDied
	VoterDied
	ConversationsReset
	ConversationsHalfOpen
	WelcomeLost
	ClockSetBack
	StrangerCame
	StrangerSpoke
	MetStranger
	WentBeside
	TransferTorn
	LeftWithoutState
	ShardForgone
	ShardMoved
	ShardCameBack
	ShardRevived
	CaughtUpAhead
	LogRepaired
	TailForgone
	StateRestored
	StateForgone
	StateSourceDied
	StateSourceFailed
	BacklogFull
	StateMoved
	JoinerVanished
	JoinerHeldBack
	MemberLied
	LiarBelieved
	LiarSpoke
	ReadAnswered
	ReadAtOnce
	ReadAcrossViews
	ReadRefused
	probes
)

var probeNames = [probes]string{
	RingFull: "ring full", RingWrapped: "ring wrapped", SocketFull: "socket full", HalfFrame: "half a frame", Coalesced: "push coalesced", LongTail: "long tail", TornLine: "torn line",
	SharedPair: "shared pair", SeepingPair: "seeping pair", LineLostInFlight: "pieces lost with their host",
	LoadBetween: "row changed between two loads", FrozenUnseen: "row frozen before all of it was seen", NullsSent: "nulls sent", NullsDelivered: "nulls delivered",
	RoundsSkipped: "rounds skipped", EmptyMessage: "empty message", LargestMessage: "largest message", ClaimAborted: "claim aborted", OnlyAborted: "nothing but aborted claims",
	DeliveredPastOpenClaim: "delivered past an open claim", RunRefused: "run refused", MessageKept: "message kept", RunTakenInPart: "run taken in part", LongRun: "long run", UnorderedDelivery: "unordered delivery",
	SilentSender: "silent sender", SilentGroup: "silent group", AloneInView: "alone in the view", SevenMembers: "seven members", ThreeSubgroups: "three subgroups",
	SlowMember: "slow member", MemberPaused: "member paused", WayCut: "way cut", CrashedInStep: "crash within a step", UpcallSlow: "callback longer than usual", SliceOver: "callbacks stop for a heartbeat", ClockJumped: "clock jumped",
	CameBack: "node came back", HeardOfEnd: "end of a peer heard", HeardSilence: "silence of a peer heard", HeardAccusation: "accusation of a peer heard",
	HaltedUndelivered: "halted with messages undelivered", SendAfterHalt: "send refused after halting",
	LeaderDiedProposing: "leader died while proposing", LeaderDiedAcked: "leader died after some acks", LeaderDiedEchoed: "leader died with its decision half echoed",
	LeaderDiedInstalled: "leader died after some installed", TwoLeadersDied: "two leaders died in a row", TookOver: "another leader took over",
	AdoptedDecision: "takeover adopted a decision", FoundNoDecision: "takeover found no decision", ProposedAgain: "leader proposed again",
	MessageCarried: "message carried into a later view", ClaimCarried: "open claim carried over one view", ClaimCarriedTwice: "open claim carried over two views",
	TailSkipped: "tail of a failed sender skipped", LastWereNulls: "last of a view were nulls", UnorderedAhead: "unordered delivery ahead of the trim",
	JoinerDiedAsking: "joiner died asking", JoinerDiedMeeting: "joiner died greeting", JoinerDiedReady: "joiner died ready", JoinerDiedEntered: "joiner died in its first view",
	JoinerLost: "joiner's conversation ended", ManyJoined: "many joined at once", Redirected: "joiner sent to the leader",
	LeaverWasSenior: "senior member left", AllLeft: "everybody left", HalfWithSenior: "half with the senior went on", HalfWithoutSenior: "half without the senior halted",
	GroupLost: "quorum lost", SpokeAgain: "evicted one spoke again", LayoutLost: "subgroup lost its layout", LayoutRegained: "subgroup regained its layout",
	SpareUsed: "spare member used", MuteChanged: "mute changed", UnableToSend: "unable to send till the end", FutureKept: "future resolved", FutureBroken: "future broken by a halt",
	LargeDelivered: "large message delivered", LargeCarried: "large message carried into a later view", LargeMovedAgain: "body moved once more",
	LargeHalf: "body lost half-way", LargeWithdrawn: "body that was everywhere given up", BlockRelayed: "block passed on by a receiver",
	BlockCut: "block broken off", BodyInPlace: "body looked at in memory of its sender", PeerSilent: "silent link given up", LinkReset: "link of bodies broken", LargeAborted: "large message given up",
	LogFull: "log full", CaughtUp: "log caught up", TornTail: "torn end of a log dropped", LogCut: "end of a log cut that others lack",
	CrashedInSync: "power lost within a sync", DiskFilled: "disk full", DiskReplaced: "disk replaced", FoundRunning: "back in a group that works",
	Restarted: "everybody back", RestartedWithout: "back without a minority", RestartWaited: "restart waited for somebody",
	RestartCompletes: "restart completed a decision", RestartLearns: "restart learned of a newer view",
	RestartSuperseded: "restart gave way to a higher ballot", RestartTwoVotes: "restarts voted for two views", RestartChoseVote: "restart chose between votes for two views",
	StalePromise: "promise of an attempt that is over", StaleVote: "vote of an attempt that is over", RecordedTwice: "decisions of two ballots being written down",
	PromiserDied: "ended between promise and vote", VoterDied: "ended after a vote",
	ConversationsReset: "conversations of a join reset", ConversationsHalfOpen: "conversations of a join half open", WelcomeLost: "joiner not told its view",
	ClockSetBack: "wall clock set back", StrangerCame: "address of another group", StrangerSpoke: "another group spoke to a restart", MetStranger: "another group met", WentBeside: "application within a step", TransferTorn: "transfer broke off", LeftWithoutState: "left without a state",
	ShardForgone: "left a shard before its log was whole", ShardMoved: "moved to another shard with a log", ShardCameBack: "back in a shard with its old log",
	ShardRevived: "a shard's log found again on a disk", CaughtUpAhead: "log caught up before joining", LogRepaired: "damaged end of a log dropped", TailForgone: "future ended as its member left a shard",
	StateRestored: "state restored", StateForgone: "state not wanted any more",
	StateSourceDied: "source of a state died half-way", StateSourceFailed: "source of a state or a log failed",
	BacklogFull: "backlog full", StateMoved: "moved to another shard with a state", JoinerVanished: "joiner never appeared", JoinerHeldBack: "joiner held back", MemberLied: "member lied", LiarBelieved: "liar believed", LiarSpoke: "liar spoke as a joiner",
	ReadAnswered: "reading answered", ReadAtOnce: "reading answered at once", ReadAcrossViews: "reading answered in a later view", ReadRefused: "reading not answered",
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

// AddRun counts a run for each branch that it took.
func (p *Probes) AddRun(q *Probes) {
	for i, n := range q {
		p[i] += min(n, 1)
	}
}

// Never lists the branches that were not taken.
func (p *Probes) Never() (never []Probe) {
	for i, n := range p {
		switch p := Probe(i); {
		case p == LoadBetween && !mutant.Enabled:
		case p == FrozenUnseen && mutant.Enabled: // there loads within a step see nearly all of it
		case p == RestartChoseVote || p == StaleVote: // TestRestartsChooseBetweenVotes reaches them
		case p == SliceOver: // TestSlowCallbacksDelayNoHeartbeatByMoreThanASlice reaches it
		case p == LeftWithoutState: // TestNoLeaverWaitsForAState reaches it
		case n == 0:
			never = append(never, p)
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
