package directory

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/ripc"
	"github.com/squall-go/squall/ripc/directory/internal/registry"
)

// ClientConfig describes a client of a directory.
type ClientConfig struct {
	// Members are the addresses, host:port, of the endpoints of some members. When one fails, the next
	// one is asked.
	Addresses []string
	// TLS has the certificates for mutual TLS, if the members have TLS.
	TLS *tls.Config
	// Secret is that of the members' endpoints.
	Secret []byte
	// Key signs what this process registers; the names belong to it. Without it, they belong to the
	// identity in the certificate if there is TLS, and otherwise to this client, as long as it lives.
	Key ed25519.PrivateKey
	// Lease is for how long a service of this process stays in the directory without a word of it; 0
	// is DefaultLease. The client renews it in the background.
	Lease time.Duration
	// Hold is for how long a name stays the owner's when its service has ended; 0 is DefaultHold, less
	// than 0 is no time.
	Hold time.Duration
	// OnLost is called when a service of this process is not its own any more: the same owner
	// registered it elsewhere.
	OnLost func(ripc.ID, error)
}

// Client finds and registers services in a directory. It is a resolver for any number of endpoints,
// and keeps what it found until a member says that it has changed. Its methods may be called from
// any goroutine.
type Client struct {
	cfg    ClientConfig
	pub    *publisher
	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu       sync.Mutex
	conn     *conn
	next     int // member to ask when there is no connection
	cache    map[ripc.ID]cached
	asked    map[ripc.ID]*question // names that are being asked for
	fetching map[ripc.ID]bool      // names that are asked for again; true: once more after that
	local    callbacks
	closed   bool
}

// conn is a connection to one member.
type conn struct {
	endpoint *ripc.Endpoint
	service  *ripc.Service
	to       *ripc.Remote
	member   string
}

// cached is what is known of a name, as long as the connection stands by which it was found.
type cached struct {
	version uint64
	places  []ripc.Place
}

// question is a name that goroutines are asking for.
type question struct {
	asking int
	newest uint64 // version that a notice told meanwhile
}

// Dial returns a client. It connects when it is used, and lasts until Close, whatever becomes of
// ctx.
func Dial(ctx context.Context, cfg ClientConfig) (*Client, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if len(cfg.Addresses) == 0 {
		return nil, errors.New("directory: Members is empty: give the address of a member")
	}
	cfg.Addresses = slices.Clone(cfg.Addresses)
	cfg.Lease = cmp.Or(cfg.Lease, DefaultLease)
	cfg.Hold = max(cmp.Or(cfg.Hold, DefaultHold), 0)
	if cfg.Key == nil && cfg.TLS == nil {
		cfg.Key, cfg.Hold = newKey(), 0
	}
	if cfg.OnLost == nil {
		cfg.OnLost = func(ripc.ID, error) {}
	}
	c := &Client{cfg: cfg, cache: map[ripc.ID]cached{}, asked: map[ripc.ID]*question{}, fetching: map[ripc.ID]bool{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.pub = &publisher{key: cfg.Key, lease: cfg.Lease, hold: cfg.Hold, say: c.say, lost: cfg.OnLost, live: map[publication]bool{}}
	c.done.Go(func() { c.pub.renew(c.ctx) })
	return c, nil
}

// Close ends the client. Close the endpoints first: they withdraw their services.
func (c *Client) Close() error {
	c.cancel()
	c.mu.Lock()
	conn := c.conn
	c.conn, c.closed = nil, true
	c.mu.Unlock()
	var err error
	if conn != nil {
		err = conn.endpoint.Close()
	}
	c.done.Wait()
	return err
}

const (
	attemptTime = 3 * time.Second // for one member to answer
	rounds      = 3               // in which all members are asked
	roundPause  = 100 * time.Millisecond
)

// ask calls a member: that of the connection, or else one after the other.
func (c *Client) ask(ctx context.Context, r request) (answer reply, from *conn, err error) {
	text, err := json.Marshal(r)
	if err != nil {
		return answer, nil, err
	}
	finals := 0 // members in a row that fail whenever they are asked, until a configuration changes
	for k := range rounds * len(c.cfg.Addresses) {
		if k > 0 && k%len(c.cfg.Addresses) == 0 {
			select {
			case <-time.After(roundPause):
			case <-ctx.Done():
			}
		}
		var at *conn
		if at, err = c.connection(ctx); err == nil {
			var attempt context.Context
			attempt, cancel := context.WithTimeout(ctx, attemptTime)
			answer, err = at.ask(attempt, text)
			cancel()
			if err == nil {
				return answer, at, nil
			}
			err = fmt.Errorf("directory: asking %s: %w", at.member, err)
			c.drop(at)
		}
		if finals++; !port.Final(err) {
			finals = 0
		}
		if ctx.Err() != nil || c.ctx.Err() != nil || finals == len(c.cfg.Addresses) {
			break
		}
	}
	return answer, nil, err
}

// ask calls the member.
func (c *conn) ask(ctx context.Context, text []byte) (answer reply, err error) {
	m, err := c.service.Call(ctx, c.to, text)
	if err != nil {
		return answer, err
	}
	defer m.Release()
	return answer, json.Unmarshal(m.Data, &answer)
}

// connection is that to the member that is asked.
func (c *Client) connection(ctx context.Context) (*conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("directory: %w", ripc.ErrClosed)
	}
	if c.conn != nil {
		return c.conn, nil
	}
	n := &conn{member: c.cfg.Addresses[c.next%len(c.cfg.Addresses)]}
	cfg := ripc.Config{
		Resolver: ripc.Static{ServiceID: {Addr: n.member}}, TLS: c.cfg.TLS, Secret: c.cfg.Secret, MoveTimeout: -1,
		Events: func(e ripc.Event) {
			if _, lost := e.(ripc.PeerLost); lost {
				c.drop(n)
			}
		},
	}
	if cfg.TLS != nil {
		cfg.Transport, cfg.Listen = ripc.TransportTCP, "127.0.0.1:0"
	}
	var err error
	if n.endpoint, err = ripc.Open(ctx, cfg); err != nil {
		return nil, err
	}
	if n.service, err = n.endpoint.Register(ctx, ""); err != nil {
		return nil, errors.Join(err, n.endpoint.Close())
	}
	n.service.CopyMessages() // a member can change an answer while it is decoded
	n.service.OnNotify(func(_ ripc.ID, _ uint64, data []byte) { c.noticed(n, data) })
	n.to = n.service.To(ServiceID)
	c.conn = n
	return n, nil
}

// drop gives up a connection. The cached places that came over it are dropped, because changes to
// them are not reported any more, and are looked up again, because an endpoint may use them.
func (c *Client) drop(n *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != n {
		return
	}
	c.conn = nil
	c.next++
	known := c.cache
	c.cache = map[ripc.ID]cached{}
	if c.closed {
		return
	}
	c.done.Go(func() { n.endpoint.Close() })
	for id := range known {
		c.fetch(id)
	}
}

// noticed takes in the word of a member that a name has changed. It says no more than that: a
// forged notice has the directory asked again.
func (c *Client) noticed(from *conn, data []byte) {
	var n note
	if json.Unmarshal(data, &n) != nil {
		return
	}
	id := ripc.ID(n.Name)
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := c.asked[id]; q != nil {
		q.newest = max(q.newest, n.Version)
	}
	if known, ok := c.cache[id]; ok && c.conn == from && known.version < n.Version && !c.closed {
		delete(c.cache, id)
		c.fetch(id)
	}
}

// fetch looks for a service again and tells the endpoints where it is. If it is called meanwhile,
// it looks once more, so that the endpoints are told last what was found last. The caller holds
// the mu.
func (c *Client) fetch(id ripc.ID) {
	if len(c.local.list) == 0 {
		return
	}
	_, runs := c.fetching[id]
	if c.fetching[id] = runs; runs {
		return
	}
	c.done.Go(func() {
		for again := true; again; {
			at, err := c.ResolveAll(c.ctx, id)
			c.mu.Lock()
			all := slices.Clone(c.local.list)
			c.mu.Unlock()
			if err == nil || errors.Is(err, ripc.ErrNoService) {
				for _, b := range all {
					b.f(id, at)
				}
			}
			c.mu.Lock()
			if again = c.fetching[id]; again {
				c.fetching[id] = false
			} else {
				delete(c.fetching, id)
			}
			c.mu.Unlock()
		}
	})
}

// Resolve implements ripc.Resolver.
func (c *Client) Resolve(ctx context.Context, id ripc.ID) (ripc.Place, error) {
	all, err := c.ResolveAll(ctx, id)
	if err != nil {
		return ripc.Place{}, err
	}
	return all[0], nil
}

// ResolveAll implements ripc.Finder.
func (c *Client) ResolveAll(ctx context.Context, id ripc.ID) ([]ripc.Place, error) {
	c.mu.Lock()
	known, ok := c.cache[id]
	c.mu.Unlock()
	if !ok {
		var err error
		if known, err = c.find(ctx, id); err != nil {
			return nil, err
		}
	}
	if len(known.places) == 0 {
		return nil, fmt.Errorf("%w: %s is not in the directory", ripc.ErrNoService, id)
	}
	return slices.Clone(known.places), nil
}

// find asks a member for a name, and to tell of changes from now on.
func (c *Client) find(ctx context.Context, id ripc.ID) (known cached, err error) {
	c.mu.Lock()
	asked := c.asked[id]
	if asked == nil {
		asked = &question{}
		c.asked[id] = asked
	}
	asked.asking++
	c.mu.Unlock()
	known, from, err := collect(id, func(q *query) (reply, *conn, error) { return c.ask(ctx, request{Find: q}) })
	c.mu.Lock()
	defer c.mu.Unlock()
	if asked.asking--; asked.asking == 0 {
		delete(c.asked, id)
	}
	if err == nil && c.conn == from && len(known.places) > 0 && asked.newest <= known.version {
		c.cache[id] = known
	}
	return known, err
}

// collect asks a member for a name, as often as it takes.
func collect(id ripc.ID, ask func(*query) (reply, *conn, error)) (known cached, from *conn, err error) {
	first := query{Name: string(id), Watch: true}
	for q := &first; q != nil; {
		answer, by, err := ask(q)
		if err != nil {
			return known, nil, err
		}
		if from != nil && by != from { // the rest is another member's: begin again
			known, from, q = cached{}, nil, &first
			continue
		}
		from, q = by, answer.More
		for _, f := range answer.Found {
			known.version = max(known.version, f.Version)
			known.places = append(known.places, places(f.Places)...)
		}
	}
	return known, from, nil
}

// Forget implements ripc.Forgetter.
func (c *Client) Forget(id ripc.ID, at ripc.Place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Contains(c.cache[id].places, at) {
		delete(c.cache, id)
	}
}

// Watch implements ripc.Watcher.
func (c *Client) Watch(moved func(ripc.ID, []ripc.Place)) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.local.add(&c.mu, moved)
}

// Publish implements ripc.Resolver.
func (c *Client) Publish(ctx context.Context, id ripc.ID, at ripc.Place) (withdraw func() error, err error) {
	return c.publish(ctx, id, at, false)
}

// PublishShared implements ripc.Finder.
func (c *Client) PublishShared(ctx context.Context, id ripc.ID, at ripc.Place) (withdraw func() error, err error) {
	return c.publish(ctx, id, at, true)
}

func (c *Client) publish(ctx context.Context, id ripc.ID, at ripc.Place, shared bool) (withdraw func() error, err error) {
	if at.Addr == "" && at.Socket == "" {
		return nil, fmt.Errorf("%w: the endpoint listens nowhere", ripc.ErrUnreachable)
	}
	if withdraw, err = c.pub.publish(ctx, id, at, shared); err != nil {
		return nil, fmt.Errorf("directory: %w", err)
	}
	return withdraw, nil
}

// say tells the directory something about services of this process.
func (c *Client) say(ctx context.Context, records []*registry.Record) (reply, error) {
	answer, _, err := c.ask(ctx, request{Records: records})
	if err == nil && len(answer.Results) != len(records) {
		err = fmt.Errorf("directory: %d results of %d records", len(answer.Results), len(records))
	}
	return answer, err
}

// List returns all services in the directory whose ids begin with a prefix.
func (c *Client) List(ctx context.Context, prefix string) (entries []Entry, err error) {
	for q := (&query{Name: prefix, All: true}); q != nil; {
		answer, _, err := c.ask(ctx, request{Find: q})
		if err != nil {
			return nil, err
		}
		q = answer.More
		for _, f := range answer.Found {
			if !strings.HasPrefix(f.Name, prefix) {
				return entries, nil
			}
			if n := len(entries); n > 0 && entries[n-1].Service == ripc.ID(f.Name) { // the rest of a long one
				entries[n-1].Places = append(entries[n-1].Places, places(f.Places)...)
				continue
			}
			entries = append(entries, Entry{ripc.ID(f.Name), f.Owner, f.Shared, places(f.Places)})
		}
	}
	return entries, nil
}
