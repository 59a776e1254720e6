package ripc

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/ripc/internal/pair"
)

// This file compares what services of three endpoints do with a model of it: one goroutine draws
// operations from a seed, and knows what each of them has to return. After each operation it waits
// until all that was sent is taken, and audits the endpoints.

// names is a resolver for endpoints of one process, which says when services move.
type names struct {
	mu       sync.Mutex
	at       map[ID]Place
	watchers []func(ID, []Place)
}

func (n *names) Resolve(_ context.Context, id ID) (Place, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if at, ok := n.at[id]; ok {
		return at, nil
	}
	return Place{}, fmt.Errorf("%w: %s", ErrNoService, id)
}

func (n *names) Publish(_ context.Context, id ID, at Place) (func() error, error) {
	n.mu.Lock()
	_, moves := n.at[id]
	n.at[id] = at
	watchers := slices.Clone(n.watchers)
	n.mu.Unlock()
	for _, moved := range watchers {
		if moves {
			moved(id, []Place{at})
		}
	}
	return func() error {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.at[id] == at {
			delete(n.at, id)
		}
		return nil
	}, nil
}

func (n *names) Watch(moved func(ID, []Place)) (stop func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.watchers = append(n.watchers, moved) // an endpoint that is closed has no senders to turn
	return func() {}
}

const (
	worldRing   = pair.MinRingBytes
	worldMax    = worldRing/4 - pair.HeaderBytes // the longest message
	worldWindow = worldRing / 2
	worldBudget = 9 << 10 // of an endpoint, for bodies
	worldBodies = 5 << 10 // of a service
)

type world struct {
	t       *testing.T
	rng     *rand.Rand
	cfg     Config
	direct  bool
	file    string
	names   names
	ends    [3]*end
	open    []*service
	closed  []*service
	held    []*holding
	calls   []*calling
	serial  int
	history []string
}

// end is an endpoint of the world.
type end struct {
	e            *Endpoint
	watch        sync.WaitGroup // a goroutine that polls, and waits for nothing: the others have to be woken
	bodies       int            // charged
	calls, again uint64
	refused      uint64
}

// service is a service of the world, until it is closed.
type service struct {
	end    *end
	s      *Service
	id     ID
	isOpen bool
	order  []*item // what was sent to it and not received
	routes map[*service]bool
	gone   map[ID]*loss // what the next message to a service has to return when it has no route to it
	posted []*Window
	bodies int // charged
	mu     sync.Mutex
	notes  map[uint64]string // by key, the last one
}

// loss is how many messages a service has not received.
type loss struct {
	exact int // when it was closed
	bound int // at most, when its process ended: long ones that it had, and had not released
}

func (l *loss) is(n *GoneError) bool {
	return n.Unreceived == l.exact+l.bound && n.Exact == (l.bound == 0)
}

// owed is what a service has to be told by the next message that it sends to another one, or nil.
func (o *service) owed(to *service) *loss {
	if o.routes[to] {
		return nil
	}
	return o.gone[to.id]
}

// item is a message, or a request if it has a call.
type item struct {
	from, to *service
	data     []byte
	body     []byte
	isLong   bool
	call     *calling
	aside    bool // it is a reply, or was sent to Message.Sender: no message of the channel to the name of its service
	charged  bool
	inPlace  bool
	window   *Window
}

func (i *item) frame() int {
	if i.isLong {
		return 0
	}
	return pair.FrameBytes(len(i.data))
}

// holding is a message that the application has.
type holding struct {
	*item
	m      Message
	of     *service // that received it
	isOpen bool     // a request that was not answered
}

// calling is a call that was not answered.
type calling struct {
	from, to *service
	into     []byte
	isLong   bool
	once     bool // its body cannot be sent again
	cancel   context.CancelFunc
	done     chan struct{}
	m        Message
	err      error
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	for _, line := range w.history[max(0, len(w.history)-40):] {
		w.t.Log(line)
	}
	w.t.Fatalf(format, args...)
}

func (w *world) check(ok bool, format string, args ...any) {
	w.t.Helper()
	if !ok {
		w.fail(format, args...)
	}
}

func (w *world) log(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf(format, args...))
}

// until has all endpoints look at their peers until something holds.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(10 * time.Microsecond) {
		for _, n := range w.ends {
			if n == nil {
				continue
			}
			n.e.lock()
			if !n.e.closed && n.e.role.Poller() == nil {
				n.e.heatStirred()
				n.e.step()
			}
			n.e.unlock()
		}
		if time.Now().After(end) {
			w.fail("this does not end: %s", what)
		}
	}
}

// do runs what may wait for a peer.
func (w *world) do(what string, f func()) {
	w.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	w.until(what, func() bool { return isClosed(done) })
}

// settle waits until all that was sent is taken, and compares the endpoints with the model.
func (w *world) settle() {
	w.t.Helper()
	w.until("what is sent is taken", func() bool {
		var sent, taken, peers, bulks, waits uint64
		for _, n := range w.ends {
			if n == nil {
				continue
			}
			n.e.lock()
			for _, p := range n.e.peers {
				frames, size := p.send.total()
				sent += frames + size<<20
				frames, size = p.rx.Total()
				taken += frames + size<<20
				waits += uint64(p.answers.Len() + p.long.fetchers + len(p.long.toFetch))
				peers++
				if p.long.bulk != nil {
					bulks++
				} else if p.long.dialing {
					waits++
				}
			}
			for _, s := range n.e.services.all {
				waits += uint64(len(s.notices.boards))
			}
			n.e.unlock()
			if !slices.ContainsFunc(w.calls, func(c *calling) bool { return c.isLong }) { // which keep theirs
				waits += uint64(n.e.Buffers())
			}
		}
		return sent == taken && peers%2 == 0 && bulks%2 == 0 && waits == 0
	})
	all := true
	for _, h := range w.held {
		h.m.service.e.lock()
		all = all && !h.m.peer.ended()
		h.m.service.e.unlock()
	}
	for _, s := range w.open {
		for _, i := range s.order {
			all = all && i.from.end.e != nil && !i.from.end.e.isClosing()
		}
	}
	for k, n := range w.ends {
		if n == nil {
			continue
		}
		if err := n.e.audit(all); err != nil {
			w.fail("endpoint %d: %v", k, err)
		}
		s := n.e.Stats()
		w.check(s.Calls == n.calls && s.CallsRetried == n.again, "endpoint %d made %d calls, %d again; counted are %d and %d", k, n.calls, n.again, s.Calls, s.CallsRetried)
		w.check(s.Refused == n.refused, "endpoint %d refused %d, counted are %d", k, n.refused, s.Refused)
		services, calls, kept, found := 0, 0, 0, 0
		for _, o := range w.open {
			if o.end == n {
				services++
				kept += len(o.order)
				n.e.lock()
				w.check(o.s.queue.len() == len(o.order), "%s has %d messages, it has to have %d", o.id, o.s.queue.len(), len(o.order))
				w.check(o.s.long.places.Windows() == len(o.posted), "%s has %d windows, it has to have %d", o.id, o.s.long.places.Windows(), len(o.posted))
				n.e.unlock()
			}
		}
		for _, c := range w.calls {
			if c.from.end == n {
				calls++
			}
		}
		for _, h := range w.held {
			if h.of.end == n && h.m.frame != nil {
				kept++
			}
		}
		n.e.lock()
		open := 0
		for _, p := range n.e.peers {
			open += p.calls.Open()
			found += p.life.Kept()
			nowhere := 0
			for _, to := range p.opened.out {
				if to == &n.e.nowhere {
					nowhere++
				}
			}
			_, leaving := p.opened.states.Used()
			w.check(nowhere == leaving, "endpoint %d has %d channels that nobody uses, and gives %d back", k, nowhere, leaving)
			w.check(p.life.Kept() > 0 || p.heldUp() < worldRing/8, "endpoint %d keeps no message, and %d bytes of a ring", k, p.heldUp())
		}
		used := n.e.memory.budget.Used()
		n.e.unlock()
		w.check(s.Services == services, "endpoint %d has %d services, it has to have %d", k, s.Services, services)
		w.check(open == calls, "endpoint %d has %d calls, it has to have %d", k, open, calls)
		w.check(!all || found == kept, "endpoint %d has %d messages, it has to have %d", k, found, kept)
		w.check(used == int64(n.bodies), "endpoint %d has bodies of %d bytes, they have to have %d", k, used, n.bodies)
	}
}

// fresh returns bytes that no message had before, as far as they have room for it.
func (w *world) fresh(size int) []byte {
	w.serial++
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(w.serial >> (8 * (i % 3)) * (1 + i/64))
	}
	return b
}

// parts cuts bytes into parts.
func (w *world) parts(b []byte) (parts [][]byte) {
	for len(b) > 0 && w.rng.IntN(3) > 0 {
		n := w.rng.IntN(len(b) + 1)
		parts, b = append(parts, b[:n]), b[n:]
	}
	return append(parts, b)
}

// size draws the size of a message.
func (w *world) size() int {
	switch w.rng.IntN(8) {
	case 0:
		return 0
	case 1:
		return worldMax
	case 2:
		return worldMax + 1 + w.rng.IntN(100)
	}
	return w.rng.IntN(300)
}

// openEnd opens an endpoint with the services that are nowhere.
func (w *world) openEnd(k int) {
	cfg := w.cfg
	cfg.Long.InPlace = w.rng.IntN(2) == 0
	e, err := Open(w.t.Context(), cfg)
	if errors.Is(err, errors.ErrUnsupported) {
		w.t.Skip(err)
	}
	must(w.t, err)
	n := &end{e: e}
	w.ends[k] = n
	if w.rng.IntN(2) == 0 {
		n.watch.Go(func() {
			e.lock()
			defer e.unlock()
			watcher := e.waiter()
			defer e.giveBack(watcher)
			watcher.goal, watcher.check = goalStream, func() bool { return false }
			_ = e.wait(context.Background(), watcher)
		})
	}
	for i := range 3 * (k + 1) {
		id := ID(fmt.Sprint("service ", i))
		if !slices.ContainsFunc(slices.Concat(w.open, w.closed), func(o *service) bool { return o.id == id }) {
			w.register(n, id)
		}
	}
}

func (w *world) register(n *end, id ID) *service {
	s, err := n.e.Register(w.t.Context(), id)
	must(w.t, err)
	o := &service{end: n, s: s, id: id, isOpen: true, routes: map[*service]bool{}, gone: map[ID]*loss{}, notes: map[uint64]string{}}
	s.OnNotify(func(from ID, key uint64, data []byte) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.notes[key] = fmt.Sprint(from, " ", string(data))
	})
	if w.rng.IntN(3) == 0 {
		s.CopyMessages()
	}
	w.open = append(w.open, o)
	return o
}

// two draws a service, and one of another endpoint, which may be closed.
func (w *world) two() (from, to *service) {
	from = w.open[w.rng.IntN(len(w.open))]
	others := slices.DeleteFunc(slices.Concat(w.open, w.closed), func(o *service) bool { return o.end == from.end })
	if len(others) == 0 {
		return nil, nil
	}
	return from, others[w.rng.IntN(len(others))]
}

// expect compares the error of a call that sends with what the sender has to be told first. It
// reports whether the message can have been sent.
func (w *world) expect(from, to *service, err error) bool {
	w.t.Helper()
	if want := from.owed(to); want != nil {
		delete(from.gone, to.id)
		got, ok := errors.AsType[*GoneError](err)
		w.check(ok && got.Service == to.id && want.is(got), "%s to %s: %v, it has to be a loss of %+v", from.id, to.id, err, *want)
		return false
	}
	if !to.isOpen {
		w.check(errors.Is(err, ErrNoService), "%s to %s, which is nowhere: %v", from.id, to.id, err)
		return false
	}
	from.routes[to] = true
	return true
}

// inWindow is how much of the window from one service to another one is used.
func (w *world) inWindow(from, to *service) (n int) {
	for _, i := range to.order {
		if i.from == from && !i.aside {
			n += i.frame()
		}
	}
	for _, h := range w.held {
		if h.from == from && h.of == to && !h.aside && h.m.frame != nil {
			n += h.frame()
		}
	}
	return n
}

// inRing is how much of the ring between two endpoints the application keeps there.
func (w *world) inRing(from, to *end) (n int) {
	for _, h := range w.held {
		if h.from.end == from && h.of.end == to {
			n += pair.FrameBytes(len(h.data))
		}
	}
	for _, o := range w.open {
		for _, i := range o.order {
			if i.from.end == from && o.end == to {
				n += pair.FrameBytes(len(i.data))
			}
		}
	}
	return n
}

// isTight reports whether a frame of any size may have to wait for space in the ring between two
// endpoints: the application has much of it, or a frame that holds up what was freed behind it.
func (w *world) isTight(from, to *end) bool {
	to.e.lock()
	defer to.e.unlock()
	return w.inRing(from, to) > worldRing/4 || slices.ContainsFunc(to.e.peers, func(p *peer) bool { return p.heldUp() > worldRing/4 })
}

// heldUp is how much of the peer's ring is taken and not given back, as far as the peer knows.
func (p *peer) heldUp() int {
	_, taken := p.rx.Total()
	return int(taken - atomic.LoadUint64(fabric.Word(p.line.own, 3*fabric.LineBytes)))
}

// operation is what the world does next, as often as its weight says.
type operation struct {
	weight int
	do     func()
}

// operations returns the operations and the sum of their weights. The weights differ from seed to
// seed, so that what is rare in one world is frequent in another one.
func (w *world) operations() (ops []operation, all int) {
	ops = []operation{
		{22, w.send}, {3, w.crowd}, {2, w.serve}, {13, w.call}, {24, w.receive}, {8, w.finishAny}, {10, w.sendLong}, {2, w.post}, {3, w.giveUp},
		{4, w.sendBack}, {3, w.notify}, {1, w.ping}, {3, w.stream}, {4, w.move}, {2, w.closeOne}, {3, w.reopen}, {1, w.stranger}, {1, w.replaceAny},
	}
	for k := range ops {
		ops[k].weight *= []int{1, 1, 1, 4}[w.rng.IntN(4)]
		all += ops[k].weight
	}
	return ops, all
}

func (w *world) finishAny() {
	if len(w.held) > 0 {
		w.finish(w.rng.IntN(len(w.held)))
	}
}

func (w *world) replaceAny() {
	k := w.rng.IntN(len(w.ends))
	w.replace(k)
	w.settle()
	w.openEnd(k)
}

func (w *world) run(steps int) {
	for k := range w.ends {
		w.openEnd(k)
	}
	ops, all := w.operations()
	for range steps {
		k := 0
		for n := w.rng.IntN(all); n >= ops[k].weight; k++ {
			n -= ops[k].weight
		}
		ops[k].do()
		w.settle()
	}
	for len(w.held) > 0 {
		w.finish(0)
	}
	for k := range w.ends {
		w.replace(k)
	}
}

// What services send, call, answer, give up and close comes out as a model says, and nothing is
// left of it.
func TestServicesDoWhatTheirModelSays(t *testing.T) {
	certificates := testutil.NewAuthority(t).TLS()
	for _, name := range transports {
		for seed := range testutil.Seeds(uint64(4), 10) {
			t.Run(fmt.Sprint(name, "/", seed), func(t *testing.T) {
				t.Parallel()
				w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), names: names{at: map[ID]Place{}}, direct: name == "shm"}
				w.file = filepath.Join(t.TempDir(), "body")
				w.cfg = Config{
					RingBytes: worldRing, StreamBytes: MinStreamBytes, Resolver: &w.names, MoveTimeout: -1, Secret: []byte("secret"), Transport: TransportSHM,
					MaxLongBytes: worldBudget, Long: LongConfig{MaxBytes: 2 * worldBodies, MaxPeerBytes: worldBodies, Refuse: true},
				}
				if !w.direct {
					w.cfg.Transport, w.cfg.Listen = TransportTCP, "127.0.0.1:0"
				}
				if name == "tls" {
					w.cfg.TLS = certificates
				}
				w.run(150)
			})
		}
	}
}
