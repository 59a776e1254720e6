package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/internal/simnet"
	"github.com/squall-go/squall/order"
	rdmcschedule "github.com/squall-go/squall/rdmc/schedule"
	"github.com/squall-go/squall/views"
)

// Plan is everything that a run depends on, but for the dice it throws on the way, which the same
// seed loads.
type Plan struct {
	Seed   uint64
	Limits Limits // what it was drawn within
	// the first Initial are the members of the first view, in order of rank; ids are in no order
	Nodes    []Node
	Initial  int
	Decls    []views.Declaration
	Tuning   multicast.Tuning
	Apps     []App     // one for each node and declaration
	Inboxes  [][]Inbox // by node and declaration
	Net      NetPlan
	Faults   []Fault       // by time
	Outages  int           // cuts of a direction that heal before any member suspects another
	Outage   time.Duration // how long at most
	Messages int           // of all applications together, about
	Beats    int           // quarters of Bound between two heartbeats; 0: one
	Reads    Reads
	Keep     Keep
	// declarations whose applications have a state that new members take over, a bit each
	States uint64
	// at one in so many pushes of a step an application goes on, concurrently with the loop; 0: none
	Beside int
	// how long the body of a large message takes to a member; 0: as the network's delays say
	BulkTime time.Duration
	Bodies   BodyPlan

	hop, bound time.Duration // computed once
}

// BodyPlan is how the bodies of large messages travel.
type BodyPlan struct {
	BlockBytes int                    // of a block; 0: as package rdmc chooses
	Algorithm  rdmcschedule.Algorithm // 0: as package rdmc chooses
	Shared     bool                   // processes that share memory look at bodies where they are
}

// Node is a place for processes, one after the other.
type Node struct {
	ID   order.NodeID
	Pace Pace
	// Joins is when its first process asks to be a member; of no meaning for initial members.
	Joins time.Duration
	// Returns is how long after the end of a process the next one begins; 0: never. Times says how
	// often at most.
	Returns time.Duration
	Times   int
	Ask     []int // the nodes whose addresses its later processes ask, in turn
	// Ghosts is how many of its processes are not heard of any more once they were told that they
	// are members.
	Ghosts int
	// Skew is how far its wall clock is ahead.
	Skew time.Duration
}

// Keep is how persistent subgroups keep what they deliver.
type Keep struct {
	Disks  []DiskPlan // by node
	Memory int        // of each log: bytes that are not on disk yet; 0: much
	Block  int        // bytes of a block of a log; 0: many
	LostIn int        // one in so many letters of a restart is lost; 0: none
	LateIn int        // one in so many arrives once more, much later; 0: none
	// one in so many moves of a log or a state to another process breaks off; 0: none
	TornIn int
	After  uint64 // declarations whose applications see only what is on every disk, a bit each
}

// keeps reports whether any subgroup is persistent.
func (p *Plan) keeps() bool {
	return slices.ContainsFunc(p.Decls, func(d views.Declaration) bool { return d.Mode == views.Persistent })
}

// Syncing is about how long a disk takes at most.
func (p *Plan) Syncing() (longest time.Duration) {
	for _, d := range p.Keep.Disks {
		longest = max(longest, 2*d.Sync+d.Slow)
	}
	return longest
}

// Pace is how a member is stepped.
type Pace struct {
	Step       time.Duration // mean time between two steps
	Even       bool          // every time is the mean
	Spins      int           // steps that found nothing, before it sleeps
	Pause      time.Duration // longest pause
	PauseEvery int           // steps between two pauses, about; 0: none
}

// App is what one application does at one node in the subgroups of one declaration.
type App struct {
	Node     int
	Decl     int
	Messages int
	Start    time.Duration // after its process became a member
	Gap      time.Duration // mean time between two bursts
	Burst    int           // messages in a burst at most
	MaxBytes int           // of a message; 0: all are empty
	Hold     time.Duration // how long a claim may be left open
	HoldIn   int           // one in so many claims is; 0: none
	AbortIn  int           // one in so many claims is given back
	SkipIn   int           // after one in so many bursts rounds are skipped
	LargeIn  int           // one in so many messages is large; 0: none
	FutureIn int           // of one in so many messages the delivery is waited for
	// when it does not want to send any more, after the start of its process; 0: never
	Mute   time.Duration
	Unmute time.Duration // how long after that it wants to again; 0: never
}

// Inbox is how an application takes what is delivered.
type Inbox struct {
	ShutIn  int           // one in so many offers finds it full, or fills it; 0: none
	Shut    time.Duration // how long at most
	MaxRun  int           // messages that it wants at once; 0: all
	Cost    time.Duration // of a callback, of one message each
	Keep    int           // messages that it keeps at most, where that is allowed; 0: none
	KeepFor time.Duration // how long after the last delivery
}

// NetPlan is the character of the network.
type NetPlan struct {
	Kinds       [][]simnet.Kind // by node and node
	Delays      [][]simnet.Delay
	SocketBytes int
	PieceBytes  int
	FrameRanges int
	NoticeAfter time.Duration
}

// frame has all pairs connected by sockets: only these can be cut.
func (n *NetPlan) frame() {
	for _, row := range n.Kinds {
		for b := range row {
			row[b] = simnet.Framed
		}
	}
}

// share has all pairs share memory.
func (n *NetPlan) share(kind simnet.Kind) {
	for _, row := range n.Kinds {
		for b := range row {
			row[b] = kind
		}
	}
}

// FaultKind is what goes wrong.
type FaultKind uint8

const (
	Crash      FaultKind = iota + 1 // a process ends
	PowerOff                        // a host ends, and no peer is told
	Hang                            // a process stops, and goes on later
	SlowUpcall                      // the next upcall takes long
	ClockJump                       // the clock of a process jumps ahead
	Leave                           // a member leaves
	OneWayCut                       // a direction between two nodes is cut
	Partition                       // some nodes lose the others
	Accuse                          // an application takes another member for failed
	Blackout                        // all processes end
	SyncCut                         // power is lost within a sync
	FullDisk                        // nothing more fits on a disk
	SlowDisk                        // a disk takes long
	LostDisk                        // a process ends, and the next one has an empty disk
	// a process ends, and the ends of its logs cannot be read any more
	DamagedLogs
	Reset     // the conversations of a process break
	ClockBack // the wall clock of a node is set back
	// a process ends, and a process of another group of the same name has its address for a while
	Stranger
	Hostile // a member lies
	faultKinds
)

func (k FaultKind) String() string {
	return [...]string{"none", "crash", "power off", "hang", "slow callback", "clock jump", "leave", "one-way cut", "partition", "report", "blackout", "sync cut", "full disk", "slow disk", "lost disk", "damaged logs", "reset", "clock back", "stranger", "hostile"}[k]
}

// Fault is what goes wrong, where and when. The meaning of some fields depends on Kind:
//
//	Crash, PowerOff  InStep: within a step, after so many calls of the fabric or letters of a restart
//	OneWayCut        Peer: the place that does not get what Node sends
//	Partition        Set: the nodes on one side
//	Accuse           Peer: the place of the member that is reported
//	Blackout         Nth: not 0: Node, or the process that makes the move, comes back late. Peer:
//	                 how many further times all may come back. Set: the nodes that do not come back
//	SyncCut          Nth: which of the next syncs. InStep: what has arrived
//	SlowDisk         Peer: the declaration whose logs are slow. Set: not 0: what is remembered of
//	                 views is slow instead
//	Reset            Set: the nodes at the other end. InStep: not 0: they do not notice
//	Hostile          Peer: the rank that is accused. Set: what Node lies about
type Fault struct {
	Kind   FaultKind
	At     time.Duration
	On     Move // not NoMove: when a process makes this move, and to that process
	Nth    int  // which of these moves, from 1 on
	Node   int  // the place, unless On says it
	Peer   int
	Set    uint64        // a bit for each node
	For    time.Duration // until the fault ends, or a node that crashed in a restart is back; 0: never
	InStep int
}

func (f Fault) String() string {
	s := fmt.Sprintf("%v at %v of node place %d", f.Kind, f.At, f.Node)
	if f.On != NoMove {
		s = fmt.Sprintf("%v at %v of who makes move %q for time %d", f.Kind, f.At, f.On, f.Nth)
	}
	switch f.Kind {
	case OneWayCut, Accuse:
		s += fmt.Sprintf(", peer %d", f.Peer)
	case Partition:
		s += fmt.Sprintf(", side %b", f.Set)
	}
	if f.For > 0 {
		s += fmt.Sprintf(", for %v", f.For)
	}
	if f.InStep > 0 {
		s += fmt.Sprintf(", %d calls into a step", f.InStep)
	}
	return s
}

// Move is a step of a view change, or of a join.
type Move uint8

const (
	NoMove     Move = iota
	Suspects        // a member is taken for failed
	Proposes        // a leader writes a proposal
	Wedges          // a member stops its view
	Acks            // a member acks a ballot
	Decides         // a leader's decision
	Echoes          // another member's copy of it
	Completes       // a member knows that the decision is final
	Installs        // a member begins the next view
	Asks            // a joiner asks an address
	Meets           // a joiner is told which members to greet
	Readies         // a joiner has greeted all members
	Enters          // a joiner is told the view that it is in
	Promises        // a process that comes back promises a ballot
	Plans           // its leader proposes a view
	Completing      // its leader found a view that may have been decided
	Votes           // a process that comes back votes
	Restarts        // a process that came back begins the view
	Gives           // a member begins to give another one its state
	moves
)

func (m Move) String() string {
	return [...]string{"none", "suspects", "proposes", "wedges", "acks", "decides", "echoes", "completes", "installs", "asks", "meets", "ready", "enters", "promises", "plans", "completing", "votes", "restarts", "gives"}[m]
}

// Limits narrow what Draw may draw. The zero value does not narrow anything.
type Limits struct {
	Nodes    int        // initial members; 0: 1 to 7
	Messages int        // of all applications; 0: 50 to 400
	Faults   *bool      // nil: in two runs of three
	Kinds    FaultKinds // that may be drawn; 0: all
}

// Flags are the limits as arguments of a command.
func (l Limits) Flags() (s string) {
	if l.Nodes != 0 {
		s += fmt.Sprintf(" --nodes %d", l.Nodes)
	}
	if l.Messages != 0 {
		s += fmt.Sprintf(" --messages %d", l.Messages)
	}
	switch {
	case l.Faults != nil && !*l.Faults:
		s += " --faults none"
	case l.Kinds != 0:
		s += fmt.Sprintf(" --faults %v", l.Kinds)
	}
	return s
}

// calm reports whether nothing is planned that changes the membership.
func (p *Plan) calm() bool {
	mutes := func(a App) bool { return a.Mute > 0 }
	return len(p.Faults) == 0 && p.Initial == len(p.Nodes) && !slices.ContainsFunc(p.Apps, mutes)
}

// Hop bounds how long it takes until what one member pushed was looked at by another one, sockets
// that have room provided.
func (p *Plan) Hop() time.Duration {
	if p.hop == 0 {
		p.hop = p.longestHop()
	}
	return p.hop
}

func (p *Plan) longestHop() (longest time.Duration) {
	for _, n := range p.Nodes {
		longest = max(longest, 2*n.Pace.Step*3/2+n.Pace.Pause)
	}
	delay := time.Duration(0)
	for _, row := range p.Net.Delays {
		for _, d := range row {
			delay = max(delay, d.Max())
		}
	}
	return longest + delay + p.Outage
}

// Settling bounds how long a member keeps a counter to itself that may wait for company.
func (p *Plan) Settling() (longest time.Duration) {
	const steps = multicast.SettleAfter + 1
	for _, n := range p.Nodes {
		longest = max(longest, steps*(n.Pace.Step*3/2)+steps*n.Pace.Pause/time.Duration(max(1, n.Pace.PauseEvery/3)))
	}
	return longest + member.SettleTime
}

// Bound is the time within which whatever is under way must arrive, when no process fails (G7):
// some hops for the message, the nulls it causes and the counters that come back; and each of them
// may have to wait for a socket as often as a row's bytes fill it.
func (p *Plan) Bound() time.Duration {
	if p.bound == 0 {
		p.bound = p.longestWay()
	}
	return p.bound
}

// recordBytes is about how long a proposal or decision is.
const recordBytes = 2 << 10

func (p *Plan) longestWay() time.Duration {
	rounds := 1
	for _, d := range p.Decls {
		if p.Net.SocketBytes > 0 {
			rounds += d.RingBytes / p.Net.SocketBytes
		}
	}
	if p.Net.SocketBytes > 0 && !p.calm() {
		rounds += 3 * recordBytes / p.Net.SocketBytes
	}
	single := 1
	if p.Tuning != (multicast.Tuning{}) {
		for _, d := range p.Decls {
			single = max(single, d.Window)
		}
	}
	return p.Hop() * time.Duration(8+2*rounds+4*single)
}

// Heartbeat is how often heartbeats are bumped: rarely, compared with everything else.
func (p *Plan) Heartbeat() time.Duration {
	return max(p.Bound()/4*time.Duration(max(1, p.Beats)), time.Millisecond)
}

// FailAfter leaves time for a heartbeat to be late by everything that may delay it.
func (p *Plan) FailAfter() time.Duration { return 2 * (p.Heartbeat() + p.Bound()) }

// Silence is how long the conversations of a join may be silent.
func (p *Plan) Silence() time.Duration { return p.FailAfter() }

// Patience is the time within which a group of which a quorum lives has settled after the last
// fault, and within which members that are cut off from it have halted.
func (p *Plan) Patience() time.Duration {
	t := 16*(p.FailAfter()+p.Heartbeat()+p.Net.NoticeAfter) + 2*p.Bound() + p.Settling() + 64*p.Syncing()
	if !p.calm() {
		t += 24*p.Silence() + 6*time.Second // joiners rest a second between two rounds
	}
	return t
}

// String describes the plan in a few lines.
func (p *Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d nodes, %d of them found the group, %d messages, hop %v, bound %v, heartbeat %v, fail after %v\n",
		p.Seed, len(p.Nodes), p.Initial, p.Messages, p.Hop(), p.Bound(), p.Heartbeat(), p.FailAfter())
	for _, f := range p.Faults {
		fmt.Fprintf(&b, "  %v\n", f)
	}
	fmt.Fprintf(&b, "  net: kinds %v, sockets %d B, pieces %d B, %d ranges a frame, %d outages up to %v\n", p.Net.Kinds, p.Net.SocketBytes, p.Net.PieceBytes, p.Net.FrameRanges, p.Outages, p.Outage)
	for i, n := range p.Nodes {
		fmt.Fprintf(&b, "  place %d: node %d, joins %v, returns %v at most %d times, asks %v, steps %+v\n", i, n.ID, n.Joins, n.Returns, n.Times, n.Ask, n.Pace)
	}
	for _, d := range p.Decls {
		fmt.Fprintf(&b, "  subgroup %q %v: members %v, senders %v, %d shards of %d to %d %s, ring %d B, window %d\n",
			d.Name, d.Mode, d.Members, d.Senders, d.ShardCount(), d.MinMembers, d.MaxMembers, d.LayoutName, d.RingBytes, d.Window)
	}
	for _, a := range p.Apps {
		fmt.Fprintf(&b, "  application %+v\n", a)
	}
	if p.BulkTime != 0 {
		fmt.Fprintf(&b, "  bodies take %v, %+v\n", p.BulkTime, p.Bodies)
	}
	if p.Reads.Count > 0 {
		fmt.Fprintf(&b, "  reads %+v\n", p.Reads)
	}
	if p.States != 0 {
		fmt.Fprintf(&b, "  states %b\n", p.States)
	}
	if p.keeps() {
		fmt.Fprintf(&b, "  logs %+v\n", p.Keep)
	}
	if p.Tuning != (multicast.Tuning{}) {
		fmt.Fprintf(&b, "  tuning %+v\n", p.Tuning)
	}
	return b.String()
}
