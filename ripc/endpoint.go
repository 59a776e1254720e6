package ripc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/ripc/internal/pair"
	"github.com/squall-go/squall/ripc/internal/table"
	"github.com/squall-go/squall/trust"
)

// Endpoint is a process's place for services. Its methods may be called from any goroutine.
type Endpoint struct {
	cfg         Config
	key         trust.Key  // proves that a process knows the secret
	incarnation string     // tells this endpoint from all others
	port        *port.Port // nil without TCP
	local       *localPort // nil without shared memory
	ctx         context.Context
	cancel      context.CancelFunc
	background  sync.WaitGroup
	greeting    *gate         // for processes that are greeted over TCP
	refused     atomic.Uint64 // processes that were turned away
	unwatch     func()        // ends the resolver's word; nil if there is none
	nowhere     Remote        // of channels that are over
	memory      memory        // for long messages

	polling
	services    map[ID]*Service
	numbers     []*Service // that are not closed, or still handle messages, by number
	number      uint32     // of the last one
	peers       []*peer
	connections uint64 // so many peers there were
	accounts    table.Accounts[*peer]
	dialing     map[Place]*dial
	seen        map[ID]Place // where services were found last
	counts      Stats        // without what is counted elsewhere
	events      []Event      // that the application was not told yet
	telling     bool         // a goroutine tells them
	closing     bool         // Close was called
	awaited     bool         // Close waits for background: frames that are given back now add nothing to it
	postponed   postponedList
}

// Open opens an endpoint. It listens at once, and knows no service yet.
func Open(ctx context.Context, cfg Config) (*Endpoint, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("ripc: %w", err)
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	e := &Endpoint{
		cfg: cfg, key: trust.KeyOf("squall ripc 1 ", cfg.Secret), incarnation: trust.NewNonce().String(),
		services: map[ID]*Service{}, dialing: map[Place]*dial{}, seen: map[ID]Place{},
		greeting: newGate(maxGreetingTCP),
	}
	e.memory.open()
	reject := e.cfg.OnReject
	e.cfg.OnReject = func(err error) {
		e.refused.Add(1)
		reject(err)
	}
	e.accounts.Limits = table.Limits{
		Peers: cfg.MaxPeers, PeersPerAccount: cfg.MaxPeersPerClient, Bytes: cfg.MaxBytes, BytesPerAccount: cfg.MaxBytesPerClient,
	}
	if err := e.openPolling(cfg.MaxSpin); err != nil {
		return nil, err
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	if err := e.listen(); err != nil {
		e.cancel()
		e.stopListening()
		e.closeParker()
		return nil, fmt.Errorf("ripc: %w", err)
	}
	if w, ok := e.cfg.Resolver.(Watcher); ok {
		e.unwatch = w.Watch(e.moved)
	}
	go e.takeCare(e.ctx)
	return e, nil
}

// listen opens the sockets at which other endpoints dial this one.
func (e *Endpoint) listen() (err error) {
	if e.cfg.Transport != TCP {
		e.local, err = listenLocal(e)
		if err != nil && (e.cfg.Transport == SHM || !errors.Is(err, errors.ErrUnsupported)) {
			return err
		}
	}
	if e.cfg.Addr == "" || e.cfg.Transport == SHM {
		return nil
	}
	e.port, err = port.Listen(port.Config{
		Addr: e.cfg.Addr, Advertise: e.cfg.Advertise, TLS: e.cfg.TLS,
		OnReject: func(r port.Rejection) { e.cfg.OnReject(fmt.Errorf("ripc: %s: %w", r.Remote, r.Err)) },
	})
	if err == nil {
		e.port.Handle(port.KindServices, e.acceptTCP)
	}
	return err
}

func (e *Endpoint) stopListening() (err error) {
	if e.local != nil {
		err = e.local.close()
	}
	if e.port != nil {
		err = errors.Join(err, e.port.Close())
	}
	return err
}

// Place is where this endpoint is, for resolvers.
func (e *Endpoint) Place() Place {
	p := Place{Incarnation: e.incarnation}
	if e.local != nil {
		p.Host, p.Socket = e.local.host, e.local.name
	}
	if e.port != nil {
		p.Addr = e.port.Addr()
	}
	return p
}

// Addr is the host:port that other hosts dial, or empty.
func (e *Endpoint) Addr() string { return e.Place().Addr }

func (e *Endpoint) String() string { return "endpoint " + e.incarnation[:8] }

// Register makes a service of this endpoint. A service with an empty id cannot be found by name:
// only the services that it sends to can address it. Register publishes any other id at the
// resolver, which may refuse it.
func (e *Endpoint) Register(ctx context.Context, id ID) (*Service, error) {
	return e.register(ctx, id, e.cfg.Resolver.Publish)
}

// register makes a service and publishes it.
func (e *Endpoint) register(ctx context.Context, id ID, publish func(context.Context, ID, Place) (func() error, error)) (*Service, error) {
	if len(id) > maxID {
		return nil, fmt.Errorf("ripc: an id of %d bytes, the limit is %d", len(id), maxID)
	}
	s, err := e.enter(id)
	if err != nil || id == "" {
		return s, err
	}
	withdraw, err := publish(ctx, id, e.Place())
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("ripc: registering %s: %w", id, err)
	}
	e.lock()
	late := s.closed
	s.withdraw = withdraw
	e.unlock()
	if late {
		return nil, errors.Join(fmt.Errorf("ripc: %s: %w", id, ErrClosed), withdraw())
	}
	return s, nil
}

// enter puts a service on the list.
func (e *Endpoint) enter(id ID) (*Service, error) {
	e.lock()
	defer e.unlock()
	number := e.number + 1
	if id == "" {
		id = ID(fmt.Sprintf("%s/%d", e.incarnation, number))
	}
	switch {
	case e.closing:
		return nil, fmt.Errorf("ripc: %w", ErrClosed)
	case e.services[id] != nil:
		return nil, fmt.Errorf("ripc: %s is registered here already", id)
	case len(e.services) >= MaxServices:
		return nil, fmt.Errorf("ripc: %w: %d services", ErrLimit, MaxServices)
	}
	s := &Service{e: e, id: id, number: number, remotes: map[ID][]*Remote{}}
	s.open, s.shut = context.WithCancelCause(context.Background())
	if e.cfg.Long.MaxBytes > 0 || e.cfg.Long.Allocate != nil {
		s.long.follow(e.cfg.Long)
	}
	e.services[id] = s
	e.numbers, e.number = append(e.numbers, s), number
	return s, nil
}

// byNumber is the service with a number, or nil.
func (e *Endpoint) byNumber(n uint32) *Service {
	i, found := slices.BinarySearchFunc(e.numbers, n, func(s *Service, n uint32) int { return cmp.Compare(s.number, n) })
	if !found {
		return nil
	}
	return e.numbers[i]
}

// forgetService takes a service off the list that is closed and handles nothing any more.
func (e *Endpoint) forgetService(s *Service) {
	s.leaveAll()
	if i := slices.Index(e.numbers, s); i >= 0 {
		e.numbers = slices.Delete(e.numbers, i, i+1)
	}
}

// add takes over a peer whose handshake is done; called says that it called.
func (e *Endpoint) add(link fabric.Link, who Peer, called bool, own []byte, release func() error, long longs) (*peer, error) {
	p := &peer{e: e, who: who, link: link, direct: link.Direct(), own: own, row: link.Replica(), release: release, long: long}
	p.tx, p.rx = pair.NewSender(own, p.row, p.direct), pair.NewReceiver(own, p.row, p.direct)
	ready := link.(interface{ Readiness() *fabric.Readiness }).Readiness()
	p.spot = table.Spot[*peer]{Peer: p, Always: ready == nil}
	if l, ok := link.(interface {
		Guard(func(fabric.Range) error)
	}); ok {
		l.Guard(p.rx.Guard)
	}
	charged := pairBytes(len(own), len(p.row), p.direct)
	e.lock()
	defer e.unlock()
	if e.closing {
		return nil, ErrClosed
	}
	if err := e.accounts.Admits(who.account(), charged, called); err != nil {
		return nil, err
	}
	e.accounts.Enter(&p.member, p, who.account(), charged, called)
	e.connections++
	p.viewer = e.connections
	p.rx.Bound(p)
	if ready != nil {
		ready.Owner = p
	}
	e.peers = append(e.peers, p)
	e.startLong(p)
	e.heat(p)
	e.emit(PeerConnected{p.who.String(), link.Name()})
	return p, nil
}

// forget takes a peer that ended off the list.
func (e *Endpoint) forget(p *peer) {
	if i := slices.Index(e.peers, p); i >= 0 {
		e.peers = slices.Delete(e.peers, i, i+1)
		e.accounts.Leave(&p.member)
	}
	for place, d := range e.dialing {
		if d.peer == p {
			delete(e.dialing, place)
		}
	}
}

// Peers is the number of connected processes.
func (e *Endpoint) Peers() int {
	e.lock()
	defer e.unlock()
	return len(e.peers)
}

// Close ends the services and the connections. Peers still receive what was sent.
func (e *Endpoint) Close() error {
	e.lock()
	if e.closing {
		e.unlock()
		return nil
	}
	e.closing = true
	var withdrawals []func() error
	for _, s := range slices.Clone(e.numbers) {
		s.close()
		if s.withdraw != nil {
			withdrawals = append(withdrawals, s.withdraw)
			s.withdraw = nil
		}
	}
	e.lastWords()
	e.closed = true
	for len(e.peers) > 0 {
		e.peers[0].fail(ErrClosed)
	}
	for seat := e.role.First(); seat != nil; seat = e.role.First() {
		e.rouse(seat.Waiter)
	}
	e.parker.Wake()
	e.cancel()
	e.unlock()
	var errs []error
	for _, withdraw := range withdrawals {
		errs = append(errs, withdraw())
	}
	if e.unwatch != nil {
		e.unwatch()
	}
	errs = append(errs, e.stopListening())
	<-e.cared
	e.lock()
	e.awaited = true
	e.unlock()
	e.background.Wait()
	e.closeMemory()
	errs = append(errs, e.quit())
	return errors.Join(errs...)
}

// lastWords lets handlers end, and gives the sockets what was sent, as far as that takes a short time. The caller holds the mu, which others have
// meanwhile.
func (e *Endpoint) lastWords() {
	for end := time.Now().Add(lastWordsTime); time.Now().Before(end); {
		waits := slices.ContainsFunc(e.numbers, func(s *Service) bool { return s.busy > 0 })
		for _, p := range slices.Clone(e.peers) {
			if l, ok := p.link.(interface{ Flushed() bool }); ok && !p.ended() {
				p.flush()
				waits = waits || !p.ended() && !l.Flushed()
			}
		}
		if !waits {
			return
		}
		e.unlock()
		pause()
		e.lock()
	}
}

// lastWordsTime is how long Close waits for handlers and sockets.
const lastWordsTime = time.Second
