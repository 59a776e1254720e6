package ripc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/ripc/internal/pair"
)

// pattern is a body of n bytes that follow from a number.
func pattern(k uint64, n int) []byte {
	b := make([]byte, n)
	rng := rand.NewChaCha8([32]byte{byte(k), byte(k >> 8)})
	rng.Read(b)
	return b
}

// inLib is what a service of a test takes: bodies in memory of the library.
var inLib = LongConfig{MaxBytes: 256 << 20, MaxPeerBytes: 256 << 20}

// bodies are all kinds of bodies with the same bytes.
func bodies(t testing.TB, e *Endpoint, want []byte) map[string]Body {
	t.Helper()
	b, err := e.Alloc(len(want))
	must(t, err)
	t.Cleanup(b.Release)
	copy(b.Bytes(), want)
	name := filepath.Join(t.TempDir(), "body")
	must(t, os.WriteFile(name, append([]byte("front"), want...), 0o600))
	file, err := os.Open(name)
	must(t, err)
	t.Cleanup(func() { file.Close() })
	return map[string]Body{
		"bytes": NewBody(want), "buffer": b.Body(), "reader": NewReaderBody(bytes.NewReader(want), int64(len(want))), "file": NewFileBody(file, 5, int64(len(want))),
	}
}

func TestALongMessageOfAnySizeAndKindIsReceived(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		here := open(Config{})
		server, client := register(t, open(Config{}), "server"), register(t, here, "")
		must(t, server.TakeLong(inLib))
		to := client.To("server")
		for k, n := range []int{0, 1, 4096, 70000, 3<<20 + 17} {
			want := pattern(uint64(k), n)
			for name, body := range bodies(t, here, want) {
				var sending sync.WaitGroup
				sending.Go(func() {
					if err := client.SendLong(ctx, to, body, []byte("head "), []byte(name)); err != nil {
						t.Errorf("%s of %d bytes: %v", name, n, err)
					}
				})
				m, err := server.Receive(ctx)
				must(t, err)
				if string(m.Data) != "head "+name || !bytes.Equal(m.Body(), want) || m.BodySize() != int64(n) || m.IsRequest() {
					t.Errorf("%s of %d bytes: %q, a body of %d", name, n, m.Data, len(m.Body()))
				}
				m.Release()
				m.Release()
				sending.Wait()
			}
		}
	})
}

// A call has a body, and its reply one that goes into the return buffer, into a window, or is
// looked at where it is.
func TestACallWithLongBodiesIsAnswered(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		server, client := register(t, open(Config{}), "server"), register(t, open(Config{}), "")
		must(t, server.TakeLong(inLib))
		must(t, client.TakeLong(LongConfig{InPlace: true, MaxBytes: 256 << 20, MaxPeerBytes: 256 << 20}))
		served, stop := context.WithCancel(ctx)
		var serving sync.WaitGroup
		defer serving.Wait()
		defer stop()
		for range 2 {
			serving.Go(func() {
				server.Serve(served, func(ctx context.Context, m *Message) {
					if err := m.ReplyLong(ctx, NewBody(m.Body()), []byte("re: "), m.Data); err != nil {
						t.Error(err)
					}
				})
			})
		}
		into := make([]byte, 1<<20)
		for k, n := range []int{0, 1, 5000, 1 << 20, 1<<20 + 1} {
			want := pattern(uint64(k), n)
			for _, buffer := range [][]byte{nil, into} {
				m, err := client.CallLong(ctx, client.To("server"), buffer, NewBody(want), fmt.Append(nil, k))
				must(t, err)
				if string(m.Data) != fmt.Sprint("re: ", k) || !bytes.Equal(m.Body(), want) {
					t.Fatalf("%d bytes: the reply %q has %d", n, m.Data, len(m.Body()))
				}
				if inside := n > 0 && n <= len(buffer); inside != (n > 0 && &m.Body()[0] == &into[0]) {
					t.Errorf("%d bytes: in the return buffer: %v", n, inside)
				}
				m.Release()
			}
		}
		m, err := client.Call(ctx, client.To("server"), []byte("short")) // a reply may be long in any case
		must(t, err)
		if string(m.Data) != "re: short" || m.BodySize() != 0 {
			t.Errorf("%q", m.Data)
		}
		m.Release()
	})
}

func TestAMessageWithoutAWindowWaitsOrIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		server, client := register(t, open(Config{}), "server"), register(t, open(Config{}), "")
		to := client.To("server")
		if err := client.SendLong(ctx, to, NewBody(make([]byte, 10))); !errors.Is(err, ErrNoWindow) {
			t.Errorf("a service that takes none: %v", err)
		}
		must(t, server.TakeLong(LongConfig{MaxBytes: 1000, MaxPeerBytes: 1000}))
		if err := client.SendLong(ctx, to, NewBody(make([]byte, 1001))); !errors.Is(err, ErrTooLarge) {
			t.Errorf("one that is too large: %v", err)
		}
		must(t, client.SendLong(ctx, to, NewBody(make([]byte, 600))))
		second := make(chan error, 1)
		go func() { second <- client.SendLong(ctx, to, NewBody(make([]byte, 500))) }()
		first, err := server.Receive(ctx)
		must(t, err)
		must(t, client.SendLong(ctx, to, NewBody(make([]byte, 300)))) // there is room for it
		select {
		case err := <-second:
			t.Fatalf("a message went beyond MaxBytes: %v", err)
		default:
		}
		first.Release()
		must(t, <-second)
		for range 2 {
			m, err := server.Receive(ctx)
			must(t, err)
			m.Release()
		}
		must(t, server.TakeLong(LongConfig{MaxBytes: 1000, MaxPeerBytes: 1000, Refuse: true}))
		must(t, client.SendLong(ctx, to, NewBody(make([]byte, 600))))
		if err := client.SendLong(ctx, to, NewBody(make([]byte, 600))); !errors.Is(err, ErrNoWindow) {
			t.Errorf("one that does not wait: %v", err)
		}
	})
}

func TestAMessageGoesIntoTheFirstWindowThatIsLargeEnough(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		server, client := register(t, open(Config{}), "server"), register(t, open(Config{}), "")
		file, err := os.Create(filepath.Join(t.TempDir(), "window"))
		must(t, err)
		defer file.Close()
		small, large := make([]byte, 1000), make([]byte, 100000)
		must(t, server.Post(NewWindow(small), NewWindow(large), NewFileWindow(file, 7, 1<<20)))
		want := pattern(1, 90000)
		for range 2 {
			must(t, client.SendLong(ctx, client.To("server"), NewBody(want)))
		}
		m, err := server.Receive(ctx)
		must(t, err)
		if &m.Body()[0] != &large[0] || !bytes.Equal(m.Body(), want) || m.Window().Size() != 100000 {
			t.Error("it is not in the window of 100000 bytes")
		}
		m.Release()
		m, err = server.Receive(ctx)
		must(t, err)
		if m.Body() != nil || m.BodySize() != 90000 {
			t.Errorf("a body of %d bytes in memory, %d in the file", len(m.Body()), m.BodySize())
		}
		m.Release()
		got, err := io.ReadAll(io.NewSectionReader(file, 7, 90000))
		if err != nil || !bytes.Equal(got, want) {
			t.Error("other bytes in the file", err)
		}
		must(t, server.TakeLong(LongConfig{Allocate: func(o Offer) (*Window, error) {
			if string(o.Head) == "no" {
				return nil, errors.New("not today")
			}
			return NewWindow(make([]byte, o.Size)), nil
		}}))
		must(t, client.SendLong(ctx, client.To("server"), NewBody(want)))
		if err := client.SendLong(ctx, client.To("server"), NewBody(want), []byte("no")); !errors.Is(err, ErrNoWindow) || !bytes.Contains([]byte(err.Error()), []byte("not today")) {
			t.Error(err)
		}
		m, err = server.Receive(ctx)
		must(t, err)
		if !bytes.Equal(m.Body(), want) {
			t.Error("other bytes")
		}
		m.Release()
	})
}

// inTime waits until a condition holds.
func inTime(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not in time: ", what)
		}
	}
}

// openLong is how many long messages of an endpoint are open, in both directions, and how many
// bytes are taken of MaxLongBytes.
func openLong(e *Endpoint) (messages int, taken int64) {
	e.lock()
	defer e.unlock()
	for _, p := range e.peers {
		messages += p.long.in.Open() + p.long.out.Open()
	}
	return messages, e.memory.budget.Used()
}

// A caller that gives up has its return buffer to itself, whatever comes of the reply, and the pair
// goes on.
func TestAReturnBufferIsLeftAloneWhenTheCallerGaveUp(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		here, there := open(Config{}), open(Config{})
		server, client := register(t, there, "server"), register(t, here, "")
		served, stop := context.WithCancel(ctx)
		body := bytes.Repeat([]byte{1}, 8<<20)
		var serving sync.WaitGroup
		defer serving.Wait()
		defer stop()
		serving.Go(func() {
			server.Serve(served, func(ctx context.Context, m *Message) { m.ReplyLong(ctx, NewBody(body)) })
		})
		to, into := client.To("server"), make([]byte, 8<<20)
		rng := rand.New(rand.NewPCG(1, 2))
		gaveUp := 0
		for range 40 {
			short, cancel := context.WithTimeout(ctx, time.Duration(rng.IntN(8000))*time.Microsecond)
			m, err := client.CallLong(short, to, into, Body{})
			cancel()
			if err == nil {
				m.Release()
			} else {
				gaveUp++
			}
			clear(into)
			if i := bytes.IndexByte(into, 1); i >= 0 {
				t.Fatalf("byte %d was written after the call returned", i)
			}
		}
		m, err := client.CallLong(ctx, to, into, Body{})
		must(t, err)
		if !bytes.Equal(m.Body(), body) {
			t.Error("other bytes")
		}
		m.Release()
		t.Logf("%d of 40 calls were given up", gaveUp)
		for _, e := range []*Endpoint{here, there} {
			inTime(t, "an end of all long messages", func() bool {
				n, taken := openLong(e)
				return n == 0 && taken == 0
			})
		}
	})
}

// A sender may give up at any step: while its message waits for a window, while it comes, or
// because its reader failed.
func TestASenderThatGivesUpLeavesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		here, there := open(Config{}), open(Config{})
		server, client := register(t, there, "server"), register(t, here, "")
		to := client.To("server")
		must(t, server.TakeLong(LongConfig{MaxBytes: 3 << 20, MaxPeerBytes: 3 << 20}))
		must(t, client.SendLong(ctx, to, NewBody(make([]byte, 3<<20)))) // takes all that there is
		short, cancel := context.WithCancel(ctx)
		waiting := make(chan error, 1)
		go func() { waiting <- client.SendLong(short, to, NewBody(make([]byte, 2<<20))) }()
		inTime(t, "two messages", func() bool { n, _ := openLong(there); return n == 2 })
		cancel()
		if err := <-waiting; !errors.Is(err, context.Canceled) {
			t.Errorf("a message that waits: %v", err)
		}
		inTime(t, "one message", func() bool { n, _ := openLong(there); return n == 1 })
		m, err := server.Receive(ctx)
		must(t, err)
		m.Release()
		failing := io.MultiReader(bytes.NewReader(make([]byte, 1<<20)), iotest.ErrReader(errors.New("the disk is gone")))
		if err := client.SendLong(ctx, to, NewReaderBody(failing, 2<<20)); err == nil || !strings.Contains(err.Error(), "the disk is gone") {
			t.Errorf("a reader that fails: %v", err)
		}
		if err := client.SendLong(ctx, to, NewReaderBody(bytes.NewReader(make([]byte, 1<<20)), 2<<20)); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("a reader that ends: %v", err)
		}
		for _, e := range []*Endpoint{here, there} {
			inTime(t, "an end of all long messages", func() bool {
				n, taken := openLong(e)
				return n == 0 && taken == 0
			})
		}
		must(t, client.SendLong(ctx, to, NewBody(pattern(3, 2<<20))))
		m, err = server.Receive(ctx)
		must(t, err)
		if !bytes.Equal(m.Body(), pattern(3, 2<<20)) {
			t.Error("other bytes")
		}
		m.Release()
	})
}

// Memory of a buffer is used again only when no peer looks at it.
func TestMemoryThatIsLookedAtIsNotUsedAgain(t *testing.T) {
	ctx := testutil.Within(t)
	here := open(t, Config{Transport: TransportSHM})
	server, client := register(t, open(t, Config{Transport: TransportSHM}), "server"), register(t, here, "")
	must(t, server.TakeLong(LongConfig{InPlace: true, MaxBytes: 1 << 30}))
	b, err := here.Alloc(1 << 20)
	must(t, err)
	copy(b.Bytes(), "first")
	var held []Message
	for range 3 {
		must(t, client.SendLong(ctx, client.To("server"), b.Body()))
		m, err := server.Receive(ctx)
		must(t, err)
		if !m.InPlace() {
			t.Fatal("it was copied")
		}
		held = append(held, m)
	}
	at := &b.Bytes()[0]
	b.Release()
	if n := here.Buffers(); n != 0 {
		t.Errorf("%d buffers are not released", n)
	}
	for k, m := range held {
		other, err := here.Alloc(1 << 20)
		must(t, err)
		copy(other.Bytes(), "other")
		if string(m.Body()[:5]) != "first" || &other.Bytes()[0] == at {
			t.Fatalf("memory is used again while %d messages lie in it", len(held)-k)
		}
		other.Release()
		m.Release()
	}
	inTime(t, "use of the memory again", func() bool {
		var all []*Buffer
		defer func() {
			for _, b := range all {
				b.Release()
			}
		}()
		for range 3 {
			b, err := here.Alloc(1 << 20)
			must(t, err)
			if all = append(all, b); &b.Bytes()[0] == at {
				return true
			}
		}
		return false
	})
}

// A service that is closed denies what is on its way to it, and its windows are not written any
// more. What it did not receive is told to the sender.
func TestAServiceThatIsClosedTakesNoLongMessages(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		server, client := register(t, open(Config{MoveTimeout: time.Millisecond}), "server"), register(t, open(Config{MoveTimeout: time.Millisecond}), "")
		to := client.To("server")
		window := make([]byte, 16<<20)
		must(t, server.Post(NewWindow(make([]byte, 10)), NewWindow(window)))
		must(t, client.SendLong(ctx, to, NewBody(make([]byte, 10)))) // here, and not received
		sending := make(chan error, 1)
		go func() { sending <- client.SendLong(ctx, to, NewBody(bytes.Repeat([]byte{1}, 16<<20))) }()
		must(t, server.Close())
		clear(window)
		if i := bytes.IndexByte(window, 1); i >= 0 {
			t.Errorf("byte %d of the window was written after Close", i)
		}
		err := <-sending
		if err == nil {
			err = client.SendLong(ctx, to, Body{})
		}
		if gone, ok := errors.AsType[*GoneError](err); !ok || gone.Unreceived < 1 {
			t.Errorf("%v", err)
		}
	})
}

// An endpoint that is closed says so on the connection of the pair, and then closes both
// connections. The sender of a long message, whose write to the other one fails, hears that.
func TestTheSenderOfALongMessageHearsThatTheEndpointIsClosed(t *testing.T) {
	for range 10 {
		ctx := testutil.Within(t)
		there := open(t, Config{Transport: TransportTCP, Listen: "127.0.0.1:0"})
		server := register(t, there, "server")
		client := register(t, open(t, Config{Transport: TransportTCP, Listen: "127.0.0.1:0", MoveTimeout: time.Millisecond}), "")
		const n = 64 << 20
		must(t, server.Post(NewWindow(make([]byte, n))))
		comes := make(chan struct{})
		body := &announcing{at: 4 << 20, reached: comes}
		sending := make(chan error, 1)
		go func() { sending <- client.SendLong(ctx, client.To("server"), NewReaderBody(body, n)) }()
		<-comes
		must(t, there.Close())
		err := <-sending
		if gone, ok := errors.AsType[*GoneError](err); !ok || !gone.Exact || gone.Unreceived != 1 {
			t.Fatalf("%v", err)
		}
	}
}

// announcing is an endless reader that closes a channel when so many bytes were read.
type announcing struct {
	at      int
	reached chan struct{}
}

func (r *announcing) Read(b []byte) (int, error) {
	if r.at > 0 && r.at <= len(b) {
		close(r.reached)
	}
	r.at -= min(len(b), r.at)
	return len(b), nil
}

// A process that is killed takes nothing with it, at either side of a long message.
func TestAKilledProcessLeavesNoLongMessages(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"shm", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			ctx := testutil.Within(t)
			rounds := 10
			if testing.Short() {
				rounds = 3
			}
			domain := fmt.Sprint(t.Name(), os.Getpid())
			cfg := configOf(transport, domain)
			cfg.MoveTimeout = -1
			here := open(t, cfg)
			client := register(t, here, "")
			must(t, client.TakeLong(inLib))
			to := client.To("server")
			into := make([]byte, 4<<20)
			for round := range rounds {
				server := startChild(t, "long", transport, domain)
				var killing sync.WaitGroup
				killing.Go(func() {
					time.Sleep(time.Duration(round) * 2 * time.Millisecond) // any moment will do
					server.Kill()
				})
				var held []Message
				for {
					m, err := client.CallLong(ctx, to, into, NewBody(into))
					if err != nil {
						if !errors.Is(err, ErrPeerGone) && !errors.Is(err, ErrNoService) && !errors.Is(err, ErrUnreachable) && !errors.Is(err, ErrRefused) {
							t.Errorf("round %d: %v", round, err)
						}
						break
					}
					held = append(held, m)
				}
				killing.Wait()
				for _, m := range held {
					m.Release()
				}
			}
			if n, taken := openLong(here); n != 0 || taken != 0 {
				t.Errorf("%d messages are open, %d bytes taken", n, taken)
			}
		})
	}
}

// A hostile peer that breaks the rules of long messages loses its connection, and nothing else
// happens.
func TestAPeerThatBreaksTheRulesOfLongMessagesIsCutOff(t *testing.T) {
	for name, frame := range map[string]func() (pair.Kind, []byte){
		"an offer that is none": func() (pair.Kind, []byte) { return pair.Offered, []byte("none") },
		"bytes in memory that was not granted": func() (pair.Kind, []byte) {
			o := pair.Offer{Purpose: pair.LongMessage, Size: 5}
			return pair.Offered, o.Append(nil)
		},
		"an answer for no message": func() (pair.Kind, []byte) { return pair.Granted, nil },
	} {
		t.Run(name, func(t *testing.T) {
			ctx := testutil.Within(t)
			there := open(t, Config{Transport: TransportSHM})
			server, other := register(t, there, "server"), register(t, open(t, Config{Transport: TransportSHM}), "")
			must(t, server.TakeLong(inLib))
			evil := register(t, open(t, Config{Transport: TransportSHM}), "")
			to := evil.To("server")
			must(t, to.Connect(ctx))
			must(t, other.To("server").Connect(ctx))
			r := to.route.Load()
			k, data := frame()
			r.peer.put(r, k, 77, [][]byte{data})
			inTime(t, "the end of the peer", func() bool { return there.Peers() == 1 })
			must(t, other.SendLong(ctx, other.To("server"), NewBody([]byte("good"))))
			m, err := server.Receive(ctx)
			must(t, err)
			if string(m.Body()) != "good" {
				t.Errorf("%q", m.Body())
			}
			m.Release()
		})
	}
	t.Run("a place where nothing is", func(t *testing.T) {
		ctx := testutil.Within(t)
		there := open(t, Config{Transport: TransportSHM})
		server, evil := register(t, there, "server"), register(t, open(t, Config{Transport: TransportSHM}), "")
		must(t, server.TakeLong(LongConfig{InPlace: true, MaxBytes: 1 << 40}))
		must(t, evil.To("server").Connect(ctx))
		r := evil.To("server").route.Load()
		evil.e.lock()
		m := &sending{peer: r.peer}
		m.out = r.peer.long.out.Begin(r.channel, pair.Placed, 1<<30, m)
		o := pair.Offer{Purpose: pair.LongMessage, Way: pair.Placed, Size: 1 << 30, Owner: "squall-large-" + strings.Repeat("0", 32)}
		r.peer.putHeld(pair.Offered, r.channel, m.out.ID, [][]byte{o.Append(nil)}, nil)
		evil.e.unlock()
		inTime(t, "a refusal", func() bool {
			evil.e.lock()
			defer evil.e.unlock()
			return m.err != nil
		})
		if !errors.Is(m.err, ErrRefused) || there.Peers() != 1 {
			t.Error(m.err, there.Peers())
		}
	})
}

// A channel has a bounded number of long messages in flight. A further one waits until one of them
// ends (RP11).
func TestALongMessageWaitsForItsTurn(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		here := open(Config{})
		server, client := register(t, open(Config{}), "server"), register(t, here, "")
		must(t, server.Post(NewWindow(make([]byte, 1))))
		to := client.To("server")
		must(t, to.Connect(ctx))
		p := to.route.Load().peer
		const messages = pair.OpenLong + 1
		sent := make(chan error, messages)
		for range messages {
			go func() { sent <- client.SendLong(ctx, to, NewBody(make([]byte, 10))) }()
		}
		eventually(t, here, "no message waits for its turn", func() bool { return len(p.long.turns) == 1 && len(p.long.sendings) == pair.OpenLong })
		for range messages {
			must(t, server.Post(NewWindow(make([]byte, 10))))
		}
		for range messages {
			m, err := server.Receive(ctx)
			must(t, err)
			m.Release()
		}
		for range messages {
			must(t, <-sent)
		}
	})
}
