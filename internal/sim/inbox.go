package sim

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// inbox takes what a subgroup of a view delivers at one member, shows it to the checkers, and is
// full now and then.
type inbox struct {
	world  *world
	group  *group
	reader *reader
	plan   Inbox
	random *rand.Rand
	shut   time.Duration // takes nothing before
	kept   []keptMessage
	until  time.Duration // these are let go if nothing else is delivered
}

// keptMessage is a message that an application keeps after the upcall, and what it was then.
type keptMessage struct {
	seq        order.Seq
	data, copy []byte
	from       *process
}

func newInbox(p *process, g *group) *inbox {
	w := p.world
	return &inbox{
		world: w, group: g, reader: g.reader(p), plan: w.plan.Inboxes[p.node.place][g.decl],
		random: rand.New(rand.NewPCG(w.plan.Seed, 10000+uint64(p.node.place)<<8+uint64(g.index)+uint64(g.record.view.ID)<<32)),
	}
}

// note is what follows from a run of which some messages were taken.
func (in *inbox) note(taken, of int) {
	w, p := in.world, in.reader.proc
	if p.slow > 0 && taken > 0 {
		w.hang(p, p.slow)
		p.slow = 0
		w.probes[UpcallSlow]++
	}
	w.sometimes(RunRefused, taken == 0)
	w.sometimes(RunTakenInPart, taken > 0 && taken < of)
	w.sometimes(LongRun, of >= 30)
}

// Deliver implements multicast.Receiver.
func (in *inbox) Deliver(run []multicast.Message) (taken int) {
	w, p := in.world, in.reader.proc
	w.net.Seep(p.self.ID) // an upcall takes time, in which others go on
	take := in.spend(in.room(len(run)))
	for k := range run {
		d, err := in.delivery(&run[k])
		w.judge("content", err)
		if err != nil {
			return 0
		}
		d.now = k < take
		for _, c := range w.checkers {
			w.judge(c.name(), c.offered(w, d))
			if k < take {
				w.judge(c.name(), c.taken(w, d))
			}
		}
		if w.result.Err != nil {
			return 0
		}
		if k < take {
			in.took(d)
		}
	}
	in.keep(run[:take])
	in.note(take, len(run))
	if w.lie == TakesAgain && take > 1 {
		return take - 1
	}
	return take
}

// spend has the callbacks of so many messages take their time, until the slice is over, and returns
// how many those are.
func (in *inbox) spend(take int) int {
	if in.plan.Cost == 0 {
		return take
	}
	p := in.reader.proc
	for k := range take {
		if p.spent += in.plan.Cost; in.world.now+p.spent >= p.sliced {
			p.slice.End(p.slice.Mark())
		}
		if p.slice.Over() {
			in.world.sometimes(SliceOver, k+1 < take)
			return k + 1
		}
	}
	return take
}

// keep keeps messages, in place of older ones. What waited for a state is not in the ring.
func (in *inbox) keep(run []multicast.Message) {
	w, p := in.world, in.reader.proc
	if in.plan.Keep == 0 || len(run) == 0 || in.group.sg.Mode != views.Ordered || p.stays[in.group.decl].handing {
		return
	}
	for _, m := range run {
		if m.Body() == nil {
			r, _ := in.group.record.view.RankOf(m.Sender)
			in.kept = append(in.kept, keptMessage{m.Seq, m.Data, slices.Clone(m.Data), in.group.record.procs[r]})
		}
	}
	in.letGo(len(in.kept) - in.plan.Keep)
	in.until = w.now + in.plan.KeepFor
	w.sometimes(MessageKept, len(in.kept) > 0)
}

// letGo lets the first messages go that it keeps. They are as they were delivered, unless their
// sender lies: what is in its ring is its own.
func (in *inbox) letGo(n int) {
	w := in.world
	for i := range max(n, 0) {
		if k := &in.kept[i]; !k.from.liar && !bytes.Equal(k.data, k.copy) {
			w.judge("content", violated("content", "node %d: subgroup %q of view %d: seq %d changed while it was kept",
				in.reader.proc.self.ID, in.group.sg.Name, in.group.record.view.ID, k.seq))
		}
	}
	in.kept = in.kept[max(n, 0):]
}

// keptFrom is the first message that it keeps.
func (in *inbox) keptFrom() order.Seq {
	if in.world.now >= in.until {
		in.letGo(len(in.kept))
	}
	if len(in.kept) == 0 {
		return multicast.NoSeq
	}
	p := in.reader.proc
	p.due = min(p.due, in.until)
	return in.kept[0].seq
}

// MaxRun implements multicast.Receiver.
func (in *inbox) MaxRun() int { return in.plan.MaxRun }

// Begin implements member.Receiver.
func (in *inbox) Begin(*views.View, int) {}

// Whole implements member.Receiver.
func (*inbox) Whole() bool { return true }

// room is how much of a run the application takes.
func (in *inbox) room(run int) int {
	p := in.reader.proc
	if in.world.now < in.shut {
		p.due = min(p.due, in.shut)
		return 0
	}
	if in.plan.ShutIn == 0 || in.random.IntN(in.plan.ShutIn) > 0 {
		return run
	}
	in.shut = in.world.now + time.Duration(in.random.Int64N(int64(in.plan.Shut)))
	in.reader.open = in.shut
	p.due = min(p.due, in.shut)
	return in.random.IntN(run + 1)
}

func (in *inbox) delivery(m *multicast.Message) (*delivery, error) {
	r, ok := in.group.record.view.RankOf(m.Sender)
	s := slices.Index(in.group.sg.Senders, r)
	if !ok || s < 0 || m.View != in.group.record.view.ID {
		return nil, violated("content", "node %d: subgroup %q of view %d: seq %d of view %d comes from node %d, which is no sender",
			in.reader.proc.self.ID, in.group.sg.Name, in.group.record.view.ID, m.Seq, m.View, m.Sender)
	}
	d := &delivery{group: in.group, reader: in.reader, sender: order.SenderRank(s), Message: *m}
	d.ledger().catchUp(in.world.now)
	d.identify()
	return d, nil
}

// took counts a message that the application took.
func (in *inbox) took(d *delivery) {
	w, p, l := in.world, in.reader.proc, d.ledger()
	w.result.Deliveries++
	w.stir()
	in.passed(d)
	w.closeEarlier(d)
	p.host.apply(&d.Message, in.group.sg.Shard, false)
	w.event(taken, p.node.place, uint64(d.group.record.view.ID), uint64(d.group.index), uint64(d.Seq), uint64(d.number), uint64(len(d.Data)))
	if w.trace.out != nil {
		p.print("%s:%d %d#%d", d.group.label(w), d.Seq, l.proc.self.ID, d.number)
	}
	w.sometimes(EmptyMessage, len(d.Data) == 0)
	w.sometimes(LargeDelivered, d.Body() != nil)
	w.sometimes(LargeCarried, d.Body() != nil && 0 <= d.number && d.number < len(l.claims) && l.claims[d.number].view < d.View)
	w.sometimes(LargestMessage, len(d.Data) == d.group.sg.RingBytes/2)
	w.sometimes(UnorderedDelivery, !d.ordered())
	w.sometimes(MessageCarried, 0 <= d.number && d.number < len(l.claims) && l.claims[d.number].ready > 0 && l.claims[d.number].view < d.View)
	for s, l := range d.group.senders {
		w.sometimes(DeliveredPastOpenClaim, order.SenderRank(s) != d.sender && l.settled < len(l.claims))
	}
}

// passed notes that a message is behind the member, whether its application was given it or not.
func (in *inbox) passed(d *delivery) {
	f, l := d.flow(), d.ledger()
	f.next = max(f.next, d.number+1)
	if l.proc == d.proc() && d.number != unknown {
		l.claims[d.number].shown = true
	}
	f.loose = f.loose && (d.number == unknown || d.View < f.since)
	if d.reader.counts[d.sender]++; !l.spoiled() {
		d.reader.at++
	}
}

// skip notes a message that the member delivers and its application is not given, because another
// state takes the place of its own. What is promised of the order holds all the same.
func (in *inbox) skip(m *multicast.Message) {
	w := in.world
	d, err := in.delivery(m)
	if w.judge("content", err); err != nil {
		return
	}
	for _, c := range []checker{orderChecker{}, fifoChecker{}, lossChecker{}} {
		w.judge(c.name(), c.taken(w, d))
	}
	in.passed(d)
}

// closeEarlier notes that the views before are over for the member in this declaration: it was
// given something of a later one.
func (w *world) closeEarlier(d *delivery) {
	if d.reader.at > 1 {
		return
	}
	for before := w.before(d.group.record); before != nil; before = w.before(before) {
		for _, g := range before.groups {
			rd := g.reader(d.proc())
			// the process may never have heard of the view
			if g.decl != d.group.decl || rd == nil || rd.closed || d.proc().seatIn(before) == nil {
				continue
			}
			rd.closed = true
			if g.sg.Mode != views.Unordered {
				w.judge("atomic", checkWhole(w, rd))
			}
		}
	}
}

// label is what a trace calls a subgroup: with its shard, if it is one of several that have logs.
func (g *group) label(w *world) string {
	if g.sg.Mode != views.Persistent {
		return g.sg.Name
	}
	return w.label(w.shardOf(g.sg))
}

func fmtDelivery(d *delivery) string {
	return fmt.Sprintf("node %d: view %d: subgroup %q: seq %d of node %d", d.proc().self.ID, d.group.record.view.ID, d.group.sg.Name, d.Seq, d.Sender)
}
