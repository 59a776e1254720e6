package sim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/squall-go/squall/internal/attach"
	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/internal/life"
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/internal/restart"
	"github.com/squall-go/squall/internal/simnet"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// Options say how a plan is run.
type Options struct {
	Trace       io.Writer                          // nil: no trace
	Bug         simnet.Bug                         // of the network
	Lie         Lie                                // of the applications' side
	Disk        DiskBug                            // of what stands between logs and their disks
	Only        string                             // the name of the one checker that is listened to; empty: all
	Transport   func(seed uint64) simnet.Transport // between hosts; nil: frames
	Application Application                        // in place of the applications that the plan draws; nil: the drawn ones
	extra       bool                               // steps that are left out are played, and must change nothing
}

// Result is the verdict on a run.
type Result struct {
	Err        error  // nil, or the first violation
	Checker    string // that found it; empty: none of them did, but the run itself
	Hash       uint64
	Probes     Probes
	Time       time.Duration // virtual
	Steps      int
	extras     int // steps that are left out otherwise
	Deliveries int
	Views      int
	// Slowest is the longest time from a commit to a delivery while no process failed, and
	// SlowestOfBound its share of Plan.Bound.
	Slowest        time.Duration
	SlowestOfBound float64
}

// world is one run.
type world struct {
	plan      *Plan
	lie       Lie
	only      string
	random    *rand.Rand
	now       time.Duration
	net       *simnet.Net
	nodes     []*node // by place
	placeOf   [64]int // by node id
	procs     []*process
	history   history
	schedule  schedule
	checkers  []checker
	probes    Probes
	trace     trace
	result    Result
	keys      int  // that views were given
	bulk      dice // of what moves large bodies
	routines  []*routine
	links     attach.Link       // that were made
	memories  int               // of large messages, that processes hold
	numbers   uint64            // of memories that were made
	beside    dice              // of what applications do within a step
	torn      dice              // of transfers that break off
	letters   dice              // of what is said in restarts
	overheard []restart.Message // some letters of restarts
	shards    map[shardID]*shardHistory
	lax       DiskBug
	states    map[shardID]map[order.Version]uint64 // digests, by the last message in them

	newest map[shardID]delivered // what some application of the shard was given last
	asking int                   // processes that read

	busyApps  int
	lastStart time.Duration // of an application
	pending   int           // faults that did not come, or did not end yet
	// when the last fault came or ended, a process began, or a member wished to send or not to
	calm      time.Duration
	progress  time.Duration // when anything went on last
	stirred   bool          // something happened since done looked
	lookAt    time.Duration // done looks then even if nothing happened; 0: it does not
	quietFrom time.Duration // from then on only heartbeats may be sent; never: not yet
	waiting   []*fault      // that come when a process makes a move
	onMove    func(*process, Move)
	extra     bool // Options.extra

	application Application
}

// node is a place for processes.
type node struct {
	Node
	place int
	proc  *process // the latest one; nil: there was none yet
	times int      // it came back
	moved int      // times that its address became another one
	addr  string   // the address; empty: not asked for yet
	cuts  uint64   // nodes to which the way is cut, by place
	disk  *disk    // nil: nothing is kept
	safe  []safe   // what must be in its logs as they are opened
	// damaged are the logs of which the next process finds that their ends cannot be read.
	damaged  []shardID
	stranger *stranger // has its address; nil: none
	stale    []*letter // of restarts, which stayed behind on their way to it
	absences []absence // of its processes
}

// checker watches over one promise. Every method returns what violates it.
type checker interface {
	// name is the promise it watches over, as its file is called.
	name() string
	// offered is called before the application may take a message, taken when it took it.
	offered(w *world, d *delivery) error
	taken(w *world, d *delivery) error
	// pushed is called for whatever a member pushes; off is a place in its row.
	pushed(w *world, from *process, off int) error
	// installed is called when a member begins a view.
	installed(w *world, p *process, v *viewRecord) error
	// halted is called when a member halted.
	halted(w *world, p *process, reason error) error
	// end is called when the run is over.
	end(w *world) error
}

// unconcerned is a checker that nothing concerns, to embed.
type unconcerned struct{}

func (unconcerned) offered(*world, *delivery) error               { return nil }
func (unconcerned) taken(*world, *delivery) error                 { return nil }
func (unconcerned) pushed(*world, *process, int) error            { return nil }
func (unconcerned) installed(*world, *process, *viewRecord) error { return nil }
func (unconcerned) halted(*world, *process, error) error          { return nil }
func (unconcerned) end(*world) error                              { return nil }

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
		for _, r := range w.routines {
			r.stop()
		}
		w.net.Close()
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
	w := &world{plan: p, lie: o.Lie, only: o.Only, random: rand.New(rand.NewPCG(p.Seed, 1)), quietFrom: never, trace: trace{out: o.Trace}, stirred: true, extra: o.extra, application: o.Application}
	w.history, w.shards, w.lax = newHistory(), map[shardID]*shardHistory{}, o.Disk
	w.states, w.newest = map[shardID]map[order.Version]uint64{}, map[shardID]delivered{}
	w.bulk = dice{rand.New(rand.NewPCG(p.Seed, 3))}
	w.letters = dice{rand.New(rand.NewPCG(p.Seed, 4))}
	w.beside = dice{rand.New(rand.NewPCG(p.Seed, 5))}
	w.torn = dice{rand.New(rand.NewPCG(p.Seed, 6))}
	w.schedule.seed = scramble(p.Seed)
	w.checkers = []checker{
		&haltChecker{}, &contentChecker{}, &fifoChecker{}, &orderChecker{}, &atomicChecker{}, &viewsChecker{}, &brainChecker{},
		&stallChecker{}, &liveChecker{}, &lossChecker{}, &futureChecker{}, &logChecker{}, &quietChecker{}, &releaseChecker{}, &stateChecker{}, &restartChecker{}, &joinChecker{}, &readChecker{}, &shardsChecker{},
	}
	return w
}

// panicked makes a violation of a panic: of an invariant with its number, of anything else with
// where it was.
func (w *world) panicked(crash any) {
	if v, ok := crash.(invariants.Violation); ok {
		w.result.Err = fmt.Errorf("at %v: %w", w.now, v)
		return
	}
	w.result.Err = fmt.Errorf("at %v: panic: %v\n%s", w.now, crash, debug.Stack())
}

// judge notes what a checker found, if that checker is enabled.
func (w *world) judge(checker string, err error) {
	if err != nil && (w.only == "" || w.only == checker) {
		if w.result.Err == nil {
			w.result.Checker = checker
		}
		w.fail(err)
	}
}

// fail notes a violation; the first one stays.
func (w *world) fail(err error) {
	if err != nil && w.result.Err == nil {
		w.result.Err = fmt.Errorf("at %v: %w", w.now, err)
	}
}

// groupOf is the identity of the group of a seed.
func groupOf(seed uint64) string { return fmt.Sprintf("group %d", seed) }

func (w *world) layOut(o Options) error {
	for i, n := range w.plan.Nodes {
		w.placeOf[n.ID] = i
		w.nodes = append(w.nodes, w.place(n, i))
	}
	w.net = simnet.New(w.plan.Seed, w.netOptions(o))
	if w.application != nil {
		w.application.Begin(&World{w})
	}
	var initial []*process
	var members []views.Member
	for _, n := range w.nodes[:w.plan.Initial] {
		p := w.process(n)
		p.begin()
		initial, members = append(initial, p), append(members, p.self)
	}
	first, _, err := views.Place(views.Placement{ID: 1, Cluster: cluster, Key: w.key(), Group: groupOf(w.plan.Seed), Secret: views.NewSecret(w.key()), Members: members, Declarations: w.plan.Decls, Layouts: layouts})
	if err != nil {
		return err
	}
	for _, p := range initial {
		p.lived(life.Result{View: first})
	}
	for _, n := range w.nodes[w.plan.Initial:] {
		w.pending++
		w.schedule.add(n.Joins, &birth{world: w, node: n})
	}
	w.addFaults()
	w.notePlan()
	return nil
}

// place makes a place for processes, which has a disk if anything is kept.
func (w *world) place(n Node, i int) *node {
	place := &node{Node: n, place: i}
	if w.plan.keeps() {
		place.disk = newDisk(dice{rand.New(rand.NewPCG(w.plan.Seed, 500+uint64(i)))}, w.plan.Keep.Disks[i])
		place.disk.lax = w.lax
	}
	return place
}

const cluster = "sim"

// key is that of a new view.
func (w *world) key() string {
	w.keys++
	return fmt.Sprintf("key-%d", w.keys)
}

func (w *world) netOptions(o Options) simnet.Options {
	p := &w.plan.Net
	opts := simnet.Options{
		Kind:        func(a, b order.NodeID) simnet.Kind { return p.Kinds[w.placeOf[a]][w.placeOf[b]] },
		Delay:       func(a, b order.NodeID) simnet.Delay { return p.Delays[w.placeOf[a]][w.placeOf[b]] },
		SocketBytes: p.SocketBytes, PieceBytes: p.PieceBytes, FrameRanges: p.FrameRanges, NoticeAfter: p.NoticeAfter,
		StoreOrder: storeOrder, Loads: mutant.Enabled,
		OnPush: func(from, _ order.NodeID, off, _ int) { w.pushes(w.nodes[w.placeOf[from]].proc, off) },
		OnDue: func(id order.NodeID, at time.Duration) {
			if p := w.nodes[w.placeOf[id]].proc; p != nil {
				p.wakeAt(at)
			}
		},
		MayBreak: func(a, b order.NodeID) bool { return w.breaks(w.nodes[w.placeOf[a]], w.nodes[w.placeOf[b]]) },
		Bug:      o.Bug,
	}
	if o.Transport != nil {
		opts.Transport = o.Transport(w.plan.Seed)
	}
	return opts
}

// breaks reports whether a link of the transport may break: it is a fault, after which each end
// takes the other one for failed.
func (w *world) breaks(nodes ...*node) bool {
	if w.quietFrom != never {
		return false
	}
	for _, n := range nodes {
		n.proc.blamed("its link broke")
		n.proc.print("its link broke")
	}
	w.calm = w.now
	w.stir()
	return true
}

func (w *world) notePlan() {
	p := w.plan
	w.sometimes(AloneInView, p.Initial == 1)
	w.sometimes(SevenMembers, p.Initial == 7)
	w.sometimes(ThreeSubgroups, len(p.Decls) == 3)
	w.sometimes(SilentGroup, w.busyApps == 0)
	for a := range p.Nodes {
		for b := range a {
			w.sometimes(SharedPair, p.Net.Kinds[a][b] == simnet.Shared)
			w.sometimes(SeepingPair, p.Net.Kinds[a][b] == simnet.Seeping)
		}
		w.sometimes(SlowMember, p.Nodes[a].Pace.Step > 100*time.Microsecond)
	}
}

// pushes is called for whatever a member pushes, in the middle of its step.
func (w *world) pushes(from *process, off int) {
	w.pushed(from, off)
	if from.stepping && !from.beside && w.beside.oneIn(w.plan.Beside) {
		from.goBeside()
	}
}

// pushed shows the checkers what a member pushes, once it matters.
func (w *world) pushed(from *process, off int) {
	if w.quietFrom == never || w.now < w.quietFrom {
		return
	}
	for _, c := range w.checkers {
		w.judge(c.name(), c.pushed(w, from, off))
	}
}

// rest is longer than any application rests between two things it does.
const rest = 5 * time.Millisecond

// maxSteps ends a run that does not end by itself.
const maxSteps = 2_000_000

// live runs until the world is done: busy until nothing is under way, then quiet for as long as it
// takes to see that.
func (w *world) live() {
	patience, limit := w.plan.Patience()+rest, maxSteps
	if w.only != "" { // what the others would complain of goes on and on
		limit /= 10
	}
	for w.result.Err == nil && !w.done() {
		if !w.schedule.next(max(w.progress, w.lastStart, w.calm)+patience, w.clock) {
			return // the checkers say what is missing
		}
		if w.result.Steps > limit {
			w.judge("live", violated("liveness", "%d steps were not enough", limit))
			return
		}
	}
	if w.result.Err != nil {
		return
	}
	// a block of a body that was aborted may be in flight
	w.quietFrom = w.now + w.plan.Bound() + w.plan.Settling() + 2*w.plan.BulkTime
	if w.history.last.view.ID > 1 {
		w.quietFrom += 2*w.plan.FailAfter() + 3*w.plan.Heartbeat() // the view before lingers
	}
	for _, n := range w.nodes { // a member that fails now would bring views
		n.disk.disarm()
	}
	end := w.quietFrom + 3*w.plan.Heartbeat()
	for w.result.Err == nil && w.schedule.next(end, w.clock) {
	}
}

func (w *world) clock(now time.Duration) {
	w.now = now
	w.net.Advance(now)
}

// done reports that nothing is under way any more. It looks only if something happened since it
// last did.
func (w *world) done() bool {
	if !w.stirred && (w.lookAt == 0 || w.now < w.lookAt) || w.busyApps+w.asking > 0 || w.pending > 0 || w.calm > 0 && w.now < w.calm+w.plan.Bound() {
		return false // a fault takes a while to be noticed, and a wish to be heard of
	}
	w.stirred, w.lookAt = false, 0
	return w.unsettled() == nil && (!w.goesOn() || w.idle() == nil)
}

// stir notes that something went on.
func (w *world) stir() { w.progress, w.stirred = w.now, true }

func (w *world) verdict() Result {
	s := &w.net.Stats
	for p, n := range map[Probe]int{
		SocketFull: s.SocketFull, HalfFrame: s.HalfFrames, Coalesced: s.Coalesced, LongTail: s.Tails, TornLine: s.TornLines, LineLostInFlight: s.LostInFlight,
		LoadBetween: s.LoadsBetween, FrozenUnseen: s.Unseen,
	} {
		w.sometimes(p, n > 0)
	}
	w.result.Hash, w.result.Probes, w.result.Time, w.result.Views = w.trace.hash, w.probes, w.now, len(w.history.byID)
	w.result.SlowestOfBound = float64(w.result.Slowest) / float64(w.plan.Bound())
	return w.result
}
