package ripc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/ripc/internal/pair"
	"github.com/squall-go/squall/ripc/internal/table"
	"github.com/squall-go/squall/trust"
)

// Endpoint is a process's place for services. Its methods may be called from any goroutine.
type Endpoint struct {
	cfg         Config
	key         trust.Key // proves that a process knows the secret
	incarnation string    // tells this endpoint from all others
	ports       ports
	ctx         context.Context // until Close
	cancel      context.CancelFunc
	background  sync.WaitGroup
	unwatch     func() // ends the resolver's word; nil if there is none
	nowhere     Remote // of channels that are over
	memory      memory // for long messages

	polling

	// Under the mu of polling.
	services  registry
	peers     []*peer
	accounts  table.Accounts[*peer]
	dialer    dialer
	counts    Stats // without what is counted elsewhere
	events    eventQueue
	closing   bool // Close was called
	awaited   bool // Close waits for background: frames that are given back now add nothing to it
	postponed postponedList
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
		services: registry{byID: map[ID]*Service{}},
		dialer:   dialer{dialing: map[Place]*dial{}, seen: map[ID]Place{}},
	}
	e.ports.greeting = newGate(maxGreetingTCP)
	e.memory.open(cfg.MaxLongBytes)
	e.cfg.OnReject = func(err error) {
		e.ports.refused.Add(1)
		cfg.OnReject(err)
	}
	e.accounts.Limits = table.Limits{
		Peers: cfg.MaxPeers, PeersPerAccount: cfg.MaxPeersPerClient, Bytes: cfg.MaxBytes, BytesPerAccount: cfg.MaxBytesPerClient,
	}
	if err := e.openPolling(cfg.MaxSpin); err != nil {
		return nil, err
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	if err := e.listen(ctx); err != nil {
		e.cancel()
		e.ports.close()
		e.closeParker()
		return nil, fmt.Errorf("ripc: %w", err)
	}
	if w, ok := e.cfg.Resolver.(Watcher); ok {
		e.unwatch = w.Watch(e.moved)
	}
	go e.takeCare(e.ctx)
	return e, nil
}

// Place is where this endpoint is, for resolvers.
func (e *Endpoint) Place() Place {
	p := e.ports.place()
	p.Incarnation = e.incarnation
	return p
}

// Addr is the host:port that other hosts dial, or empty.
func (e *Endpoint) Addr() string { return e.Place().Addr }

func (e *Endpoint) String() string { return "endpoint " + e.incarnation[:8] }

// add takes over a peer whose handshake is done; called says that it called.
func (e *Endpoint) add(link fabric.Link, who Peer, called bool, own []byte, release func() error, long longs) (*peer, error) {
	row, direct := link.Replica(), link.Direct()
	p := &peer{e: e, who: who, direct: direct, line: line{link: link, own: own, row: row, release: release}, long: long}
	p.send.direct, p.send.tx = direct, pair.NewSender(own, row, direct)
	p.rx = pair.NewReceiver(own, row, direct)
	ready := link.(interface{ Readiness() *fabric.Readiness }).Readiness()
	p.spot = table.Spot[*peer]{Peer: p, Always: ready == nil}
	if l, ok := link.(interface {
		Guard(func(fabric.Range) error)
	}); ok {
		l.Guard(p.rx.Guard)
	}
	charged := pairBytes(len(own), len(row), direct)
	e.lock()
	defer e.unlock()
	if e.closing {
		return nil, ErrClosed
	}
	if err := e.accounts.Admits(who.account(), charged, called); err != nil {
		return nil, err
	}
	e.accounts.Enter(&p.member, p, who.account(), charged, called)
	p.viewer = e.counts.PeersConnected + 1
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
	e.dialer.forget(p)
}

// Peers is the number of connected processes.
func (e *Endpoint) Peers() int {
	e.lock()
	defer e.unlock()
	return len(e.peers)
}

// closeServices returns what takes the services out of the resolver. The caller holds mu.
func (e *Endpoint) closeServices() (withdrawals []func() error) {
	for _, s := range slices.Clone(e.services.all) {
		s.close()
		if s.withdraw != nil {
			withdrawals = append(withdrawals, s.withdraw)
			s.withdraw = nil
		}
	}
	return withdrawals
}

// Close ends the services and the connections. Peers still receive what was sent.
func (e *Endpoint) Close() error {
	e.lock()
	if e.closing {
		e.unlock()
		return nil
	}
	e.closing = true
	withdrawals := e.closeServices()
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
	errs = append(errs, e.ports.close())
	<-e.cared
	e.lock()
	e.awaited = true
	e.unlock()
	e.background.Wait()
	e.closeMemory()
	errs = append(errs, e.quit())
	return errors.Join(errs...)
}

// lastWords lets handlers end, and gives the sockets what was sent, as far as that takes a short
// time. The caller holds the mu, which others have meanwhile.
func (e *Endpoint) lastWords() {
	for end := time.Now().Add(lastWordsTime); time.Now().Before(end); {
		waits := slices.ContainsFunc(e.services.all, func(s *Service) bool { return s.busy > 0 })
		for _, p := range slices.Clone(e.peers) {
			if l, ok := p.line.link.(interface{ Flushed() bool }); ok && !p.ended() {
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
