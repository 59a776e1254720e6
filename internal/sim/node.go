package sim

import (
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/simnet"
	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/multicast"
	"github.com/squall-go/squall/order"
)

// Where things are in a row. Package member declares its line first, multicast its words in this order; a test compares
// them with a dump.
const (
	memberLine    = fabric.LineBytes
	wordSent      = 0
	wordSkipped   = 1
	wordReceived  = 2
	wordDelivered = 3
)

// storeOrder is the order in which one step stores the words of a subgroup's line: rounds are skipped before the step.
var storeOrder = [fabric.WordsPerLine]int{wordSkipped, wordSent, wordReceived, wordDelivered, 4, 5, 6, 7}

// stepsAfterHalt is for how many steps a halted member is watched.
const stepsAfterHalt = 20

// node steps one member.
type node struct {
	world     *world
	rank      order.Rank
	id        order.NodeID
	pace      Pace
	random    *rand.Rand
	turn      *turn
	member    *member.Member
	idle      int           // steps that found nothing, in a row
	asleep    bool          // steps no more until something wakes it, or its turn comes
	due       time.Duration // its inboxes want nothing before
	rows      [][]byte      // as they were before any was frozen
	gone      bool          // crashed, or cut off for good by its host
	hangs     time.Duration // does not step before
	told      bool          // the world knows that it halted
	afterHalt int           // steps since
	last      []multicastLine
}

// multicastLine is what the trace last printed of a subgroup.
type multicastLine [4]uint64

func newNode(w *world, r order.Rank) *node {
	return &node{
		world: w, rank: r, id: w.view.Members[r].ID, pace: w.plan.Paces[r],
		random: rand.New(rand.NewPCG(w.plan.Seed, 100+uint64(r))), last: make([]multicastLine, len(w.view.Subgroups)),
	}
}

func (n *node) open(layout *member.Layout, table *fabric.Table) (err error) {
	w := n.world
	for r := range w.view.Members {
		n.rows = append(n.rows, table.Row(order.Rank(r)))
	}
	receivers := make([]multicast.Receiver, len(w.groups))
	for i, g := range w.groups {
		for k, rd := range g.readers {
			if rd.node == n {
				receivers[i] = newInbox(w, g, k)
			}
		}
	}
	n.member, err = member.New(member.Config{
		View: w.view, Self: n.rank, Layout: layout, Table: table, Receivers: receivers, Tuning: w.plan.Tuning,
		Heartbeat: w.plan.heartbeat(), FailAfter: w.plan.failAfter(), Wake: n.wake, PeerDown: n.peerDown,
	})
	return err
}

// wake has a member that sleeps step soon; it is what the member's own bell does. Sleeping members are also woken by what
// is due on the network.
func (n *node) wake() { n.wakeAt(n.world.now) }

func (n *node) wakeAt(at time.Duration) {
	if n.asleep {
		n.world.schedule.pull(n.turn, max(at, n.hangs)+n.rest())
	}
}

// rest is the time between two steps, or from a bell to the step that follows.
func (n *node) rest() time.Duration {
	return n.pace.Step/2 + time.Duration(n.random.Int64N(int64(n.pace.Step)))
}

// act implements actor: one step.
func (n *node) act(now time.Duration) time.Duration {
	if n.gone || n.afterHalt > stepsAfterHalt {
		return never
	}
	if n.asleep = false; now < n.hangs {
		return n.hangs
	}
	n.due = n.hangs + math.MaxInt64/2
	work := n.step(now)
	if n.gone {
		return never
	}
	n.observe()
	if n.pace.PauseEvery > 0 && n.random.IntN(n.pace.PauseEvery) == 0 {
		n.world.probes[MemberPaused]++
		return now + time.Duration(n.random.Int64N(int64(n.pace.Pause)))
	}
	if work > 0 || n.told {
		n.idle = 0
		return now + n.rest()
	}
	if n.idle++; n.idle <= n.pace.Spins {
		return now + n.rest()
	}
	return n.sleep(now)
}

// sleep takes the member at its word: a step that found nothing to do is followed by none until something is due.
func (n *node) sleep(now time.Duration) time.Duration {
	n.asleep = true
	at := min(n.due, now+n.member.Deadline(now))
	if due, ok := n.world.net.Due(n.id); ok {
		at = min(at, due)
	}
	return max(at, now) + n.rest()
}

// step steps the member; it may crash in the middle.
func (n *node) step(now time.Duration) (work int) {
	defer func() {
		if crash := recover(); crash != nil {
			if _, ok := crash.(simnet.Crashed); !ok {
				panic(crash)
			}
			n.leaveWorld()
			n.world.strike()
			n.world.probes[CrashedInStep]++
			n.world.event(stopped, n.rank)
		}
	}()
	n.world.result.Steps++
	return n.member.Step(now)
}

// leaveWorld is the end of a node that crashed.
func (n *node) leaveWorld() {
	n.gone = true
	if !n.told {
		n.world.running--
	}
}

// observe notes what the step did to the member as a whole.
func (n *node) observe() {
	w := n.world
	if n.told {
		n.afterHalt++
	}
	if !n.told && n.member.Err() != nil {
		n.told = true
		w.progress = w.now
		w.running--
		w.event(halted, n.rank)
		if w.trace.out != nil {
			w.print(n.rank, "halted")
		}
	}
	if w.trace.out == nil {
		return
	}
	for i, g := range w.groups {
		if n.member.Subgroup(i) == nil {
			continue
		}
		line := n.line(g)
		now := multicastLine(line[:4])
		if now != n.last[i] {
			n.last[i] = now
			w.print(n.rank, "%s s%d r%d d%d", g.sg.Name, max(now[wordSent], now[wordSkipped]), now[wordReceived], now[wordDelivered])
		}
	}
}

// line is the member's own line of a subgroup.
func (n *node) line(g *group) [fabric.WordsPerLine]uint64 {
	for k, r := range g.readers {
		if r.node == n {
			return n.member.Subgroup(g.index).Core().Line(k)
		}
	}
	return [fabric.WordsPerLine]uint64{}
}

// peerDown is the member's report. With a fixed membership it halts.
func (n *node) peerDown(p member.PeerDown) bool {
	w := n.world
	w.event(down, n.rank, uint64(p.Rank))
	if w.trace.out != nil {
		w.print(n.rank, "rank %d is down", p.Rank)
	}
	w.sometimes(HeardOfEnd, errors.Is(p.Err, fabric.ErrPeerGone))
	w.sometimes(HeardSilence, errors.Is(p.Err, member.ErrSilent))
	w.sometimes(HeardLeave, p.Left)
	w.judge("halt", checkDown(w, n, p))
	return w.lie != GoesOn
}

// heartbeat is how often heartbeats are bumped: rarely, compared with everything else.
func (p *Plan) heartbeat() time.Duration { return max(p.Bound()/4, time.Millisecond) }

// failAfter leaves time for a heartbeat to be late by everything that may delay it.
func (p *Plan) failAfter() time.Duration { return 2 * (p.heartbeat() + p.Bound()) }

// haltBound is the time within which everybody has halted after a fault: a silence, and the silence of those who halted
// because of it. A node that hung needs as long once it goes on.
func (p *Plan) haltBound() time.Duration {
	if p.Fault.Kind == NoFault {
		return 0
	}
	return 8 * (p.failAfter() + p.heartbeat() + p.Net.NoticeAfter)
}
