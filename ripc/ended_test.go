package ripc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/ripc/internal/pair"
)

// brokenLink is a link of which a write finds that the peer has ended.
type brokenLink struct{ fabric.Link }

func (brokenLink) Flush() (bool, error) {
	return false, fmt.Errorf("%w: in this test", fabric.ErrPeerGone)
}

// The write of an offer may be what finds that the peer has ended: the sender is told, and does not
// wait.
func TestAPeerMayEndWithTheOfferOfALongMessage(t *testing.T) {
	ctx := testutil.Within(t)
	open := func() *Endpoint {
		return open(t, Config{Transport: TransportTCP, Listen: "127.0.0.1:0", MoveTimeout: -1})
	}
	server := register(t, open(), "server")
	must(t, server.TakeLong(inLib))
	for name, send := range map[string]func(s *Service, to *Remote) error{
		"message":          func(s *Service, to *Remote) error { return s.SendLong(ctx, to, NewBody(make([]byte, 100))) },
		"message, no body": func(s *Service, to *Remote) error { return s.SendLong(ctx, to, Body{}) },
		"request": func(s *Service, to *Remote) error {
			_, err := s.CallLong(ctx, to, make([]byte, 100), NewBody(make([]byte, 100)))
			return err
		},
	} {
		client := register(t, open(), "")
		to := client.To("server")
		must(t, to.Connect(ctx))
		e := client.e
		e.lock()
		p := to.route.Load().peer
		p.line.link = brokenLink{p.line.link}
		e.unlock()
		if err := send(client, to); !errors.Is(err, ErrPeerGone) || ctx.Err() != nil {
			t.Errorf("%s: %v", name, err)
		}
		if n, taken := openLong(e); n != 0 || taken != 0 {
			t.Errorf("%s: %d messages are open, %d bytes taken", name, n, taken)
		}
	}
}

// The sender of a long message without a body learns that the process that had it ended, as of any
// other message.
func TestAnEmptyLongMessageIsCounted(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		there := open(Config{})
		server, client := register(t, there, "server"), register(t, open(Config{}), "")
		must(t, server.TakeLong(inLib))
		to := client.To("server")
		must(t, client.SendLong(ctx, to, Body{}, []byte("head")))
		inTime(t, "the message", func() bool {
			there.lock()
			defer there.unlock()
			return server.queue.len() == 1
		})
		there.lock()
		there.peers[0].fail(ErrClosed)
		there.unlock()
		inTime(t, "the end", func() bool { return to.route.Load() == nil })
		gone, ok := errors.AsType[*GoneError](client.Send(ctx, to))
		if !ok || gone.Unreceived != 1 || gone.Exact {
			t.Errorf("%+v", gone)
		}
	})
}

// A step may find that a peer is to be cut off, and goes on with its frames: its memory stays until
// the step is over.
func TestTheMemoryOfAPeerStaysUntilTheStepIsOver(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		register(t, open(Config{}), "server")
		here := open(Config{})
		client := register(t, here, "")
		must(t, client.To("server").Connect(ctx))
		here.lock()
		p := here.peers[0]
		released, release := make(chan struct{}), p.line.release
		p.line.release = func() error {
			close(released)
			return release()
		}
		p.fail(ErrClosed)
		select {
		case <-released:
			t.Error("the memory was given back in the middle of a step")
		case <-time.After(200 * time.Millisecond): // it waits for the end of the step
		}
		p.rx.Settle()
		here.unlock()
		select {
		case <-released:
		case <-ctx.Done():
			t.Error("the memory is not given back")
		}
	})
}

// A process that asks and takes no answers is cut off, in the middle of what it sent, and others
// are served.
func TestAPeerThatTakesNoAnswersIsCutOff(t *testing.T) {
	ctx := testutil.Within(t)
	there := open(t, Config{Transport: TransportSHM})
	server := register(t, there, "server")
	go echo(ctx, server)
	good := register(t, open(t, Config{Transport: TransportSHM}), "")
	must(t, good.To("server").Connect(ctx))
	evil := open(t, Config{Transport: TransportSHM, RingBytes: MaxRingBytes})
	for range 3 {
		client := register(t, evil, "")
		if err := client.To("server").Connect(ctx); err != nil {
			t.Fatal(err)
		}
		p := client.To("server").route.Load().peer
		evil.lock() // its own goroutines take nothing
		p.send.mu.Lock()
		for end := time.Now().Add(10 * time.Second); there.Peers() > 1 && time.Now().Before(end); {
			p.send.tx.Put(pair.Ping, 0, 1, nil)
			p.line.ring()
		}
		p.send.mu.Unlock()
		evil.unlock()
		m, err := good.Call(ctx, good.To("server"), []byte("well?"))
		must(t, err)
		m.Release()
		inTime(t, "the end of the peer", func() bool { return there.Peers() == 1 && evil.Peers() == 0 })
	}
	must(t, server.Close())
}

// A message may be given back while the endpoint is closed: its pair is over, and the memory is
// given back once.
func TestAMessageIsGivenBackWhileTheEndpointIsClosed(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		for k := range 20 {
			here := open(Config{})
			server := register(t, here, ID(fmt.Sprint("server", k)))
			client := register(t, open(Config{MoveTimeout: -1}), "")
			must(t, client.Send(ctx, client.To(server.ID()), []byte("x")))
			m, err := server.Receive(ctx)
			must(t, err)
			var released atomic.Int32
			here.lock()
			p := here.peers[0]
			release := p.line.release
			p.line.release = func() error {
				released.Add(1)
				return release()
			}
			here.unlock()
			var both sync.WaitGroup
			both.Go(func() {
				if err := here.Close(); err != nil {
					t.Error(err)
				}
			})
			inTime(t, "the end of the pair", func() bool {
				here.lock()
				defer here.unlock()
				return p.ended()
			})
			m.Release()
			both.Wait()
			inTime(t, "the end of the memory", func() bool { return released.Load() == 1 })
		}
	})
}

// A process that takes connections and says nothing does not block the end of a service that calls
// it: the call ends, and the handshake goes on. On a busy machine the handshake may be over first;
// then it is tried again.
func TestACallEndsWithItsServiceWhileItConnects(t *testing.T) {
	for range 5 {
		if endsWhileItConnects(t) {
			return
		}
	}
	t.Error("no call ended before the handshake")
}

// endsWhileItConnects reports whether the call of a service that is closed ends before the
// handshake.
func endsWhileItConnects(t *testing.T) (before bool) {
	ctx := testutil.Within(t)
	hung, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer hung.Close()
	place := Place{Addr: hung.Addr().String()}
	e := open(t, Config{Transport: TransportTCP, Listen: "127.0.0.1:0", Resolver: Static{"server": place}})
	client := register(t, e, "")
	called := make(chan error, 1)
	go func() {
		_, err := client.Call(ctx, client.To("server"), []byte("request"))
		called <- err
	}()
	conn, err := hung.Accept()
	must(t, err)
	defer conn.Close()
	must(t, client.Close())
	if err := <-called; !errors.Is(err, ErrClosed) {
		t.Errorf("the call ended with: %v", err)
	}
	e.lock()
	defer e.unlock()
	return e.dialer.dialing[place] != nil
}

// Closing a service ends its own calls, although its peer does nothing: those whose request was
// received, or was not, or has no space. Calls of other services go on.
func TestClosingAServiceEndsItsOwnCalls(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		server, here := register(t, open(Config{}), "server"), open(Config{})
		must(t, server.TakeLong(LongConfig{MaxBytes: 1000, MaxPeerBytes: 1000}))
		client, other := register(t, here, ""), register(t, here, "")
		to, also := client.To("server"), other.To("server")
		must(t, to.Connect(ctx))
		must(t, also.Connect(ctx))
		e, p := here, to.route.Load().peer
		waits := func(calls, senders int) func() bool {
			return func() bool {
				e.lock()
				defer e.unlock()
				return p.calls.Open() == calls && p.send.room.Len() == senders
			}
		}
		answered := make(chan error, 1)
		go func() {
			m, err := other.Call(ctx, also)
			m.Release()
			answered <- err
		}()
		theirs, err := server.Receive(ctx)
		must(t, err)
		must(t, other.SendLong(ctx, also, NewBody(make([]byte, 600)))) // long messages that come after it wait
		var ending sync.WaitGroup
		ends := func(what string, f func() error) {
			ending.Go(func() {
				if err := f(); !errors.Is(err, ErrClosed) || errors.Is(err, ErrPeerGone) {
					t.Errorf("%s: %v", what, err)
				}
			})
		}
		call := func() error { _, err := client.Call(ctx, to, make([]byte, 1000)); return err }
		ends("a call that was received", call)
		long, err := server.Receive(ctx)
		must(t, err)
		m, err := server.Receive(ctx)
		must(t, err)
		ends("a call that was not received", call)
		ends("a long call", func() error { _, err := client.CallLong(ctx, to, nil, NewBody(make([]byte, 500))); return err })
		ends("a long message", func() error { return client.SendLong(ctx, to, NewBody(make([]byte, 500))) })
		inTime(t, "three calls wait", waits(4, 0))
		fill(t, client, to, make([]byte, 1000))
		ends("a call without space", call)
		ends("a message without space", func() error { return client.Send(ctx, to, make([]byte, 1000)) })
		inTime(t, "two wait for space", waits(5, 2))
		must(t, client.Close())
		ending.Wait()
		must(t, theirs.Reply())
		theirs.Release()
		must(t, <-answered)
		must(t, m.Reply()) // no caller waits for it
		m.Release()
		long.Release()
		if err := call(); !errors.Is(err, ErrClosed) {
			t.Errorf("a call of a closed service: %v", err)
		}
		inTime(t, "nothing waits", waits(0, 0))
	})
}

// Long messages without a body are not waited for: a service that was closed before it took them
// ends their calls, and counts the others.
func TestEmptyLongMessagesToAServiceThatIsClosedAreNotForgotten(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		server, client := register(t, open(Config{}), "server"), register(t, open(Config{MoveTimeout: -1}), "")
		to := client.To("server")
		handles, goOn := make(chan struct{}), make(chan struct{})
		var serving sync.WaitGroup
		serving.Go(func() {
			server.Serve(ctx, func(context.Context, *Message) {
				close(handles)
				<-goOn
			})
		})
		must(t, client.Send(ctx, to, nil))
		<-handles
		must(t, server.Close())
		must(t, client.SendLong(ctx, to, Body{}))
		called := make(chan error, 1)
		go func() {
			_, err := client.CallLong(ctx, to, nil, Body{})
			called <- err
		}()
		for taken := false; !taken; runtime.Gosched() { // both, by the server's endpoint
			server.e.lock()
			taken = len(server.e.peers[0].long.receivings) == 2
			server.e.unlock()
		}
		close(goOn)
		serving.Wait()
		gone, ok := errors.AsType[*GoneError](<-called)
		if !ok || gone.Unreceived != 1 || !gone.Exact {
			t.Errorf("a message that was not received: %v", gone)
		}
		if _, err := client.CallLong(ctx, to, nil, Body{}); !errors.Is(err, ErrNoService) {
			t.Error(err)
		}
	})
}

// The end of a peer wakes all goroutines that wait for it, also while another one polls: those that
// wait for space, an answer, a place or the turn of a long message, and a channel.
func TestTheEndOfAPeerWakesAllThatWait(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		here := open(Config{MoveTimeout: -1})
		server, client := register(t, open(Config{MoveTimeout: -1}), "server"), register(t, here, "client")
		must(t, server.Post(NewWindow(make([]byte, 1))))
		polling, stop := context.WithCancel(ctx)
		var waiting sync.WaitGroup
		defer waiting.Wait()
		defer stop()
		waiting.Go(func() { client.Receive(polling) })
		is := func(holds func() bool) func() bool {
			return func() bool {
				here.lock()
				defer here.unlock()
				return holds()
			}
		}
		inTime(t, "a goroutine that polls", is(func() bool { p := here.role.Poller(); return p != nil && p != &here.caretaker.seat }))
		to := client.To("server")
		must(t, to.Connect(ctx))
		p := to.route.Load().peer
		wait := func(what string, f func() error, waits func() bool) {
			waiting.Go(func() { _ = f() }) // one of them learns of the end, and the others go on over another connection
			inTime(t, what, is(waits))
		}
		wait("an answer", func() error { _, err := client.Call(polling, to); return err }, func() bool { return p.calls.Open() == 1 })
		wait("a place", func() error { return client.SendLong(polling, to, NewBody(make([]byte, 10))) }, func() bool { return len(p.long.sendings) == 1 })
		for n := 2; n <= pair.OpenLong; n++ {
			wait("a place", func() error { return client.SendLong(polling, to, NewBody(make([]byte, 10))) }, func() bool { return len(p.long.sendings) == n })
		}
		wait("a turn", func() error { return client.SendLong(polling, to, NewBody(make([]byte, 10))) }, func() bool { return len(p.long.turns) == 1 })
		fill(t, client, to, make([]byte, 500))
		wait("space", func() error { return client.Send(polling, to, make([]byte, 500)) }, func() bool { return p.send.room.Len() == 1 })
		here.lock()
		for {
			channel, ok := p.opened.states.Open()
			if !ok {
				break
			}
			must(t, p.opened.states.Opened(channel))
			p.opened.states.Leave(channel)
		}
		here.unlock()
		register(t, server.e, "other")
		wait("a channel", func() error { return client.To("other").Connect(ctx) }, func() bool { return len(p.opened.wanting) == 1 })
		here.lock()
		p.fail(ErrPeerGone)
		here.unlock()
		inTime(t, "the end of all waiting", is(func() bool {
			return p.calls.Open()+len(p.long.sendings)+len(p.long.turns)+p.send.room.Len()+len(p.opened.wanting) == 0
		}))
	})
}

// A call that waits for space has sent nothing: when the service is closed, or its process ends, it
// does not hide that the last message was not received.
func TestACallThatWaitsForSpaceIsNotCounted(t *testing.T) {
	for _, ended := range []bool{false, true} {
		onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
			ctx := testutil.Within(t)
			there := open(Config{RingBytes: pair.MinRingBytes})
			server, client := register(t, there, "server"), register(t, open(Config{RingBytes: pair.MinRingBytes, MoveTimeout: -1}), "")
			to := client.To("server")
			must(t, to.Connect(ctx))
			sent := 0
			for client.TrySend(to, make([]byte, 500)) == nil {
				sent++
			}
			p := to.route.Load().peer
			called := make(chan error)
			go func() {
				_, err := client.Call(ctx, to, make([]byte, 500))
				called <- err
			}()
			inTime(t, "the call", func() bool {
				client.e.lock()
				defer client.e.unlock()
				return p.send.room.Len() == 1
			})
			if ended {
				there.lock()
				there.peers[0].fail(ErrClosed)
				there.unlock()
			} else {
				must(t, server.Close())
			}
			err := <-called
			if gone, ok := errors.AsType[*GoneError](err); !ok || sent == 0 || gone.Unreceived != sent {
				t.Errorf("ended: %v, %d messages were sent: %v", ended, sent, err)
			}
		})
	}
}
