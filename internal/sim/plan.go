package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/squall-go/squall/fabric/simnet"
	"github.com/squall-go/squall/multicast"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// Plan is everything that a run depends on, but for the dice it throws on the way, which the same seed loads.
type Plan struct {
	Seed     uint64
	Limits   Limits         // what it was drawn within
	Members  []views.Member // in order of rank; ids are not
	Decls    []views.Declaration
	Tuning   multicast.Tuning
	Paces    []Pace    // by rank
	Apps     []App     // one per sender of each subgroup
	Inboxes  [][]Inbox // by rank and subgroup
	Net      NetPlan
	Fault    Fault
	Outages  int           // cuts of a direction that heal before anybody minds
	Outage   time.Duration // how long at most
	Messages int           // of all applications together

	hop, bound time.Duration // computed once
}

// Pace is how a member is stepped.
type Pace struct {
	Step       time.Duration // mean time between two steps
	Spins      int           // steps that found nothing, before it sleeps
	Pause      time.Duration // longest pause
	PauseEvery int           // steps between two pauses, about; 0: none
}

// App is what one application does at one sender.
type App struct {
	Rank     order.Rank
	Subgroup int
	Messages int
	Start    time.Duration
	Gap      time.Duration // mean time between two bursts
	Burst    int           // messages in a burst at most
	MaxBytes int           // of a message; 0: all are empty
	Hold     time.Duration // how long a claim may be left open
	HoldIn   int           // one in so many claims is; 0: none
	AbortIn  int           // one in so many claims is given back
	SkipIn   int           // after one in so many bursts rounds are skipped
}

// Inbox is how an application takes what is delivered.
type Inbox struct {
	ShutIn int           // one in so many offers finds it full, or fills it; 0: none
	Shut   time.Duration // how long at most
	MaxRun int           // messages that it wants at once; 0: all
}

// NetPlan is the character of the network.
type NetPlan struct {
	Kinds       [][]simnet.Kind // by rank and rank
	Delays      [][]simnet.Delay
	SocketBytes int
	PieceBytes  int
	FrameRanges int
	NoticeAfter time.Duration
}

// FaultKind is what goes wrong for good.
type FaultKind uint8

const (
	NoFault   FaultKind = iota
	Crash               // a process ends
	PowerOff            // a host ends, and nobody is told
	Hang                // a process stops, and goes on much later
	Leave               // a member leaves
	OneWayCut           // a direction between two nodes is cut
	Partition           // some nodes lose the others
	faultKinds
)

func (k FaultKind) String() string {
	return [...]string{"none", "crash", "power off", "hang", "leave", "one-way cut", "partition"}[k]
}

// Fault is what goes wrong, to whom and when.
type Fault struct {
	Kind   FaultKind
	At     time.Duration
	Rank   order.Rank // who
	Peer   order.Rank // OneWayCut: what Rank sends does not arrive here. Partition: ranks from here on are beyond it
	InStep int        // Crash and PowerOff: within a step, so many calls of the fabric later
}

// Limits narrow what Draw may draw. The zero value does not.
type Limits struct {
	Nodes    int   // members; 0: 1 to 7
	Messages int   // of all applications; 0: 50 to 400
	Faults   *bool // nil: in one run of four
}

// flags are the limits as arguments of a campaign.
func (l Limits) flags() (s string) {
	if l.Nodes != 0 {
		s += fmt.Sprintf(" -nodes %d", l.Nodes)
	}
	if l.Messages != 0 {
		s += fmt.Sprintf(" -messages %d", l.Messages)
	}
	return s
}

// Draw makes the plan of a seed.
func Draw(seed uint64, l Limits) *Plan {
	d := dice{rand.New(rand.NewPCG(seed, 0x5157))}
	p := &Plan{Seed: seed, Limits: l}
	n := l.Nodes
	if n == 0 {
		n = 1 + d.IntN(7)
	}
	d.members(p, n)
	d.subgroups(p)
	d.net(p, n)
	for range n {
		p.Paces = append(p.Paces, d.pace())
	}
	d.apps(p, l.Messages)
	d.inboxes(p, n)
	if faulty := d.oneIn(4); n > 1 && (l.Faults == nil && faulty || l.Faults != nil && *l.Faults) {
		d.fault(p, n)
	}
	return p
}

// dice draws parts of a plan.
type dice struct{ *rand.Rand }

func (d dice) oneIn(n int) bool { return n > 0 && d.IntN(n) == 0 }

// upTo draws a duration from (0, most], small ones as often as large ones.
func (d dice) upTo(most time.Duration) time.Duration {
	return 1 + time.Duration(d.Int64N(max(1, int64(most)>>d.IntN(4))))
}

func pick[T any](d dice, from ...T) T { return from[d.IntN(len(from))] }

func (d dice) members(p *Plan, n int) {
	for len(p.Members) < n {
		id := order.NodeID(1 + d.IntN(40))
		if !slices.ContainsFunc(p.Members, func(m views.Member) bool { return m.ID == id }) {
			p.Members = append(p.Members, views.Member{ID: id, Addr: fmt.Sprintf("node-%d:1", id)})
		}
	}
}

// some draws at least one of the members, in no order; nil stands for all of them.
func (d dice) some(all []order.NodeID) []order.NodeID {
	if d.oneIn(2) {
		return nil
	}
	ids := slices.Clone(all)
	d.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids[:1+d.IntN(len(ids))]
}

func (d dice) subgroups(p *Plan) {
	var all []order.NodeID
	for _, m := range p.Members {
		all = append(all, m.ID)
	}
	for i := range pick(d, 1, 1, 1, 2, 2, 3) {
		decl := views.Declaration{
			Name: string(rune('a' + i)), Members: d.some(all), Mode: pick(d, views.Ordered, views.Ordered, views.Ordered, views.Unordered),
			RingBytes: pick(d, 4<<10, 4<<10, 4<<10, 8<<10, 16<<10), Window: pick(d, 4, 4, 8, 16, 64),
		}
		of := decl.Members
		if of == nil {
			of = all
		}
		decl.Senders = d.some(of)
		p.Decls = append(p.Decls, decl)
	}
	if d.oneIn(6) {
		p.Tuning = multicast.Tuning{OneSend: d.oneIn(2), OneReceive: d.oneIn(2), OneDeliver: d.oneIn(2)}
	}
}

func (d dice) net(p *Plan, n int) {
	const us = time.Microsecond
	kinds := pick(d, []simnet.Kind{simnet.Framed}, []simnet.Kind{simnet.Framed}, []simnet.Kind{simnet.Seeping}, []simnet.Kind{simnet.Shared},
		[]simnet.Kind{simnet.Framed, simnet.Shared, simnet.Seeping})
	delay := simnet.Delay{Base: d.upTo(50 * us), Jitter: d.upTo(100 * us), Tail: d.upTo(1000 * us), TailEvery: pick(d, 0, 8, 64)}
	for a := range n {
		p.Net.Kinds = append(p.Net.Kinds, make([]simnet.Kind, n))
		p.Net.Delays = append(p.Net.Delays, make([]simnet.Delay, n))
		for b := range n {
			p.Net.Delays[a][b] = delay
			if d.oneIn(8) { // a pair that is far apart, in one direction
				p.Net.Delays[a][b].Base += d.upTo(500 * us)
			}
			if b < a {
				p.Net.Kinds[a][b] = pick(d, kinds...)
				p.Net.Kinds[b][a] = p.Net.Kinds[a][b]
			}
		}
	}
	p.Net.SocketBytes = pick(d, 0, 0, 400, 1500, 6000)
	p.Net.PieceBytes = pick(d, 0, 0, 40, 300)
	p.Net.FrameRanges = pick(d, 0, 0, 1, 3)
	p.Net.NoticeAfter = d.upTo(500 * us)
	if d.oneIn(4) {
		p.Outages, p.Outage = 1+d.IntN(4), d.upTo(1000*us)
	}
}

func (d dice) pace() Pace {
	p := Pace{Step: 2*time.Microsecond + d.upTo(30*time.Microsecond), Spins: pick(d, 0, 1, 8)}
	if d.oneIn(6) {
		p.Step *= 8
	}
	if d.oneIn(3) {
		p.Pause, p.PauseEvery = d.upTo(time.Millisecond), pick(d, 20, 100)
	}
	return p
}

// apps shares the messages out among the senders, some of which stay silent.
func (d dice) apps(p *Plan, messages int) {
	if messages == 0 {
		messages = 50 + d.IntN(350)
	}
	p.Messages = messages
	for i, decl := range p.Decls {
		senders := decl.Senders
		if senders == nil {
			senders = decl.Members
		}
		for r, m := range p.Members {
			if senders == nil || slices.Contains(senders, m.ID) {
				p.Apps = append(p.Apps, d.app(order.Rank(r), i, decl.RingBytes/2))
			}
		}
	}
	loud := 0
	for i := range p.Apps {
		if p.Apps[i].Messages = 1; d.oneIn(5) {
			p.Apps[i].Messages = 0
		}
		loud += p.Apps[i].Messages
	}
	for i := range p.Apps {
		p.Apps[i].Messages *= (messages + loud - 1) / max(loud, 1)
	}
}

func (d dice) app(r order.Rank, subgroup, most int) App {
	start := d.upTo(200 * time.Microsecond)
	if d.oneIn(8) { // silent until everybody would notice that the order waits for it
		start = 20*time.Millisecond + d.upTo(100*time.Millisecond)
	}
	return App{
		Rank: r, Subgroup: subgroup, Start: start, Gap: d.upTo(pick[time.Duration](d, 5, 50, 300) * time.Microsecond),
		Burst: pick(d, 1, 1, 3, 40), MaxBytes: pick(d, 0, 7, 16, 100, 100, 400, 400, most),
		HoldIn: pick(d, 0, 0, 4, 20), Hold: d.upTo(500 * time.Microsecond), AbortIn: pick(d, 0, 0, 3, 20), SkipIn: pick(d, 0, 0, 0, 4),
	}
}

func (d dice) inboxes(p *Plan, n int) {
	for range n {
		var row []Inbox
		for range p.Decls {
			row = append(row, Inbox{ShutIn: pick(d, 0, 0, 3, 12), Shut: d.upTo(300 * time.Microsecond), MaxRun: pick(d, 0, 0, 1, 3, 1024)})
		}
		p.Inboxes = append(p.Inboxes, row)
	}
}

func (d dice) fault(p *Plan, n int) {
	f := Fault{Kind: 1 + FaultKind(d.IntN(int(faultKinds)-1)), At: d.upTo(4 * time.Millisecond), Rank: order.Rank(d.IntN(n))}
	switch f.Kind {
	case Crash, PowerOff:
		f.InStep = pick(d, 0, 1, 2, 5, 30)
	case OneWayCut:
		p.Outages = 0 // they would heal what has to stay cut
		f.Peer = (f.Rank + 1 + order.Rank(d.IntN(n-1))) % order.Rank(n)
		p.Net.Kinds[f.Rank][f.Peer], p.Net.Kinds[f.Peer][f.Rank] = simnet.Framed, simnet.Framed
	case Partition:
		p.Outages = 0
		f.Peer = 1 + order.Rank(d.IntN(n-1))
		for a := range f.Peer {
			for b := f.Peer; int(b) < n; b++ {
				p.Net.Kinds[a][b], p.Net.Kinds[b][a] = simnet.Framed, simnet.Framed
			}
		}
	}
	p.Fault = f
}

// Hop bounds how long it takes until what one member pushed was looked at by another one, sockets that have room provided.
func (p *Plan) Hop() time.Duration {
	if p.hop == 0 {
		p.hop = p.longestHop()
	}
	return p.hop
}

func (p *Plan) longestHop() (longest time.Duration) {
	for _, pace := range p.Paces {
		longest = max(longest, 2*pace.Step*3/2+pace.Pause)
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
	for _, pace := range p.Paces {
		longest = max(longest, steps*(pace.Step*3/2)+steps*pace.Pause/time.Duration(max(1, pace.PauseEvery/3)))
	}
	return longest
}

// Bound is the time within which whatever is under way must arrive, when nobody fails (G7): some hops for the message, the nulls it
// causes and the counters that come back; and each of them may have to wait for a socket as often as a row's bytes fill it.
func (p *Plan) Bound() time.Duration {
	if p.bound == 0 {
		p.bound = p.longestWay()
	}
	return p.bound
}

func (p *Plan) longestWay() time.Duration {
	rounds := 1
	for _, d := range p.Decls {
		if p.Net.SocketBytes > 0 {
			rounds += d.RingBytes / p.Net.SocketBytes
		}
	}
	single := 1
	if p.Tuning != (multicast.Tuning{}) {
		for _, d := range p.Decls {
			single = max(single, d.Window)
		}
	}
	return p.Hop() * time.Duration(8+2*rounds+4*single)
}

// String describes the plan in a few lines.
func (p *Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d members, %d messages, hop %v, bound %v\n", p.Seed, len(p.Members), p.Messages, p.Hop(), p.Bound())
	if p.Fault.Kind != NoFault {
		fmt.Fprintf(&b, "  fault: %v of rank %d at %v (peer %d, in step %d)\n", p.Fault.Kind, p.Fault.Rank, p.Fault.At, p.Fault.Peer, p.Fault.InStep)
	}
	fmt.Fprintf(&b, "  net: kinds %v, sockets %d B, pieces %d B, %d ranges a frame, %d outages up to %v\n", p.Net.Kinds, p.Net.SocketBytes, p.Net.PieceBytes, p.Net.FrameRanges, p.Outages, p.Outage)
	for r, m := range p.Members {
		fmt.Fprintf(&b, "  rank %d: node %d, steps %+v\n", r, m.ID, p.Paces[r])
	}
	for _, d := range p.Decls {
		fmt.Fprintf(&b, "  subgroup %q %v: members %v, senders %v, ring %d B, window %d\n", d.Name, d.Mode, d.Members, d.Senders, d.RingBytes, d.Window)
	}
	for _, a := range p.Apps {
		fmt.Fprintf(&b, "  application %+v\n", a)
	}
	if p.Tuning != (multicast.Tuning{}) {
		fmt.Fprintf(&b, "  tuning %+v\n", p.Tuning)
	}
	return b.String()
}
