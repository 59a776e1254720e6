package ripc

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/ripc/internal/pair"
)

// valve is a connection from which one goroutine reads so many bytes at most, and then stands until
// the valve is opened. A deadline that has passed ends a Read only when it is allowed to.
type valve struct {
	net.Conn
	mu      sync.Mutex
	changed *sync.Cond
	left    int  // bytes that may be read
	stands  bool // a Read waits for the valve
	late    bool // the deadline has passed
	leaves  bool // a Read that is late returns
}

func (v *valve) Read(b []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for v.left == 0 {
		v.stands = true
		if v.late && v.leaves {
			v.stands, v.late = false, false
			return 0, os.ErrDeadlineExceeded
		}
		v.changed.Wait()
	}
	v.stands = false
	b = b[:min(len(b), v.left)]
	v.mu.Unlock()
	n, err := v.Conn.Read(b)
	v.mu.Lock()
	v.left -= n
	return n, err
}

func (v *valve) SetReadDeadline(at time.Time) error {
	v.set(func() { v.late = !at.IsZero() })
	return nil
}

func (v *valve) Close() error {
	v.set(func() { v.left = 1 << 30 })
	return v.Conn.Close()
}

func (v *valve) set(f func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f()
	v.changed.Broadcast()
}

func (v *valve) is(f func() bool) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return f()
}

// install makes the connection for long messages of the only peer of an endpoint, with a valve that
// lets a header and the next n bytes of a body through.
func install(t *testing.T, e *Endpoint, n int) *valve {
	t.Helper()
	e.lock()
	p := e.peers[0]
	p.long.dialing = true
	e.unlock()
	conn, _, err := p.callBulk(t.Context(), "")
	must(t, err)
	v := &valve{Conn: conn, left: pair.BlockBytes + n}
	v.changed = sync.NewCond(&v.mu)
	e.lock()
	defer e.unlock()
	must(t, p.attach(v))
	return v
}

// A message may end while half of a block of it is read into its window: its process ends, its
// service is closed, or nobody waits for the reply any more. Whoever ended it waits until the
// window is not written any more, and then the window is free for the next message.
func TestAWindowIsFreeWhenItIsNotWrittenAnyMore(t *testing.T) {
	for _, name := range []string{"process", "service", "caller"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(testutil.Within(t))
			defer cancel()
			there := open(t, Config{Transport: TransportTCP, Listen: "127.0.0.1:0", MoveTimeout: -1})
			client := register(t, open(t, Config{Transport: TransportTCP, Listen: "127.0.0.1:0", MoveTimeout: -1}), "client")
			server := register(t, there, "server")
			window, body := make([]byte, 1000), pattern(1, 1000)
			must(t, server.Post(NewWindow(window)))
			reader, to := there, client.To("server")
			if name == "caller" {
				reader = client.e
				must(t, to.Connect(ctx))
			} else { // over a connection that the reader has made
				must(t, server.Send(ctx, server.To("client")))
				m, err := client.Receive(ctx)
				must(t, err)
				to = m.Sender()
				m.Release()
			}
			v := install(t, reader, 300)
			sent, ended := make(chan error, 1), make(chan error, 1)
			var going sync.WaitGroup
			defer going.Wait()
			if name == "caller" {
				going.Go(func() {
					_, err := client.CallLong(ctx, to, window, Body{})
					ended <- err
				})
				m, err := server.Receive(t.Context())
				must(t, err)
				going.Go(func() { sent <- m.ReplyLong(t.Context(), NewBody(body)); m.Release() })
			} else {
				going.Go(func() { sent <- client.SendLong(ctx, to, NewBody(body)) })
			}
			inTime(t, "half a block", func() bool { return v.is(func() bool { return v.stands && v.left == 0 }) })
			switch name {
			case "process":
				there.lock()
				there.peers[0].fail(ErrClosed)
				there.unlock()
				ended <- nil
			case "service":
				going.Go(func() { ended <- server.Close() })
			case "caller":
				cancel()
			}
			if name != "process" {
				inTime(t, "a reader that is to leave the window", func() bool { return v.is(func() bool { return v.late }) })
				reader.lock() // whoever ended the message waits by now, or has gone on
				if name == "caller" && reader.peers[0].calls.Open() != 1 || len(ended) > 0 {
					t.Error("what is written is the application's again")
				}
				reader.unlock()
				v.set(func() { v.leaves, v.left = true, 1<<30 })
			}
			if err := <-ended; err != nil && (name != "caller" || !errors.Is(err, context.Canceled)) {
				t.Error(err)
			}
			if err := <-sent; err == nil && name != "caller" {
				t.Error("a message arrived that was ended")
			}
			if name == "process" {
				body = pattern(2, 1000)
				going.Go(func() { sent <- client.SendLong(ctx, client.To("server"), NewBody(body)) })
				m, err := server.Receive(ctx)
				must(t, err)
				if !bytes.Equal(m.Body(), body) || &m.Body()[0] != &window[0] {
					t.Error("the next message is not in the window that is free")
				}
				m.Release()
				must(t, <-sent)
			}
		})
	}
}

// A buffer may be released while a message is sent from it: its memory is used again only
// afterwards.
func TestABufferIsKeptWhileItIsSent(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		server, client := register(t, open(Config{}), "server"), register(t, open(Config{}), "")
		must(t, server.Post(NewWindow(make([]byte, 1))))
		b, err := client.e.Alloc(1000)
		must(t, err)
		want := pattern(1, 1000)
		copy(b.Bytes(), want)
		sent := make(chan error, 1)
		go func() { sent <- client.SendLong(ctx, client.To("server"), b.Body()) }()
		inTime(t, "a message that waits for a window", func() bool { n, _ := openLong(server.e); return n == 1 })
		b.Release()
		for range 8 {
			other, err := client.e.Alloc(1000)
			must(t, err)
			defer other.Release()
			copy(other.Bytes(), pattern(2, 1000))
		}
		must(t, server.Post(NewWindow(make([]byte, 1000))))
		m, err := server.Receive(ctx)
		must(t, err)
		if !bytes.Equal(m.Body(), want) {
			t.Error("other bytes were sent than were in the buffer")
		}
		m.Release()
		must(t, <-sent)
	})
}

// A message that ended while it was looked for in memory of its sender is not looked at.
func TestTheViewOfAMessageThatEndedIsClosed(t *testing.T) {
	ctx := testutil.Within(t)
	server, client := register(t, open(t, Config{Transport: TransportSHM}), "server"), register(t, open(t, Config{Transport: TransportSHM}), "")
	must(t, server.Post(NewWindow(make([]byte, 1))))
	short, cancel := context.WithCancel(ctx)
	defer cancel()
	sent := make(chan error, 1)
	go func() { sent <- client.SendLong(short, client.To("server"), NewBody(make([]byte, 1000))) }()
	var m *receiving
	inTime(t, "a message that waits for a window", func() bool {
		server.e.lock()
		defer server.e.unlock()
		if len(server.long.waiting) == 1 {
			m = server.long.waiting[0]
		}
		return m != nil
	})
	view, err := server.e.memory.views.Open(ctx, m.offer.Owner, m.segment(), 1000)
	must(t, err)
	cancel()
	if err := <-sent; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	inTime(t, "its end", func() bool { n, _ := openLong(server.e); return n == 0 })
	server.e.lock()
	defer server.e.unlock()
	if m.fetched(view, nil); view.Bytes() != nil || m.view != nil {
		t.Error("memory of the sender stays mapped")
	}
}

// late is a connection to which a write takes until its deadline is set.
type late struct {
	net.Conn
	set chan time.Time
}

func (l late) SetWriteDeadline(at time.Time) error {
	l.set <- at
	return nil
}

// A sender that gives up bounds the time for the rest of its block, and not for the blocks of
// others.
func TestTheDeadlineOfASenderThatGaveUpIsItsOwn(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l := late{set: make(chan time.Time, 2)}
	b := &bulk{conn: l}
	must(t, b.patiently(ctx, func() error {
		cancel()
		if at := <-l.set; at.IsZero() {
			t.Error("a sender that gave up may write for as long as it takes")
		}
		return nil
	}))
	if at := <-l.set; !at.IsZero() {
		t.Errorf("the next sender may write until %v", at)
	}
}

// The end of a peer may be found while places are given to its messages: those that ended get none.
func TestAMessageThatEndedGetsNoPlace(t *testing.T) {
	ctx := testutil.Within(t)
	there := open(t, Config{Transport: TransportTCP, Listen: "127.0.0.1:0", MoveTimeout: -1})
	server, client := register(t, there, "server"), register(t, open(t, Config{Transport: TransportTCP, Listen: "127.0.0.1:0", MoveTimeout: -1}), "")
	must(t, server.Post(NewWindow(make([]byte, 1))))
	sent := make(chan error)
	for range 2 {
		go func() { sent <- client.SendLong(ctx, client.To("server"), NewBody(make([]byte, 1000))) }()
	}
	inTime(t, "two messages", func() bool {
		there.lock()
		defer there.unlock()
		return len(server.long.waiting) == 2
	})
	there.lock()
	there.peers[0].line.link = brokenLink{there.peers[0].line.link}
	there.unlock()
	must(t, server.TakeLong(inLib))
	if _, taken := openLong(there); taken != 0 {
		t.Errorf("%d bytes are taken by messages that ended", taken)
	}
	for range 2 {
		if err := <-sent; !errors.Is(err, ErrPeerGone) {
			t.Error(err)
		}
	}
}

// The application is asked for a window for messages only that still come: the head of another one
// is not there any more.
func TestNoWindowIsAskedForAMessageThatEnded(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		server, client := register(t, open(Config{}), "server"), register(t, open(Config{}), "")
		asked, answer := make(chan string, 10), make(chan struct{})
		must(t, server.TakeLong(LongConfig{Allocate: func(o Offer) (*Window, error) {
			asked <- string(o.Head)
			<-answer
			return NewWindow(make([]byte, o.Size)), nil
		}}))
		short, cancel := context.WithCancel(ctx)
		defer cancel()
		sent := make(chan error, 2)
		send := func(ctx context.Context, head string) {
			go func() { sent <- client.SendLong(ctx, client.To("server"), NewBody([]byte("body")), []byte(head)) }()
		}
		send(ctx, "first")
		if head := <-asked; head != "first" {
			t.Error(head)
		}
		send(short, "second")
		waiting := func() int {
			server.e.lock()
			defer server.e.unlock()
			return len(server.long.asking)
		}
		inTime(t, "a message that waits", func() bool { return waiting() == 1 })
		cancel()
		if err := <-sent; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		inTime(t, "its end", func() bool { n, _ := openLong(server.e); return n == 1 })
		close(answer)
		m, err := server.Receive(ctx)
		must(t, err)
		m.Release()
		must(t, <-sent)
		inTime(t, "the end of asking", func() bool { return waiting() == 0 })
		for len(asked) > 0 {
			t.Errorf("a window was asked for %q, which has ended", <-asked)
		}
	})
}
