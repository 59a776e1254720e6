package sim

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/join"
	"github.com/squall-go/squall/internal/simnet"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/trust"
	"github.com/squall-go/squall/views"
)

// hostile is a member that lies: its process runs nothing of ours any more, but its links stand,
// its heartbeat goes on, and its row and its letters say what suits it. To the others it is a
// member until they find out. After a while it ends, as a process that crashes.
//
// What the others promise each other holds all the same: none of them fails, what they send each
// other is delivered in one order to all of them, and no view is without one of them. But a member
// that says of one other member that it failed is believed: that one is removed too.
//
// All checkers go on judging the other members, whatever the liar says. They leave out the liar and
// its messages, also the messages that it sent before it lied: what a message contains, and which
// members are given it. A lie after which the others could promise each other nothing is not told:
// a decision, or that one is final, in a way that can be.
type hostile struct {
	proc  *process
	plan  Fault
	dice  dice
	seat  *seat
	to    []order.Rank
	talks []*approach
	until time.Duration
	lines int    // where the control lines of its row end
	kinds []lies // what it says in its row
	said  bool   // it accused
}

// lies are what a hostile member does, a bit each.
type lies uint64

const (
	liesBack    lies = 1 << iota // words of its row go back
	liesAhead                    // words run ahead
	liesGarbage                  // words, headers and messages are garbage
	liesOfOne                    // it says that one other member failed
	// it says that so many failed that no quorum is left, or that members failed that there are
	// none
	liesOfMany
	// it applies and greets, in its own name and in that of others, and says what belongs elsewhere
	liesToJoiners
	allLies = 1<<iota - 1
)

// lie has a member turn hostile.
func (f *fault) lie(p *process) {
	w, n := f.world, p.node
	s := p.seat()
	if s == nil || s.closed || p.told || len(s.record.procs) < 2 {
		return
	}
	n.Times = n.times
	p.liar = true
	h := &hostile{proc: p, plan: f.plan, seat: s, until: w.now + f.plan.For, dice: dice{rand.New(rand.NewPCG(w.plan.Seed, 0x11e5))}}
	for r := range s.record.procs {
		h.to = append(h.to, order.Rank(r))
	}
	h.lines = s.lineOff(len(s.record.groups))
	for k := liesBack; k <= liesOfMany; k <<= 1 {
		if lies(h.plan.Set)&k != 0 {
			h.kinds = append(h.kinds, k)
		}
	}
	for _, r := range w.history.byKey {
		for _, g := range r.groups {
			g.leaveOut(p)
		}
	}
	p.crashed("lies")
	w.probes[MemberLied]++
	w.schedule.add(w.now, h)
	w.later(f.plan.For, func() {
		w.net.Crash(p.self.ID)
		p.endLinks()
		w.calm = w.now
	})
}

// act implements actor.
func (h *hostile) act(now time.Duration) time.Duration {
	if now >= h.until {
		return never
	}
	h.tamper()
	if lies(h.plan.Set)&liesToJoiners != 0 && h.dice.oneIn(8) {
		h.letter()
	}
	*fabric.Word(h.seat.own, memberLine)++ // it seems to live
	for off := fabric.LineBytes; off < h.lines; off += fabric.LineBytes {
		if h.dice.IntN(4) > 0 {
			h.seat.table.PushLine(h.to, off)
		}
	}
	h.seat.table.Poll()
	h.seat.table.Flush()
	return now + 1 + h.dice.upTo(4*h.proc.pace.Step)
}

// tamper tells one lie in its row.
func (h *hostile) tamper() {
	if len(h.kinds) == 0 || h.dice.oneIn(2) {
		return
	}
	k := pick(h.dice, h.kinds...)
	w := h.proc.world
	off := fabric.LineBytes + 8*h.dice.IntN((h.lines-fabric.LineBytes)/8)
	word := fabric.Word(h.seat.own, off)
	switch suspected := fabric.Word(h.seat.own, viewLine+8*wordSuspected); {
	case k == liesOfOne && !h.said:
		h.said = true
		r := h.victim()
		*suspected = 1 << r
		h.seat.record.procs[r].blamed("accused by a member that lies")
		w.probes[LiarBelieved]++
	case k == liesOfMany:
		*suspected = h.majority() | pick(h.dice, 0, 0, h.dice.Uint64())
	case off == viewLine+8*wordSuspected, off == viewLine+8*wordDecided: // what can be is believed
	case off == viewLine+8*wordInstalled:
		*word = h.dice.Uint64N(1 << 8) // no ballot is so low
	case k == liesBack:
		*word -= min(*word, 1+h.dice.Uint64N(1<<h.dice.IntN(8)))
	case k == liesAhead:
		*word += 1 + h.dice.Uint64N(1<<h.dice.IntN(8))
	case k == liesGarbage:
		*word = pick(h.dice, 0, h.dice.Uint64(), 1<<h.dice.IntN(64), *word+h.dice.Uint64N(1<<41))
		h.garbage()
	}
	*fabric.Word(h.seat.own, viewLine+8*wordRevision)++
	h.proc.print("lies at %d of its row: %x", off, *word)
}

// victim is the member that it accuses.
func (h *hostile) victim() order.Rank {
	r := order.Rank(h.plan.Peer % len(h.seat.record.procs))
	if r == h.seat.self {
		r = order.Rank((int(r) + 1) % len(h.seat.record.procs))
	}
	return r
}

// majority is a set of so many members that the rest is no quorum.
func (h *hostile) majority() (set uint64) {
	n := len(h.seat.record.procs)
	for _, r := range h.dice.Perm(n)[:n/2+1] {
		set |= 1 << r
	}
	return set
}

// garbage overwrites some of its headers and messages.
func (h *hostile) garbage() {
	own := h.seat.own
	if len(own) <= h.lines {
		return
	}
	off := h.lines + 8*h.dice.IntN((len(own)-h.lines)/8)
	n := min(1+h.dice.IntN(400), len(own)-off)
	for i := 0; i < n; i += 8 {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], h.dice.Uint64())
		copy(own[off+i:off+n], word[:])
	}
	h.seat.table.Push(h.to, off, n)
}

// letter sends a member a message that belongs to a conversation of a joiner, or to none.
func (h *hostile) letter() {
	w, members := h.proc.world, h.seat.record.view.Members
	to := members[h.dice.IntN(len(members))]
	if to.ID == h.proc.self.ID {
		return
	}
	if len(h.talks) < 4 {
		as := pick(h.dice, h.proc.self, members[h.dice.IntN(len(members))], views.Member{ID: 60, Incarnation: 1 + h.dice.Uint64(), Addr: "node-60:1"})
		as.Incarnation += uint64(h.dice.IntN(2))
		// it has no private key of another process (J11), and all of this run have the zero key
		if as.ID != h.proc.self.ID {
			as.PublicKey = trust.PublicKey{1}
		}
		h.talks = append(h.talks, &approach{Conn: w.net.Dial(h.proc.self.ID, to.ID), request: join.Request{
			Verb: pick(h.dice, join.Apply, join.Greet, join.Inquire), Cluster: cluster, Member: as, Declarations: w.plan.Decls,
			Group: pick(h.dice, "", h.seat.record.view.Group, "another group"),
		}})
	}
	for _, t := range slices.Clone(h.talks) {
		h.say(t)
	}
	w.probes[LiarSpoke]++
}

// approach is a conversation that it began.
type approach struct {
	*simnet.Conn
	request join.Request
	asked   bool
}

func (h *hostile) say(t *approach) {
	v := h.seat.record.view
	for _, ok := t.Recv(); ok; _, ok = t.Recv() {
	}
	if t.Up() {
		if !t.asked {
			t.asked = true
			t.Send(t.request)
		}
		m := join.Message{Verb: pick[join.Verb](h.dice, "still", "ready", "ready", "greeted", "wait", "meet", "install", "member", "abort", "redirect", "view", "other")}
		m.ViewID, m.Addr, m.Text = pick(h.dice, v.ID, v.ID+1, 0), address(v.Members[0].ID), "a lie"
		for _, o := range v.Members {
			m.Words = append(m.Words, join.Word{ID: o.ID, Text: "0123456789abcdef"})
		}
		t.Send(m)
	}
	if t.Closed() != nil || h.dice.oneIn(8) {
		t.Close()
		h.talks = slices.DeleteFunc(h.talks, func(o *approach) bool { return o == t })
	}
}

// lieSteps bounds for how many steps of its own a member lies: one whose steps are short keeps the
// others busy, and some thousands of lies show no less than a million.
const lieSteps = 20_000

// lies draws a run in which one member lies, if the plan has enough members that the others are a
// quorum without it and one that it accuses.
func (d dice) lies(p *Plan) {
	if p.Initial < 5 || p.keeps() || !p.Limits.Kinds.Has(Hostile) || p.Limits.Kinds == 0 && !d.oneIn(3) {
		return
	}
	f := Fault{Kind: Hostile, At: d.upTo(p.FailAfter()), Node: d.IntN(p.Initial), Peer: d.IntN(p.Initial)}
	f.For = d.upTo(min(8*p.FailAfter(), lieSteps*p.Nodes[f.Node].Pace.Step))
	for f.Set&uint64(allLies) == 0 {
		f.Set = d.Uint64() & d.Uint64() & uint64(allLies)
	}
	// it may say different things to different members, whose states differ then
	p.Outages, p.Faults, p.States = 0, []Fault{f}, 0
}

// leaveOut takes the messages of a member that lies out of what is compared between members.
func (g *group) leaveOut(liar *process) {
	for s, l := range g.senders {
		if l.proc != liar {
			continue
		}
		g.order = slices.DeleteFunc(g.order, func(o place) bool { return o.sender == order.SenderRank(s) })
		for _, rd := range g.readers {
			rd.at -= rd.counts[s]
		}
	}
}

// spoiled reports whether a ledger's process lies: what its messages say, and which members are
// given them, is its own affair.
func (l *ledger) spoiled() bool { return l.proc.liar }
