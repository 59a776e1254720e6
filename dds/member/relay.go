package member

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/internal/core"
	"github.com/squall-go/squall/dds/internal/remote"
	"github.com/squall-go/squall/dds/internal/space"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/ripc"
)

// Defaults of RelayConfig.
const (
	DefaultTailBytes     = 16 << 20
	DefaultClientTimeout = 3 * time.Second
	DefaultClientGrace   = time.Second
)

// RelayConfig says how a member serves clients: processes outside of the group, which use its
// topics as if they were members.
type RelayConfig struct {
	// Member serves the clients.
	Member *Member
	// Endpoint has the address on which the member listens for clients, its TLS certificates, secret
	// and limits. Without a Resolver, clients find the relay by its address
	// (dds.ClientConfig.Addresses), which it must have; with one, by the id dds.RelayService
	// (dds.ClientConfig.Services), which the relay registers there. With TLS clients on this host come
	// by TCP, too, so that all show their certificates. RingBytes of 0 is 1 MiB here.
	Endpoint ripc.Config
	// TailBytes is the memory for the last changes of all topics, which clients' readers take at their
	// own pace and after they were without a relay. What a reader has not got when the tail drops it,
	// it gets from the history of the topic, or loses. 0 is DefaultTailBytes.
	TailBytes int
	// ClientTimeout is how long a client may be silent. 0 is DefaultClientTimeout.
	ClientTimeout time.Duration
	// ClientGrace is how long the writers and readers of a client are kept open that is gone without
	// having said so: it may be connecting to another relay. 0 is DefaultClientGrace.
	ClientGrace time.Duration
	// Logger records how connections of clients end. If it is nil, nothing is logged.
	Logger *slog.Logger
}

// Relay serves clients of a member's space.
type Relay struct {
	cfg      RelayConfig
	p        *backend
	cluster  string
	log      *slog.Logger
	endpoint *ripc.Endpoint
	listener *ripc.Listener
	withdraw func() error
	ctx      context.Context
	cancel   context.CancelFunc
	done     sync.WaitGroup
	close    sync.Once
	greeting atomic.Int32 // connections without a hello
	err      error        // of Close
}

// relayRingBytes is the default of the relay's endpoint: a relay has samples for all readers of a
// client (see the defaults of clients).
const relayRingBytes = 1 << 20

// Serve has a member serve clients, until the relay is closed or the member is no member any more.
// A member has one relay.
func Serve(ctx context.Context, cfg RelayConfig) (*Relay, error) {
	if cfg.Member == nil {
		return nil, fmt.Errorf("dds: serving clients: %w: only a member serves them", dds.ErrNotOpen)
	}
	cfg.TailBytes = cmp.Or(cfg.TailBytes, DefaultTailBytes)
	cfg.ClientTimeout, cfg.ClientGrace = cmp.Or(cfg.ClientTimeout, DefaultClientTimeout), cmp.Or(cfg.ClientGrace, DefaultClientGrace)
	if cfg.TailBytes < 0 || cfg.ClientTimeout < 0 || cfg.ClientGrace < 0 {
		return nil, errors.New("dds: serving clients: TailBytes, ClientTimeout and ClientGrace must not be negative")
	}
	p := cfg.Member.b
	r := &Relay{cfg: cfg, p: p, cluster: p.cfg.Group.Cluster, log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))}
	named := cfg.Endpoint.Resolver != nil
	if !named {
		cfg.Endpoint.Resolver = ripc.Static{}
	}
	cfg.Endpoint.RingBytes = cmp.Or(cfg.Endpoint.RingBytes, relayRingBytes)
	e, err := ripc.Open(ctx, cfg.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("dds: serving clients: %w", err)
	}
	if !named && e.Addr() == "" { // the name on this host would be that of every such relay
		return nil, errors.Join(errors.New("dds: serving clients: none would find this relay: set Endpoint.Listen with a Transport other than SHM, or Endpoint.Resolver"), e.Close())
	}
	r.endpoint = e
	r.ctx, r.cancel = context.WithCancel(context.Background())
	if err := r.attach(); err != nil {
		r.cancel()
		return nil, errors.Join(fmt.Errorf("dds: serving clients: %w", err), e.Close())
	}
	if err := r.listen(ctx, named); err != nil {
		return nil, errors.Join(fmt.Errorf("dds: serving clients: %w", err), r.Close())
	}
	return r, nil
}

// attach makes the relay that of its member.
func (r *Relay) attach() error {
	p := r.p
	p.Mu.Lock()
	defer p.Mu.Unlock()
	if p.clients != nil {
		return errors.New("the participant has a relay already")
	}
	p.clients = map[uint32]*attended{}
	p.Space.KeepTail(r.cfg.TailBytes)
	return nil
}

// listen begins to accept clients: at a service of this member's own name, or at the one that is
// found by its address.
func (r *Relay) listen(ctx context.Context, named bool) error {
	id := ripc.ID(core.Service(r.cluster, r.p.Name))
	if named {
		id = dds.RelayService(r.cluster, r.p.Name, r.p.group.ID())
	}
	svc, err := r.endpoint.Register(ctx, id)
	if err != nil {
		return err
	}
	r.listener = ripc.Listen(svc)
	r.done.Go(r.accept)
	r.done.Go(func() { // a member that halted is no use to clients
		select {
		case <-r.p.Over:
		case <-r.p.Done:
		case <-r.ctx.Done():
		}
		_ = svc.Close()
	})
	if !named && r.cfg.Endpoint.TLS == nil {
		// Without a socket for this host, clients here come by TCP.
		r.withdraw, _ = ripc.OneHost("").Publish(ctx, ripc.ID(core.Here(r.endpoint.Addr())), r.endpoint.Place())
	}
	return nil
}

// Addr returns the host:port at which clients reach this member.
func (r *Relay) Addr() string { return r.endpoint.Addr() }

// Close ends the service. Clients go on with other relays.
func (r *Relay) Close() error {
	r.close.Do(func() {
		r.cancel()
		if r.withdraw != nil {
			r.err = r.withdraw()
		}
		r.err = errors.Join(r.err, r.endpoint.Close())
		r.done.Wait()
		r.p.Mu.Lock()
		r.p.Space.KeepTail(0)
		r.p.clients = nil
		r.p.Mu.Unlock()
	})
	return r.err
}

func (r *Relay) accept() {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.done.Go(func() {
			err := r.serve(conn)
			r.log.Info("a client is gone", "client", conn.RemoteAddr(), "error", err)
		})
	}
}

// attendance is a client at its relay.
type attendance struct {
	r        *Relay
	conn     net.Conn
	ctx      context.Context
	end      context.CancelCauseFunc
	follower *space.Follower
	client   [16]byte // name of the client in the space

	// Of the goroutine that receives.
	set      uint64   // number of the coherent set of this process that has the client's
	setBytes int      // of its samples; 0: no set is open
	declared topicSum // new topics

	// Under the member's lock.
	out       []byte               // frames to be sent
	endpoints map[uint32]*attended // by the numbers of the client
	writers   []*attended
	watches   bool // a goroutine waits for disks
}

// attended is a writer or a reader that the relay has for a client.
type attended struct {
	of     *attendance
	number uint32 // of the client
	id     space.ID
	reader *space.Followed
	writer *carrier
	origin space.Origin
	stored uint64        // number of the last sample that is known to be on all disks
	acked  remote.Come   // what the client was told
	known  bool          // the client was told that it is open
	early  []space.Event // … before that
}

// clientSide is the side of the origins that writers of clients are.
const clientSide = "client"

// public is the name in the space of a client or its writer. The GUID that the client has for it is
// a secret between the client and its relays: all readers see the origin of a sample, and a client
// that has seen it must not be able to write as the other one.
func public(guid [16]byte) (name [16]byte) {
	h := sha256.Sum256(guid[:])
	copy(name[:], h[:])
	return name
}

// Bounds of a client.
const (
	maxOutBytes  = 8 << 20 // of answers and events that it does not take
	maxEndpoints = 1 << 12

	maxRequestBytes = 1 << 20
	maxHelloBytes   = 4 << 10
	maxGreetings    = 1 << 10 // connections of one relay whose hello has not arrived
)

// serve serves a client until it is gone.
func (r *Relay) serve(conn net.Conn) error {
	a := &attendance{r: r, conn: conn, endpoints: map[uint32]*attended{}}
	a.ctx, a.end = context.WithCancelCause(r.ctx)
	defer a.end(nil)
	stop := context.AfterFunc(a.ctx, func() { _ = conn.Close() })
	defer stop()
	defer conn.Close()
	in := &core.Frames{Conn: conn, Timeout: r.cfg.ClientTimeout, Limit: maxHelloBytes}
	if greeting := r.greeting.Add(1); greeting > maxGreetings {
		r.greeting.Add(-1)
		return fmt.Errorf("dds: %d connections have not said yet who they are", maxGreetings)
	}
	err := a.welcome(in)
	if r.greeting.Add(-1); err != nil {
		return err
	}
	in.Limit = maxRequestBytes + r.p.sub.MaxMessageBytes()
	p := r.p
	p.Mu.Lock()
	a.follower = p.Space.Follow()
	p.Mu.Unlock()
	var pump sync.WaitGroup
	pump.Go(func() { a.end(a.pump()) })
	bye, err := a.receive(in)
	a.end(err)
	_ = conn.Close()
	pump.Wait()
	a.leave(bye)
	return errors.Join(err, context.Cause(a.ctx))
}

// welcome takes the first frame of a client.
func (a *attendance) welcome(in *core.Frames) error {
	kind, body, err := in.Next()
	if err != nil {
		return err
	}
	var hello remote.Hello
	if kind != remote.KindHello {
		err = remote.ErrMalformed
	} else {
		err = remote.ParseValue(body, &hello)
	}
	if err != nil {
		return err
	}
	p := a.r.p
	a.client = public(hello.Client)
	answer := remote.Welcome{Version: remote.Version, Persistent: p.Persistent(), MaxBytes: p.sub.MaxMessageBytes(), Group: p.group.View().Group}
	switch {
	case hello.Version != remote.Version:
		answer.Refused = fmt.Sprintf("the relay speaks version %d, and the client version %d", remote.Version, hello.Version)
	case hello.Cluster != a.r.cluster || hello.Space != p.sub.Name():
		answer.Refused = fmt.Sprintf("the relay is of space %q of cluster %q", p.sub.Name(), a.r.cluster)
	}
	p.Mu.Lock()
	answer.Position = p.Space.Position()
	p.Mu.Unlock()
	frame, err := remote.AppendValue(nil, remote.KindWelcome, answer)
	if err == nil {
		_, err = a.conn.Write(frame)
	}
	if err == nil && answer.Refused != "" {
		err = errors.New(answer.Refused)
	}
	return err
}

// receive takes what the client sends. It reports whether the client said that it ends.
func (a *attendance) receive(in *core.Frames) (bye bool, err error) {
	for {
		kind, body, err := in.Next()
		if err != nil {
			return false, err
		}
		switch kind {
		case remote.KindPing:
		case remote.KindBye:
			return true, nil
		case remote.KindRequest:
			var q remote.Request
			if err = remote.ParseValue(body, &q); err == nil {
				err = a.serve(&q)
			}
		case remote.KindSample:
			err = a.carry(body)
		case remote.KindSetEnd:
			err = a.endSet(a.ctx, false)
		default:
			err = fmt.Errorf("%w: kind %d", remote.ErrMalformed, kind)
		}
		if err != nil {
			return false, err
		}
	}
}

// carry puts a sample of the client into the order.
func (a *attendance) carry(body []byte) error {
	number, e, err := remote.ParseSample(body)
	if err != nil {
		return err
	}
	p := a.r.p
	p.Mu.Lock()
	x := a.endpoints[number]
	p.Mu.Unlock()
	if x == nil || x.writer == nil { // it was closed meanwhile
		return nil
	}
	s := space.Sample{Operation: space.Operation(e.Operation), Sequence: e.Sequence, Source: e.Source}
	if e.Set != 0 {
		if s.Set, err = a.inSet(&e); err != nil {
			return err
		}
	}
	return x.writer.write(a.ctx, &s, dds.Encoded{Key: e.Key, Data: e.Data})
}

// inSet returns the number of the coherent set that a sample of the client is in, and begins it.
func (a *attendance) inSet(e *remote.Entry) (uint64, error) {
	if a.setBytes == 0 {
		a.set = a.r.p.NewSet()
	}
	if a.setBytes += e.Bytes(); a.setBytes > remote.MaxSetBytes {
		return 0, fmt.Errorf("%w: a coherent set of more than %d bytes", remote.ErrMalformed, remote.MaxSetBytes)
	}
	return a.set, nil
}

// endSet ends the coherent set that the client has begun, if there is one. It does not wait until
// that has its position.
func (a *attendance) endSet(ctx context.Context, drop bool) error {
	if a.setBytes == 0 {
		return nil
	}
	data, err := space.AppendEnd(nil, core.Now(), a.r.p.Self, a.set, drop)
	if err == nil {
		err = a.r.p.sub.Send(ctx, data)
	}
	if err == nil {
		a.setBytes = 0
	}
	return err
}

// serve serves a request, and answers it.
func (a *attendance) serve(q *remote.Request) error {
	answer := remote.Answer{Call: q.Call}
	p := a.r.p
	opened, err := a.execute(q, &answer)
	if err != nil {
		if errors.Is(err, remote.ErrMalformed) || a.ctx.Err() != nil || p.group.Err() != nil || errors.Is(err, dds.ErrNotOpen) {
			return err
		}
		answer.Fail(err)
	}
	p.Mu.Lock()
	defer p.Mu.Unlock()
	switch {
	case opened == nil:
		return a.say(remote.KindAnswer, answer)
	case opened.writer != nil:
		opened.acked = opened.come()
		answer.Come = opened.acked
	default:
		opened.reader.Held = q.Hold
		answer.Resume = space.Resume{Born: p.Space.Born(), Lineage: p.Space.Lineage(), Reached: opened.reader.At()}
	}
	if err := a.say(remote.KindAnswer, answer); err != nil {
		return err
	}
	opened.known = true
	for _, e := range opened.early {
		opened.told(e)
	}
	opened.early = nil
	return nil
}

// execute does what a request says. It returns the endpoint that it has opened.
func (a *attendance) execute(q *remote.Request, answer *remote.Answer) (opened *attended, err error) {
	p := a.r.p
	switch {
	case q.Op == remote.OpTopic && q.Topic != nil:
		return nil, a.declare(q.Topic)
	case q.Op == remote.OpForget && q.Topic != nil:
		return nil, p.Forget(a.ctx, q.Topic.Name)
	case q.Op == remote.OpOpen && q.Topic != nil && q.QoS != nil:
		if opened, err = a.open(q); err == nil {
			answer.ID = opened.id
		}
		return opened, err
	case q.Op == remote.OpChange && q.QoS != nil:
		x, err := a.endpoint(q.Number)
		if err == nil {
			err = p.Change(a.ctx, x.id, *q.QoS)
		}
		return nil, err
	case q.Op == remote.OpAssert && q.Number == 0:
		return nil, p.control(a.ctx, func(now int64) ([]byte, error) { return space.AppendClient(nil, now, a.client[:]) })
	case q.Op == remote.OpAssert:
		x, err := a.endpoint(q.Number)
		if err == nil {
			err = p.Assert(a.ctx, x.id)
		}
		return nil, err
	case q.Op == remote.OpClose:
		x, err := a.endpoint(q.Number)
		if err != nil {
			return nil, nil
		}
		err = p.Shut(a.ctx, x.id)
		if a.ctx.Err() == nil {
			a.drop(x)
		} // otherwise leave ends it, if this has not
		return nil, err
	case q.Op == remote.OpRelease:
		a.release()
		return nil, nil
	case q.Op == remote.OpDescribe:
		answer.Topics, answer.Endpoints = p.Describe()
		return nil, nil
	}
	return nil, fmt.Errorf("%w: operation %d", remote.ErrMalformed, q.Op)
}

// release has the readers go on that were held.
func (a *attendance) release() {
	p := a.r.p
	p.Mu.Lock()
	defer p.Mu.Unlock()
	for _, x := range a.endpoints {
		if x.reader != nil {
			x.reader.Held = false
		}
	}
	p.Wake()
}

// say has a frame sent to the client. The lock is held.
func (a *attendance) say(k remote.Kind, v any) (err error) {
	if len(a.out) > maxOutBytes {
		return errors.New("the client takes no answers")
	}
	a.out, err = remote.AppendValue(a.out, k, v)
	a.r.p.Wake()
	return err
}

func (a *attendance) endpoint(number uint32) (*attended, error) {
	a.r.p.Mu.Lock()
	defer a.r.p.Mu.Unlock()
	x := a.endpoints[number]
	if x == nil {
		return nil, fmt.Errorf("%w: endpoint %d of the client", dds.ErrUnknown, number)
	}
	return x, nil
}

// open opens a writer or a reader for the client.
func (a *attendance) open(q *remote.Request) (*attended, error) {
	p := a.r.p
	p.Mu.Lock()
	info, ok := p.Space.Topic(q.Topic.Name)
	taken, full := a.endpoints[q.Number] != nil, len(a.endpoints) >= maxEndpoints
	p.Mu.Unlock()
	switch {
	case !ok:
		return nil, fmt.Errorf("%w: topic %q", dds.ErrUnknown, q.Topic.Name)
	case taken || full:
		return nil, fmt.Errorf("%w: endpoint %d of the client, of %d at most", dds.ErrInUse, q.Number, maxEndpoints)
	}
	x := &attended{of: a, number: q.Number}
	expect := func(id space.ID) {
		x.id = id
		a.endpoints[q.Number], p.clients[id.Number] = x, x
		if x.reader != nil {
			a.follower.Expect(id, x.reader, q.Resume)
		}
	}
	if err := a.enter(x, q, info, expect); err != nil {
		a.drop(x)
		return nil, err
	}
	p.Mu.Lock()
	defer p.Mu.Unlock()
	if x.reader == nil {
		x.writer = &carrier{p, x.id, info}
		a.writers = append(a.writers, x)
		if p.Persistent() && !a.watches {
			a.watches = true
			a.r.done.Go(a.watchDisks)
		}
	}
	return x, nil
}

// enter opens an endpoint in the space. Expect is called under the lock when it has its name.
func (a *attendance) enter(x *attended, q *remote.Request, topic space.TopicInfo, expect func(space.ID)) (err error) {
	p := a.r.p
	kind, what := qos.Writer, space.EndpointInfo{Topic: topic.Name, Reader: q.Reader, QoS: *q.QoS}
	if q.Reader {
		kind = qos.Reader
		x.reader = &space.Followed{Number: q.Number, Held: true, Filter: p.Bound(topic.Name, topic.Type, q.Filter)}
	} else {
		x.origin = space.Origin{Side: clientSide, GUID: public(q.GUID)}
		what.Origin, what.Client = &x.origin, a.client[:]
	}
	if err = q.QoS.Validate(kind); err == nil {
		_, err = p.Open(a.ctx, what, func(id space.ID) *remote.Filter {
			expect(id)
			return nil
		})
	}
	if err != nil {
		err = fmt.Errorf("dds: a %v of topic %q: %w", kind, topic.Name, err)
	}
	return err
}

// drop forgets an endpoint.
func (a *attendance) drop(x *attended) {
	p := a.r.p
	p.Mu.Lock()
	defer p.Mu.Unlock()
	delete(a.endpoints, x.number)
	delete(p.clients, x.id.Number)
	if x.reader != nil {
		a.follower.Drop(x.id, x.reader)
	}
	for i, w := range a.writers {
		if w == x {
			a.writers = append(a.writers[:i:i], a.writers[i+1:]...)
			break
		}
	}
}

// taken passes an event of an endpoint that this process has for a client on to the client.
func (p *backend) taken(e *space.Event) bool {
	x := p.clients[e.Endpoint.Number]
	if x == nil {
		return false
	}
	x.told(*e)
	return true
}

// told passes an event on to the client. The lock is held.
func (x *attended) told(e space.Event) {
	switch e.Kind {
	case space.Opened, space.Closed:
		return
	}
	if !x.known {
		x.early = append(x.early, e)
		return
	}
	if err := x.of.say(remote.KindEvent, remote.Event{Number: x.number, Event: e}); err != nil {
		x.of.end(err)
	}
}

// leave ends what the relay has for a client that is gone: at once if the client said so.
func (a *attendance) leave(bye bool) {
	if !bye {
		select {
		case <-time.After(a.r.cfg.ClientGrace):
		case <-a.r.ctx.Done():
		case <-a.r.p.Over:
		}
	}
	p := a.r.p
	p.Mu.Lock()
	all := make([]*attended, 0, len(a.endpoints))
	for _, x := range a.endpoints {
		all = append(all, x)
	}
	p.Mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), a.r.cfg.ClientTimeout)
	defer cancel()
	if a.setBytes > 0 { // its end did not come
		a.settle(ctx, func(ctx context.Context) error { return a.endSet(ctx, true) })
	}
	for _, x := range all {
		a.settle(ctx, func(ctx context.Context) error {
			return p.control(ctx, func(now int64) ([]byte, error) { return space.AppendGone(nil, now, x.id) })
		})
		a.drop(x)
	}
}

// settle brings a record about a client that is gone into the order. If the order is held up for
// too long, it does so beside everything else.
func (a *attendance) settle(ctx context.Context, record func(context.Context) error) {
	if err := record(ctx); err == nil || ctx.Err() == nil {
		return // there is nothing to settle any more, or the member has left, and its end is that of its endpoints and sets
	}
	p := a.r.p
	p.Mu.Lock()
	defer p.Mu.Unlock()
	if !p.Closing {
		p.ended.Go(func() {
			ctx, cancel := p.lifetime()
			defer cancel()
			_ = record(ctx)
		})
	}
}
