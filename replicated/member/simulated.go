package member

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated/internal/batch"
	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/replicated/internal/machine"
	"github.com/squall-go/squall/replicated/internal/relay"
	"github.com/squall-go/squall/replicated/internal/simulate"
	"github.com/squall-go/squall/ripc"
)

// What package squalltest needs: copies of objects that are performed in virtual time, on one
// goroutine. What they decide, and what they execute, is what members of a group do.

// Simulate is for package squalltest.
func (c *common) Simulate() simulate.Object { return simulated{c.object} }

// simulated is an object in the simulator.
type simulated struct{ o *object }

// Declared implements simulate.Object.
func (s simulated) Declared() (simulate.Declaration, error) {
	sg, err := s.o.declaration()
	return simulate.Declaration{Name: sg.Name, Persistent: sg.Mode == squall.Persistent, AfterPersist: sg.Log.DeliverAfterPersist, Shards: max(1, sg.Shards)}, err
}

// Copy implements simulate.Object.
func (s simulated) Copy() (simulate.Copy, error) {
	_, err := s.o.declaration()
	s.o.together = []*object{s.o}
	return &simulatedCopy{o: s.o}, err
}

// Model implements simulate.Object.
func (s simulated) Model() simulate.Model { return &model{s.o} }

// simulatedCopy is an object whose process is simulated.
type simulatedCopy struct {
	o         *object
	host      simulate.Host
	announced uint64                            // the view in which the operations were announced last
	apart     map[*batch.Waiting[posted]][]byte // records that do not fit into a message with others, by their barriers
	relaying  *stay                             // in which ways were begun
	ways      map[string]*relay.Way             // by the names of destinations
}

// Join implements simulate.Copy.
func (s *simulatedCopy) Join(h simulate.Host, random func() uint32) {
	s.host, s.apart = h, map[*batch.Waiting[posted]][]byte{}
	s.o.calls.table.Lap = random
	s.o.sending.batch.Limit(minSimulated + int(random()%maxSimulated))
	s.o.self.Store(h.ID())
}

// How many bytes of records share a message in a simulated process: from less than one of them to
// more than all that wait.
const (
	minSimulated = 60
	maxSimulated = 600
)

// post is what object.post does.
func (s *simulatedCopy) post(record []byte, of posted, under int) {
	b := &s.o.sending.batch
	if under <= few && b.Alone() {
		s.send(record)
		return
	}
	if !b.Fits(len(record)) {
		if w := b.Barrier(); w != nil {
			s.apart[w] = record
		} else {
			s.send(record)
		}
		return
	}
	if first, _ := b.Put(record, nil, of); first {
		s.host.Soon(s.seal)
	}
}

func (s *simulatedCopy) send(record []byte) {
	machine.Stamp(record, s.host.Wall())
	s.host.Send(record)
}

// seal is what object.sendBatch does.
func (s *simulatedCopy) seal() {
	b := &s.o.sending.batch
	data, _, _ := b.Seal(s.host.Wall()) // no barrier passes before it is sent
	s.host.Soon(func() {
		s.host.Send(bytes.Clone(data))
		for _, w := range b.Sent() {
			if record := s.apart[w]; record != nil {
				delete(s.apart, w)
				s.send(record)
			}
		}
		if !b.Empty() {
			s.host.Soon(s.seal)
		}
	})
}

// Leave implements simulate.Copy.
func (s *simulatedCopy) Leave(reason error) { s.o.calls.giveUp(reason) }

// shard returns the view, the shard in it that the process is in and the members of that, or 0.
func (s *simulatedCopy) shard() (view uint64, shard int, members []machine.Peer) {
	view, shards := s.host.View()
	for i, all := range shards {
		members = members[:0]
		for _, m := range all {
			members = append(members, machine.Peer{Node: m.Node, Incarnation: m.Incarnation})
		}
		if _, ok := find(members, s.host.ID()); ok {
			return view, i + 1, members
		}
	}
	return view, 0, nil
}

// Installed implements simulate.Copy.
func (s *simulatedCopy) Installed() {
	o := s.o
	if _, shard, _ := s.shard(); o.sharded() {
		if from := o.moved(shard); from.number() != 0 {
			from.close()
			o.turnAway()
			s.settle(from)
		}
	}
	s.tend()
}

// settle is what object.settle does.
func (s *simulatedCopy) settle(from *stay) {
	now, all := s.o.stay.Load(), s.o.calls.once(from)
	if len(all) == 0 {
		return
	}
	number, under, err := s.o.calls.add(passed(func(err error) {
		if err == nil || s.o.stay.Load() == now {
			s.o.settled(all)
		}
	}), nil)
	if err != nil {
		return
	}
	if now.number() == 0 {
		s.o.calls.take(number).Complete(&invoke.Outcome{Err: squall.ErrNotSender})
		return
	}
	s.post(machine.AppendTouch(nil, machine.Header{Call: number, Shard: now.number()}, nil), posted{call: number}, under)
}

// passed is called when a record has passed the order, or cannot.
type passed func(error)

func (p passed) Complete(o *invoke.Outcome) { p(o.Err) }
func (p passed) Signal()                    {}
func (passed) Typed() any                   { return nil }

// Deliver implements simulate.Copy.
func (s *simulatedCopy) Deliver(view, seq, sender, time uint64, data []byte, replayed bool, each func(record []byte, index uint64)) {
	o := s.o
	o.applied = each
	if self := o.self.Load(); replayed { // a process before this one may have sent it
		o.self.Store(0)
		defer o.self.Store(self)
	}
	o.deliver([]squall.Message{{
		Data: data, Sender: squall.NodeID(sender), View: squall.ViewID(view), Seq: squall.Seq(seq), Time: squall.Time(time),
	}})
	select {
	case <-o.wake:
		s.tend()
	default:
	}
	if s.o.failed != nil && s.host != nil {
		s.host.Halt(s.o.failed)
	}
}

// Snapshot implements simulate.Copy.
func (s *simulatedCopy) Snapshot() ([]byte, error) {
	var b bytes.Buffer
	err := s.o.snapshot()(&b)
	return b.Bytes(), err
}

// Restore implements simulate.Copy.
func (s *simulatedCopy) Restore(image []byte) error {
	err := s.o.restored(bytes.NewReader(image))
	s.tend()
	return err
}

// tend sends what it is time for: announcements, operations to enable, sessions that were touched.
func (s *simulatedCopy) tend() {
	if s.host == nil {
		return
	}
	view, shard, members := s.shard()
	if shard == 0 {
		return
	}
	self, _ := find(members, s.host.ID())
	h := machine.Header{Time: s.host.Wall()}
	if s.o.sharded() {
		h.Shard = shard
	}
	if of := s.o.machine.Shard(); of != 0 && of != h.Shard { // the state of the shard is not here yet
		return
	}
	record, announces := s.o.machine.Due(h, self, members, view, s.o.names, s.announced == view, nil)
	if announces {
		s.announced = view
	}
	if record != nil {
		s.host.Send(record)
	}
	if touched := s.o.takeTouched(); len(touched) > 0 {
		s.host.Send(machine.AppendTouch(nil, h, touched))
	}
}

// Take implements simulate.Copy.
func (s *simulatedCopy) Take(shard int, request []byte, answer func([]byte)) {
	d := &desk{object: s.o, shard: shard, most: maxWatched}
	r, err := client.Parse(request)
	switch {
	case err != nil:
	case r.Ask == client.Locate:
		answer(s.locate())
		return
	default:
		if err = d.here(); err == nil && r.Ask == client.Forward && !d.vouched(&r, s.vouches) {
			err = client.ErrMalformed
		}
	}
	if err == nil {
		if said, done := d.executed(&r); done {
			answer(said)
			return
		}
		err = s.serve(d, &r, bytes.Clone(request), answer)
	}
	if err != nil {
		answer(appendError(nil, err))
	}
}

func (s *simulatedCopy) vouches(use string, text, proof []byte) bool {
	return bytes.Equal(proof, s.host.Secret(use, text))
}

// locate says where the shards are.
func (s *simulatedCopy) locate() []byte {
	_, shards := s.host.View()
	l := client.Places{Shards: max(1, s.o.sg.Shards), Addresses: make([][]string, len(shards))}
	for i, all := range shards {
		for _, m := range all {
			l.Addresses[i] = append(l.Addresses[i], m.Place)
		}
	}
	data, err := invoke.Marshal(l)
	if err != nil {
		return appendError(nil, err)
	}
	return (&client.Answer{Said: client.Done, Text: data}).AppendTo(nil)
}

// serve does what a request asks for.
func (s *simulatedCopy) serve(d *desk, r *client.Request, request []byte, answer func([]byte)) (err error) {
	o, stay := s.o, s.o.stay.Load()
	switch {
	case relay.Ordered(r):
		return s.order(d, r, answer)
	case r.Ask == client.Touch:
		out := invoke.Outcome{}
		if known, _ := o.touch(r.Session, d.shard); !known {
			out.Status = invoke.NotThere
		}
		s.tend()
		answer(appendOutcome(nil, &out))
	case r.Past():
		answer((&client.Answer{Said: client.Else, Text: []byte("simulated objects do not answer about the past")}).AppendTo(nil))
	case r.Ask == client.Watch:
		w, err := parseWatch(ripc.Message{}, r.Rest)
		if err != nil {
			return err
		}
		if said, none := d.watched(&w); !none {
			answer(said)
			return nil
		}
		s.host.Later(func() {
			said, _ := d.watched(&w)
			answer(said)
		})
	case relay.Confirms(r):
		s.host.Confirm(func(err error) { s.read(d, request, stay, err, answer) })
	case r.Ask == client.Query || r.Ask == client.Now:
		s.read(d, request, stay, nil, answer)
	default:
		return client.ErrMalformed
	}
	return nil
}

// order sends the record of a request.
func (s *simulatedCopy) order(d *desk, r *client.Request, answer func([]byte)) (err error) {
	h := machine.Header{Shard: d.shard}
	if r.Ask == client.Command || r.Ask == client.Forward {
		n, ok := s.o.numbers[string(r.Name)]
		if !ok {
			return errors.New("the operation is not enabled yet")
		}
		h.Operation = n
	}
	p, f := invoke.Pending(answeredTo(answer)), (*flight)(nil)
	if r.Ask == client.Forward {
		view, _ := s.host.View()
		if f = s.o.flights.join(originOf(r, view), p); f == nil {
			return nil
		}
		p = f
	}
	var under int
	if h.Call, under, err = s.o.calls.add(p, nil); err == nil {
		s.post(relay.AppendRecord(nil, r, h), posted{call: h.Call}, under)
	} else if f != nil && !f.unsent(err) {
		err = nil // a later request has it
	}
	return err
}

// Call implements simulate.Copy.
func (s *simulatedCopy) Call(name string, args []byte, done func(executed, not bool)) (call uint64, ok bool) {
	o, stay := s.o, s.o.stay.Load()
	n, enabled := o.numbers[name]
	if s.host == nil || !enabled || o.sharded() && stay.number() == 0 || !o.has(stay) {
		return 0, false
	}
	call, under, err := o.calls.add(ownCall(done), stay)
	if err != nil {
		return 0, false
	}
	s.post(append(machine.AppendCommand(nil, machine.Header{Operation: n, Call: call, Shard: stay.number()}), args...), posted{call, stay}, under)
	return call, true
}

// ownCall is a command of the process.
type ownCall func(executed, not bool)

func (c ownCall) Complete(o *invoke.Outcome) {
	executed := o.Err == nil && (o.Status == invoke.Done || o.Status == invoke.Failed)
	c(executed, o.Err == nil && !executed)
}
func (c ownCall) Signal()  {}
func (ownCall) Typed() any { return nil }

// Shard implements simulate.Copy.
func (s *simulatedCopy) Shard() int { return s.o.machine.Shard() }

// Forwards implements simulate.Copy. The first member of a shard hands over.
func (s *simulatedCopy) Forwards() (all []simulate.Forward) {
	o, stay := s.o, s.o.stay.Load()
	if s.host == nil || stay.number() == 0 || !o.has(stay) {
		return nil
	}
	if _, _, members := s.shard(); members[0].Node != s.host.ID() {
		return nil
	}
	if s.relaying != stay {
		s.relaying, s.ways = stay, map[string]*relay.Way{}
	}
	source := client.ShardName(o.sg.Name, stay.shard-1)
	for _, to := range o.machine.Destinations(nil) {
		_, shard := client.CutShard(to.Name)
		if to.Kind != machine.ToObject || shard == 0 {
			continue
		}
		w := s.ways[to.Name]
		if w == nil {
			w = &relay.Way{}
			s.ways[to.Name] = w
		}
		_ = w.Restart()
		for _, next := range w.Next(&o.machine, to, atOnceSimulated) {
			r := forwarding((&desk{object: o, shard: shard}).id(), source, w.Before(), &next, s.host.Secret)
			c := next.Cursor
			all = append(all, simulate.Forward{From: stay.shard, To: shard, Request: r.AppendTo(nil), Name: to.Name, At: [3]uint64{c.View, c.Seq, c.Index}, Attempt: w.Attempt()})
			w.Sent(c)
		}
	}
	return all
}

// atOnceSimulated is how many items are sent at a time to one destination.
const atOnceSimulated = 4

// Handed implements simulate.Copy. A member that has gone to another shard meanwhile sends a record
// there which that shard refuses.
func (s *simulatedCopy) Handed(f simulate.Forward, answer []byte) {
	stay, w := s.o.stay.Load(), s.ways[f.Name]
	if s.relaying != stay || w == nil {
		return
	}
	a, err := client.ParseAnswer(answer)
	if err != nil || a.Said != client.Done && a.Said != client.Failed {
		w.Lose(f.Attempt, errEarly)
		return
	}
	w.Confirm(invoke.Cursor{View: f.At[0], Seq: f.At[1], Index: f.At[2]})
	if stay.number() != 0 && s.o.has(stay) {
		to := machine.Destination{Kind: machine.ToObject, Name: f.Name}
		s.host.Send(machine.AppendHanded(nil, machine.Header{Time: s.host.Wall(), Shard: f.From}, to, w.Confirmed()))
	}
}

// read answers what may be answered now: err is that of the confirmation, which counts for a stay.
func (s *simulatedCopy) read(d *desk, request []byte, stay *stay, err error, answer func([]byte)) {
	var b []byte
	r, _ := client.Parse(request)
	switch {
	case err != nil:
	case r.Ask == client.Now:
		b, err = d.latest(nil, stay)
	default:
		b, err = d.query(nil, "", &r, stay)
	}
	if err != nil {
		b = appendError(nil, err)
	}
	answer(b)
}

// answeredTo is a request whose record is in the order.
type answeredTo func([]byte)

func (a answeredTo) Complete(o *invoke.Outcome) { a(appendOutcome(nil, o)) }
func (a answeredTo) Signal()                    {}
func (answeredTo) Typed() any                   { return nil }

// Time implements simulate.Copy.
func (s *simulatedCopy) Time() uint64 { return s.o.machine.Time() }

// Executed implements simulate.Copy.
func (s *simulatedCopy) Executed() uint64 { return s.o.machine.Executed() }

// Failed implements simulate.Copy.
func (s *simulatedCopy) Failed() error { return s.o.failed }

// State implements simulate.Copy.
func (s *simulatedCopy) State() any { return s.o.state }

// model executes operations of an object that is in no group.
type model struct{ o *object }

// Reset implements simulate.Model.
func (m *model) Reset() string {
	m.o.reset()
	return m.encode()
}

func (m *model) encode() string {
	write, err := m.o.capture()
	var b bytes.Buffer
	if err == nil {
		err = write(&b)
	}
	if err != nil {
		panic(fmt.Errorf("replicated: object %q: encoding the state: %w", m.o.sg.Name, err))
	}
	return b.String()
}

// Execute implements simulate.Model.
func (m *model) Execute(state, name string, args []byte, at simulate.At) (reply []byte, failed bool, next string) {
	o := m.o
	o.reset()
	if err := o.restore(bytes.NewReader([]byte(state))); err != nil {
		panic(fmt.Errorf("replicated: object %q: decoding the state: %w", o.sg.Name, err))
	}
	c := Context{
		Version: squall.Version{View: squall.ViewID(at.View), Seq: squall.Seq(at.Seq)}, Index: at.Index, Time: squall.Time(at.Time),
		Caller: Caller{Member: squall.NodeID(at.Member), Session: at.Session}, object: o.sg.Name,
		send: func(machine.Destination, string, []byte) error { return nil }, // it is executed elsewhere
	}
	b := o.bound[name]
	if b.query {
		reply, err := b.answer(o.state, &c, args, nil)
		if err != nil {
			return []byte(err.Error()), true, state
		}
		return reply, false, state
	}
	reply, _, failed = b.execute(o.state, &c, args, nil, nil, true)
	return reply, failed, m.encode()
}
