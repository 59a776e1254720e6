package sim

import (
	"fmt"
	"slices"
	"strconv"
	"time"

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
	procs  []*process // by place: the sender first, then the members behind it, then the members before it
	self   int        // place
	ties   []tie      // by place
	turn   *turn
	left   bool
	over   bool
	done   chan struct{} // closed when it is over

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

// tie is to a member.
type tie struct {
	end      *linkEnd // nil: there is no link
	question int      // of the process that dialed, behind its confirmation; 0: it has confirmed nothing
	attached bool     // it has opened the group, too
	doubted  bool     // a link ended before this process knew whether the other one had its confirmation
	offered  int      // what the process that dialed asked behind an offer to one that it doubts; 0: nothing
	held     bool     // the end of the link is held back
	left     bool     // it was, and is not any more
}

// confirming reports whether the other process may count this one as attached, and this one does not
// know yet whether it does.
func (m *tie) confirming() bool { return m.question > 0 && !m.attached && !m.left }

// sending is a message that is being sent. It implements courier.Sending.
type sending struct {
	from       *transfers
	number     uint64
	out        rdmc.Outgoing
	memory     *memory
	told       int    // of Sent and Everywhere
	sum        uint32 // of its bytes, once its memory may be given back
	everywhere bool
	index      uint64 // of one that is
	withdrawn  bool
}

// newTransfers makes a process's part, which no other process knows yet.
func newTransfers(b *bodies, sender int, c courier.GroupConfig) *transfers {
	plan, sg := b.proc.world.plan, b.record.view.Subgroups[b.index]
	t := &transfers{
		bodies: b, sender: sender, config: c, ties: make([]tie, len(sg.Members)), done: make(chan struct{}), takenAt: never, fetchAt: never,
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

func (t *transfers) name() name { return name{t.bodies.record, t.bodies.index, t.sender} }

// transfersOf is the process's part in a group, or nil if it has not opened that, or left it.
func (p *process) transfersOf(n name) *transfers {
	b := p.bodiesIn(n.record, n.index)
	if b == nil || n.sender >= len(b.groups) || b.groups[n.sender].left {
		return nil
	}
	return b.groups[n.sender]
}

// begin offers the group to the others. Of two processes, one dials.
func (t *transfers) begin() {
	p := t.proc()
	for place, q := range t.procs {
		if place == t.self {
			continue
		}
		if e := p.link(q); e != nil {
			t.invite(e)
		} else if p.self.ID > q.self.ID {
			p.world.connect(p, q)
		}
	}
}

// The three frames by which two processes meet in a group, as in package rdmc. Only the last one tells the process that was dialed that the
// other one has heard of it: without it, a link that breaks at one side alone would leave one of them behind. The process that dialed asks
// behind it, and only the answer tells that it has arrived.
const (
	attachOffer   uint64 = iota // by the process that dialed
	attachAnswer                // by the other one
	attachConfirm               // by the process that dialed
)

// invite offers the group to the process at the other side of a link that this one dialed, if that is a member, or answers its offer.
func (t *transfers) invite(e *linkEnd) {
	place := slices.Index(t.procs, e.other.proc)
	if place < 0 || t.ties[place].end != nil || t.ties[place].left {
		return
	}
	if e.dialed {
		t.attach(place, e, attachOffer)
		if m := &t.ties[place]; m.doubted {
			m.offered = e.ask()
		}
	} else if i := slices.Index(e.waiting, t.name()); i >= 0 {
		e.waiting = slices.Delete(e.waiting, i, i+1)
		t.attach(place, e, attachAnswer)
	}
}

func (t *transfers) attach(place int, e *linkEnd, step uint64) {
	t.ties[place].end = e
	t.proc().watchPeers()
	e.say(t.name(), relay.Control{Kind: relay.Attach, Index: step})
}

// meet takes one of the three frames. An offer over a later link says that the one before broke at the other side.
func (t *transfers) meet(e *linkEnd, step uint64) {
	place := slices.Index(t.procs, e.other.proc)
	m := &t.ties[place]
	if m.attached && m.end.number < e.number && step == attachOffer {
		t.lost(m.end, false)
	}
	switch {
	case m.attached || m.left || m.end != nil && m.end.number > e.number:
		return
	case step == attachOffer:
		t.attach(place, e, attachAnswer)
		return
	case m.end != e:
		return
	case step == attachAnswer:
		t.attach(place, e, attachConfirm)
		m.question, m.offered = e.ask(), 0
		return
	}
	t.met(place)
	t.heard()
}

// confirmed takes an answer of the other side of a link: it may be the one to what was asked behind the confirmation.
func (t *transfers) confirmed(e *linkEnd) {
	place := slices.IndexFunc(t.ties, func(m tie) bool { return m.end == e })
	if place < 0 {
		return
	}
	m := &t.ties[place]
	switch {
	case m.confirming() && m.question <= e.answered:
		t.met(place)
		t.heard()
	case m.offered > 0 && m.offered <= e.answered:
		m.offered = 0
		w := t.proc().world
		w.later(w.plan.FailAfter()/4, func() { t.forsaken(place, e) })
	}
}

// forsaken takes the news that a process which this one doubts has not answered its offer.
func (t *transfers) forsaken(place int, e *linkEnd) {
	m := &t.ties[place]
	if m.end != e || m.question > 0 || m.attached || m.left || t.left || t.proc().over {
		return
	}
	m.end, m.left = nil, true
	t.relay.Gone(place, &t.effects)
	t.apply()
}

// met notes that another process has opened the group, and knows that this one has.
func (t *transfers) met(place int) {
	t.ties[place].attached = true
	if (t.self == 0 || place == 0) && t.sees(place) {
		t.relay.Sees(place)
	}
	t.relay.Attached(place, &t.effects)
}

// sees reports whether this process and the one at a place see each other's memory.
func (t *transfers) sees(place int) bool {
	plan := t.proc().world.plan
	return plan.Bodies.Shared && plan.Net.Kinds[t.proc().node.place][t.procs[place].node.place] != simnet.Framed
}

// step takes a control frame.
func (t *transfers) step(e *linkEnd, c *relay.Control) {
	place := slices.Index(t.procs, e.other.proc)
	m := &t.ties[place]
	switch {
	case m.end != e:
		return
	case !m.attached && c.Kind == relay.Leave:
		m.end, m.question = nil, 0 // its offer was withdrawn
		return
	case m.confirming(): // it says this behind the confirmation, or as it leaves
		t.met(place)
	case !m.attached:
		return
	}
	if c.Kind == relay.Leave {
		m.attached, m.left = false, true
		t.relay.Left(place, &t.effects)
	} else {
		t.relay.Step(place, c, &t.effects)
	}
	t.heard()
}

// expect is where a block belongs; nil: nowhere.
func (t *transfers) expect(e *linkEnd, h *relay.Header) (into []byte, of *memory) {
	place := slices.Index(t.procs, e.other.proc)
	if t.ties[place].end != e {
		return nil, nil
	}
	offset, v := t.relay.Expect(place, h, &t.effects)
	t.apply()
	if v != relay.Take {
		return nil, nil
	}
	m := t.buffers[h.Message]
	return m.data[offset:][:h.Length:h.Length], m
}

// arrived takes the end of a block that was expected.
func (t *transfers) arrived(e *linkEnd, h *relay.Header, a relay.Arrival) {
	t.relay.Arrived(slices.Index(t.procs, e.other.proc), h, a, &t.effects)
	t.heard()
}

// lost takes the end of a link. A process that had not attached may come by another one. One that may have is silent if this one gives it up.
// A process that stood still keeps the end of one that has attached back for a while: the others hear first that this process was given up.
func (t *transfers) lost(e *linkEnd, silent bool) {
	place := slices.IndexFunc(t.ties, func(m tie) bool { return m.end == e })
	if p := t.proc(); place >= 0 && t.ties[place].attached && !silent && !t.ties[place].held && p.slept() {
		t.ties[place].held = true
		p.world.later(p.world.plan.FailAfter()/4, func() { t.ended(e, false) })
	}
	if place < 0 || !t.ties[place].held {
		t.ended(e, silent)
	}
}

func (t *transfers) ended(e *linkEnd, silent bool) {
	place := slices.IndexFunc(t.ties, func(m tie) bool { return m.end == e })
	if place < 0 || t.left || t.proc().over {
		return
	}
	m := &t.ties[place]
	known := m.attached || silent && m.confirming()
	m.doubted, m.offered = m.doubted || m.confirming(), 0
	switch m.end = nil; {
	case silent && known:
		t.relay.Silent(place, &t.effects)
	case known:
		t.relay.Gone(place, &t.effects)
	}
	m.question, m.attached, m.held, m.left = 0, false, false, known || m.left
	t.apply()
}

// misses reports whether a member has not opened the group, as far as is known.
func (t *transfers) misses(q *process) bool {
	place := slices.Index(t.procs, q)
	return place >= 0 && !t.ties[place].attached && !t.ties[place].left
}

// awaits reports whether the group waits for anything from the other side of a link.
func (t *transfers) awaits(e *linkEnd) bool {
	return slices.ContainsFunc(t.ties, func(m tie) bool { return m.end == e && (!m.attached || t.relay.Busy()) })
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
		if m := &t.ties[f.To]; m.attached {
			m.end.say(t.name(), f.Control)
		}
	}
	for i := range t.effects.Calls {
		if c := &t.effects.Calls[i]; c.Kind == relay.Everywhere && c.Err == nil {
			s := t.sending(c.Number)
			s.everywhere, s.index = true, c.Index
		}
	}
	t.calls = append(t.calls, t.effects.Calls...)
	t.effects.Reset()
	t.send()
	t.fetch()
	if len(t.calls) > 0 || t.relay.Over() && !t.over {
		t.wakeAt(max(t.callAt, w.now+w.bulk.upTo(t.proc().pace.Step)))
	}
	if t.relay.Busy() {
		t.proc().watchPeers()
	}
}

func (t *transfers) wakeAt(at time.Duration) {
	w := t.proc().world
	if t.turn == nil || t.turn.place < 0 {
		t.turn = w.schedule.add(at, t)
		return
	}
	w.schedule.pull(t.turn, at)
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
	at := never
	for _, due := range []time.Duration{t.takenAt, t.fetchAt} {
		if due != never && (at == never || due < at) {
			at = due
		}
	}
	if len(t.calls) > 0 && (at == never || t.callAt < at) {
		at = t.callAt
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
	e, wanted := t.ties[s.To].end, t.relay.Wanted(s)
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
		t.takenAt = max(t.takenAt, e.carry(block{to: t.name(), h: s.Header, data: data}, takes))
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

// tell makes one call.
func (t *transfers) tell(c *relay.Call) {
	in := rdmc.Incoming{Index: c.Index, Tag: c.Tag, Size: c.Size}
	switch c.Kind {
	case relay.MakeRoom:
		_, err := t.config.Incoming(in)
		if err == nil {
			t.buffers[c.Index] = t.bodies.made
			t.bodies.comes(order.SenderRank(t.sender), in)
		}
		t.relay.Room(c.Index, err, &t.effects)
	case relay.Completed:
		t.completed(in)
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
func (t *transfers) completed(in rdmc.Incoming) {
	w, sender := t.proc().world, order.SenderRank(t.sender)
	m := t.views[in.Index]
	if m != nil {
		t.bodies.comes(sender, in)
	} else {
		m = t.buffers[in.Index]
	}
	_, inPlace := t.views[in.Index]
	delete(t.buffers, in.Index)
	delete(t.views, in.Index)
	t.bodies.isWhole(sender, in.Tag, m.data)
	if w.trace.out != nil && !w.trace.brief {
		t.proc().print("body %d of %d", in.Tag, t.procs[0].self.ID)
	}
	if !inPlace {
		t.config.Completed(in, m.data, nil)
		t.relay.Heard(in.Index, &t.effects)
		return
	}
	w.probes[BodyInPlace]++
	released, heard := false, false
	t.config.Completed(in, m.data, func() {
		if released = true; heard && !t.proc().over {
			t.relay.Released(in.Index, &t.effects)
			t.apply()
		}
	})
	if heard = true; released {
		t.relay.Heard(in.Index, &t.effects)
	} else {
		t.relay.HeardInView(in.Index, &t.effects)
	}
}

// Start implements courier.Group.
func (t *transfers) Start(o rdmc.Outgoing) (courier.Sending, error) {
	s := &sending{from: t, out: o, memory: t.proc().memoryOf(o.Data)}
	var err error
	if t.proc().world.plan.Bodies.Shared {
		s.number, err = t.relay.Offer(int64(len(o.Data)), o.Tag, o.Filled, strconv.FormatUint(s.memory.number, 10), &t.effects)
	} else {
		s.number, err = t.relay.Start(int64(len(o.Data)), o.Tag, o.Filled, &t.effects)
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
	i := slices.IndexFunc(t.sendings, func(s *sending) bool { return s.number == number })
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
	s.from.relay.Fill(s.number, n, &s.from.effects)
	s.from.apply()
}

// Abort implements courier.Sending.
func (s *sending) Abort(reason error) {
	t := s.from
	switch {
	case !s.everywhere:
		t.relay.Abort(s.number, reason, &t.effects)
	case !s.withdrawn:
		s.withdrawn = t.relay.Withdraw(s.index, s.out.Tag, int64(len(s.out.Data)), reason, &t.effects)
	}
	t.apply()
}

// Discard implements courier.Group.
func (t *transfers) Discard() {
	t.relay.Discard(&t.effects)
	t.apply()
	if t.left {
		return
	}
	t.left = true
	for place := range t.ties {
		m := &t.ties[place]
		if e := m.end; e != nil {
			if last, ok := t.relay.LastWord(); ok && !m.attached && !m.left && (!e.dialed || m.confirming()) { // it may count this process as attached
				e.say(t.name(), last)
			}
			e.say(t.name(), relay.Control{Kind: relay.Leave})
		}
	}
}

// Done implements courier.Group.
func (t *transfers) Done() <-chan struct{} { return t.done }
