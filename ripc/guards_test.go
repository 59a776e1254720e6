package ripc

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/testutil"
)

// The process at a place is taken only if it is the one that the place names: another one that
// listens there is not the service.
func TestAnotherProcessAtThePlaceIsNotTaken(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		server := register(t, open(Config{}), "server")
		place := server.e.Place()
		reaches := func(at Place) error {
			client := register(t, open(Config{Resolver: Static{"server": at}, MoveTimeout: -1}), "")
			return client.To("server").Connect(ctx)
		}
		must(t, reaches(place))
		other := place
		other.Incarnation = strings.Repeat("0", len(place.Incarnation))
		if err := reaches(other); !errors.Is(err, ErrNoService) {
			t.Errorf("a place with another incarnation: %v", err)
		}
		other.Incarnation = ""
		must(t, reaches(other)) // any process will do
	})
}

// A message that was released twice, through a copy of it, does not free the message that has its
// frame now.
func TestAMessageFreesNoLaterOne(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		server, client := register(t, open(Config{}), "server"), register(t, open(Config{}), "client")
		receive := func() Message {
			must(t, client.Send(ctx, client.To("server"), []byte("message")))
			m, err := server.Receive(ctx)
			must(t, err)
			return m
		}
		kept := func() int {
			server.e.lock()
			defer server.e.unlock()
			return server.e.peers[0].life.Kept()
		}
		first := receive()
		again := first
		first.Release()
		second := receive()
		if again.frame != second.frame {
			t.Fatal("the frame is not used again")
		}
		again.Release()
		if kept() != 1 {
			t.Error("a message that is held was freed by an earlier one")
		}
		if second.Release(); kept() != 0 {
			t.Error("a message was not freed")
		}
	})
}

// Memory that a peer looked at when it was lost is not used again: the peer may look at it still
// (RP13).
func TestMemoryThatALostPeerMaySeeIsNotUsedAgain(t *testing.T) {
	ctx := testutil.Within(t)
	const size = 256 << 10
	data := bytes.Repeat([]byte{1}, size)
	server := answerLong(t, Config{Transport: TransportSHM}, func(*Message) Body { return NewBody(data) })
	client := register(t, open(t, Config{Transport: TransportSHM}), "")
	must(t, client.TakeLong(LongConfig{InPlace: true, MaxBytes: 1 << 20}))
	m, err := client.CallLong(ctx, client.To("server"), nil, NewBody(nil))
	must(t, err)
	defer m.Release()
	server.e.lock()
	server.e.peers[0].fail(errors.New("lost"))
	server.e.unlock()
	for range 4 {
		b, err := server.e.Alloc(size)
		must(t, err)
		for i := range b.Bytes() {
			b.Bytes()[i] = 2
		}
		defer b.Release()
	}
	if !bytes.Equal(m.Body(), data) {
		t.Error("what a lost peer looks at has changed")
	}
}

// The longest id is served, and a process that opens a channel with a longer one loses its
// connection.
func TestAnIDIsNotLongerThanItMayBe(t *testing.T) {
	ctx := testutil.Within(t)
	lost := make(chan error, 2)
	longest := ID(strings.Repeat("i", maxID))
	server := register(t, open(t, Config{Transport: TransportSHM, Events: func(e Event) {
		if e, ok := e.(PeerLost); ok {
			lost <- e.Err
		}
	}}), longest)
	var receiving sync.WaitGroup
	defer receiving.Wait()
	served, stop := context.WithCancel(ctx)
	defer stop()
	receiving.Go(func() { server.Serve(served, func(context.Context, *Message) {}) })
	client := register(t, open(t, Config{Transport: TransportSHM}), longest[1:])
	must(t, client.To(longest).Connect(ctx))
	if _, err := client.e.Register(ctx, longest+"i"); err == nil {
		t.Error("a longer id was registered")
	}
	client.e.lock()
	client.id = longest + "i"
	client.e.unlock()
	err := newRemote(client, longest).Connect(ctx)
	client.e.lock()
	client.id = longest[1:]
	client.e.unlock()
	if err == nil {
		t.Fatal("a channel of a service with a longer id was opened")
	}
	if cause := <-lost; !errors.Is(cause, fabric.ErrViolation) {
		t.Errorf("%v, %v", err, cause)
	}
}

// A reply for which its caller has no window ends the call, of which nothing is left.
func TestAReplyThatIsRefusedEndsItsCall(t *testing.T) {
	ctx := testutil.Within(t)
	answerLong(t, Config{Transport: TransportSHM}, func(*Message) Body { return NewBody(make([]byte, 5000)) })
	client := register(t, open(t, Config{Transport: TransportSHM}), "")
	if _, err := client.Call(ctx, client.To("server"), nil); !errors.Is(err, ErrNoWindow) {
		t.Errorf("a reply for which there is no window: %v", err)
	}
	client.e.lock()
	defer client.e.unlock()
	if n := client.e.peers[0].calls.Open(); n != 0 {
		t.Errorf("%d calls are left", n)
	}
}

// A service of another process is not connected any more when its channels are given up, whatever
// other services of that process send here; but it is as long as it has one.
func TestASenderThatEndedIsNotConnectedThoughItsNeighbourIs(t *testing.T) {
	ctx := testutil.Within(t)
	server := register(t, open(t, Config{Transport: TransportSHM}), "server")
	there := open(t, Config{Transport: TransportSHM})
	ends, stays := register(t, there, "ends"), register(t, there, "stays")
	server.OnNotify(func(ID, uint64, []byte) {})
	senders := map[ID]*Remote{}
	for _, s := range []*Service{ends, stays} {
		must(t, s.Send(ctx, s.To("server"), []byte("hello")))
		must(t, s.Notify(ctx, s.To("server"), 1)) // over another channel
		m, err := server.Receive(ctx)
		must(t, err)
		senders[m.From()] = m.Sender()
		defer m.Release()
	}
	must(t, ends.Close())
	stays.To("server").abandon()
	var left []*inbound
	eventually(t, server.e, "the server does not know that channels were given up", func() bool {
		left = slices.DeleteFunc(slices.Clone(server.e.peers[0].served.in[:]), func(in *inbound) bool { return in == nil })
		return len(left) == 1
	})
	if !left[0].notices || left[0].from != "stays" {
		t.Errorf("%s sends still, notices: %v", left[0].from, left[0].notices)
	}
	if senders["ends"].Connected() || !senders["stays"].Connected() {
		t.Errorf("connected: the service that ended: %v, and the other one: %v", senders["ends"].Connected(), senders["stays"].Connected())
	}
}

// Messages that a place did not receive before it was given up, although it goes on, may still be
// received there: their count is not exact.
func TestMessagesAtAPlaceThatWasLeftMayBeReceived(t *testing.T) {
	ctx := testutil.Within(t)
	server := register(t, open(t, Config{Transport: TransportSHM}), "server")
	client := register(t, open(t, Config{Transport: TransportSHM}), "")
	to := client.To("server")
	for range 3 {
		must(t, client.Send(ctx, to, []byte("not received")))
	}
	client.e.moved("server", []Place{{Addr: "another"}})
	client.e.lock()
	defer client.e.unlock()
	if to.left == nil {
		t.Fatal("the place was not left")
	}
	if to.leave(); to.gone == nil || to.gone.Unreceived != 3 || to.gone.Exact {
		t.Errorf("%+v, and %d messages wait there", to.gone, server.queue.len())
	}
}

// Long messages at a place that was left, which nobody took from there, are not lost silently when
// the place ends, before or after its channel is given up. The same holds if only the service ends.
func TestLongMessagesAtAPlaceThatWasLeftAreCounted(t *testing.T) {
	for _, given := range []bool{false, true} {
		for _, closed := range []bool{false, true} {
			onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
				ctx := testutil.Within(t)
				there := open(Config{})
				server, client := register(t, there, "server"), register(t, open(Config{MoveTimeout: -1}), "")
				must(t, server.TakeLong(inLib))
				to := client.To("server")
				must(t, client.SendLong(ctx, to, Body{}, []byte("head")))
				must(t, client.SendLong(ctx, to, NewBody([]byte("body"))))
				inTime(t, "the messages", func() bool {
					there.lock()
					defer there.unlock()
					return server.queue.len() == 2
				})
				client.e.moved("server", []Place{{Addr: "another"}})
				client.e.lock()
				p := to.left.peer
				if given {
					to.leave()
				}
				client.e.unlock()
				if closed {
					must(t, server.Close())
				} else {
					there.lock()
					there.peers[0].fail(ErrClosed)
					there.unlock()
				}
				inTime(t, "the end of the messages", func() bool {
					client.e.lock()
					defer client.e.unlock()
					return len(p.long.sendings) == 0
				})
				client.e.lock()
				gone := to.gone
				client.e.unlock()
				if gone == nil || gone.Unreceived != 2 || gone.Exact != closed {
					t.Errorf("given up: %v, closed: %v: %+v", given, closed, gone)
				}
			})
		}
	}
}

// waitsFor sends a message to a service, which has no place for it until free gives one back.
func waitsFor(t *testing.T, ctx context.Context, client *Service, to *Service, size int, free func()) {
	t.Helper()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var sending sync.WaitGroup
	defer sending.Wait()
	waiting := func() int {
		to.e.lock()
		defer to.e.unlock()
		return len(to.long.waiting)
	}
	sending.Go(func() { _ = client.SendLong(ctx, client.To(to.id), NewBody(make([]byte, size))) })
	for waiting() == 0 {
		must(t, ctx.Err())
		runtime.Gosched()
	}
	if free(); waiting() > 0 {
		stop()
		t.Fatal("a message waits for a place that is free")
	}
	m, err := to.Receive(ctx)
	must(t, err)
	m.Release()
}

// Memory of the endpoint that one service gives back is for the messages that wait at another one.
func TestMemoryThatAServiceGivesBackIsForAllServices(t *testing.T) {
	ctx := testutil.Within(t)
	there := open(t, Config{Transport: TransportSHM, MaxLongBytes: 1000})
	one, other := register(t, there, "one"), register(t, there, "other")
	client := register(t, open(t, Config{Transport: TransportSHM}), "")
	for _, s := range []*Service{one, other} {
		must(t, s.TakeLong(LongConfig{MaxBytes: 1000, MaxPeerBytes: 1000}))
	}
	must(t, client.SendLong(ctx, client.To("one"), NewBody(make([]byte, 600))))
	m, err := one.Receive(ctx)
	must(t, err)
	waitsFor(t, ctx, client, other, 600, m.Release)
}

// A window that a sender gives back lets its next message have another one.
func TestAWindowThatASenderGivesBackLetsItHaveAnother(t *testing.T) {
	ctx := testutil.Within(t)
	server := register(t, open(t, Config{Transport: TransportSHM}), "server")
	client := register(t, open(t, Config{Transport: TransportSHM}), "")
	must(t, server.TakeLong(LongConfig{MaxPeerWindows: 1}))
	must(t, server.Post(NewWindow(make([]byte, 1000)), NewWindow(make([]byte, 1000))))
	must(t, client.SendLong(ctx, client.To("server"), NewBody(make([]byte, 600))))
	m, err := server.Receive(ctx)
	must(t, err)
	waitsFor(t, ctx, client, server, 600, m.Release)
}

// A sender that gave a request up is told of its messages only: it would take the request for one
// of the last of them.
func TestARequestThatWasGivenUpIsNoMessageThatWasNotReceived(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		server, client := register(t, open(Config{MoveTimeout: -1}), "server"), register(t, open(Config{MoveTimeout: -1}), "")
		to := client.To("server")
		for messages := range 2 {
			call, cancel := context.WithCancel(ctx)
			gone := make(chan error)
			go func() {
				_, err := client.Call(call, to)
				gone <- err
			}()
			inTime(t, "the request", func() bool {
				server.e.lock()
				defer server.e.unlock()
				return server.queue.len() == 1
			})
			cancel()
			if err := <-gone; !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			for range messages {
				must(t, client.Send(ctx, to))
			}
			must(t, server.Close())
			inTime(t, "the end", func() bool { return to.route.Load() == nil })
			lost, ok := errors.AsType[*GoneError](client.Send(ctx, to))
			if ok != (messages > 0) || ok && (lost.Unreceived != messages || !lost.Exact) {
				t.Errorf("%d messages: %v", messages, lost)
			}
			server = register(t, server.e, "server")
		}
	})
}

// The address of the sender of a reply is not kept for a service that is closed.
func TestAServiceThatIsClosedKeepsNoAddresses(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		server, client := register(t, open(Config{}), "server"), register(t, open(Config{}), "")
		go server.Serve(ctx, func(_ context.Context, m *Message) { m.Reply() })
		m, err := client.Call(ctx, client.To("server"))
		must(t, err)
		must(t, client.Close())
		if id := m.Sender().ID(); id != "server" {
			t.Error(id)
		}
		m.Release()
		if err := client.e.audit(true); err != nil {
			t.Error(err)
		}
	})
}
