package ripc

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Finder is a Resolver of services that are at several places.
type Finder interface {
	Resolver
	// ResolveAll returns all places of a service, at least one, or an ErrNoService.
	ResolveAll(ctx context.Context, id ID) ([]Place, error)
	// PublishShared is Publish for a service that others may have too.
	PublishShared(ctx context.Context, id ID, at Place) (withdraw func() error, err error)
}

// Watcher is a Resolver that learns of changes by itself.
type Watcher interface {
	Resolver
	// Watch has moved called when a service that the resolver had found is at other places, or, if at
	// is empty, at none that are known. moved does not block.
	Watch(moved func(id ID, at []Place)) (stop func())
}

// RegisterShared is Register for a service that other endpoints may have too, under the same id. A
// message to the id goes to the nearest one, or to each in turn (Service.Spread). The resolver must
// be a Finder, as the client of a directory is.
func (e *Endpoint) RegisterShared(ctx context.Context, id ID) (*Service, error) {
	f, ok := e.cfg.Resolver.(Finder)
	if !ok {
		return nil, fmt.Errorf("ripc: registering %s: %w: the resolver finds one place for an id", id, errors.ErrUnsupported)
	}
	return e.register(ctx, id, f.PublishShared)
}

// resolveAll returns all places of a service, the nearest first.
func (e *Endpoint) resolveAll(ctx context.Context, id ID) ([]Place, error) {
	f, ok := e.cfg.Resolver.(Finder)
	if !ok {
		at, err := e.cfg.Resolver.Resolve(ctx, id)
		return []Place{at}, err
	}
	places, err := f.ResolveAll(ctx, id)
	if err != nil {
		return nil, err
	}
	places = slices.Clone(places)
	slices.SortFunc(places, e.nearer)
	return places, nil
}

// nearer orders places: this endpoint, this host, others. Equally near ones come in an order that
// is another one at each endpoint, so that their clients spread.
func (e *Endpoint) nearer(a, b Place) int {
	return cmp.Or(cmp.Compare(e.distance(a), e.distance(b)), cmp.Compare(e.lot(a), e.lot(b)), cmp.Compare(a.Incarnation, b.Incarnation))
}

func (e *Endpoint) distance(p Place) int {
	switch {
	case p.Incarnation == e.incarnation:
		return 0
	case e.ports.isHere(p):
		return 1
	}
	return 2
}

func (e *Endpoint) lot(p Place) string {
	sum := sha256.Sum256([]byte(e.incarnation + p.Incarnation + p.Addr))
	return string(sum[:8])
}

// Connected reports whether there is a connection to the process where the service was found last.
// Message.Sender is also not connected when the service that sent the message has closed.
func (r *Remote) Connected() bool {
	r.service.e.lock()
	defer r.service.e.unlock()
	if r.peer != nil {
		return !r.peer.ended() && !r.mute
	}
	return r.route.Load() != nil
}

// drainTime is how long a sender waits until the place that a service has left received what was
// sent there.
const drainTime = time.Second

// moved turns all senders to a service away from places that the service has left. A place that is
// alive still receives what was sent to it, and the next message waits for that, within limits:
// messages stay in order, and the count of messages that were not received is exact.
func (e *Endpoint) moved(id ID, at []Place) {
	e.lock()
	defer e.unlock()
	for _, s := range e.services.all {
		for _, r := range s.remotes.byID[id] {
			r.turnAway(at)
			if r.board != nil {
				r.board.turnAway(at)
			}
		}
	}
}

// turnAway is moved for one address.
func (r *Remote) turnAway(at []Place) {
	r.news.Ring()
	to := r.route.Load()
	if to == nil || len(at) == 0 || slices.Contains(at, to.at) {
		return
	}
	p := to.peer
	p.send.leave(to.channel)
	r.left = to
	r.route.Store(nil)
	p.opened.drains++
	p.setHungry()
	p.wakeSenders() // those that wait there
}

// drain waits until a place that the service has left received what was sent to it.
func (r *Remote) drain(ctx context.Context) error {
	e := r.service.e
	for end := time.Now().Add(drainTime); ; {
		e.lock()
		to := r.left
		if to != nil && (to.peer.ended() || to.peer.send.isDrained(to.channel) || time.Now().After(end)) {
			r.leave()
		}
		left := r.left
		e.unlock()
		if left == nil {
			return nil
		}
		if err := r.pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

// leave gives up the place that the service has left, and notes what it did not receive. The caller
// holds the endpoint's mu.
func (r *Remote) leave() {
	to := r.left
	r.left = nil
	to.end()
	to.peer.opened.drains--
	to.peer.setHungry()
	defer to.peer.leave(to.channel)
	if n := to.peer.unreceived(to.channel); n > 0 {
		exact := to.peer.send.tx.IsShut(to.channel) || to.peer.ended() && to.peer.direct
		r.miss(n, exact, errMoved)
	}
}

// errMoved is why messages were not received at a place that the service has left.
var errMoved = errors.New("the service has moved")

// Spread is the address of a service that is at several places: each message goes to the next of
// them. Its methods may be called from any goroutine.
type Spread struct {
	service *Service
	id      ID

	mu      sync.Mutex
	remotes map[Place]*Remote
	last    Place
}

// Spread is the address of all services with an id, for callers that use them in turn.
func (s *Service) Spread(id ID) *Spread {
	return &Spread{service: s, id: id, remotes: map[Place]*Remote{}}
}

// Call is Service.Call to the next of the services. One that is not at its place any more is passed
// over, and a request that was certainly not received is sent to the next one.
func (g *Spread) Call(ctx context.Context, parts ...[]byte) (m Message, err error) {
	err = g.each(ctx, func(to *Remote) error {
		m, err = g.service.Call(ctx, to, parts...)
		return err
	})
	return m, err
}

// Send is Service.Send to the next of the services.
func (g *Spread) Send(ctx context.Context, parts ...[]byte) error {
	return g.each(ctx, func(to *Remote) error { return g.service.Send(ctx, to, parts...) })
}

// each tries one service after the other until one is there.
func (g *Spread) each(ctx context.Context, try func(*Remote) error) (err error) {
	const rounds = 3
	for range rounds {
		places, rerr := g.service.e.resolveAll(ctx, g.id)
		if rerr != nil {
			return fmt.Errorf("ripc: %s: %w", g.id, rerr)
		}
		for range places {
			to := g.next(places)
			if err = try(to); err == nil || !isElsewhere(err) || isLoss(err) {
				return err
			}
			g.service.e.forgetPlace(g.id, to.pinned)
		}
	}
	return err
}

// isLoss reports whether an error tells of messages, which the caller has to know.
func isLoss(err error) bool {
	gone, ok := errors.AsType[*GoneError](err)
	return ok && (gone.Unreceived > 0 || !gone.Exact)
}

// next is the address of the service at the place behind that of the last call.
func (g *Spread) next(places []Place) *Remote {
	g.mu.Lock()
	defer g.mu.Unlock()
	places = slices.SortedFunc(slices.Values(places), func(a, b Place) int {
		return cmp.Or(cmp.Compare(a.Incarnation, b.Incarnation), cmp.Compare(a.Addr, b.Addr))
	})
	at := places[0]
	if k := slices.Index(places, g.last); k >= 0 {
		at = places[(k+1)%len(places)]
	} else if g.last == (Place{}) {
		at = places[int(g.service.e.lot(places[0])[0])%len(places)]
	}
	g.last = at
	r := g.remotes[at]
	if r == nil {
		for place := range g.remotes {
			if !slices.Contains(places, place) {
				g.remotes[place].abandon()
				delete(g.remotes, place)
			}
		}
		r = newRemote(g.service, g.id)
		r.pinned = at
		g.remotes[at] = r
	}
	return r
}

// forgetPlace tells the resolver that a service is not at a place.
func (e *Endpoint) forgetPlace(id ID, at Place) (expected bool) {
	f, ok := e.cfg.Resolver.(Forgetter)
	if ok {
		f.Forget(id, at)
	}
	return ok
}

// placesOf are the places at which to look for the service of an address.
func (r *Remote) placesOf(ctx context.Context) ([]Place, error) {
	if r.pinned != (Place{}) {
		return []Place{r.pinned}, nil
	}
	return r.service.e.resolveAll(ctx, r.id)
}
