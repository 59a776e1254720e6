package member

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/replicated/internal/machine"
	"github.com/squall-go/squall/replicated/internal/relay"
	"github.com/squall-go/squall/ripc"
)

// Server serves a member's objects to clients.
type Server struct {
	endpoint *ripc.Endpoint
	withdraw func() error
	cancel   context.CancelFunc
	objects  []*object
	answers  answers
	others   []otherShards // call the shards that this member is not in, by cluster
	done     sync.WaitGroup
	close    sync.Once
	err      error // of Close
}

// ServerConfig says how a member serves clients.
type ServerConfig struct {
	// Endpoint has the address on which the member listens for clients, and which it must have, its
	// TLS certificates, secret and limits. Its Resolver is not used. With TLS clients on this host
	// come by TCP, too, so that all show their certificates. MaxBytes and MaxPeerBytes of Long bound
	// the requests to each object that are larger than a message of Endpoint; of 256 MiB one client
	// may have half.
	Endpoint ripc.Config
	// Authorize decides whether a client may do something, before anything is ordered for it: it
	// returns nil, or the reason why not, which the client gets in an *AccessError. Nil: each client
	// may do everything. It is called on several goroutines, and does not wait. All members should
	// decide alike.
	Authorize func(Access) error
	// MaxAnswerBytes bounds the answers to one client that are larger than a message of Endpoint, and
	// that the client has not taken; each counts for 64 KiB at least. Further requests of that client
	// wait until half of them are taken. Clients are counted as for Endpoint.MaxPeersPerClient. 0 is
	// DefaultMaxAnswerBytes.
	MaxAnswerBytes int
}

// maxRequests bounds the requests to an object that are no short messages and were not answered, if
// Endpoint.Long does not: 256 MiB.
const maxRequests = 256 << 20

// Serve serves objects of an open group to clients, until the server is closed or the group halts.
// A process may serve an object at several endpoints, with a Server for each, which bound what
// clients may have each for itself. Objects in shards have one Server in a process; a second one is
// an error.
func Serve(ctx context.Context, server ServerConfig, objects ...AnyObject) (*Server, error) {
	if server.MaxAnswerBytes < 0 {
		return nil, fmt.Errorf("replicated: serving: MaxAnswerBytes is %d: it must not be less than 0", server.MaxAnswerBytes)
	}
	cfg := server.Endpoint
	cfg.Resolver = ripc.Static{}
	cfg.Long = ripc.LongConfig{MaxBytes: cmp.Or(cfg.Long.MaxBytes, maxRequests), MaxPeerBytes: cfg.Long.MaxPeerBytes} // never in place
	e, err := ripc.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if e.Addr() == "" { // the name on this host would be that of every such server
		return nil, errors.Join(errors.New("replicated: serving: no client would find this server: set Endpoint.Listen, with a Transport other than SHM"), e.Close())
	}
	serving, cancel := context.WithCancel(context.Background())
	s := &Server{endpoint: e, cancel: cancel}
	s.answers.most, s.answers.done, s.answers.parties = cmp.Or(server.MaxAnswerBytes, DefaultMaxAnswerBytes), &s.done, map[string]*party{}
	s.answers.mostWorking, s.answers.mostWorkingEach = maxWorking, maxWorkingPerParty
	g := guide{answers: &s.answers}
	for _, x := range objects {
		if err == nil {
			err = s.serve(ctx, serving, x.core(), &server, &g)
		}
	}
	if err == nil {
		err = g.serve(ctx, serving, e, &s.done)
	}
	if err == nil && cfg.TLS == nil {
		// Without a socket for this host, clients here come by TCP.
		s.withdraw, _ = ripc.OneHost("").Publish(ctx, ripc.ID(client.Presence(e.Addr())), e.Place())
	}
	if err == nil {
		err = s.serveShards(ctx, cfg)
	}
	if err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("replicated: serving: %w", err)
	}
	return s, nil
}

// serve serves an object: with a desk, and another one for each of its shards.
func (s *Server) serve(ctx, serving context.Context, o *object, cfg *ServerConfig, g *guide) error {
	if err := o.ready(); err != nil {
		return err
	}
	s.objects = append(s.objects, o)
	desks := 1
	if o.sharded() {
		desks += o.sg.Shards
	}
	for shard := range desks {
		d := &desk{object: o, shard: shard, group: o.group.View().Group, serving: serving, answers: &s.answers}
		svc, err := s.endpoint.Register(ctx, d.id())
		if err != nil {
			return err
		}
		svc.CopyMessages() // a client can change a request between the check of its access and its execution
		d.service, d.authorize, d.done = svc, cfg.Authorize, &s.done
		d.most = max(cfg.Endpoint.RingBytes, ripc.DefaultRingBytes)/4 - client.AnswerHead - client.EventBytes
		d.queries.wake = wait.NewBell()
		if shard == 0 {
			g.desks = append(g.desks, d)
		}
		s.done.Go(d.receive)
		s.done.Go(func() { d.read(serving) })
		s.done.Go(func() { // a member that halted is no use to clients
			select {
			case <-o.group.Done():
				_ = svc.Close()
			case <-serving.Done():
			}
		})
	}
	return nil
}

// Addr returns the host:port at which clients reach this member.
func (s *Server) Addr() string { return s.endpoint.Addr() }

// Close ends the service. Clients go on with other members.
func (s *Server) Close() error {
	s.close.Do(func() {
		s.endShards()
		s.answers.close()
		s.cancel()
		if s.withdraw != nil {
			s.err = s.withdraw()
		}
		s.err = errors.Join(s.err, s.endpoint.Close())
		s.done.Wait()
	})
	return s.err
}

// desk is where clients of one object are served.
type desk struct {
	object  *object
	shard   int    // 1 + its number; 0: of an object without shards, or of one in shards what all have in common
	group   string // the identity of the object's group
	service *ripc.Service
	most    int // bytes of events in one answer

	authorize func(Access) error
	answers   *answers        // of the server
	serving   context.Context // until the server is closed
	done      *sync.WaitGroup // of the server

	queries struct {
		sync.Mutex
		waiting []ripc.Message
		wake    wait.Bell
	}
}

// receive takes requests until the server or the service ends.
func (d *desk) receive() {
	var m ripc.Message // one for all requests: it is on the heap
	for {
		var err error
		if m, err = d.service.Receive(d.serving); err != nil {
			return
		}
		d.accept(&m)
	}
}

// accept serves a request, now or when it is its turn.
func (d *desk) accept(m *ripc.Message) {
	if err := d.take(d.serving, m); err != nil {
		_ = m.Reply(appendError(nil, err))
	}
	m.Release() // does nothing where m was handed on
}

// requestOf returns the bytes of a request, which may be no short message.
func requestOf(m *ripc.Message) []byte {
	if m.BodySize() > 0 {
		return m.Body()
	}
	return m.Data
}

// take serves a request, or hands it on; then it leaves m empty.
func (d *desk) take(ctx context.Context, m *ripc.Message) error {
	r, err := client.Parse(requestOf(m))
	if err != nil || !m.IsRequest() || r.Ask == client.Describe || r.Ask == client.Enable || r.Ask == client.Group { // the guide answers these
		return client.ErrMalformed
	}
	if r.Ask == client.Locate {
		return d.locate(m)
	}
	if err := d.allow(m, &r); err != nil {
		return err
	}
	if err := d.here(); err != nil {
		return err
	}
	if isAnswered(r.Ask) && d.answers.wait(d, m) {
		return nil
	}
	if r.Ask == client.Forward && !d.vouched(&r, d.object.group.View().Secret.Verify) {
		return client.ErrMalformed
	}
	if said, done := d.executed(&r); done {
		return m.Reply(said)
	}
	if r.Session != 0 {
		known, err := d.owns(m, &r)
		if err != nil {
			return err
		}
		if known {
			return d.serve(ctx, m, &r)
		}
	} else if relay.Ordered(&r) {
		return d.serve(ctx, m, &r)
	}
	d.queue(m)
	return nil
}

// queue takes over a request that the goroutine of queries answers.
func (d *desk) queue(m *ripc.Message) {
	d.queries.Lock()
	d.queries.waiting = append(d.queries.waiting, *m)
	d.queries.Unlock()
	*m = ripc.Message{}
	d.queries.wake.Ring()
}

// serve relays a request, or notes that a session is in use.
func (d *desk) serve(ctx context.Context, m *ripc.Message, r *client.Request) error {
	if relay.Ordered(r) {
		return d.relay(ctx, m, r)
	}
	known, err := d.object.touch(r.Session, d.shard)
	if err != nil {
		return err
	}
	out := invoke.Outcome{}
	if !known {
		out.Status = invoke.NotThere
	}
	return m.Reply(appendOutcome(nil, &out))
}

// errNoneEnabled sends a client to another member, or back in a while, until an object that begins
// can execute commands.
var errNoneEnabled = errors.New("the members have not announced yet what they can execute")

// operation returns the number of a client's command. It does not wait: other clients would wait,
// too.
func (d *desk) operation(name []byte) (int, error) {
	o := d.object
	s, err := d.stay()
	if err != nil {
		return 0, err
	}
	if n, ok := o.enabledFor(s, string(name)); ok {
		return n, nil
	}
	o.mu.RLock()
	n, ok := o.numbers[string(name)]
	begun, failed, here := len(o.numbers) > 0, o.failed, d.has(s)
	o.mu.RUnlock()
	switch {
	case failed != nil:
		return 0, failed
	case ok && here:
		return n, nil
	case !here:
		return 0, o.elsewhere()
	}
	if b := o.bound[string(name)]; b == nil || b.query || begun {
		return 0, fmt.Errorf("replicated: object %q: %w %q: it is not enabled", o.sg.Name, replicated.ErrUnknownOperation, name)
	}
	return 0, fmt.Errorf("replicated: object %q: %w", o.sg.Name, errNoneEnabled)
}

// stay returns the stay of this process in the shard that is served.
func (d *desk) stay() (*stay, error) {
	if d.shard == 0 {
		return nil, nil
	}
	s := d.object.stay.Load()
	if s.number() != d.shard {
		return nil, d.object.elsewhere()
	}
	return s, nil
}

// has reports whether the copy of this process has been the copy of the served shard since a stay
// began. The object's lock is held.
func (d *desk) has(s *stay) bool {
	return d.shard == 0 || s.number() == d.shard && d.object.has(s)
}

// relayed is a request whose record is in the order.
type relayed struct {
	m       ripc.Message
	answers *answers
	answer  []byte
}

// account returns the party for whose sessions limits are counted together.
func account(m *ripc.Message) string {
	name := m.Account()
	return name[:min(len(name), machine.MaxIdentity)]
}

var relays = sync.Pool{New: func() any { return new(relayed) }}

// relay sends the record of a request. The client is answered when the record was applied.
func (d *desk) relay(ctx context.Context, m *ripc.Message, request *client.Request) (err error) {
	h := machine.Header{Shard: d.shard}
	if request.Ask == client.Command || request.Ask == client.Replies || request.Ask == client.Forward {
		if h.Operation, err = d.operation(request.Name); err != nil {
			return err
		}
	}
	if request.Ask == client.Replies {
		of, operation := *request, h.Operation // the goroutine has copies: those of a command stay on the stack
		d.answers.work(d, m, func(m *ripc.Message) { d.gatherFor(ctx, m, &of, operation) })
		return nil
	}
	request.Owner = invoke.Owner{Account: account(m), Identity: m.Identity()}
	if m.BodySize() > 0 { // its record waits for its place, and the requests of other clients do not wait for that
		of, header := *request, h
		d.answers.work(d, m, func(m *ripc.Message) {
			if err := d.order(ctx, m, &of, header); err != nil {
				_ = m.Reply(appendError(nil, err))
			}
			m.Release() // does nothing if it is in the order
		})
		return nil
	}
	return d.order(ctx, m, request, h)
}

// order sends the record of a request, and then leaves m empty.
func (d *desk) order(ctx context.Context, m *ripc.Message, request *client.Request, h machine.Header) error {
	o := d.object
	r := relays.Get().(*relayed)
	r.m, r.answers = *m, d.answers
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	*buf = relay.AppendRecord((*buf)[:0], request, h) // first: a move of this member, or a later request, may end the call at once, and with it the bytes of the request
	p, f := invoke.Pending(r), (*flight)(nil)
	if request.Ask == client.Forward {
		if f = o.flights.join(originOf(request, uint64(o.group.View().ID)), r); f == nil {
			*m = ripc.Message{}
			return nil
		}
		p = f
	}
	call, under, err := o.calls.add(p, nil)
	if err == nil {
		machine.SetCall(*buf, call)
		if err = o.post(ctx, *buf, nil, posted{call: call}, under <= few); err != nil && o.calls.take(call) == nil {
			err = nil // its outcome says why
		}
	}
	if err != nil && (f == nil || f.unsent(err)) {
		return err
	}
	*m = ripc.Message{}
	return nil
}

func (r *relayed) Complete(o *invoke.Outcome) { r.answer = appendOutcome(r.answer[:0], o) }

func (r *relayed) Signal() { r.reply(nil) }

// reply answers the request, together with others if that is not nil.
func (r *relayed) reply(together *ripc.Replies) {
	r.answers.reply(together, &r.m, r.answer)
	r.m = ripc.Message{}
	relays.Put(r)
}

// Typed implements invoke.Pending.
func (r *relayed) Typed() any { return nil }

// touches is the sessions that are to be kept from expiring.
type touches struct {
	mu       sync.Mutex
	sessions map[uint64]struct{}
}

// touch keeps a session of a shard from expiring, with the next record that does. It reports
// whether the session is there.
func (o *object) touch(session uint64, shard int) (there bool, err error) {
	o.mu.RLock()
	_, ok := o.machine.Identity(session)
	here := o.hasShard(shard)
	o.mu.RUnlock()
	if !here {
		return false, o.elsewhere()
	}
	if ok {
		o.touches.mu.Lock()
		o.touches.sessions[session] = struct{}{}
		o.touches.mu.Unlock()
		o.wake.Ring()
	}
	return ok, nil
}

// maxTouched bounds the sessions in one record: 1 KiB.
const maxTouched = 128

// takeTouched returns sessions that were touched.
func (o *object) takeTouched() (sessions []uint64) {
	o.touches.mu.Lock()
	defer o.touches.mu.Unlock()
	for s := range o.touches.sessions {
		if len(sessions) == maxTouched {
			break
		}
		sessions = append(sessions, s)
		delete(o.touches.sessions, s)
	}
	slices.Sort(sessions)
	return sessions
}

// read runs the queries of clients, and answers watchers. The queries that wait when it begins
// share one confirmation.
func (d *desk) read(ctx context.Context) {
	var batch []ripc.Message
	var watchers []watching
	for {
		d.object.mu.RLock()
		emitted := d.object.emitted
		d.object.mu.RUnlock()
		watchers = d.watch(watchers)
		var due <-chan time.Time
		if len(watchers) > 0 {
			due = time.After(watchTick)
		} else {
			emitted = nil
		}
		select {
		case <-d.queries.wake:
		case <-emitted:
			continue
		case <-due:
			continue
		case <-ctx.Done():
			return
		}
		d.queries.Lock()
		batch, d.queries.waiting = d.queries.waiting, batch[:0]
		d.queries.Unlock()
		watchers = d.answer(ctx, batch, watchers)
		clear(batch)
	}
}

// watchTick is how late a question for events may be answered when there are none.
const watchTick = 100 * time.Millisecond

// answer answers queries, and adds what asks for events to the watchers.
func (d *desk) answer(ctx context.Context, batch []ripc.Message, watchers []watching) []watching {
	s := d.object.stay.Load()
	confirm := sync.OnceValue(func() error { return d.object.confirm(ctx) })
	var answer []byte
	for _, m := range batch {
		var err error
		r, _ := client.Parse(requestOf(&m)) // it was parsed when it came
		switch r.Ask {
		case client.Watch:
			var w watching
			if w, err = parseWatch(m, r.Rest); err == nil {
				watchers = append(watchers, w)
				continue
			}
		case client.Now:
			if err = confirm(); err == nil {
				answer, err = d.latest(answer[:0], s)
			}
		case client.Query:
			if d.answers.wait(d, &m) {
				continue
			}
			if r.Past() {
				past := r
				d.answers.work(d, &m, func(m *ripc.Message) { d.answerPast(ctx, m, &past) })
				continue
			}
			if relay.Confirms(&r) {
				err = confirm()
			}
			if err == nil {
				answer, err = d.query(answer[:0], m.Identity(), &r, s)
			}
		default: // of a session that was not here yet
			known := false
			if err = confirm(); err == nil {
				known, err = d.owns(&m, &r)
			}
			if err == nil && !known { // if another client opens it now, it is not this one's
				err = replicated.ErrSessionEnded
			}
			if err == nil {
				err = d.serve(ctx, &m, &r)
			}
			if err == nil {
				m.Release() // does nothing where it was handed on
				continue
			}
		}
		if err != nil {
			answer = appendError(answer[:0], err)
		}
		d.answers.reply(nil, &m, answer)
	}
	return watchers
}

// latest answers where the events end. The confirmation, if there was one, counts for a stay.
func (d *desk) latest(b []byte, s *stay) ([]byte, error) {
	d.object.mu.RLock()
	defer d.object.mu.RUnlock()
	if !d.has(s) {
		return b, d.object.elsewhere()
	}
	b = append(append(b, byte(client.Done)), make([]byte, client.AnswerHead-1)...)
	return client.AppendCursor(b, d.object.machine.LastEvent()), nil
}

// query runs one query. The confirmation, if there was one, counts for a stay.
func (d *desk) query(b []byte, identity string, r *client.Request, s *stay) (_ []byte, err error) {
	o := d.object
	q := o.bound[string(r.Name)]
	if q == nil || !q.query {
		return b, fmt.Errorf("object %q: %w", o.sg.Name, replicated.ErrUnknownOperation)
	}
	o.mu.RLock()
	defer o.mu.RUnlock()
	if o.failed != nil {
		return b, o.failed
	}
	if !d.has(s) {
		return b, o.elsewhere()
	}
	c := o.reading()
	c.Caller = Caller{Member: squall.NodeID(o.self.Load()), Identity: identity}
	b = append(b, byte(client.Done))
	b = binary.LittleEndian.AppendUint64(b, uint64(c.Version.View))
	b = binary.LittleEndian.AppendUint64(b, uint64(c.Version.Seq))
	err = guarded(q.name, func() (err error) {
		o.look(func() { b, err = q.answer(o.state, &c, r.Args, b) })
		return err
	})
	return b, err
}

// guarded runs the handler of a query. The application's fault costs its caller the answer, and no
// other one.
func guarded(name string, f func() error) (err error) {
	defer func() {
		if what := recover(); what != nil {
			err = &replicated.HandlerError{Operation: name, Text: fmt.Sprintf("the handler panicked: %v", what)}
		}
	}()
	return f()
}
