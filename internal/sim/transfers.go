package sim

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/squall-go/squall/internal/attach"
	"github.com/squall-go/squall/internal/courier"
	"github.com/squall-go/squall/internal/relay"
	"github.com/squall-go/squall/internal/simnet"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/rdmc"
)

// transfers is one process's part in the transfers of one sender in a view. It performs the relay
// that ships over simulated links, as package rdmc does over connections: frames and blocks are
// sent, the memory of messages is kept, and the Courier is told what the relay wants it to be told.
type transfers struct {
	bodies *bodies
	sender int // rank
	config courier.GroupConfig
	relay  *relay.Relay
	// by place: the sender first, then the members of higher rank, then of lower rank
	procs []*process
	self  int        // place
	ends  []*linkEnd // of the ties, by place; nil: there is none
	turn  *turn
	left  bool
	over  bool
	done  chan struct{} // closed when it is over

	effects  relay.Effects
	calls    []relay.Call
	callAt   time.Duration // not before
	leaving  relay.Send    // the block that the connection takes
	waits    bool          // it does so when it has taken another one
	takenAt  time.Duration // when it has, or when it is looked at again; never: there is no block
	fetching relay.Fetch   // what is being looked at, or copied
	fetchAt  time.Duration // never: nothing is
	sendings []*sending    // the sender's
	buffers  map[uint64]*memory
	views    map[uint64]*memory
}

// sending is a message that is being sent. It implements courier.Sending.
type sending struct {
	from    *transfers
	started *relay.Started
	out     rdmc.Outgoing
	memory  *memory
	told    int    // of Sent and Everywhere
	sum     uint32 // of its bytes, once its memory may be given back
}

// newTransfers makes a process's part, which no other process knows yet.
func newTransfers(b *bodies, sender int, c courier.GroupConfig) *transfers {
	plan, sg := b.proc.world.plan, b.record.view.Subgroups[b.index]
	t := &transfers{
		bodies: b, sender: sender, config: c, ends: make([]*linkEnd, len(sg.Members)), done: make(chan struct{}), takenAt: never, fetchAt: never,
		buffers: map[uint64]*memory{}, views: map[uint64]*memory{},
	}
	rc := relay.Config{Algorithm: plan.Bodies.Algorithm, BlockBytes: plan.Bodies.BlockBytes, MaxMessage: c.MaxMessageBytes, InPlace: c.InPlace}
	for i := range sg.Members {
		p := b.record.procs[sg.Members[(c.Root+i)%len(sg.Members)]]
		if p == b.proc {
			t.self = i
		}
		t.procs = append(t.procs, p)
		rc.Nodes = append(rc.Nodes, p.self.ID)
	}
	rc.Self = t.self
	t.relay = relay.New(rc)
	return t
}

func (t *transfers) proc() *process { return t.bodies.proc }

// token is the group's name on the wire.
func (t *transfers) token() (name attach.Token) {
	binary.LittleEndian.PutUint64(name[:], t.bodies.record.number)
	binary.LittleEndian.PutUint32(name[8:], uint32(t.bodies.index))
	binary.LittleEndian.PutUint32(name[12:], uint32(t.sender))
	return name
}

// begin offers the group to the others. Of two processes, one dials.
func (t *transfers) begin() {
	p := t.proc()
	p.groups[t.token()] = t
	d := attach.Group{Token: t.token(), Self: t.self}
	for _, q := range t.procs {
		d.Members = append(d.Members, attach.Member{ID: q.self.ID, Key: q.key})
	}
	p.meet(func(a *attach.Node, out *attach.Effects) { a.Open(d, out) })
	for place, q := range t.procs {
		if place != t.self && p.link(q) == nil && p.self.ID > q.self.ID {
			p.world.connect(p, q)
		}
	}
}

// news takes the news of another process.
func (t *transfers) news(e *attach.Effect) {
	if e.Do == attach.Attached && (t.self == 0 || e.Place == 0) && t.sees(e.Place) {
		t.relay.Sees(e.Place)
	}
	e.Tell(t.relay, &t.effects)
	t.heard()
}

// sees reports whether this process and the one at a place see each other's memory.
func (t *transfers) sees(place int) bool {
	plan := t.proc().world.plan
	return plan.Bodies.Shared && plan.Net.Kinds[t.proc().node.place][t.procs[place].node.place] != simnet.Framed
}

// step takes a control frame, if its process is attached.
func (t *transfers) step(place int, c *relay.Control) (attached bool) {
	if attached = t.relay.Step(place, c, &t.effects); attached {
		t.heard()
	}
	return attached
}

// expect is where a block belongs; nil: nowhere.
func (t *transfers) expect(place int, h *relay.Header) (into []byte, of *memory) {
	offset, v := t.relay.Expect(place, h, &t.effects)
	t.apply()
	if v != relay.Take {
		return nil, nil
	}
	m := t.buffers[h.Message]
	return m.data[offset:][:h.Length:h.Length], m
}

// arrived takes the end of a block that was expected.
func (t *transfers) arrived(place int, h *relay.Header, a relay.Arrival) {
	t.relay.Arrived(place, h, a, &t.effects)
	t.heard()
}

// heard is apply, after something came from another process: what follows from it may be done at
// once, or by other goroutines a little later.
func (t *transfers) heard() {
	t.apply()
	if w := t.proc().world; len(t.calls) > 0 && w.now >= t.callAt && w.bulk.oneIn(2) {
		t.call()
	}
}

// apply sends frames and blocks, and wakes what has to go on later.
func (t *transfers) apply() {
	w := t.proc().world
	for i := range t.effects.Frames {
		f := &t.effects.Frames[i]
		if e := t.ends[f.To]; e != nil {
			e.say(f.Control)
		}
	}
	t.calls = append(t.calls, t.effects.Calls...)
	t.effects.Reset()
	t.send()
	t.fetch()
	if len(t.calls) > 0 || t.relay.Over() && !t.over {
		t.wakeAt(max(t.callAt, w.now+w.bulk.upTo(t.proc().pace.Step)))
	}
}

func (t *transfers) wakeAt(at time.Duration) {
	t.turn = t.proc().world.schedule.wake(t.turn, at, t)
}

// act implements actor: what is due of the group's goroutines.
func (t *transfers) act(now time.Duration) time.Duration {
	p := t.proc()
	if t.over {
		return never
	}
	if until, held := p.held(now); held {
		return until
	}
	if t.takenAt != never && now >= t.takenAt && t.waits {
		t.leave()
	} else if t.takenAt != never && now >= t.takenAt {
		s := t.leaving
		t.takenAt = never
		t.relay.BlockSent(&s, &t.effects)
		t.apply()
	}
	if t.fetchAt != never && now >= t.fetchAt {
		t.fetched()
	}
	if now >= t.callAt {
		t.call()
	}
	return t.next(now)
}

// next is when there is something to do.
func (t *transfers) next(now time.Duration) time.Duration {
	at := sooner(t.takenAt, t.fetchAt)
	if len(t.calls) > 0 {
		at = sooner(at, t.callAt)
	}
	if t.over || at == never {
		return never
	}
	return max(at, now)
}

// send has the next block leave, if there is one and the one before was taken.
func (t *transfers) send() {
	if t.takenAt != never {
		return
	}
	if s, ok := t.relay.Next(); ok {
		t.proc().world.sometimes(BlockRelayed, t.self != 0)
		t.leaving = s
		t.leave()
	}
}

// leave has a block leave if it is its turn, and if it is still wanted.
func (t *transfers) leave() {
	w, s := t.proc().world, &t.leaving
	e, wanted := t.ends[s.To], t.relay.Wanted(s)
	if t.waits = wanted && e != nil && w.now < e.other.lastBlock; t.waits {
		t.takenAt = e.other.lastBlock
	} else {
		t.takenAt = w.now + 1
	}
	if !t.waits && wanted {
		t.carry(e)
	}
	t.wakeAt(t.takenAt)
}

// carry gives the block that leaves to a connection; nil: it broke.
func (t *transfers) carry(e *linkEnd) {
	w, s := t.proc().world, &t.leaving
	m := t.buffers[s.Header.Message]
	if t.self == 0 {
		m = t.sending(s.Number).memory
	}
	if m == nil || !m.used && m.holds == 0 {
		w.judge("release", violated("R5", "node %d sends block %d of message %d from memory that was given back", t.proc().self.ID, s.Header.Block, s.Header.Message))
		return
	}
	size := len(m.data)
	data := slices.Clone(m.data[s.Offset:][:s.Header.Length])
	if s.NeedSum {
		s.Header.Sum = checksum(data)
	}
	if e != nil {
		q := e.other.proc
		takes := w.frameTime(t.proc(), q) + w.bulkTime(t.proc(), q)*time.Duration(len(data))/time.Duration(size)
		t.takenAt = max(t.takenAt, e.carry(block{h: s.Header, data: data}, takes))
	}
}

// fetch begins to look at a message in memory of the sender, or to copy a piece of it.
func (t *transfers) fetch() {
	if t.fetchAt != never {
		return
	}
	if f, ok := t.relay.NextFetch(); ok {
		w := t.proc().world
		t.fetching, t.fetchAt = f, w.now+w.bulk.upTo(t.proc().pace.Step)
		t.wakeAt(t.fetchAt)
	}
}

// fetched is the end of that.
func (t *transfers) fetched() {
	f, sender := t.fetching, t.procs[0]
	t.fetchAt = never
	var err error
	if f.Length > 0 {
		copy(t.buffers[f.Index].data[f.Offset:][:f.Length], t.views[f.Index].data[f.Offset:])
	} else if i := slices.IndexFunc(sender.memories, func(m *memory) bool { return strconv.FormatUint(m.number, 10) == f.Where }); i < 0 || sender.over {
		err = fmt.Errorf("%w: %w", relay.ErrRootGone, errGone)
	} else {
		t.views[f.Index] = sender.memories[i]
	}
	t.relay.Fetched(&f, err, &t.effects)
	t.apply()
}

// call tells what has to be told: all of it, or a part, and the rest a little later.
func (t *transfers) call() {
	w := t.proc().world
	for len(t.calls) > 0 && w.result.Err == nil {
		c := t.calls[0]
		t.calls = slices.Delete(t.calls, 0, 1)
		t.tell(&c)
		if w.bulk.oneIn(4) {
			t.callAt = w.now + w.bulk.upTo(w.plan.Hop()/4)
			break
		}
	}
	if len(t.calls) > 0 {
		t.wakeAt(max(t.callAt, w.now))
	} else if t.relay.Over() && !t.over {
		t.over = true
		close(t.done)
		t.bodies.tidy()
	}
}

func (t *transfers) makeRoom(in rdmc.Incoming) {
	_, err := t.config.Incoming(in)
	if err == nil {
		t.buffers[in.Index] = t.bodies.made
		t.bodies.comes(order.SenderRank(t.sender), in)
	}
	t.relay.Room(in.Index, err, &t.effects)
}

// tell makes one call.
func (t *transfers) tell(c *relay.Call) {
	in := rdmc.Incoming{Index: c.Index, Tag: c.Tag, Size: c.Size}
	switch c.Kind {
	case relay.MakeRoom:
		t.makeRoom(in)
	case relay.Completed:
		t.completed(in, c.InView)
	case relay.Aborted, relay.Withdrawn:
		t.proc().world.sometimes(LargeWithdrawn, c.Kind == relay.Withdrawn)
		if c.Kind == relay.Aborted {
			delete(t.buffers, c.Index)
			delete(t.views, c.Index)
		}
		t.bodies.gone(order.SenderRank(t.sender), c.Tag)
		t.config.Aborted(in, c.Err)
		if c.Kind == relay.Aborted {
			t.relay.Heard(c.Index, &t.effects)
		}
	case relay.Failed:
		f := t.relay.Failure()
		t.halfHere()
		t.config.Failed(&rdmc.Failure{Node: f.Node, Code: rdmc.FailureCode(f.Code), Text: f.Text})
	case relay.Sent:
		s := t.settle(c)
		s.sum = checksum(s.out.Data)
		s.memory.unhold(c.Seen)
	case relay.Everywhere:
		s := t.settle(c)
		if c.Err == nil {
			t.proc().world.judge("atomic", t.checkEverywhere(s))
		}
		s.out.Everywhere(c.Err)
	}
	t.apply()
}

// halfHere lets go of what will not be whole.
func (t *transfers) halfHere() {
	w := t.proc().world
	for i := range t.bodies.had {
		if h := &t.bodies.had[i]; int(h.sender) == t.sender && !h.whole && h.counts {
			h.counts = false
			w.probes[LargeHalf]++
		}
	}
	clear(t.buffers)
	clear(t.views)
}

// completed tells of a body that is here whole, or in view.
func (t *transfers) completed(in rdmc.Incoming, inView bool) {
	w, sender := t.proc().world, order.SenderRank(t.sender)
	m := t.buffers[in.Index]
	if inView {
		m = t.views[in.Index]
		t.bodies.comes(sender, in)
	}
	delete(t.buffers, in.Index)
	delete(t.views, in.Index)
	t.bodies.isWhole(sender, in.Tag, m.data)
	if w.trace.out != nil && !w.trace.brief {
		t.proc().print("body %d of %d", in.Tag, t.procs[0].self.ID)
	}
	var release func()
	if inView {
		w.probes[BodyInPlace]++
		release = func() {
			t.relay.Released(in.Index, &t.effects)
			if !t.proc().over {
				t.apply()
			}
		}
	}
	t.config.Completed(in, m.data, release)
	t.relay.Heard(in.Index, &t.effects)
}

// Start implements courier.Group.
func (t *transfers) Start(o rdmc.Outgoing) (courier.Sending, error) {
	s := &sending{from: t, out: o, memory: t.proc().memoryOf(o.Data)}
	var err error
	if t.proc().world.plan.Bodies.Shared {
		s.started, err = t.relay.Offer(int64(len(o.Data)), o.Tag, o.Filled, strconv.FormatUint(s.memory.number, 10), &t.effects)
	} else {
		s.started, err = t.relay.Start(int64(len(o.Data)), o.Tag, o.Filled, &t.effects)
	}
	if err != nil {
		return nil, err
	}
	s.memory.holds++
	t.sendings = append(t.sendings, s)
	t.apply()
	return s, nil
}

func (t *transfers) sending(number uint64) *sending {
	i := slices.IndexFunc(t.sendings, func(s *sending) bool { return s.started.Number == number })
	return t.sendings[i]
}

// settle notes that Sent, or Everywhere, is told, and forgets the message after both.
func (t *transfers) settle(c *relay.Call) *sending {
	s := t.sending(c.Number)
	if s.told++; s.told == 2 {
		t.sendings = slices.DeleteFunc(t.sendings, func(o *sending) bool { return o == s })
	}
	return s
}

// Fill implements courier.Sending.
func (s *sending) Fill(n int64) {
	s.from.relay.Fill(s.started, n, &s.from.effects)
	s.from.apply()
}

// Abort implements courier.Sending.
func (s *sending) Abort(reason error) {
	s.from.relay.Abort(s.started, reason, &s.from.effects)
	s.from.apply()
}

// Discard implements courier.Group.
func (t *transfers) Discard() {
	t.relay.Discard(&t.effects)
	t.apply()
	if t.left {
		return
	}
	t.left = true
	var last *relay.Control
	if c, ok := t.relay.LastWord(); ok {
		last = &c
	}
	p := t.proc()
	p.meet(func(a *attach.Node, out *attach.Effects) { a.Close(t.token(), last, out) })
	delete(p.groups, t.token())
}

// Done implements courier.Group.
func (t *transfers) Done() <-chan struct{} { return t.done }
