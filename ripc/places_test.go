package ripc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
)

// book is a resolver of services at several places, in memory, which says when they change.
type book struct {
	mu        sync.Mutex
	places    map[ID][]Place
	watchers  map[int]func(ID, []Place)
	forgotten int
}

func newBook() *book { return &book{places: map[ID][]Place{}, watchers: map[int]func(ID, []Place){}} }

func (b *book) Resolve(ctx context.Context, id ID) (Place, error) {
	all, err := b.ResolveAll(ctx, id)
	if err != nil {
		return Place{}, err
	}
	return all[0], nil
}

func (b *book) ResolveAll(_ context.Context, id ID) ([]Place, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.places[id]) == 0 {
		return nil, fmt.Errorf("%w: %s", ErrNoService, id)
	}
	return slices.Clone(b.places[id]), nil
}

// set changes the places of a service, and tells its watchers.
func (b *book) set(id ID, at ...Place) {
	b.mu.Lock()
	b.places[id] = at
	var all []func(ID, []Place)
	for _, f := range b.watchers {
		all = append(all, f)
	}
	b.mu.Unlock()
	for _, f := range all {
		f(id, at)
	}
}

func (b *book) Publish(_ context.Context, id ID, at Place) (func() error, error) {
	b.set(id, at)
	return func() error { return nil }, nil
}

func (b *book) PublishShared(_ context.Context, id ID, at Place) (func() error, error) {
	b.mu.Lock()
	b.places[id] = append(b.places[id], at)
	b.mu.Unlock()
	return func() error { return nil }, nil
}

func (b *book) Forget(ID, Place) {
	b.mu.Lock()
	b.forgotten++
	b.mu.Unlock()
}

func (b *book) Watch(f func(ID, []Place)) (stop func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := len(b.watchers)
	b.watchers[key] = f
	return func() {
		b.mu.Lock()
		delete(b.watchers, key)
		b.mu.Unlock()
	}
}

// A service that moved while its old place lives on is used at its new place at once, and the old
// place still receives what was sent to it.
func TestSendersTurnToTheNewPlaceAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		b := newBook()
		events := make(chan Event, 100)
		first, second := open(Config{Resolver: b}), open(Config{Resolver: b})
		client := register(t, open(Config{Resolver: b, Events: func(e Event) { events <- e }}), "")
		old := register(t, first, "server")
		const sent = 20
		for k := range sent {
			must(t, client.Send(ctx, client.To("server"), []byte{byte(k)}))
		}
		next := register(t, second, "server")
		var sending sync.WaitGroup
		sending.Go(func() { // waits until the old place has received all
			if err := client.Send(ctx, client.To("server"), []byte{sent}); err != nil {
				t.Error(err)
			}
		})
		for k := range sent {
			m, err := old.Receive(ctx)
			must(t, err)
			if int(m.Data[0]) != k {
				t.Errorf("%d where %d was next", m.Data[0], k)
			}
			m.Release()
		}
		m, err := next.Receive(ctx)
		must(t, err)
		if m.Data[0] != sent {
			t.Errorf("%d", m.Data[0])
		}
		m.Release()
		sending.Wait()
		for {
			select {
			case e := <-events:
				if moved, ok := e.(ServiceMoved); ok {
					if moved.From != first.Place() || moved.To != second.Place() || !strings.HasPrefix(e.String(), "server moved") {
						t.Error(e)
					}
					return
				}
			case <-ctx.Done():
				t.Fatal("no event says that the service moved")
			}
		}
	})
}

// A place that hangs after the service left it is given up after a while, with the number of
// messages that it may not have received.
func TestAPlaceThatHangsIsLeft(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		b := newBook()
		register(t, open(Config{Resolver: b}), "server")
		client := register(t, open(Config{Resolver: b}), "")
		must(t, client.To("server").Connect(ctx))
		sent := fill(t, client, client.To("server"), make([]byte, 500))
		var waiting sync.WaitGroup
		waiting.Go(func() { // for room, which never comes
			if _, err := client.Call(ctx, client.To("server"), []byte("call")); err != nil && !errors.Is(err, ErrPeerGone) {
				t.Error(err)
			}
		})
		next := register(t, open(Config{Resolver: b}), "server")
		var serving sync.WaitGroup
		defer serving.Wait()
		serving.Go(func() { echo(ctx, next) })
		waiting.Wait()
		gone, ok := errors.AsType[*GoneError](client.Send(ctx, client.To("server")))
		if ok && (gone.Unreceived != sent || gone.Exact) { // else the call was told
			t.Error(gone)
		}
		m, err := client.Call(ctx, client.To("server"), []byte("x"))
		must(t, err)
		m.Release()
		must(t, next.Close())
	})
}

// Of several services with one id the nearest is used, or each in turn by senders that ask for it;
// a service that has ended is passed over.
func TestAServiceAtSeveralPlaces(t *testing.T) {
	ctx := testutil.Within(t)
	b := newBook()
	here := open(t, Config{Resolver: b, Listen: "127.0.0.1:0"})
	near := open(t, Config{Resolver: b, Transport: TransportSHM})
	far := open(t, Config{Resolver: b, Transport: TransportTCP, Listen: "127.0.0.1:0"})
	var serving sync.WaitGroup
	defer serving.Wait()
	services := map[string]*Service{}
	for name, e := range map[string]*Endpoint{"far": far, "near": near, "here": here} {
		s, err := e.RegisterShared(ctx, "many")
		must(t, err)
		services[name] = s
		serving.Go(func() {
			s.Serve(ctx, func(_ context.Context, m *Message) { m.Reply([]byte(name)) })
		})
	}
	client := register(t, here, "")
	spread := client.Spread("many")
	for _, name := range []string{"here", "near", "far"} {
		m, err := client.Call(ctx, client.To("many"))
		must(t, err)
		if string(m.Data) != name {
			t.Errorf("%s answered, and %s is the nearest", m.Data, name)
		}
		m.Release()
		answered := map[string]int{}
		for range 6 * len(services) {
			m, err := spread.Call(ctx)
			must(t, err)
			answered[string(m.Data)]++
			m.Release()
		}
		for left := range services {
			if answered[left] != 6 {
				t.Errorf("%s answered %d of %v", left, answered[left], answered)
			}
		}
		must(t, services[name].Close())
		delete(services, name)
		b.mu.Lock()
		b.places["many"] = slices.DeleteFunc(b.places["many"], func(p Place) bool {
			return p == map[string]*Endpoint{"far": far, "near": near, "here": here}[name].Place()
		})
		if name == "here" { // a stale entry does no harm
			b.places["many"] = append(b.places["many"], here.Place())
		}
		b.mu.Unlock()
	}
	if b.forgotten == 0 {
		t.Error("the resolver was not told that its entry was stale")
	}
	if _, err := open(t, Config{Resolver: OneHost(fmt.Sprint(t.Name(), os.Getpid()))}).RegisterShared(ctx, "x"); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}

// The counters count the traffic, and the events report the peers that connect and disconnect.
func TestAnEndpointCountsWhatItDoes(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		events := make(chan Event, 10)
		there := open(Config{Events: func(e Event) { events <- e }})
		server, other := register(t, there, "server"), open(Config{})
		client := register(t, other, "client")
		for range 10 {
			must(t, client.Send(ctx, client.To("server"), make([]byte, 100)))
			m, err := server.Receive(ctx)
			must(t, err)
			m.Release()
		}
		s, r := other.Stats(), there.Stats()
		if s.FramesSent != r.FramesReceived || s.FramesSent < 11 || s.BytesSent != r.BytesReceived || s.BytesSent < 1000 {
			t.Errorf("sent %+v\nreceived %+v", s, r)
		}
		if s.Peers != 1 || s.Services != 1 || s.Channels != 1 || s.PeersConnected != 1 || s.PeersLost != 0 || r.Channels != 0 {
			t.Errorf("%+v", s)
		}
		must(t, other.Close())
		for _, want := range []string{"connected: ", "lost: "} {
			select {
			case e := <-events:
				if !strings.HasPrefix(e.String(), want) {
					t.Errorf("%v, not %s", e, want)
				}
			case <-ctx.Done():
				t.Fatalf("no event %s", want)
			}
		}
		if after := there.Stats(); after.PeersLost != 1 || after.Peers != 0 || after.BytesReceived < r.BytesReceived {
			t.Errorf("%+v", after)
		}
	})
}

// A ping is answered by the endpoint, also for a service that does not receive and whose window is
// full.
func TestAnEndpointAnswersPings(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		there := open(Config{})
		deaf, client := register(t, there, "deaf"), register(t, open(Config{MoveTimeout: -1}), "")
		to := client.To("deaf")
		for range 2 {
			for range 100 {
				if took, err := to.Ping(ctx); err != nil || took <= 0 {
					t.Fatal(took, err)
				}
			}
			fill(t, client, to, make([]byte, 100))
		}
		if m, ok := deaf.TryReceive(); !ok || len(m.Data) != 100 {
			t.Errorf("the service received %d bytes", len(m.Data))
		}
		must(t, there.Close())
		for {
			if _, err := to.Ping(ctx); err != nil {
				break
			}
		}
		if _, err := client.To("nobody").Ping(ctx); !errors.Is(err, ErrNoService) {
			t.Error(err)
		}
	})
}

// A sender to several places learns of what one of them did not receive; it is not sent elsewhere.
func TestASpreadReturnsWhatAPlaceDidNotReceive(t *testing.T) {
	ctx := testutil.Within(t)
	b := newBook()
	var services []*Service
	for range 2 {
		s, err := open(t, Config{Resolver: b, Transport: TransportSHM}).RegisterShared(ctx, "many")
		must(t, err)
		services = append(services, s)
	}
	here := open(t, Config{Resolver: b, Transport: TransportSHM})
	spread := register(t, here, "").Spread("many")
	for range services {
		must(t, spread.Send(ctx))
	}
	at := services[0].e.Place()
	must(t, services[0].Close())
	eventually(t, here, "its sender does not learn of a close", func() bool { return spread.remotes[at].route.Load() == nil })
	lost := 0
	for range services {
		if err := spread.Send(ctx); err != nil {
			gone, ok := errors.AsType[*GoneError](err)
			if !ok || gone.Unreceived != 1 || !gone.Exact {
				t.Error(err)
			}
			lost++
		}
	}
	if lost != 1 {
		t.Errorf("%d sends told of the message", lost)
	}
}
