package replicated

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/internal/machine"
	"github.com/squall-go/squall/replicated/internal/relay"
	"github.com/squall-go/squall/ripc"
)

// Defaults of ClientConfig.
const (
	DefaultSessionTimeout = 30 * time.Second
	DefaultMemberTimeout  = 2 * time.Second
)

// ClientConfig says how a client reaches the members of a group.
type ClientConfig struct {
	Cluster   string   // the name of the group
	Addresses []string // host:port of members' servers (Server.Addr): the client uses one, and another one when that fails
	// Endpoint has the client's TLS certificates, secret and limits. Its Addr, Resolver and MoveTime are not used.
	Endpoint ripc.Config
	// SessionTimeout is how long the members remember the client after it was heard last. 0 is
	// DefaultSessionTimeout.
	SessionTimeout time.Duration
	// MemberTimeout is how long a member may take for an answer before another one is asked. 0 is
	// DefaultMemberTimeout.
	MemberTimeout time.Duration
}

// Client uses the objects of a group from outside it. Its methods may be called from any goroutine.
type Client struct {
	cfg      ClientConfig
	endpoint *ripc.Endpoint
	places   places
	start    time.Time
	ctx      context.Context
	cancel   context.CancelFunc
	done     sync.WaitGroup

	mu      sync.Mutex
	any     route // to any member
	objects map[string]*RemoteObject
}

// route is the way to the members of the group or of a shard.
type route struct {
	client.Route
	service *ripc.Service // of the link in use

	// Of a shard.
	id       ripc.ID       // by which the resolver knows it
	locating chan struct{} // one goroutine at a time looks where it is
}

// Dial returns a client. It connects to a member when something is called.
func Dial(cfg ClientConfig) (*Client, error) {
	if len(cfg.Addresses) == 0 {
		return nil, errors.New("replicated: Addresses must have the address of a member at least")
	}
	if cfg.SessionTimeout == 0 {
		cfg.SessionTimeout = DefaultSessionTimeout
	}
	if cfg.MemberTimeout == 0 {
		cfg.MemberTimeout = DefaultMemberTimeout
	}
	if cfg.SessionTimeout < 0 || cfg.MemberTimeout < 0 {
		return nil, errors.New("replicated: SessionTimeout and MemberTimeout must not be negative")
	}
	c := &Client{cfg: cfg, start: time.Now(), objects: map[string]*RemoteObject{}}
	c.any.Route = client.NewRoute(cfg.Addresses, cfg.MemberTimeout)
	c.places.use("", c.any.Place())
	cfg.Endpoint.Addr, cfg.Endpoint.Resolver = "", &c.places
	cfg.Endpoint.MoveTime = -1 // in place of waiting for a member that has left, another one is asked
	c.ctx, c.cancel = context.WithCancel(context.Background())
	var err error
	if c.endpoint, err = ripc.Open(c.ctx, cfg.Endpoint); err != nil {
		c.cancel()
		return nil, err
	}
	c.done.Go(c.watch)
	return c, nil
}

// places resolves every object, and every shard, to the member that is used now.
type places struct {
	mu      sync.Mutex
	current map[ripc.ID]string // addresses: of shards by their id, and of everything else by none
}

// Resolve implements ripc.Resolver: a member on this host is reached through shared memory.
func (p *places) Resolve(ctx context.Context, id ripc.ID) (ripc.Place, error) {
	p.mu.Lock()
	addr, ok := p.current[id]
	if !ok {
		addr = p.current[""]
	}
	p.mu.Unlock()
	if place, err := ripc.OneHost("").Resolve(ctx, presence(addr)); err == nil {
		return place, nil
	}
	return ripc.Place{Addr: addr}, nil
}

// Publish implements ripc.Resolver. A client has nothing to publish.
func (p *places) Publish(context.Context, ripc.ID, ripc.Place) (func() error, error) {
	return func() error { return nil }, nil
}

func (p *places) use(id ripc.ID, addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current == nil {
		p.current = map[ripc.ID]string{}
	}
	p.current[id] = addr
}

// Close ends the client's sessions, as far as a member can be reached at once, and its connections.
func (c *Client) Close() error {
	c.mu.Lock()
	all := make([]*RemoteObject, 0, len(c.objects))
	for _, o := range c.objects {
		all = append(all, o)
	}
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(c.ctx, c.cfg.MemberTimeout)
	defer cancel()
	for _, o := range all {
		o.end(ctx)
	}
	c.cancel()
	err := c.endpoint.Close()
	c.done.Wait()
	return err
}

// Object returns an object of the group, to call operations on. Nothing is sent before that.
func (c *Client) Object(name string) *RemoteObject { return c.object(name, nil, 0) }

// shard returns a shard of an object.
func (c *Client) shard(of *RemoteObject, n int) *RemoteObject {
	return c.object(shardName(of.name, n), of, n)
}

func (c *Client) object(name string, whole *RemoteObject, shard int) *RemoteObject {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.objects[name]
	if o == nil {
		o = &RemoteObject{client: c, name: name, id: service(c.cfg.Cluster, name), timeout: c.cfg.SessionTimeout, newToken: newToken, whole: whole, shard: shard, route: &c.any}
		if whole != nil {
			o.route = &route{Route: client.NewRoute(nil, c.cfg.MemberTimeout), id: o.id, locating: make(chan struct{}, 1)}
		}
		o.session.room.L = &o.session.Mutex
		o.session.Session = client.NewSession(c.cfg.SessionTimeout, newToken())
		c.objects[name] = o
	}
	return o
}

// newToken returns the token of a session.
func newToken() (t machine.Token) {
	_, _ = rand.Read(t[:]) // it does not fail
	return t
}

// begin begins a request to the member that is used now.
func (c *Client) begin(o *RemoteObject, attempt int, patient bool) (client.Link, *ripc.Service, *ripc.Remote, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := o.route
	if r.service == nil {
		s, err := c.endpoint.Register(c.ctx, "")
		if err != nil {
			return client.Link{}, nil, nil, fmt.Errorf("replicated: %w", err)
		}
		s.CopyMessages() // a member can change an answer while it is decoded
		if err := s.TakeLong(ripc.Long{MaxBytes: maxAnswers, MaxPeerBytes: maxAnswers}); err != nil {
			return client.Link{}, nil, nil, fmt.Errorf("replicated: %w", err)
		}
		r.service = s
	}
	if o.from != r.service {
		o.from, o.to = r.service, r.service.To(o.id)
	}
	if patient {
		return r.BeginPatient(c.now()), o.from, o.to, nil
	}
	return r.Begin(c.now(), attempt), o.from, o.to, nil
}

// end ends a request. If it failed, another member is used from now on.
func (c *Client) end(o *RemoteObject, l client.Link, failed bool) {
	c.mu.Lock()
	var old *ripc.Service
	if o.route.End(l, failed) {
		old = c.dropped(o.route)
	}
	c.mu.Unlock()
	if old != nil {
		_ = old.Close() // calls that wait there end, and are made again
	}
}

// dropped follows the members after a link was dropped, and returns what it used. The lock is held.
func (c *Client) dropped(r *route) (old *ripc.Service) {
	old, r.service = r.service, nil
	r.Failed()
	c.places.use(r.id, r.Place())
	return old
}

// watch drops a member that does not answer, and keeps sessions alive.
func (c *Client) watch() {
	tick := time.NewTicker(min(c.cfg.MemberTimeout/4, c.cfg.SessionTimeout/8))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			return
		}
		c.mu.Lock()
		var old []*ripc.Service
		var idle, silent []*RemoteObject
		late := func(r *route) {
			if _, late := r.Late(c.now()); late {
				old = append(old, c.dropped(r))
			}
		}
		late(&c.any)
		for _, o := range c.objects {
			late(o.route)
			if o.route.Probe(c.now()) {
				silent = append(silent, o)
			}
			if o.idle() {
				idle = append(idle, o)
			}
		}
		c.mu.Unlock()
		for _, s := range old {
			_ = s.Close()
		}
		for _, o := range silent {
			c.done.Go(func() { c.probe(o) })
		}
		for _, o := range idle {
			c.done.Go(func() { o.touch(c.ctx) })
		}
	}
}

// probe asks the member for something that it answers at once. If it does not, it is late.
func (c *Client) probe(o *RemoteObject) {
	l, service, to, err := c.begin(o, 1, false)
	if err != nil {
		return
	}
	m, err := service.Call(c.ctx, to, []byte{byte(askLocate)})
	m.Release()
	c.end(o, l, err != nil)
}

// isPatient reports whether a request may take longer than MemberTimeout: a query about the past may read the whole log.
func isPatient(request [][]byte) bool {
	if request[0][0] != byte(askQuery) {
		return false
	}
	r, err := relay.Parse(request[0])
	return err == nil && r.Past()
}

// maxAnswers bounds the memory for answers that are no short messages: 256 MiB.
const maxAnswers = 256 << 20

// ask sends a request to a member, and to others if that fails, until ctx ends. F takes the answer, and returns errAway if
// another member is to be asked.
func (c *Client) ask(ctx context.Context, o *RemoteObject, f func(answer []byte) error, parts ...[]byte) error {
	var before error // why another member is asked
	for attempt := 1; ; attempt++ {
		if err := c.locate(ctx, o); err != nil {
			return err
		}
		l, service, to, err := c.begin(o, attempt, isPatient(parts))
		if err != nil {
			return err
		}
		m, err := service.Call(ctx, to, parts...)
		if err == nil {
			data := m.Data
			if m.BodySize() > 0 { // an answer that is no short message
				data = m.Body()
			}
			err = f(data)
			m.Release()
		} else if errors.Is(err, ripc.ErrTooLarge) {
			c.end(o, l, false)
			return err
		} else if ctx.Err() == nil && c.ctx.Err() == nil {
			err = fmt.Errorf("%w: %w", errAway, err)
		}
		away := errors.Is(err, errAway)
		c.end(o, l, away)
		switch {
		case c.ctx.Err() != nil:
			return fmt.Errorf("replicated: %w: the client was closed", ErrUnreachable)
		case !away && ctx.Err() != nil && before != nil:
			return fmt.Errorf("%w; the attempt before: %w", err, before)
		case !away:
			return err
		case ctx.Err() != nil:
			return fmt.Errorf("replicated: %w: %w: the last answer was: %w", ErrUnreachable, context.Cause(ctx), err)
		}
		before = err
		if pause := c.pause(o, attempt); pause > 0 {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			case <-c.ctx.Done():
			}
		}
	}
}

// pause returns how long to wait after so many attempts.
func (c *Client) pause(o *RemoteObject, attempt int) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return o.route.Pause(attempt)
}

// locate finds the members of a shard, if they may be others than before.
func (c *Client) locate(ctx context.Context, o *RemoteObject) error {
	if o.whole == nil {
		return nil
	}
	r := o.route
	c.mu.Lock()
	stale := r.Stale()
	c.mu.Unlock()
	if !stale {
		return nil
	}
	select {
	case r.locating <- struct{}{}:
		defer func() { <-r.locating }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for {
		c.mu.Lock()
		stale = r.Stale()
		c.mu.Unlock()
		if !stale {
			return nil
		}
		l, err := o.whole.located(ctx)
		if err != nil {
			return err
		}
		if o.shard < 0 || o.shard >= min(l.Shards, len(l.Addresses)) {
			return fmt.Errorf("replicated: object %q has no shard %d", o.whole.name, o.shard)
		}
		if c.found(o, l.Addresses[o.shard]) {
			return nil
		}
		select {
		case <-time.After(locatePause):
		case <-ctx.Done():
			return fmt.Errorf("replicated: %w: shard %d of object %q has no member that serves clients: %w", ErrUnreachable, o.shard, o.whole.name, context.Cause(ctx))
		case <-c.ctx.Done():
			return fmt.Errorf("replicated: %w: the client was closed", ErrUnreachable)
		}
	}
}

// locatePause is how long a client waits for a shard that no member serves.
const locatePause = 50 * time.Millisecond

// found takes the addresses of a shard's members. It reports false if there are none.
func (c *Client) found(o *RemoteObject, addresses []string) bool {
	r := o.route
	var old *ripc.Service
	c.mu.Lock()
	ok, dropped := r.Found(addresses, mathrand.IntN)
	if ok {
		c.places.use(r.id, r.Place())
	}
	if dropped {
		old, r.service = r.service, nil
	}
	c.mu.Unlock()
	if old != nil {
		_ = old.Close()
	}
	return ok
}

// located asks a member where the shards of the object are.
func (o *RemoteObject) located(ctx context.Context) (l located, err error) {
	err = o.client.ask(ctx, o, func(answer []byte) error {
		_, data, err := parseAnswer("locate", answer)
		if err == nil {
			l = located{}
			err = decode(CBOR[located](), data, &l, "places of the shards", o.name)
		}
		if err == nil && (l.Shards < 1 || l.Shards > machine.MaxShards || l.Shards > 1 && len(l.Addresses) != l.Shards) {
			err = errMalformed
		}
		return err
	}, []byte{byte(askLocate)})
	return l, err
}

// shardCount implements shardedTarget.
func (o *RemoteObject) shardCount(ctx context.Context) (int, error) {
	if n := o.shards.Load(); n > 0 || o.whole != nil {
		return int(max(n, 1)), nil
	}
	n, err := o.client.shards(ctx, o)
	if err == nil {
		o.shards.Store(int32(n)) // it does not change as long as the group exists
	}
	return n, err
}

func (c *Client) shards(ctx context.Context, o *RemoteObject) (int, error) {
	l, err := o.located(ctx)
	return l.Shards, err
}

// Shard returns a shard of the object, from 0, to call operations on that have no key, and to watch.
func (o *RemoteObject) Shard(n int) Target {
	if o.whole != nil {
		return o
	}
	return o.client.shard(o, n)
}

// orWhole returns the whole object in place of the only shard of one without shards.
func (o *RemoteObject) orWhole(ctx context.Context) (*RemoteObject, error) {
	if o.whole == nil || o.shard != 0 {
		return o, nil
	}
	n, err := o.whole.shardCount(ctx)
	if err == nil && n == 1 {
		o = o.whole
	}
	return o, err
}

// asker is what a RemoteObject needs of its client: a Client, or one that is simulated.
type asker interface {
	now() time.Time
	// ask sends a request to a member, and to others if that fails.
	ask(ctx context.Context, o *RemoteObject, f func(answer []byte) error, parts ...[]byte) error
	// wait waits until changed is called, or ctx ends. The session's lock is held when it is called, and when it returns.
	wait(ctx context.Context, o *RemoteObject)
	changed(o *RemoteObject)
	// spawn runs f beside the caller.
	spawn(f func()) error
	memberTimeout() time.Duration
	// rest waits for a while, or until ctx ends.
	rest(ctx context.Context, d time.Duration)
	// shards returns how many shards an object has, and shard one of them.
	shards(ctx context.Context, o *RemoteObject) (int, error)
	shard(of *RemoteObject, n int) *RemoteObject
}

// RemoteObject is an object as a client sees it.
type RemoteObject struct {
	client   asker
	name     string
	id       ripc.ID
	timeout  time.Duration // of its session
	newToken func() machine.Token
	route    *route
	whole    *RemoteObject // of a shard: the object
	shard    int           // of whole, from 0
	shards   atomic.Int32  // of the object; 0: not known yet

	// How the object is reached, as long as its route uses this service. The client's lock guards it.
	from *ripc.Service
	to   *ripc.Remote

	session struct {
		sync.Mutex
		client.Session
		room sync.Cond // a number has ended, or the session was opened
	}
}

// inHandler implements Target: a client is in no handler.
func (o *RemoteObject) inHandler() error { return nil }

// command implements Target. It waits for the outcome.
func (o *RemoteObject) command(ctx context.Context, name string, args encoder, p pending) error {
	x := exchanges.Get().(*exchange)
	x.pending = p
	err := o.ordered(ctx, name, args, relay.Request{Ask: askCommand}, x)
	if err == nil {
		p.signal()
	}
	return err
}

// ordered sends a command, with the number that the session gives it, and has x take the answer. It gives x back.
func (o *RemoteObject) ordered(ctx context.Context, name string, args encoder, r relay.Request, x *exchange) error {
	defer x.giveBack()
	number, err := o.begin(ctx)
	if err != nil {
		return err
	}
	defer o.finish(number)
	x.name = name
	r.Session, r.Number, r.Acked, r.Name = number.Session, number.Number, number.Acked, []byte(name)
	b, err := args.appendTo(r.AppendTo(x.request[:0]))
	if err != nil {
		return err
	}
	x.request, x.parts[0] = b, b
	err = o.client.ask(ctx, o, x.taken, x.parts[:]...)
	if errors.Is(err, ErrSessionEnded) {
		o.lost(number.Session)
	}
	return err
}

// begin opens the session if need be, and returns the number of a command.
func (o *RemoteObject) begin(ctx context.Context) (client.Command, error) {
	s := &o.session
	s.Lock()
	defer s.Unlock()
	for {
		if ctx.Err() != nil {
			return client.Command{}, context.Cause(ctx)
		}
		c, step := s.Begin(o.client.now())
		switch step {
		case client.Go:
			return c, nil
		case client.Open:
			if err := o.openLocked(ctx); err != nil {
				return client.Command{}, err
			}
		case client.Wait:
			o.client.wait(ctx, o)
		}
	}
}

// now returns the time by the monotonic clock, which is read faster than both clocks are.
func (c *Client) now() time.Time { return c.start.Add(time.Since(c.start)) }

func (c *Client) rest(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func (c *Client) memberTimeout() time.Duration { return c.cfg.MemberTimeout }

func (c *Client) spawn(f func()) error {
	go f()
	return nil
}

func (c *Client) changed(o *RemoteObject) { o.session.room.Broadcast() }

// wait implements asker.
func (c *Client) wait(ctx context.Context, o *RemoteObject) {
	s := &o.session
	stop := context.AfterFunc(ctx, func() {
		s.Lock()
		defer s.Unlock()
		s.room.Broadcast()
	})
	defer stop()
	s.room.Wait()
}

// openLocked opens the session. The lock is held, but not while the members are asked.
func (o *RemoteObject) openLocked(ctx context.Context) error {
	s := &o.session
	request := (&relay.Request{Ask: askOpen, Token: s.Token(), Timeout: uint64(o.timeout)}).AppendTo(nil)
	var number uint64
	var err error
	o.unlocked(func() {
		err = o.client.ask(ctx, o, func(answer []byte) error {
			_, reply, err := parseAnswer("open", answer)
			if err == nil && len(reply) != 8 {
				err = errMalformed
			}
			if err == nil {
				number = binary.LittleEndian.Uint64(reply)
			}
			return err
		}, request)
	})
	s.Opened(number)
	o.client.changed(o)
	return err
}

// unlocked calls f without the lock, which is held.
func (o *RemoteObject) unlocked(f func()) {
	o.session.Unlock()
	defer o.session.Lock()
	f()
}

// finish notes that a number needs no answer any more.
func (o *RemoteObject) finish(c client.Command) {
	o.session.Lock()
	defer o.session.Unlock()
	o.session.End(c)
	o.client.changed(o)
}

// lost forgets a session that has ended. The next command opens another one.
func (o *RemoteObject) lost(session uint64) {
	o.session.Lock()
	defer o.session.Unlock()
	if o.session.Lost(session, o.newToken()) {
		o.client.changed(o) // calls that waited for a number of this session open the next one
	}
}

// idle reports whether the session is open and is to be touched.
func (o *RemoteObject) idle() bool {
	o.session.Lock()
	defer o.session.Unlock()
	return o.session.Idle(o.client.now())
}

// touch keeps the session from expiring.
func (o *RemoteObject) touch(ctx context.Context) {
	o.session.Lock()
	session := o.session.Touch(o.client.now())
	o.session.Unlock()
	ctx, cancel := context.WithTimeout(ctx, o.timeout/2)
	defer cancel()
	err := o.client.ask(ctx, o, func(answer []byte) error {
		_, _, err := parseAnswer("touch", answer)
		return err
	}, (&relay.Request{Ask: askTouch, Session: session}).AppendTo(nil))
	if errors.Is(err, ErrSessionEnded) {
		o.lost(session)
	}
}

// end ends the session.
func (o *RemoteObject) end(ctx context.Context) {
	o.session.Lock()
	session := o.session.Number()
	o.session.Unlock()
	if session == 0 {
		return
	}
	_ = o.client.ask(ctx, o, func(answer []byte) error { return nil },
		(&relay.Request{Ask: askClose, Session: session}).AppendTo(nil))
	o.lost(session)
}

// query implements Target.
func (o *RemoteObject) query(ctx context.Context, name string, c consistency, r reading) error {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	b, err := r.appendTo((&relay.Request{Ask: askQuery, Consistency: byte(c), Name: []byte(name)}).AppendTo((*buf)[:0]))
	if err != nil {
		return err
	}
	*buf = b
	return o.client.ask(ctx, o, func(answer []byte) error {
		_, reply, err := parseAnswer(name, answer)
		if err != nil {
			return err
		}
		return r.answer(reply)
	}, b)
}
