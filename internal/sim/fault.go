package sim

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/squall-go/squall/internal/simnet"
)

// Lie is a fault on the applications' side of a member, which stands for what a member might do
// wrong there. Tests show with it that the checkers look.
type Lie uint8

const (
	Honest      Lie = iota
	TakesAgain      // a message that was taken is offered again
	WrongFuture     // a future is that of the message before
	AnotherView     // not all members begin the same view
)

var errReported = errors.New("reported by its application")

func (w *world) addFaults() {
	w.pending += len(w.plan.Faults)
	for i := range w.plan.Faults {
		f := &fault{world: w, plan: w.plan.Faults[i]}
		f.turn = w.schedule.add(f.plan.At, f)
	}
	if w.plan.Outages > 0 && len(w.nodes) > 1 {
		w.outages(w.plan.Outages)
	}
}

// fault is the actor that strikes, and mends what can be.
type fault struct {
	world *world
	plan  Fault
	turn  *turn
	armed bool // it waits for a move
	count int  // of such moves since
	begun bool
	ended bool
	moved *process // that made the move
	undo  func()
}

// act implements actor.
func (f *fault) act(now time.Duration) time.Duration {
	w := f.world
	switch {
	case f.ended:
		return never
	case f.begun:
		if f.undo != nil {
			f.undo()
		}
		return f.end()
	case f.plan.On != NoMove && !f.armed:
		f.armed = true
		w.waiting = append(w.waiting, f)
		if f.plan.On >= Promises { // others have to be silent for long before another process leads
			return now + 16*w.plan.FailAfter()
		}
		return now + 3*w.plan.FailAfter()
	case f.armed && f.plan.On >= Promises:
		w.unarm(f)
		return f.end()
	}
	if f.armed {
		w.unarm(f)
	}
	return f.strike()
}

// moves counts a move, and has faults strike that wait for it. A process that ends at a move of its
// own does nothing more: what it is doing ends there.
func (w *world) moves(p *process, m Move) {
	if m >= Asks && m <= Enters {
		p.move = m
	}
	w.event(moved, p.node.place, uint64(m))
	if w.onMove != nil {
		w.onMove(p, m)
	}
	for _, f := range slices.Clone(w.waiting) {
		if f.plan.On != m {
			continue
		}
		if f.count++; f.count == f.plan.Nth {
			w.unarm(f)
			f.moved = p
			w.schedule.pull(f.turn, max(f.strike(), w.now))
		}
	}
	if p.over && p.within {
		panic(simnet.Crashed{Node: p.self.ID})
	}
}

func (w *world) unarm(f *fault) {
	for i, o := range w.waiting {
		if o == f {
			w.waiting = append(w.waiting[:i:i], w.waiting[i+1:]...)
			return
		}
	}
}

func (f *fault) end() time.Duration {
	w := f.world
	f.ended = true
	w.pending--
	w.calm = w.now
	w.stir()
	return never
}

// strike does what goes wrong, and returns when it is over.
func (f *fault) strike() time.Duration {
	w, k := f.world, f.plan.Kind
	f.begun = true
	p := w.nodes[f.plan.Node].proc
	if f.moved != nil {
		p = f.moved
	}
	w.event(struck, f.plan.Node, uint64(k))
	if k != Partition && k != Blackout && (p == nil || p.over) {
		return f.end()
	}
	if f.once(p) || f.plan.For == 0 {
		return f.end()
	}
	return w.now + f.plan.For
}

// once does what goes wrong, and reports whether it is over with that.
func (f *fault) once(p *process) bool {
	switch f.plan.Kind {
	case Crash, PowerOff:
		f.crash(p)
	case Leave:
		if p.member == nil {
			f.crash(p)
		} else if !p.leaving && !p.told {
			p.leave()
		}
	case Accuse:
		f.report(p)
	case Blackout:
		f.blackout()
	case SyncCut, FullDisk, SlowDisk, LostDisk, DamagedLogs:
		f.spoil(p)
	case Reset:
		f.reset(p)
	case ClockBack:
		p.node.Skew -= f.plan.For
		f.world.probes[ClockSetBack]++
	case Stranger:
		f.strange(p)
	case Hostile:
		f.lie(p)
	default:
		return !f.lasts(p)
	}
	return true
}

// lasts begins what goes wrong for a while, and reports whether it began.
func (f *fault) lasts(p *process) bool {
	switch f.plan.Kind {
	case Hang, SlowUpcall, ClockJump:
		f.stall(p)
	case OneWayCut:
		if f.plan.Peer == f.plan.Node {
			return false
		}
		f.cutOneWay()
	case Partition:
		f.part()
	}
	return true
}

// cutOneWay has a process hear nothing of another one.
func (f *fault) cutOneWay() {
	w := f.world
	w.cut(f.plan.Node, f.plan.Peer)
	w.blameCut(1<<f.plan.Node, 1<<f.plan.Peer, true)
	f.undo = func() { w.heal(f.plan.Node, f.plan.Peer) }
}

// crash ends a process between two of its steps or within its present or next one.
func (f *fault) crash(p *process) {
	w, power := f.world, f.plan.Kind == PowerOff
	how := "crashes"
	if f.plan.On >= Promises && f.plan.For > 0 {
		p.node.Returns, p.node.Times = f.plan.For, p.node.times+1
	}
	if p.unpowered = power; power {
		how = "loses power"
	}
	p.blamed(how)
	if f.plan.On >= Promises && f.plan.InStep > 0 && p.core != nil && !p.core.Over() {
		p.lettersLeft = f.plan.InStep
		return
	}
	if f.plan.InStep > 0 {
		p.print("%s in %d calls", how, f.plan.InStep)
		w.net.CrashAfter(p.self.ID, f.plan.InStep, power)
		w.later(3*w.plan.FailAfter(), func() { // a member that is alone calls nothing
			if !p.over {
				w.net.CrashAfter(p.self.ID, math.MaxInt, power)
			}
		})
		return
	}
	if power {
		w.net.PowerOff(p.self.ID)
	} else {
		w.net.Crash(p.self.ID)
	}
	p.crashed(how)
}

// reset breaks the conversations of a process with some nodes. A joiner whose conversations break
// may be taken for gone.
func (f *fault) reset(p *process) {
	w, broken := f.world, 0
	p.print("its conversations break")
	for _, n := range w.nodes {
		if n == p.node || f.plan.Set>>n.place&1 == 0 {
			continue
		}
		if q := n.proc; q != nil && !q.over && p.member != nil && q.member != nil {
			if w.resetLinks(p, q, f.plan.InStep > 0) > 0 {
				w.probes[LinkReset]++
				p.blamed("its links of large messages broke")
				q.blamed("its links of large messages broke")
			}
		}
		if some := w.net.Reset(p.self.ID, n.ID, f.plan.InStep > 0); some > 0 {
			broken += some
			for _, q := range []*process{p, n.proc} {
				if q != nil && q.applicant != nil {
					q.blamed("its conversations broke")
				}
			}
		}
	}
	w.sometimes(ConversationsReset, broken > 0 && f.plan.InStep == 0)
	w.sometimes(ConversationsHalfOpen, broken > 0 && f.plan.InStep > 0)
	w.sometimes(WelcomeLost, broken > 0 && f.plan.On == Installs)
	p.wake()
}

// blackout ends all processes, one soon after the other. Most of them come back.
func (f *fault) blackout() {
	w, late := f.world, f.plan.Node
	if f.moved != nil {
		late = f.moved.node.place
	}
	for _, n := range w.nodes {
		if n.disk == nil || n.proc == nil || n.proc.over {
			continue
		}
		n.Times = n.times
		if f.plan.Set>>n.place&1 == 0 {
			n.Times, n.Returns = n.times+1+f.plan.Peer, 1+time.Duration(w.random.Int64N(int64(2*w.plan.FailAfter())))
			if f.plan.Nth > 0 && n.place == late {
				n.Returns += 8 * w.plan.FailAfter()
			}
		}
		kind := Crash
		if w.random.IntN(2) == 0 {
			kind = PowerOff
		}
		w.later(time.Duration(w.random.Int64N(int64(f.plan.For))), func() {
			if p := n.proc; !p.over {
				(&fault{world: w, plan: Fault{Kind: kind}}).crash(p)
			}
		})
	}
}

// spoil does something to a disk.
func (f *fault) spoil(p *process) {
	w, d := f.world, p.node.disk
	// without its disk the only node of a plan could join no member
	if d == nil || f.plan.Kind == LostDisk && len(w.nodes) == 1 {
		return
	}
	p.print("%v", f.plan.Kind)
	switch f.plan.Kind {
	case SyncCut:
		d.fuse, d.arrive = d.syncs+max(1, f.plan.Nth), parts(f.plan.InStep)
		p.blamed("loses power as it syncs")
	case FullDisk:
		d.full = true
		p.blamed("its disk is full")
		w.probes[DiskFilled]++
	case SlowDisk:
		d.slow, d.slowUntil = shardsDir(f.plan.Peer), w.now+f.plan.For
		if f.plan.Set != 0 {
			d.slow = memoName // its members may find that it does not answer
			p.blamed("its disk is slow")
		}
	case DamagedLogs:
		(&fault{world: w, plan: Fault{Kind: Crash}}).crash(p)
		for _, k := range p.keepers {
			p.node.damaged = append(p.node.damaged, k.id)
		}
	case LostDisk:
		(&fault{world: w, plan: Fault{Kind: Crash}}).crash(p)
		d.replace()
		p.node.safe, p.node.damaged = nil, nil
		w.probes[DiskReplaced]++
	}
}

// stall has a process do nothing for a while, in one way or another.
func (f *fault) stall(p *process) {
	w := f.world
	long := f.plan.For > w.plan.FailAfter()/4
	switch f.plan.Kind {
	case Hang:
		w.hang(p, f.plan.For)
	case SlowUpcall:
		p.slow = f.plan.For
		f.undo = func() { p.slow = 0 }
	case ClockJump:
		p.jumped += f.plan.For
		w.probes[ClockJumped]++
		long = false
	}
	if long {
		p.blamed(f.plan.Kind.String())
	}
	p.print("%v %v", f.plan.Kind, f.plan.For)
}

// hang has a process not step for a while.
func (w *world) hang(p *process, long time.Duration) {
	p.hangs = w.now + long
	w.later(long, func() {})
}

// later does something after a while; until then the world is not calm.
func (w *world) later(after time.Duration, do func()) {
	w.pending++
	w.callAt(w.now+after, func() {
		do()
		w.pending--
		w.calm = w.now
		w.stir()
	})
}

func (f *fault) report(p *process) {
	w := f.world
	q := w.nodes[f.plan.Peer].proc
	if p.member == nil || p.told || q == nil || q == p {
		return
	}
	if !p.seat().record.has(q) {
		return
	}
	q.reporter, q.reportedIn = p, p.member.View().ID
	q.blamed("reported")
	// a member that finds its connection to it ended, and not why, suspects it in turn
	p.blamed("reports")
	p.print("reports %d", q.self.ID)
	p.member.Report(q.self.ID, errReported)
	p.wake()
}

// part cuts all ways between two sets of nodes.
func (f *fault) part() {
	w := f.world
	if f.moved != nil && f.moved.memory != nil { // the leader of the restart in which it moved
		f.plan.Set = 1 << w.placeOf[f.moved.memory.State().Promised.Node]
	}
	each := func(do func(a, b int)) {
		for a := range w.nodes {
			for b := range w.nodes {
				if f.plan.Set>>a&1 != f.plan.Set>>b&1 {
					do(a, b)
				}
			}
		}
	}
	each(w.cut)
	w.blameCut(f.plan.Set, (1<<len(w.nodes)-1)&^f.plan.Set, false)
	f.undo = func() {
		each(w.heal)
		w.blameHealed(f.plan.Set, f.plan.For)
	}
}

// blameHealed notes which members may be removed after a partition has healed: with a partition
// that took about as long as a member may be silent, any. What was on its way waits and comes first
// as the way heals, and heartbeats behind it. A member of the side that is no quorum, and has not
// found out, may miss them for a moment longer, and accuse a member of the other side. One accuser
// must be believed, and that it was about to be removed itself shows in no row. So may one that
// accused a member of the other side and has halted since: its accusation waits on the way. A
// shorter partition is no reason for any removal, nor is one of which no member of that side lives
// on as it heals, or has accused another one.
func (w *world) blameHealed(set uint64, took time.Duration) {
	accuses := slices.ContainsFunc(w.nodes, func(n *node) bool {
		p := n.proc
		return p != nil && p.member != nil && p.blame == cutOff && (!p.over && !p.told || slices.ContainsFunc(p.seat().record.procs, p.suspects))
	})
	if accuses && took+w.plan.Bound()+w.plan.Heartbeat() >= w.plan.FailAfter() {
		w.blameCut(set, (1<<len(w.nodes)-1)&^set, true)
	}
}

// cutOff is the blame of processes that others cannot reach.
const cutOff = "cut off"

func (w *world) cut(a, b int) {
	w.nodes[a].cuts |= 1 << b
	w.event(cut, a, uint64(b))
	w.print(a, "cut off from "+w.nodes[b].name())
	w.net.Cut(w.nodes[a].ID, w.nodes[b].ID)
}

func (w *world) heal(a, b int) {
	w.nodes[a].cuts &^= 1 << b
	w.event(healed, a, uint64(b))
	w.print(a, "healed to "+w.nodes[b].name())
	w.net.Heal(w.nodes[a].ID, w.nodes[b].ID)
}

// blameCut notes which processes may be removed because a way is cut: the ones on the side that is
// no quorum, or all on both sides if that cannot be known.
func (w *world) blameCut(a, b uint64, both bool) {
	last := w.history.last
	joining := false
	for _, n := range w.nodes {
		joining = joining || n.proc == nil || n.proc.member == nil && !n.proc.over || n.Returns > 0
	}
	side := func(s uint64) func(*process) bool {
		return func(p *process) bool { return s>>p.node.place&1 != 0 && p.blame == "" }
	}
	keepA, keepB := last.quorum(side(a)), last.quorum(side(b))
	for _, n := range w.nodes {
		in := a>>n.place&1 != 0
		if n.proc != nil && (both || joining || !keepA && !keepB || in != keepA) && (a|b)>>n.place&1 != 0 {
			n.proc.blamed(cutOff)
		}
	}
}

// outages cuts so many directions for a while, one after the other.
func (w *world) outages(left int) {
	d, from, to := dice{rand.New(rand.NewPCG(w.plan.Seed, 3))}, 0, 0
	out := false
	w.schedule.add(time.Duration(w.random.Int64N(int64(time.Millisecond))), acting(func(now time.Duration) time.Duration {
		if out = !out; !out {
			w.heal(from, to)
			w.pending--
			w.stir()
			if left == 0 {
				return never
			}
			return now + d.upTo(2*time.Millisecond)
		}
		from = d.IntN(len(w.nodes))
		to = (from + 1 + d.IntN(len(w.nodes)-1)) % len(w.nodes)
		left--
		w.pending++ // a joiner that an outage cuts off joins after it
		w.probes[WayCut]++
		w.cut(from, to)
		return now + d.upTo(w.plan.Outage)
	}))
}

func (n *node) name() string { return fmt.Sprintf("node %d", n.ID) }
