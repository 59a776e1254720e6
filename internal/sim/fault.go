package sim

import (
	"math/rand/v2"
	"time"

	"github.com/squall-go/squall/order"
)

// Lie is a fault on the applications' side of a member, which stands for what a member might do wrong there. Tests show with
// it that the checkers look.
type Lie uint8

const (
	Honest     Lie = iota
	TakesAgain     // a message that was taken is offered again
	GoesOn         // a member does not halt when a peer is down
)

// strike notes that the fault has come: from now on peers may be down, and everybody has to halt.
func (w *world) strike() {
	if w.struck == never {
		w.struck, w.progress = w.now, w.now
	}
}

func (w *world) addFaults() {
	if w.plan.Fault.Kind != NoFault {
		w.schedule.add(w.plan.Fault.At, &fault{w, w.plan.Fault})
	}
	if w.plan.Outages > 0 && len(w.nodes) > 1 {
		w.schedule.add(time.Duration(w.random.Int64N(int64(time.Millisecond))), &outages{world: w, left: w.plan.Outages, dice: dice{rand.New(rand.NewPCG(w.plan.Seed, 3))}})
	}
}

// fault is the actor that strikes once.
type fault struct {
	world *world
	plan  Fault
}

// act implements actor.
func (f *fault) act(now time.Duration) time.Duration {
	w, n := f.world, f.world.nodes[f.plan.Rank]
	w.event(stopped, n.rank, uint64(f.plan.Kind))
	if w.trace.out != nil {
		w.print(n.rank, "%v", f.plan.Kind)
	}
	switch f.plan.Kind {
	case Crash, PowerOff:
		f.crash(n)
	case Hang:
		n.hangs = now + 3*w.plan.failAfter()
		w.strike()
	case Leave:
		w.strike()
		n.member.Leave()
		n.observe()
	case OneWayCut:
		w.net.Cut(n.id, w.nodes[f.plan.Peer].id)
		w.strike()
	case Partition:
		for _, a := range w.nodes[:f.plan.Peer] {
			for _, b := range w.nodes[f.plan.Peer:] {
				w.net.Cut(a.id, b.id)
				w.net.Cut(b.id, a.id)
			}
		}
		w.strike()
	}
	return never
}

// crash ends a node between two of its steps or within its next one.
func (f *fault) crash(n *node) {
	w, power := f.world, f.plan.Kind == PowerOff
	switch {
	case f.plan.InStep > 0:
		w.net.CrashAfter(n.id, f.plan.InStep, power)
		return // it strikes when the fuse has burnt
	case power:
		w.net.PowerOff(n.id)
	default:
		w.net.Crash(n.id)
	}
	n.leaveWorld()
	w.strike()
}

// outages cuts directions for a while.
type outages struct {
	world    *world
	left     int
	dice     dice
	from, to order.NodeID
	out      bool
}

// act implements actor.
func (o *outages) act(now time.Duration) time.Duration {
	w := o.world
	if o.out {
		o.out = false
		w.net.Heal(o.from, o.to)
		if o.left == 0 {
			return never
		}
		return now + o.dice.upTo(2*time.Millisecond)
	}
	a := o.dice.IntN(len(w.nodes))
	b := (a + 1 + o.dice.IntN(len(w.nodes)-1)) % len(w.nodes)
	o.from, o.to, o.out = w.nodes[a].id, w.nodes[b].id, true
	o.left--
	w.probes[WayCut]++
	w.event(cut, order.Rank(a), uint64(b))
	if w.trace.out != nil {
		w.print(order.Rank(a), "cut off from %d", b)
	}
	w.net.Cut(o.from, o.to)
	return now + o.dice.upTo(w.plan.Outage)
}
