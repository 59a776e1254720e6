package replicated

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated/internal/batch"
	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/internal/machine"
	"github.com/squall-go/squall/replicated/internal/relay"
	"github.com/squall-go/squall/replicated/internal/seam"
	"github.com/squall-go/squall/ripc"
)

// What package squalltest needs: objects and clients that are performed in virtual time, on one goroutine. What they decide, and
// what they execute, is what members and clients of a group do.

func init() {
	seam.NewCopy = func(x any) (seam.Copy, error) {
		o := x.(AnyObject).core()
		_, err := o.declaration()
		o.together = []*object{o}
		return &simulatedCopy{o: o}, err
	}
	seam.NewModel = func(x any) seam.Model { return &model{x.(AnyObject).core()} }
	seam.NewClient = func(object string, places []string, shards int, sessionTimeout, memberTimeout time.Duration, c seam.Carrier) seam.Client {
		any := client.NewRoute(places, memberTimeout)
		return &simulatedClient{carrier: c, routes: map[int]*client.Route{0: &any}, sharded: shards, name: object, timeout: sessionTimeout, patient: memberTimeout}
	}
	seam.Declared = func(x any) (seam.Declaration, error) {
		sg, err := x.(AnyObject).core().declaration()
		return seam.Declaration{Name: sg.Name, Persistent: sg.Mode == squall.Persistent, AfterPersist: sg.Log.DeliverAfterPersist, Shards: max(1, sg.Shards)}, err
	}
}

// simulatedCopy is an object whose process is simulated.
type simulatedCopy struct {
	o         *object
	host      seam.Host
	announced uint64                            // the view in which the operations were announced last
	apart     map[*batch.Waiting[posted]][]byte // records that do not fit into a message with others, by their barriers
	relaying  *stay                             // in which ways were begun
	ways      map[string]*relay.Way             // by the names of destinations
}

// Join implements seam.Copy.
func (s *simulatedCopy) Join(h seam.Host, random func() uint32) {
	s.host, s.apart = h, map[*batch.Waiting[posted]][]byte{}
	s.o.calls.table.Lap = random
	s.o.sending.batch.Limit(minSimulated + int(random()%maxSimulated))
	s.o.self.Store(h.ID())
}

// How many bytes of records share a message in a simulated process: from less than one of them to more than all that wait.
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

// Leave implements seam.Copy.
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

// Installed implements seam.Copy.
func (s *simulatedCopy) Installed() {
	o := s.o
	if _, shard, _ := s.shard(); o.sharded() {
		if from := o.moved(shard); from.number() != 0 {
			from.close()
			o.turnAway()
			s.settle(from)
		}
	}
	s.Tend()
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
		s.o.calls.take(number).complete(&outcome{err: squall.ErrNotSender})
		return
	}
	s.post(machine.AppendTouch(nil, machine.Header{Call: number, Shard: now.number()}, nil), posted{call: number}, under)
}

// passed is called when a record has passed the order, or cannot.
type passed func(error)

func (p passed) complete(o *outcome) { p(o.err) }
func (p passed) signal()             {}
func (p passed) repeatable() bool    { return true }

// Deliver implements seam.Copy.
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
		s.Tend()
	default:
	}
	if s.o.failed != nil && s.host != nil {
		s.host.Halt(s.o.failed)
	}
}

// Snapshot implements seam.Copy.
func (s *simulatedCopy) Snapshot() ([]byte, error) {
	var b bytes.Buffer
	err := s.o.snapshot()(&b)
	return b.Bytes(), err
}

// Restore implements seam.Copy.
func (s *simulatedCopy) Restore(image []byte) error {
	err := s.o.restored(bytes.NewReader(image))
	s.Tend()
	return err
}

// Tend implements seam.Copy.
func (s *simulatedCopy) Tend() {
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

// Take implements seam.Copy.
func (s *simulatedCopy) Take(shard int, request []byte, answer func([]byte)) {
	d := &desk{object: s.o, shard: shard, most: maxWatched}
	r, err := relay.Parse(request)
	switch {
	case err != nil:
	case r.Ask == askLocate:
		answer(s.locate())
		return
	default:
		if err = d.here(); err == nil && r.Ask == askForward && !d.vouched(&r, s.vouches) {
			err = errMalformed
		}
	}
	if err == nil {
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
	l := located{Shards: max(1, s.o.sg.Shards), Addresses: make([][]string, len(shards))}
	for i, all := range shards {
		for _, m := range all {
			l.Addresses[i] = append(l.Addresses[i], m.Place)
		}
	}
	data, err := cborOut.Marshal(l)
	if err != nil {
		return appendError(nil, err)
	}
	return (&relay.Answer{Said: saidDone, Text: data}).AppendTo(nil)
}

// serve does what a request asks for.
func (s *simulatedCopy) serve(d *desk, r *relay.Request, request []byte, answer func([]byte)) (err error) {
	o, stay := s.o, s.o.stay.Load()
	switch {
	case r.Ordered():
		h := machine.Header{Shard: d.shard}
		if r.Ask == askCommand || r.Ask == askForward {
			n, ok := o.numbers[string(r.Name)]
			if !ok {
				return errors.New("the operation is not enabled yet")
			}
			h.Operation = n
		}
		var under int
		if h.Call, under, err = o.calls.add(answeredTo(answer), nil); err == nil {
			s.post(r.AppendRecord(nil, h), posted{call: h.Call}, under)
		}
		return err
	case r.Ask == askTouch:
		out := outcome{}
		if known, _ := o.touch(r.Session, d.shard); !known {
			out.status = machine.NotThere
		}
		s.Tend()
		answer(appendOutcome(nil, &out))
	case r.Past():
		answer((&relay.Answer{Said: saidElse, Text: []byte("simulated objects do not answer about the past")}).AppendTo(nil))
	case r.Ask == askWatch:
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
	case r.Confirms():
		s.host.Confirm(func(err error) { s.read(d, request, stay, err, answer) })
	case r.Ask == askQuery || r.Ask == askNow:
		s.read(d, request, stay, nil, answer)
	default:
		return relay.ErrMalformed
	}
	return nil
}

// Call implements seam.Copy.
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

func (c ownCall) complete(o *outcome) {
	executed := o.err == nil && (o.status == machine.Done || o.status == machine.Failed)
	c(executed, o.err == nil && !executed)
}
func (c ownCall) signal()          {}
func (c ownCall) repeatable() bool { return false }

// Shard implements seam.Copy.
func (s *simulatedCopy) Shard() int { return s.o.machine.Shard() }

// Forwards implements seam.Copy. The first member of a shard hands over.
func (s *simulatedCopy) Forwards() (all []seam.Forward) {
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
	source := shardName(o.sg.Name, stay.shard-1)
	for _, to := range o.machine.Destinations(nil) {
		_, shard := cutShard(to.Name)
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
			all = append(all, seam.Forward{From: stay.shard, To: shard, Request: r.AppendTo(nil), Name: to.Name, At: [3]uint64{c.View, c.Seq, c.Index}, Attempt: w.Attempt()})
			w.Sent(c)
		}
	}
	return all
}

// atOnceSimulated is how many items are sent at a time to one destination.
const atOnceSimulated = 4

// Handed implements seam.Copy. A member that has gone to another shard meanwhile sends a record there which that shard refuses.
func (s *simulatedCopy) Handed(f seam.Forward, answer []byte) {
	stay, w := s.o.stay.Load(), s.ways[f.Name]
	if s.relaying != stay || w == nil {
		return
	}
	a, err := relay.ParseAnswer(answer)
	if err != nil || a.Said != saidDone && a.Said != saidFailed {
		w.Lose(f.Attempt, errEarly)
		return
	}
	w.Confirm(machine.Cursor{View: f.At[0], Seq: f.At[1], Index: f.At[2]})
	if stay.number() != 0 && s.o.has(stay) {
		to := machine.Destination{Kind: machine.ToObject, Name: f.Name}
		s.host.Send(machine.AppendHanded(nil, machine.Header{Time: s.host.Wall(), Shard: f.From}, to, w.Confirmed()))
	}
}

// read answers what may be answered now: err is that of the confirmation, which counts for a stay.
func (s *simulatedCopy) read(d *desk, request []byte, stay *stay, err error, answer func([]byte)) {
	var b []byte
	r, _ := relay.Parse(request)
	switch {
	case err != nil:
	case r.Ask == askNow:
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

func (a answeredTo) complete(o *outcome) { a(appendOutcome(nil, o)) }
func (a answeredTo) signal()             {}
func (a answeredTo) repeatable() bool    { return true }

// Time implements seam.Copy.
func (s *simulatedCopy) Time() uint64 { return s.o.machine.Time() }

// Executed implements seam.Copy.
func (s *simulatedCopy) Executed() uint64 { return s.o.machine.Executed() }

// Failed implements seam.Copy.
func (s *simulatedCopy) Failed() error { return s.o.failed }

// State implements seam.Copy.
func (s *simulatedCopy) State() any { return s.o.state }

// model executes operations of an object that is in no group.
type model struct{ o *object }

// Reset implements seam.Model.
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

// Execute implements seam.Model.
func (m *model) Execute(state, name string, args []byte, at seam.At) (reply []byte, failed bool, next string) {
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

// simulatedClient is a client whose carrier is simulated.
type simulatedClient struct {
	carrier seam.Carrier
	routes  map[int]*client.Route // by 1 + the number of a shard; 0: to any member
	sharded int                   // in how many shards the object is, at least 1
	name    string
	timeout time.Duration // of a session
	patient time.Duration // for which a member may leave a request without an answer
	objects []*RemoteObject
}

// Object implements seam.Client.
func (c *simulatedClient) Object(token [16]byte) any {
	if len(c.objects) == 0 {
		c.add(&RemoteObject{client: c, name: c.name}, token)
	}
	return c.objects[0]
}

func (c *simulatedClient) add(o *RemoteObject, token machine.Token) *RemoteObject {
	c.objects = append(c.objects, o)
	o.timeout = c.timeout
	o.session.Session = client.NewSession(c.timeout, token)
	o.newToken = func() machine.Token { // the simulator's clients do not guess
		token[0]++
		return token
	}
	return o
}

// number is 1 + the number of a shard, or 0.
func (o *RemoteObject) number() int {
	if o.whole == nil {
		return 0
	}
	return 1 + o.shard
}

// Late implements seam.Client.
func (c *simulatedClient) Late() (touch []func()) {
	for shard := range 1 + c.sharded {
		if r := c.routes[shard]; r != nil {
			if link, late := r.Late(c.carrier.Now()); late {
				r.Failed()
				c.carrier.Dropped(shard, link)
			}
		}
	}
	for _, o := range c.objects {
		if o.idle() {
			touch = append(touch, func() { o.touch(context.Background()) })
		}
	}
	return touch
}

func (c *simulatedClient) now() time.Time { return c.carrier.Now() }

// ask implements asker.
func (c *simulatedClient) ask(ctx context.Context, o *RemoteObject, f func(answer []byte) error, parts ...[]byte) (err error) {
	request, shard := bytes.Join(parts, nil), o.number()
	call, began := c.carrier.Ask(shard, request), c.carrier.Now()
	var last []byte
	defer func() { c.carrier.Asked(call, last, err) }()
	for attempt := 1; ; attempt++ {
		r := c.routes[shard]
		if o.whole != nil && r.Stale() {
			l, err := o.whole.located(ctx)
			if err != nil {
				return err
			}
			ok, dropped := r.Found(l.Addresses[o.shard], c.carrier.Pick)
			if over := c.carrier.Over(began); !ok && over != nil {
				return fmt.Errorf("replicated: %w: %w", ErrUnreachable, over)
			}
			if !ok {
				c.carrier.Sleep(locatePause)
				continue
			}
			if dropped {
				c.carrier.Dropped(shard, 0)
			}
		}
		l := r.Begin(c.carrier.Now(), attempt)
		err := c.carrier.Call(shard, l.Number, r.Place(), request, func(answer []byte) { last = answer })
		if err == nil {
			err = f(last)
		} else {
			err = fmt.Errorf("%w: %w", errAway, err)
		}
		away := errors.Is(err, errAway)
		if r.End(l, away) {
			r.Failed()
			c.carrier.Dropped(shard, l.Number)
		}
		if !away {
			return err
		}
		if over := c.carrier.Over(began); over != nil {
			return fmt.Errorf("replicated: %w: %w: the last answer was: %w", ErrUnreachable, over, err)
		}
		if pause := r.Pause(attempt); pause > 0 {
			c.carrier.Sleep(pause)
		}
	}
}

// wait implements asker. No other goroutine runs while the lock is given up.
func (c *simulatedClient) wait(_ context.Context, o *RemoteObject) {
	o.unlocked(c.carrier.Wait)
}

// changed implements asker.
func (c *simulatedClient) changed(*RemoteObject) { c.carrier.Changed() }

// rest implements asker.
func (c *simulatedClient) rest(_ context.Context, d time.Duration) { c.carrier.Sleep(d) }

// memberTimeout implements asker.
func (c *simulatedClient) memberTimeout() time.Duration { return c.patient }

var errGo = errors.New("replicated: a simulated client calls Go: use Client.Go of package squalltest")

// shards implements asker.
func (c *simulatedClient) shards(context.Context, *RemoteObject) (int, error) { return c.sharded, nil }

// shard implements asker.
func (c *simulatedClient) shard(of *RemoteObject, n int) *RemoteObject {
	if c.sharded == 1 {
		return of
	}
	for _, o := range c.objects {
		if o.whole == of && o.shard == n {
			return o
		}
	}
	r := client.NewRoute(nil, c.patient)
	c.routes[1+n] = &r
	token := of.session.Token()
	token[5] = byte(1 + n)
	return c.add(&RemoteObject{client: c, name: shardName(of.name, n), whole: of, shard: n}, token)
}

// event implements asker.
func (c *simulatedClient) event(ClientEvent) {}

// spawn implements asker.
func (c *simulatedClient) spawn(func()) error { return errGo }
