package dds

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds/internal/remote"
	"github.com/squall-go/squall/dds/internal/space"
	"github.com/squall-go/squall/ripc"
)

// Defaults of RelayConfig.
const (
	DefaultTailBytes     = 16 << 20
	DefaultClientTimeout = 3 * time.Second
	DefaultClientGrace   = time.Second
)

// RelayConfig says how a member serves clients: processes outside of the group, which use its topics as if they were members.
type RelayConfig struct {
	// Endpoint has the address on which the member listens for clients, its TLS certificates, secret and limits. Without a Resolver, clients find the relay
	// by its address (ClientConfig.Addresses); with one, by the id RelayService (ClientConfig.Services), which the relay registers there. With TLS clients on
	// this host come by TCP, too, so that all show their certificates. RingBytes of 0 is 1 MiB here.
	Endpoint ripc.Config
	// TailBytes is the memory for the last changes of all topics, which clients' readers take at their own pace and after they were without a relay. What a reader
	// has not got when the tail drops it, it gets from the history of the topic, or loses. 0 is DefaultTailBytes.
	TailBytes int
	// ClientTimeout is how long a client may be silent. 0 is DefaultClientTimeout.
	ClientTimeout time.Duration
	// Grace is how long the writers and readers of a client are kept open that is gone without having said so: it may be on its way to another relay. 0 is
	// DefaultClientGrace.
	Grace time.Duration
	// Logger records how connections of clients end. If it is nil, nothing is logged.
	Logger *slog.Logger
}

// Relay serves clients of a participant's space.
type Relay struct {
	cfg      RelayConfig
	p        *Participant
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

// RelayService is the id of the service of a relay whose endpoint has a Resolver.
func RelayService(cluster, space string, member squall.NodeID) ripc.ID {
	return relays(cluster, space) + ripc.ID(fmt.Sprintf("\x00%d", member))
}

// relays is the id of the service at relays that are found by their addresses.
func relays(cluster, space string) ripc.ID {
	return ripc.ID("squall topics\x00" + cluster + "\x00" + space)
}

// relayHere is the id by which processes of one host find a relay with an address.
func relayHere(addr string) ripc.ID { return ripc.ID("squall relay\x00" + addr) }

// ServeClients has a member serve clients, until the relay is closed or the member is no member any more. A participant has one relay.
func ServeClients(ctx context.Context, cfg RelayConfig, p *Participant) (*Relay, error) {
	if p.client != nil || p.sub == nil {
		return nil, fmt.Errorf("dds: serving clients: %w: only a member serves them", ErrNotOpen)
	}
	if cfg.TailBytes == 0 {
		cfg.TailBytes = DefaultTailBytes
	}
	if cfg.ClientTimeout == 0 {
		cfg.ClientTimeout = DefaultClientTimeout
	}
	if cfg.Grace == 0 {
		cfg.Grace = DefaultClientGrace
	}
	if cfg.TailBytes < 0 || cfg.ClientTimeout < 0 || cfg.Grace < 0 {
		return nil, errors.New("dds: serving clients: TailBytes, ClientTimeout and Grace must not be negative")
	}
	r := &Relay{cfg: cfg, p: p, cluster: p.cluster, log: cfg.Logger}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	id, name := relays(r.cluster, p.sub.Name()), cfg.Endpoint.Resolver == nil
	if name {
		cfg.Endpoint.Resolver = ripc.Static{}
	} else {
		id = RelayService(r.cluster, p.sub.Name(), p.group.ID())
	}
	if cfg.Endpoint.RingBytes == 0 {
		cfg.Endpoint.RingBytes = relayRingBytes
	}
	e, err := ripc.Open(ctx, cfg.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("dds: serving clients: %w", err)
	}
	r.endpoint = e
	r.ctx, r.cancel = context.WithCancel(context.Background())
	p.mu.Lock()
	if p.clients != nil {
		err = errors.New("the participant has a relay already")
	} else {
		p.clients = map[uint32]*attended{}
		p.space.KeepTail(cfg.TailBytes)
	}
	p.mu.Unlock()
	if err != nil {
		r.cancel()
		return nil, errors.Join(fmt.Errorf("dds: serving clients: %w", err), e.Close())
	}
	svc, err := e.Register(ctx, id)
	if err == nil {
		r.listener = ripc.Listen(svc)
		r.done.Go(r.accept)
		r.done.Go(func() { // a member that halted is no use to clients
			select {
			case <-p.group.Done():
			case <-p.done:
			case <-r.ctx.Done():
			}
			_ = svc.Close()
		})
		if name && cfg.Endpoint.TLS == nil {
			// Without a socket for this host, clients here come by TCP.
			r.withdraw, _ = ripc.OneHost("").Publish(ctx, relayHere(e.Addr()), e.Place())
		}
		return r, nil
	}
	return nil, errors.Join(fmt.Errorf("dds: serving clients: %w", err), r.Close())
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
		r.p.mu.Lock()
		r.p.space.KeepTail(0)
		r.p.clients = nil
		r.p.mu.Unlock()
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
	set      uint64 // number of the coherent set of this process that has the client's; 0: there is none
	setBytes int
	declared topicSum // new topics

	// Under the participant's lock.
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
	writer *Writer[Encoded]
	origin space.Origin
	stored uint64        // number of the last sample that is known to be on all disks
	acked  remote.Come   // what the client was told
	known  bool          // the client was told that it is open
	early  []space.Event // … before that
}

// clientSide is the side of the origins that writers of clients are.
const clientSide = "client"

// public is the name in the space of a client or its writer. The GUID that the client has for it is a secret between the client and its relays: all readers see the
// origin of a sample, and a client that has seen it must not be able to write as the other one.
func public(guid [16]byte) (name [16]byte) {
	h := sha256.Sum256(guid[:])
	copy(name[:], h[:])
	return name
}

// Bounds of a client.
const (
	batchBytes   = 256 << 10 // of samples that it sends at once
	maxOutBytes  = 8 << 20   // of answers and events that it does not take
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
	in := &frames{conn: conn, timeout: r.cfg.ClientTimeout, limit: maxHelloBytes}
	if greeting := r.greeting.Add(1); greeting > maxGreetings {
		r.greeting.Add(-1)
		return fmt.Errorf("dds: %d connections have not said yet who they are", maxGreetings)
	}
	err := a.welcome(in)
	if r.greeting.Add(-1); err != nil {
		return err
	}
	in.limit = maxRequestBytes + r.p.sub.MaxMessageBytes()
	p := r.p
	p.mu.Lock()
	a.follower = p.space.Follow()
	p.mu.Unlock()
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
func (a *attendance) welcome(in *frames) error {
	kind, body, err := in.next()
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
	answer := remote.Welcome{Version: remote.Version, Persistent: p.persistent(), MaxBytes: p.sub.MaxMessageBytes()}
	switch {
	case hello.Version != remote.Version:
		answer.Refused = fmt.Sprintf("the relay speaks version %d, and the client version %d", remote.Version, hello.Version)
	case hello.Cluster != a.r.cluster || hello.Space != p.sub.Name():
		answer.Refused = fmt.Sprintf("the relay is of space %q of cluster %q", p.sub.Name(), a.r.cluster)
	}
	p.mu.Lock()
	answer.Position = p.space.Position()
	p.mu.Unlock()
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
func (a *attendance) receive(in *frames) (bye bool, err error) {
	for {
		kind, body, err := in.next()
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
	p.mu.Lock()
	x := a.endpoints[number]
	p.mu.Unlock()
	if x == nil || x.writer == nil { // it was closed meanwhile
		return nil
	}
	s := space.Sample{Operation: space.Operation(e.Operation), Sequence: e.Sequence, Source: e.Source}
	if e.Set != 0 {
		if s.Set, err = a.inSet(&e); err != nil {
			return err
		}
	}
	_, err = x.writer.write(a.ctx, s, Encoded{Key: e.Key, Data: e.Data}, false)
	return err
}

// inSet returns the number of the coherent set that a sample of the client is in, and begins it.
func (a *attendance) inSet(e *remote.Entry) (uint64, error) {
	if a.setBytes += e.Bytes(); a.setBytes > remote.MaxSetBytes {
		return 0, fmt.Errorf("%w: a coherent set of more than %d bytes", remote.ErrMalformed, remote.MaxSetBytes)
	}
	if a.set == 0 {
		p := a.r.p
		p.mu.Lock()
		p.set++
		a.set = p.set
		p.mu.Unlock()
	}
	return a.set, nil
}

// endSet ends the coherent set that the client has begun, if there is one. It does not wait until that has its position.
func (a *attendance) endSet(ctx context.Context, drop bool) error {
	if a.set == 0 {
		return nil
	}
	data, err := space.AppendEnd(nil, now(), a.r.p.self, a.set, drop)
	if err == nil {
		err = a.r.p.sub.Send(ctx, data)
	}
	if err == nil {
		a.set, a.setBytes = 0, 0
	}
	return err
}

// serve serves a request.
func (a *attendance) serve(q *remote.Request) error {
	answer := remote.Answer{Call: q.Call}
	p := a.r.p
	var opened *attended
	var err error
	switch {
	case q.Op == remote.OpTopic && q.Topic != nil:
		if err = topicFits(p, q.Topic.QoS.Durability); err == nil {
			err = a.declare(q.Topic)
		}
	case q.Op == remote.OpForget && q.Topic != nil:
		err = p.control(a.ctx, func(now int64) ([]byte, error) { return space.AppendForget(nil, now, q.Topic.Name) })
	case q.Op == remote.OpOpen && q.Topic != nil && q.QoS != nil:
		if opened, err = a.open(q); err == nil {
			answer.ID = opened.id
		}
	case q.Op == remote.OpChange && q.QoS != nil:
		if x := a.endpoint(q.Number); x == nil {
			err = fmt.Errorf("%w: endpoint %d of the client", ErrUnknown, q.Number)
		} else {
			err = p.control(a.ctx, func(now int64) ([]byte, error) { return space.AppendChange(nil, now, x.id, *q.QoS) })
		}
	case q.Op == remote.OpAssert:
		if x := a.endpoint(q.Number); q.Number == 0 {
			err = p.control(a.ctx, func(now int64) ([]byte, error) { return space.AppendClient(nil, now, a.client[:]) })
		} else if x == nil {
			err = fmt.Errorf("%w: endpoint %d of the client", ErrUnknown, q.Number)
		} else {
			err = p.assert(a.ctx, x.id)
		}
	case q.Op == remote.OpClose:
		if x := a.endpoint(q.Number); x != nil {
			err = p.control(a.ctx, func(now int64) ([]byte, error) { return space.AppendClose(nil, now, x.id) })
			if a.ctx.Err() == nil {
				a.drop(x)
			} // otherwise leave ends it, if this has not
		}
	case q.Op == remote.OpRelease:
		p.mu.Lock()
		for _, x := range a.endpoints {
			if x.reader != nil {
				x.reader.Held = false
			}
		}
		p.wake()
		p.mu.Unlock()
	case q.Op == remote.OpDescribe:
		d := p.topicsAndEndpoints()
		answer.Topics, answer.Endpoints = d.Topics, d.Endpoints
	default:
		return fmt.Errorf("%w: operation %d", remote.ErrMalformed, q.Op)
	}
	if err != nil {
		if a.ctx.Err() != nil || p.group.Err() != nil || errors.Is(err, ErrNotOpen) {
			return err
		}
		answer.Fail(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if opened != nil {
		if opened.writer != nil {
			opened.acked = opened.come()
			answer.Come = opened.acked
		} else {
			opened.reader.Held = q.Hold
			answer.Resume = space.Resume{Born: p.space.Born(), Lineage: p.space.Lineage(), Reached: opened.reader.At()}
		}
	}
	if err := a.say(remote.KindAnswer, answer); err != nil || opened == nil {
		return err
	}
	opened.known = true
	for _, e := range opened.early {
		opened.told(e)
	}
	opened.early = nil
	return nil
}

// say has a frame sent to the client. The lock is held.
func (a *attendance) say(k remote.Kind, v any) (err error) {
	if len(a.out) > maxOutBytes {
		return errors.New("the client takes no answers")
	}
	a.out, err = remote.AppendValue(a.out, k, v)
	a.r.p.wake()
	return err
}

func (a *attendance) endpoint(number uint32) *attended {
	a.r.p.mu.Lock()
	defer a.r.p.mu.Unlock()
	return a.endpoints[number]
}

// open opens a writer or a reader for the client.
func (a *attendance) open(q *remote.Request) (*attended, error) {
	p := a.r.p
	p.mu.Lock()
	info, ok := p.space.Topic(q.Topic.Name)
	taken, full := a.endpoints[q.Number] != nil, len(a.endpoints) >= maxEndpoints
	p.mu.Unlock()
	switch {
	case !ok:
		return nil, fmt.Errorf("%w: topic %q", ErrUnknown, q.Topic.Name)
	case taken || full:
		return nil, fmt.Errorf("%w: endpoint %d of the client, of %d at most", ErrInUse, q.Number, maxEndpoints)
	}
	x := &attended{of: a, number: q.Number}
	t := &Topic[Encoded]{p: p, name: info.Name, codec: EncodedAs(info.Type, info.Keyed), set: info.QoS}
	if info.Keyed {
		t.key = encodedKey{}
	}
	what := space.EndpointInfo{Reader: q.Reader, QoS: *q.QoS}
	if q.Reader {
		x.reader = &space.Followed{Number: q.Number, Held: true, Filter: p.bound(info.Name, info.Type, q.Filter)}
	} else {
		x.origin = space.Origin{Side: clientSide, GUID: public(q.GUID)}
		what.Origin, what.Client = &x.origin, a.client[:]
	}
	e, err := t.open(a.ctx, what, func(id space.ID) *remote.Filter {
		x.id = id
		a.endpoints[q.Number], p.clients[id.Number] = x, x
		if x.reader != nil {
			a.follower.Expect(id, x.reader, q.Resume)
		}
		return nil
	})
	if err != nil {
		a.drop(x)
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if x.reader == nil {
		set := *q.QoS
		set.Reliability.MaxBlocking = 0 // it is for the calls at the client
		x.writer = newWriter(t, e, set)
		a.writers = append(a.writers, x)
		if p.persistent() && !a.watches {
			a.watches = true
			a.r.done.Go(a.watchDisks)
		}
	}
	return x, nil
}

// drop forgets an endpoint.
func (a *attendance) drop(x *attended) {
	p := a.r.p
	p.mu.Lock()
	defer p.mu.Unlock()
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
		case <-time.After(a.r.cfg.Grace):
		case <-a.r.ctx.Done():
		case <-a.r.p.over():
		}
	}
	p := a.r.p
	p.mu.Lock()
	all := make([]*attended, 0, len(a.endpoints))
	for _, x := range a.endpoints {
		all = append(all, x)
	}
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), a.r.cfg.ClientTimeout)
	defer cancel()
	if a.set != 0 { // its end did not come
		a.settle(ctx, func(ctx context.Context) error { return a.endSet(ctx, true) })
	}
	for _, x := range all {
		a.settle(ctx, func(ctx context.Context) error {
			return p.control(ctx, func(now int64) ([]byte, error) { return space.AppendGone(nil, now, x.id) })
		})
		a.drop(x)
	}
}

// settle brings a record about a client that is gone into the order. If the order is held up for too long, it does so beside everything else.
func (a *attendance) settle(ctx context.Context, record func(context.Context) error) {
	if err := record(ctx); err == nil || ctx.Err() == nil {
		return // there is nothing to settle any more, or the member has left, and its end is that of its endpoints and sets
	}
	p := a.r.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closing {
		p.ended.Go(func() {
			ctx, cancel := p.lifetime()
			defer cancel()
			_ = record(ctx)
		})
	}
}
