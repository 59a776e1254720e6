package replicated

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"slices"
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
	Addresses []string // host:port of members' servers (Server.Addr): the client uses one, and the next one when that fails
	// Seed decides with which of Addresses the client begins: 1 is the first one, 2 the second, and so on in turn. 0 is a random one, which spreads
	// clients over the members.
	Seed uint64
	// Logger receives the events of the client. Nil: none.
	Logger *slog.Logger
	// Events is called with each event, from the goroutines of the client; it must not block, nor call the client.
	Events func(ClientEvent)
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
	closing  atomic.Bool // each member is asked once more

	mu      sync.Mutex
	any     route  // to any member
	group   string // the identity of the group that the client calls; empty: no member has said it yet
	objects map[string]*RemoteObject
}

// route is the way to the members of the group or of a shard.
type route struct {
	client.Route
	service *ripc.Service // of the link in use

	connected uint64          // the link on which a member has answered
	failed    map[string]bool // addresses of members that were left since one has answered

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
	first := int((cfg.Seed - 1) % uint64(len(cfg.Addresses)))
	if cfg.Seed == 0 {
		first = mathrand.IntN(len(cfg.Addresses))
	}
	cfg.Addresses = slices.Concat(cfg.Addresses[first:], cfg.Addresses[:first])
	c.cfg.Addresses = cfg.Addresses
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

// Close ends the client's sessions, as far as a member can be reached at once, and its connections. It asks each member once at most, and takes no
// longer than MemberTimeout.
func (c *Client) Close() error {
	c.closing.Store(true)
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
		o = &RemoteObject{client: c, name: name, timeout: c.cfg.SessionTimeout, newToken: newToken, whole: whole, shard: shard, route: &c.any}
		if whole != nil {
			o.route = &route{Route: client.NewRoute(nil, c.cfg.MemberTimeout), locating: make(chan struct{}, 1)}
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

// begin begins a request to the member that is used now. The service of the object is nil if the client does not know the group yet.
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
	if o.from != r.service && (o.id != "" || c.group != "") {
		o.from, o.to = r.service, r.service.To(c.service(o))
	}
	if patient {
		return r.BeginPatient(c.now()), r.service, o.to, nil
	}
	return r.Begin(c.now(), attempt), r.service, o.to, nil
}

// end ends a request. If it failed, another member is used from now on.
func (c *Client) end(o *RemoteObject, l client.Link, failed error) {
	c.mu.Lock()
	var old *ripc.Service
	var e ClientEvent
	addr := o.route.Place()
	switch current := o.route.IsCurrent(l); {
	case o.route.End(l, failed != nil):
		e = o.route.left(addr, o.name, failed)
		old = c.dropped(o.route)
	case failed == nil && current:
		e = o.route.answered(l.Number, o.name)
	}
	c.mu.Unlock()
	if old != nil {
		_ = old.Close() // calls that wait there end, and are made again
	}
	if e != nil {
		c.event(e)
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
		var events []ClientEvent
		late := func(r *route, object string) {
			current := r.Current()
			if _, late := r.Late(c.now()); !late {
				return
			}
			if e := r.left(r.PlaceOf(current), object, ErrLate); e != nil {
				events = append(events, e)
			}
			old = append(old, c.dropped(r))
		}
		for _, o := range c.objects {
			late(o.route, o.name)
			if o.route.Probe(c.now()) {
				silent = append(silent, o)
			}
			if o.idle() {
				idle = append(idle, o)
			}
		}
		late(&c.any, "") // there may be no object yet
		c.mu.Unlock()
		for _, s := range old {
			_ = s.Close()
		}
		for _, e := range events {
			c.event(e)
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
	m, err := c.call(c.ctx, o, service, to, [][]byte{{byte(askLocate)}})
	m.Release()
	c.end(o, l, err)
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
	var t tries
	for attempt := 1; ; attempt++ {
		if err := c.locate(ctx, o); err != nil {
			return err
		}
		err := c.askOne(ctx, o, attempt, f, parts)
		if final, err := c.judge(ctx, o, &t, attempt, err); final {
			return err
		}
		t.before = err
		if pause := c.pause(o, attempt); pause > 0 {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			case <-c.ctx.Done():
			}
		}
	}
}

// askOne sends a request to one member. The error is errAway if another member is to be asked.
func (c *Client) askOne(ctx context.Context, o *RemoteObject, attempt int, f func(answer []byte) error, parts [][]byte) error {
	l, service, to, err := c.begin(o, attempt, isPatient(parts))
	if err != nil {
		return err
	}
	m, err := c.call(ctx, o, service, to, parts)
	switch {
	case err == nil:
		data := m.Data
		if m.BodySize() > 0 { // an answer that is no short message
			data = m.Body()
		}
		err = f(data)
		m.Release()
	case errors.Is(err, ripc.ErrTooLarge):
	case c.ctx.Err() == nil && (ctx.Err() == nil || !errors.Is(err, context.Cause(ctx))):
		err = fmt.Errorf("%w: %w", errAway, err)
	}
	if errors.Is(err, errAway) {
		c.end(o, l, err)
	} else {
		c.end(o, l, nil)
	}
	return err
}

// tries is what a client has learned of the members that it asked in vain.
type tries struct {
	before  error // why another member is asked
	other   error // a member was of another group
	nowhere int   // members in a row that do not know the object
}

// judge reports whether what became of an attempt is final, and with which error.
func (c *Client) judge(ctx context.Context, o *RemoteObject, t *tries, attempt int, err error) (final bool, _ error) {
	away := errors.Is(err, errAway)
	if errors.Is(err, ErrOtherGroup) {
		t.other = err
	}
	if errors.Is(err, ripc.ErrNoService) || errors.Is(err, ErrOtherGroup) {
		t.nowhere++
	} else {
		t.nowhere = 0
	}
	if away && t.nowhere > 0 && c.isRound(o, t.nowhere) && ctx.Err() == nil {
		if t.other != nil {
			return true, t.other
		}
		if err := c.absent(ctx, o); err != nil {
			return true, err
		}
	}
	switch {
	case err == nil:
		return true, nil
	case c.ctx.Err() != nil, away && c.closing.Load() && c.isRound(o, attempt):
		return true, fmt.Errorf("replicated: %w: the client was closed", ErrUnreachable)
	case !away && ctx.Err() != nil && t.before != nil:
		if t.other != nil {
			t.before = fmt.Errorf("%w: %w", t.other, t.before)
		}
		return true, unreached(err, t.before)
	case !away:
		return true, err
	case ctx.Err() != nil:
		return true, fmt.Errorf("replicated: %w: %w: the last answer was: %w", ErrUnreachable, context.Cause(ctx), err)
	}
	return false, nil
}

// isRound reports whether so many attempts are whole rounds of all members.
func (c *Client) isRound(o *RemoteObject, attempts int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return o.route.IsRound(attempts)
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
	r.id = c.service(o)
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
