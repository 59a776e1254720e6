package replicated

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/internal/invoke"
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
	Group     string   // the identity of the group (squall.View.Group); empty: that of the member which answers first
	Addresses []string // host:port of members' servers (Server.Addr): the client uses one, and the next one when that fails
	// Seed decides with which of Addresses the client begins: 1 is the first one, 2 the second, and so
	// on in turn. 0 is a random one, which spreads clients over the members.
	Seed uint64
	// Logger receives the events of the client. Nil: none.
	Logger *slog.Logger
	// Events is called with each event, from the goroutines of the client; it must not block, nor call
	// the client.
	Events func(ClientEvent)
	// Endpoint has the client's TLS certificates, secret and limits. Its Listen, Resolver and
	// MoveTimeout are not used.
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
	objects map[string]*remote
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

// Dial returns a client. It connects to a member when something is called. The context is for Dial
// alone: Close ends the client.
func Dial(ctx context.Context, cfg ClientConfig) (*Client, error) {
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
	c := &Client{cfg: cfg, start: time.Now(), group: cfg.Group, objects: map[string]*remote{}}
	first := int((cfg.Seed - 1) % uint64(len(cfg.Addresses)))
	if cfg.Seed == 0 {
		first = mathrand.IntN(len(cfg.Addresses))
	}
	cfg.Addresses = slices.Concat(cfg.Addresses[first:], cfg.Addresses[:first])
	c.cfg.Addresses = cfg.Addresses
	c.any.Route = client.NewRoute(cfg.Addresses, cfg.MemberTimeout)
	c.places.use("", c.any.Place())
	cfg.Endpoint.Listen, cfg.Endpoint.Resolver = "", &c.places
	cfg.Endpoint.MoveTimeout = -1 // in place of waiting for a member that has left, another one is asked
	c.ctx, c.cancel = context.WithCancel(context.Background())
	var err error
	if c.endpoint, err = ripc.Open(ctx, cfg.Endpoint); err != nil {
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
	if place, err := ripc.OneHost("").Resolve(ctx, ripc.ID(client.Presence(addr))); err == nil {
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
// It asks each member once at most, and takes no longer than MemberTimeout.
func (c *Client) Close() error {
	c.closing.Store(true)
	c.mu.Lock()
	all := make([]*remote, 0, len(c.objects))
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
func (c *Client) Object(name string) *RemoteObject {
	return &RemoteObject{remoteTarget{c.object(name, nil, 0)}}
}

// shard returns a shard of an object.
func (c *Client) shard(of *remote, n int) *remote {
	return c.object(client.ShardName(of.name, n), of, n)
}

func (c *Client) object(name string, whole *remote, shard int) *remote {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.objects[name]
	if o == nil {
		o = &remote{client: c, name: name, timeout: c.cfg.SessionTimeout, newToken: newToken, whole: whole, shard: shard, route: &c.any}
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
func newToken() (t invoke.Token) {
	_, _ = rand.Read(t[:]) // it does not fail
	return t
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
		for _, o := range c.dropLate() {
			c.done.Go(func() { c.probe(o) })
		}
	}
}

// dropLate drops members that do not answer, begins to touch idle objects, and returns those whose
// members are to be probed.
func (c *Client) dropLate() (silent []*remote) {
	c.mu.Lock()
	var old []*ripc.Service
	var idle []*remote
	var events []ClientEvent
	late := func(r *route, object string) {
		current := r.Current()
		if _, late := r.Late(c.now()); !late {
			return
		}
		if e := r.left(r.PlaceOf(current), object, ErrMemberTimeout); e != nil {
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
	for _, o := range idle {
		c.done.Go(func() { o.touch(c.ctx) })
	}
	return silent
}

// probe asks the member for something that it answers at once. If it does not, it is late.
func (c *Client) probe(o *remote) {
	l, service, to, err := c.begin(o, 1, false)
	if err != nil {
		return
	}
	m, err := c.call(c.ctx, o, service, to, [][]byte{{byte(client.Locate)}})
	m.Release()
	c.end(o, l, err)
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

func (c *Client) changed(o *remote) { o.session.room.Broadcast() }

// wait implements asker.
func (c *Client) wait(ctx context.Context, o *remote) {
	s := &o.session
	stop := context.AfterFunc(ctx, func() {
		s.Lock()
		defer s.Unlock()
		s.room.Broadcast()
	})
	defer stop()
	s.room.Wait()
}

// shards implements asker.
func (c *Client) shards(ctx context.Context, o *remote) (int, error) {
	l, err := o.located(ctx)
	return l.Shards, err
}
