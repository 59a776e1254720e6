package directory

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/ripc"
	"github.com/squall-go/squall/ripc/directory/internal/registry"
)

// Defaults.
const (
	DefaultLease = 10 * time.Second
	DefaultHold  = 24 * time.Hour

	DefaultMaxNamesPerOwner = 4096
)

// Config describes a member's part of a directory. The zero value is ready to use.
type Config struct {
	// Name is that of the subgroup; empty is "directory".
	Name string
	// Persistent keeps the directory in a log, so that a group that starts again still knows whose the
	// names are. It needs the group's Dir.
	Persistent bool
	// Key signs the names of this process's own services; nil is a key of its own for each process.
	Key ed25519.PrivateKey
	// Lease is for how long a service of this process stays in the directory without a word of it; 0
	// is DefaultLease.
	Lease time.Duration
	// MaxNamesPerOwner is how many names one owner may have, through this member: a key, or with TLS
	// an identity. All owners that speak from one process of this host, or without TLS from one
	// address, may have four times as many together. What they have is kept if the bound is lowered. 0
	// is DefaultMaxNamesPerOwner.
	MaxNamesPerOwner int
	// OnLost is called when a service of this process is not its own any more: the same owner
	// registered it elsewhere.
	OnLost func(ripc.ID, error)
}

// Directory is a member's part of a directory. It is a resolver for the member's own endpoint. Its
// methods may be called from any goroutine.
type Directory struct {
	cfg      Config
	pub      *publisher
	attached chan struct{} // closed when the next three are set
	group    *squall.Group
	orders   *squall.Subgroup
	service  *ripc.Service

	mu       sync.Mutex
	state    registry.Registry
	advanced time.Time // when the time of the state moved last
	applied  int       // commands since the last snapshot of a log
	ticket   uint64
	pending  map[uint64]chan registry.Outcome
	watch    watch
}

// New returns a directory, which begins with the group of which its subgroup is a part.
func New(cfg Config) *Directory {
	cfg.Name = cmp.Or(cfg.Name, "directory")
	cfg.Lease = cmp.Or(cfg.Lease, DefaultLease)
	cfg.MaxNamesPerOwner = cmp.Or(max(cfg.MaxNamesPerOwner, 0), DefaultMaxNamesPerOwner)
	hold := DefaultHold
	if cfg.Key == nil {
		cfg.Key, hold = newKey(), 0
	}
	if cfg.OnLost == nil {
		cfg.OnLost = func(ripc.ID, error) {}
	}
	d := &Directory{cfg: cfg, attached: make(chan struct{}), ticket: mathrand.Uint64(), pending: map[uint64]chan registry.Outcome{}, watch: newWatch()}
	d.pub = &publisher{key: cfg.Key, member: true, lease: cfg.Lease, hold: hold, say: d.sayHere, lost: cfg.OnLost, live: map[publication]bool{}}
	return d
}

func newKey() ed25519.PrivateKey {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err) // the system has no random numbers
	}
	return key
}

// queueBytes is for commands that wait for their signatures to be checked, which is not done on the
// group's loop.
const queueBytes = 1 << 20

// Subgroup declares the directory's subgroup, for the group's configuration.
func (d *Directory) Subgroup() squall.SubgroupConfig {
	c := squall.SubgroupConfig{Name: d.cfg.Name, Deliver: d.deliver, AsyncQueueBytes: queueBytes, Snapshot: d.snapshot, Restore: d.restore}
	if d.cfg.Persistent {
		c.Mode = squall.Persistent
	}
	return c
}

// deliver applies a command.
func (d *Directory) deliver(m squall.Message) {
	var c registry.Command
	if json.Unmarshal(m.Data, &c) != nil {
		return // all members ignore it
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.state.Time
	o := d.state.Apply(c)
	if d.state.Time != before {
		d.advanced = time.Now()
	}
	d.applied++
	if waits := d.pending[c.Ticket]; waits != nil && !m.Replayed() {
		delete(d.pending, c.Ticket)
		waits <- o
	}
	for _, e := range o.News {
		d.changed(e)
	}
}

// snapshot captures the state for a new member, or in place of a log.
func (d *Directory) snapshot() func(io.Writer) error {
	var b bytes.Buffer
	d.mu.Lock()
	err := d.state.Write(&b)
	d.mu.Unlock()
	return func(w io.Writer) error {
		if err == nil {
			_, err = w.Write(b.Bytes())
		}
		return err
	}
}

// restore replaces the state.
func (d *Directory) restore(from io.Reader) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.advanced = time.Now()
	return d.state.Read(from)
}

// submit has all members apply a command, and returns what became of it.
func (d *Directory) submit(ctx context.Context, c registry.Command) (registry.Outcome, error) {
	waits := make(chan registry.Outcome, 1)
	d.mu.Lock()
	d.ticket++
	c.Ticket = d.ticket
	d.pending[c.Ticket] = waits
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		delete(d.pending, c.Ticket)
		d.mu.Unlock()
	}()
	text, err := json.Marshal(c)
	if err == nil {
		err = d.orders.Send(ctx, text)
	}
	if err != nil {
		return registry.Outcome{}, err
	}
	select {
	case o := <-waits:
		return o, nil
	case <-d.group.Done():
		return registry.Outcome{}, d.group.Err()
	case <-ctx.Done():
		return registry.Outcome{}, context.Cause(ctx)
	}
}

// restored waits until a member has the state.
func restored(ctx context.Context, g *squall.Group, s *squall.Subgroup) error {
	select {
	case <-s.Restored():
		return nil
	case <-g.Done():
		return g.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// closeWith closes a service when ctx or a group ends, and cancels with the group. It returns when
// the service is withdrawn, for which the group has to last.
func closeWith(ctx context.Context, g *squall.Group, cancel context.CancelCauseFunc, s *ripc.Service) {
	select {
	case <-g.Done():
		cancel(g.Err())
	case <-ctx.Done():
	}
	s.Close()
}

// Serve makes this process a server of the directory until ctx or the group ends, and returns why.
// The endpoint is this process's, with the directory as its resolver; clients need its address. A
// directory serves once. Close the group after Serve has returned: then the other members know that
// this one does not serve any more.
func (d *Directory) Serve(ctx context.Context, g *squall.Group, e *ripc.Endpoint) error {
	orders, err := g.Subgroup(d.cfg.Name)
	if err != nil {
		return err
	}
	if err := restored(ctx, g, orders); err != nil {
		return err
	}
	d.group, d.orders = g, orders
	close(d.attached)
	if err := d.begin(ctx); err != nil {
		return err
	}
	s, err := e.RegisterShared(ctx, ServiceID)
	if err != nil {
		return err
	}
	s.CopyMessages() // a client can change a question while it is decoded
	d.mu.Lock()
	d.service = s
	d.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	defer running.Wait()
	defer d.quiet()
	defer cancel(nil)
	running.Go(func() { d.pub.renew(ctx) })
	running.Go(func() { d.keepTime(ctx) })
	running.Go(func() { closeWith(ctx, g, cancel, s) })
	err = d.answer(ctx, s, &running)
	if errors.Is(err, ripc.ErrClosed) && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return err
}

// begin gives the directory its name, if no other member did.
func (d *Directory) begin(ctx context.Context) error {
	var b [16]byte
	rand.Read(b[:])
	_, err := d.submit(ctx, registry.Command{Begin: hex.EncodeToString(b[:])})
	if err == nil {
		d.mu.Lock()
		r := reply{Realm: d.state.Realm, Time: d.state.Time}
		d.mu.Unlock()
		d.pub.learn(r)
	}
	return err
}

const (
	tick          = 250 * time.Millisecond
	snapshotEvery = 4096 // commands
)

// keepTime moves the directory's time on if this is the first member that is left. Where nothing is
// registered, time stands still, and nothing is sent.
func (d *Directory) keepTime(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	idle := time.Now()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		members := d.orders.Members(0)
		d.mu.Lock()
		d.watch.prune(pruneEvery)
		from, last, entries := d.state.Time, d.advanced, len(d.state.Entries)
		full := d.cfg.Persistent && d.applied >= snapshotEvery
		if full {
			d.applied = 0
		}
		d.mu.Unlock()
		if full {
			_, _ = d.orders.TakeSnapshot(ctx) // if it fails the log is longer
		}
		if entries == 0 || len(members) == 0 || members[0] != d.group.ID() {
			idle = time.Now()
			continue
		}
		if idle.After(last) {
			last = idle
		}
		// When the group was held up, its time was, too: services that could not renew their leases
		// meanwhile still have them.
		if by := min(time.Since(last), 2*tick); by >= tick/2 {
			_, _ = d.submit(ctx, registry.Command{From: from, By: millis(by)})
		}
	}
}

// sayHere submits records of this process to the directory.
func (d *Directory) sayHere(ctx context.Context, records []*registry.Record) (reply, error) {
	select {
	case <-d.attached:
	case <-ctx.Done():
		return reply{}, context.Cause(ctx)
	}
	return d.say(ctx, records, registry.MemberOwner, "")
}

// say submits records to the directory. The speaker owns the names of records without a key; origin
// is where a client's records come from.
func (d *Directory) say(ctx context.Context, records []*registry.Record, speaker, origin string) (r reply, err error) {
	if len(records) > maxRecords {
		return r, fmt.Errorf("%w: %d records, at most %d", ripc.ErrLimit, len(records), maxRecords)
	}
	for _, rec := range records {
		o := registry.Outcome{Err: rec.Check()} // what is wrong by itself need not be ordered
		if o.Err == nil {
			if o, err = d.submit(ctx, registry.Command{Record: rec, Speaker: speaker, Origin: origin, Most: d.cfg.MaxNamesPerOwner}); err != nil {
				return r, err
			}
		}
		r.Results = append(r.Results, resultOf(o))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	r.Realm, r.Time = d.state.Realm, d.state.Time
	return r, nil
}

// Resolve implements ripc.Resolver.
func (d *Directory) Resolve(ctx context.Context, id ripc.ID) (ripc.Place, error) {
	all, err := d.ResolveAll(ctx, id)
	if err != nil {
		return ripc.Place{}, err
	}
	return all[0], nil
}

// ResolveAll implements ripc.Finder.
func (d *Directory) ResolveAll(_ context.Context, id ripc.ID) ([]ripc.Place, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.state.Find(string(id)); e != nil && len(e.Places()) > 0 {
		return places(e.Places()), nil
	}
	return nil, fmt.Errorf("%w: %s is not in the directory", ripc.ErrNoService, id)
}

// Publish implements ripc.Resolver. It waits until the directory serves.
func (d *Directory) Publish(ctx context.Context, id ripc.ID, at ripc.Place) (withdraw func() error, err error) {
	return d.pub.publish(ctx, id, at, false)
}

// PublishShared implements ripc.Finder.
func (d *Directory) PublishShared(ctx context.Context, id ripc.ID, at ripc.Place) (withdraw func() error, err error) {
	return d.pub.publish(ctx, id, at, true)
}

// Watch implements ripc.Watcher.
func (d *Directory) Watch(moved func(ripc.ID, []ripc.Place)) (stop func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.watch.local.add(&d.mu, moved)
}

// Forget implements ripc.Forgetter: the members of the group see when a lease ends, and keep
// nothing else.
func (d *Directory) Forget(ripc.ID, ripc.Place) {}

// Entry is a service in a directory.
type Entry struct {
	Service ripc.ID
	Owner   string // the key or identity to which the name belongs, or "members"
	Shared  bool
	Places  []ripc.Place // none: the service is nowhere now, and the name is held
}

// List returns all services whose ids begin with a prefix.
func (d *Directory) List(prefix string) (entries []Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.state.From(prefix) {
		if len(e.Name) < len(prefix) || e.Name[:len(prefix)] != prefix {
			break
		}
		entries = append(entries, Entry{ripc.ID(e.Name), e.Owner, e.Shared, places(e.Places())})
	}
	return slices.Clip(entries)
}
