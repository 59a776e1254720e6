package replicated

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/internal/machine"
	"github.com/squall-go/squall/replicated/internal/relay"
	"github.com/squall-go/squall/replicated/internal/seam"
)

// What package squalltest needs: objects and clients that are performed in virtual time, on one goroutine. What they decide, and
// what they execute, is what members and clients of a group do.

func init() {
	seam.NewCopy = func(x any) (seam.Copy, error) {
		o := x.(AnyObject).core()
		_, err := o.declaration()
		return &simulatedCopy{o: o}, err
	}
	seam.NewModel = func(x any) seam.Model { return &model{x.(AnyObject).core()} }
	seam.NewClient = func(object string, members int, sessionTimeout, memberTimeout time.Duration, c seam.Carrier) seam.Client {
		return &simulatedClient{carrier: c, members: client.NewMembers(members, memberTimeout), name: object, timeout: sessionTimeout}
	}
	seam.Declared = func(x any) (seam.Declaration, error) {
		sg, err := x.(AnyObject).core().declaration()
		return seam.Declaration{Name: sg.Name, Persistent: sg.Mode == squall.Persistent, AfterPersist: sg.Log.DeliverAfterPersist}, err
	}
}

// simulatedCopy is an object whose process is simulated.
type simulatedCopy struct {
	o         *object
	host      seam.Host
	announced uint64 // the view in which the operations were announced last
}

// Join implements seam.Copy.
func (s *simulatedCopy) Join(h seam.Host, random func() uint32) {
	s.host = h
	s.o.calls.table.Lap = random
	s.o.self.Store(h.ID())
}

// Leave implements seam.Copy.
func (s *simulatedCopy) Leave(reason error) { s.o.calls.giveUp(reason) }

// Deliver implements seam.Copy.
func (s *simulatedCopy) Deliver(view, seq, sender, time uint64, data []byte, replayed bool) {
	o := s.o
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
func (s *simulatedCopy) Restore(image []byte) error { return s.o.restored(bytes.NewReader(image)) }

// Tend implements seam.Copy.
func (s *simulatedCopy) Tend() {
	if s.host == nil {
		return
	}
	view, nodes, incarnations := s.host.View()
	var members []machine.Peer
	for i, n := range nodes {
		members = append(members, machine.Peer{Node: n, Incarnation: incarnations[i]})
	}
	self, ok := find(members, s.host.ID())
	if !ok {
		return
	}
	h := machine.Header{Time: s.host.Wall()}
	record, announces := s.o.machine.Due(h, self, members, view, s.o.names, s.announced == view)
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
func (s *simulatedCopy) Take(request []byte, answer func([]byte)) {
	o := s.o
	r, err := relay.Parse(request)
	switch {
	case err != nil:
	case r.Ordered():
		h := machine.Header{Time: s.host.Wall()}
		if r.Ask == askCommand {
			n, ok := o.numbers[string(r.Name)]
			if !ok {
				err = errors.New("the operation is not enabled yet")
				break
			}
			h.Operation = n
		}
		if h.Call, err = o.calls.put(answeredTo(answer)); err == nil {
			s.host.Send(r.AppendRecord(nil, h))
		}
	case r.Ask == askTouch:
		out := outcome{}
		if known, _ := o.touch(r.Session, 0); !known {
			out.status = machine.NotThere
		}
		s.Tend()
		answer(appendOutcome(nil, &out))
	case r.Past():
		answer((&relay.Answer{Said: saidElse, Text: []byte("simulated objects do not answer about the past")}).AppendTo(nil))
	case r.Ask == askQuery && consistency(r.Consistency) == linearizable:
		request := bytes.Clone(request)
		s.host.Confirm(func(err error) { s.query(request, err, answer) })
	case r.Ask == askQuery:
		s.query(request, nil, answer)
	default:
		err = relay.ErrMalformed
	}
	if err != nil {
		answer(appendError(nil, err))
	}
}

// query answers a query that may be answered now.
func (s *simulatedCopy) query(request []byte, err error, answer func([]byte)) {
	r, _ := relay.Parse(request)
	b, err := (&desk{object: s.o}).query(nil, "", &r, func() error { return err })
	if err != nil {
		b = appendError(nil, err)
	}
	answer(b)
}

// answeredTo is a request whose record is in the order.
type answeredTo func([]byte)

func (a answeredTo) complete(o outcome) { a(appendOutcome(nil, &o)) }
func (a answeredTo) signal()            {}
func (a answeredTo) repeatable() bool   { return true }

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
		Version: squall.Version{View: squall.ViewID(at.View), Seq: squall.Seq(at.Seq)}, Time: squall.Time(at.Time),
		Caller: Caller{Member: squall.NodeID(at.Member), Session: at.Session}, object: o.sg.Name,
	}
	b := o.bound[name]
	if b.query {
		reply, err := b.answer(o.state, &c, args, nil)
		if err != nil {
			return []byte(err.Error()), true, state
		}
		return reply, false, state
	}
	reply, _, failed = b.execute(o.state, &c, args, nil, nil)
	return reply, failed, m.encode()
}

// simulatedClient is a client whose carrier is simulated.
type simulatedClient struct {
	carrier seam.Carrier
	members client.Members
	name    string
	timeout time.Duration
	object  *RemoteObject
}

// Object implements seam.Client.
func (c *simulatedClient) Object(token [16]byte) any {
	if c.object == nil {
		c.object = &RemoteObject{client: c, name: c.name, timeout: c.timeout}
		c.object.session.Session = client.NewSession(c.timeout, token)
		c.object.newToken = func() machine.Token { // the simulator's clients do not guess
			token[0]++
			return token
		}
	}
	return c.object
}

// Late implements seam.Client.
func (c *simulatedClient) Late() (idle bool) {
	if link, late := c.members.Late(c.carrier.Now()); late {
		c.carrier.Dropped(link)
	}
	return c.object.idle()
}

// Touch implements seam.Client.
func (c *simulatedClient) Touch() { c.object.touch(context.Background()) }

func (c *simulatedClient) now() time.Time { return c.carrier.Now() }

// ask implements asker.
func (c *simulatedClient) ask(_ context.Context, _ *RemoteObject, f func(answer []byte) error, parts ...[]byte) (err error) {
	request := bytes.Join(parts, nil)
	call, began := c.carrier.Ask(request), c.carrier.Now()
	var last []byte
	defer func() { c.carrier.Asked(call, last, err) }()
	for attempt := 1; ; attempt++ {
		l := c.members.Begin(c.carrier.Now())
		err := c.carrier.Call(l.Number, l.Member, request, func(answer []byte) { last = answer })
		if err == nil {
			err = f(last)
		} else {
			err = fmt.Errorf("%w: %w", errAway, err)
		}
		away := errors.Is(err, errAway)
		if c.members.End(l, c.carrier.Now(), away) {
			c.carrier.Dropped(l.Number)
		}
		if !away {
			return err
		}
		if over := c.carrier.Over(began); over != nil {
			return fmt.Errorf("replicated: %w: %w: the last answer was: %w", ErrUnreachable, over, err)
		}
		if pause := c.members.Pause(attempt); pause > 0 {
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

// memberTimeout implements asker.
func (c *simulatedClient) memberTimeout() time.Duration { return c.timeout }

var errGo = errors.New("replicated: a simulated client calls Go: use Client.Go of package squalltest")

// shards implements asker.
func (c *simulatedClient) shards(context.Context, *RemoteObject) (int, error) { return 1, nil }

// shard implements asker.
func (c *simulatedClient) shard(of *RemoteObject, _ int) *RemoteObject { return of }

// spawn implements asker.
func (c *simulatedClient) spawn(func()) error { return errGo }
