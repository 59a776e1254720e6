package sim

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/simnet"
	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// Options say how a plan is run.
type Options struct {
	Trace io.Writer  // nil: no trace
	Bug   simnet.Bug // of the network
	Lie   Lie        // of the applications' side
	Only  string     // the name of the one checker that is listened to; empty: all
}

// Result is the verdict on a run.
type Result struct {
	Err        error // nil, or the first violation
	Hash       uint64
	Probes     Probes
	Time       time.Duration // virtual
	Steps      int
	Deliveries int
	// Slowest is the longest time from a commit to a delivery, and SlowestOfBound what part of Plan.Bound that is.
	Slowest        time.Duration
	SlowestOfBound float64
}

// world is one run.
type world struct {
	plan     *Plan
	lie      Lie
	only     string
	random   *rand.Rand
	now      time.Duration
	net      *simnet.Net
	view     *views.View
	nodes    []*node // by rank
	rankOf   [64]order.Rank
	groups   []*group
	schedule schedule
	checkers []checker
	probes   Probes
	trace    trace
	result   Result

	busyApps  int
	lastStart time.Duration // of an application
	running   int           // members that neither crashed nor halted
	undone    int           // claims not yet delivered at a member that must deliver them
	progress  time.Duration // when an application or a delivery went on last
	struck    time.Duration // when the fault came; never: not yet
	quietFrom time.Duration // from then on only heartbeats may be sent; never: not yet
}

// checker watches over one promise. Every method returns what violates it.
type checker interface {
	// name is the promise it watches over, as its file is called.
	name() string
	// offered is called before the application may take a message, taken when it took it.
	offered(w *world, d *delivery) error
	taken(w *world, d *delivery) error
	// pushed is called for whatever a member pushes; off is a place in its row.
	pushed(w *world, from order.Rank, off int) error
	// end is called when the run is over.
	end(w *world) error
}

// unconcerned is a checker that nothing concerns, to embed.
type unconcerned struct{}

func (unconcerned) offered(*world, *delivery) error      { return nil }
func (unconcerned) taken(*world, *delivery) error        { return nil }
func (unconcerned) pushed(*world, order.Rank, int) error { return nil }
func (unconcerned) end(*world) error                     { return nil }

// violated is the error of a promise that does not hold.
func violated(id, format string, args ...any) error {
	return fmt.Errorf(id+" is violated: "+format, args...)
}

// Run plays a plan to its end.
func Run(p *Plan, o Options) (r Result) {
	w := newWorld(p, o)
	defer func() {
		if crash := recover(); crash != nil {
			w.panicked(crash)
		}
		r = w.verdict()
	}()
	if err := w.layOut(o); err != nil {
		w.fail(err)
		return
	}
	w.live()
	for _, c := range w.checkers {
		w.judge(c.name(), c.end(w))
	}
	return
}

func newWorld(p *Plan, o Options) *world {
	w := &world{plan: p, lie: o.Lie, only: o.Only, random: rand.New(rand.NewPCG(p.Seed, 1)), struck: never, quietFrom: never, trace: trace{out: o.Trace}}
	w.schedule.random = rand.New(rand.NewPCG(p.Seed, 2))
	w.checkers = []checker{
		&haltChecker{}, &contentChecker{}, &fifoChecker{}, &orderChecker{}, &atomicChecker{}, &stallChecker{}, &lossChecker{}, &quietChecker{}, &releaseChecker{},
	}
	return w
}

// panicked makes a violation of a panic: of an invariant with its number, of anything else with where it was.
func (w *world) panicked(crash any) {
	if v, ok := crash.(invariants.Violation); ok {
		w.result.Err = v
		return
	}
	w.result.Err = fmt.Errorf("panic: %v\n%s", crash, debug.Stack())
}

// judge notes what a checker found, if anybody listens to it.
func (w *world) judge(checker string, err error) {
	if w.only == "" || w.only == checker {
		w.fail(err)
	}
}

// fail notes a violation; the first one stays.
func (w *world) fail(err error) {
	if err != nil && w.result.Err == nil {
		w.result.Err = fmt.Errorf("at %v: %w", w.now, err)
	}
}

func (w *world) layOut(o Options) (err error) {
	if w.view, _, err = views.Place(views.Placement{ID: 1, Cluster: "sim", Members: w.plan.Members, Declarations: w.plan.Decls}); err != nil {
		return err
	}
	layout, err := member.NewLayout(w.view)
	if err != nil {
		return err
	}
	var ends []simnet.Endpoint
	for r, m := range w.view.Members {
		w.rankOf[m.ID] = order.Rank(r)
		ends = append(ends, simnet.Endpoint{ID: m.ID, Shape: layout.Shape(order.Rank(r))})
	}
	w.net = simnet.New(w.plan.Seed, w.netOptions(o.Bug))
	tables := w.net.Open(ends)
	w.running = len(w.view.Members)
	for r := range w.view.Members {
		w.nodes = append(w.nodes, newNode(w, order.Rank(r)))
	}
	for i, sg := range w.view.Subgroups {
		w.groups = append(w.groups, w.group(i, sg))
	}
	for _, n := range w.nodes {
		if err := n.open(layout, tables[n.rank]); err != nil {
			return err
		}
		n.turn = w.schedule.add(time.Duration(w.random.Int64N(int64(n.pace.Step))), n)
	}
	for _, a := range w.plan.Apps {
		w.addApp(a)
	}
	w.addFaults()
	w.notePlan()
	return nil
}

func (w *world) netOptions(bug simnet.Bug) simnet.Options {
	p := &w.plan.Net
	return simnet.Options{
		Kind:        func(a, b order.NodeID) simnet.Kind { return p.Kinds[w.rankOf[a]][w.rankOf[b]] },
		Delay:       func(a, b order.NodeID) simnet.Delay { return p.Delays[w.rankOf[a]][w.rankOf[b]] },
		SocketBytes: p.SocketBytes, PieceBytes: p.PieceBytes, FrameRanges: p.FrameRanges, NoticeAfter: p.NoticeAfter,
		StoreOrder: storeOrder,
		OnPush:     func(from, _ order.NodeID, off, _ int) { w.pushed(w.rankOf[from], off) },
		OnDue:      func(id order.NodeID, at time.Duration) { w.nodes[w.rankOf[id]].wakeAt(at) },
		Bug:        bug,
	}
}

func (w *world) group(i int, sg views.Subgroup) *group {
	g := &group{sg: sg, index: i}
	for _, r := range sg.Senders {
		g.ledgers = append(g.ledgers, &ledger{key: stream(i, w.view.Members[r].ID)})
	}
	for _, r := range sg.Members {
		g.readers = append(g.readers, &reader{node: w.nodes[r], next: make([]int, len(sg.Senders))})
	}
	return g
}

func (w *world) addApp(plan App) {
	sg := w.view.Subgroups[plan.Subgroup]
	s, _ := sg.SenderRank(plan.Rank)
	w.sometimes(SilentSender, plan.Messages == 0)
	if plan.Messages == 0 {
		return
	}
	w.busyApps++
	a := &app{world: w, plan: plan, node: w.nodes[plan.Rank], group: w.groups[plan.Subgroup], sender: s, left: plan.Messages}
	a.dice = dice{rand.New(rand.NewPCG(w.plan.Seed, 1000+uint64(plan.Rank)<<8+uint64(plan.Subgroup)))}
	w.schedule.add(plan.Start, a)
	w.lastStart = max(w.lastStart, plan.Start)
}

func (w *world) notePlan() {
	p := w.plan
	w.sometimes(AloneInView, len(p.Members) == 1)
	w.sometimes(SevenMembers, len(p.Members) == 7)
	w.sometimes(ThreeSubgroups, len(p.Decls) == 3)
	w.sometimes(SilentGroup, w.busyApps == 0)
	for a := range p.Members {
		for b := range a {
			w.sometimes(SharedPair, p.Net.Kinds[a][b] == simnet.Shared)
			w.sometimes(SeepingPair, p.Net.Kinds[a][b] == simnet.Seeping)
		}
		w.sometimes(SlowMember, p.Paces[a].Step > 100*time.Microsecond)
	}
}

// pushed shows the checkers what a member pushes.
func (w *world) pushed(from order.Rank, off int) {
	for _, c := range w.checkers {
		w.judge(c.name(), c.pushed(w, from, off))
	}
}

// patience is longer than any application rests between two things it does.
const patience = 5 * time.Millisecond

// live runs until the world is done: busy until nothing is under way, then quiet for as long as it takes to see that.
func (w *world) live() {
	bound := w.plan.Bound()
	for w.result.Err == nil && !w.done() {
		limit := max(w.progress, w.lastStart) + 2*bound + w.plan.Settling() + w.plan.haltBound() + patience
		if !w.schedule.next(limit, w.clock) {
			return // lossChecker and haltChecker say what is missing
		}
	}
	if w.result.Err != nil {
		return
	}
	w.quietFrom = w.now + bound + w.plan.Settling()
	end := w.quietFrom + 3*w.plan.heartbeat()
	for w.result.Err == nil && w.schedule.next(end, w.clock) {
	}
}

func (w *world) clock(now time.Duration) {
	w.now = now
	w.net.Advance(now)
}

// done reports that nothing is under way any more: all that was accepted is delivered, or the fault has stopped everybody.
func (w *world) done() bool {
	if w.plan.Fault.Kind == NoFault {
		return w.busyApps == 0 && w.undone == 0
	}
	if w.struck == never {
		return false
	}
	return w.running == 0 && w.busyApps == 0
}

func (w *world) verdict() Result {
	s := &w.net.Stats
	for p, n := range map[Probe]int{
		SocketFull: s.SocketFull, HalfFrame: s.HalfFrames, Coalesced: s.Coalesced, LongTail: s.Tails, TornLine: s.TornLines, LineLostInFlight: s.LostInFlight,
	} {
		w.sometimes(p, n > 0)
	}
	w.result.Hash, w.result.Probes, w.result.Time = w.trace.hash, w.probes, w.now
	w.result.SlowestOfBound = float64(w.result.Slowest) / float64(w.plan.Bound())
	return w.result
}

// Report says all about a failed run: the violation, the plan, the end of its trace, and how to see it again. It plays the plan
// once more for the trace.
func Report(p *Plan, o Options, err error) string {
	var out bytes.Buffer
	o.Trace = &out
	again := Run(p, o)
	lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	lines = lines[max(0, len(lines)-80):]
	text := fmt.Sprintf("%v\n\n%v\nreplay: go test ./internal/sim -run Campaign -args -seed %d%s -trace\n\n%s\n", err, p, p.Seed, p.Limits.flags(), strings.Join(lines, "\n"))
	if again.Err == nil || again.Err.Error() != err.Error() && !strings.Contains(err.Error(), "panic") {
		text += fmt.Sprintf("The replay ended otherwise: %v\n", again.Err)
	}
	return text
}

// table is a member's table as the fabric has it.
func (n *node) table() *fabric.Table { return n.member.Table().Table }
