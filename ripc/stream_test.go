package ripc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/ripc/internal/pair"
	"golang.org/x/net/nettest"
)

// streamPair is a stream between two endpoints.
func streamPair(t testing.TB, open func(Config) *Endpoint) (here, there *Stream, l *Listener) {
	t.Helper()
	server, client := register(t, open(Config{}), "server"), register(t, open(Config{MoveTimeout: -1}), "client")
	l = Listen(server)
	here, err := client.Dial(t.Context(), "server")
	must(t, err)
	conn, err := l.Accept()
	must(t, err)
	return here, conn.(*Stream), l
}

func TestAStreamIsAConnection(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		server, client := register(t, open(Config{}), "server"), register(t, open(Config{}), "client")
		l := Listen(server)
		nettest.TestConn(t, func() (a, b net.Conn, stop func(), err error) {
			if a, err = client.DialContext(t.Context(), "tcp", "server:80"); err != nil {
				return nil, nil, nil, err
			}
			if b, err = l.Accept(); err != nil {
				return nil, nil, nil, err
			}
			return a, b, func() { a.Close(); b.Close() }, nil
		})
		for _, s := range []*Service{server, client} {
			eventually(t, s.e, "streams are left", func() bool { return s.streams.dialed.Len() == 0 && len(s.streams.open.list) == 0 })
		}
	})
}

// eventually waits until something under the mu of an endpoint is true.
func eventually(t testing.TB, e *Endpoint, or string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; {
		e.lock()
		ok := f()
		e.unlock()
		if ok {
			return
		}
		if time.Now().After(end) {
			t.Fatal(or)
		}
		pause()
	}
}

func TestAStreamThatNobodyReadsHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		server, client := register(t, open(Config{}), "server"), register(t, open(Config{}), "client")
		l := Listen(server)
		served, stop := context.WithCancel(ctx)
		var serving sync.WaitGroup
		serving.Go(func() { echo(served, server) })
		defer serving.Wait()
		defer stop()
		for range 3 {
			unread, err := client.Dial(ctx, "server")
			must(t, err)
			for wait, n := 50*time.Millisecond, 0; n == 0; wait *= 2 { // until it was time enough for a part
				unread.SetWriteDeadline(time.Now().Add(wait))
				n, err = unread.Write(make([]byte, 1<<20))
				if !errors.Is(err, os.ErrDeadlineExceeded) || n == 1<<20 || ctx.Err() != nil {
					t.Fatalf("%d bytes, %v", n, err)
				}
			}
			_, err = l.Accept()
			must(t, err)
		}
		c, err := client.Dial(ctx, "server")
		must(t, err)
		other, err := l.Accept()
		must(t, err)
		var copying sync.WaitGroup
		copying.Go(func() {
			io.Copy(other, other)
			other.Close()
		})
		defer copying.Wait()
		body := make([]byte, 300<<10)
		for i := range body {
			body[i] = byte(i * i >> 3)
		}
		copying.Go(func() {
			c.Write(body)
			c.CloseWrite()
		})
		got, err := io.ReadAll(c)
		must(t, err)
		if !bytes.Equal(got, body) {
			t.Errorf("%d other bytes came back", len(got))
		}
		m, err := client.Call(ctx, client.To("server"), []byte("beside"))
		must(t, err)
		if string(m.Data) != "beside" {
			t.Errorf("%q", m.Data)
		}
		m.Release()
		must(t, c.Close())
	})
}

func TestTheHalvesOfAStreamEndSeparately(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		here, there, _ := streamPair(t, open)
		_, err := here.Write([]byte("question"))
		must(t, err)
		must(t, here.CloseWrite())
		if _, err := here.Write([]byte("more")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("writing after the end: %v", err)
		}
		got, err := io.ReadAll(there)
		must(t, err)
		_, err = there.Write(append(got, "?"...))
		must(t, err)
		must(t, there.Close())
		got, err = io.ReadAll(here)
		must(t, err)
		if string(got) != "question?" {
			t.Errorf("%q", got)
		}
		must(t, here.Close())
		if _, err := here.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("reading after Close: %v", err)
		}
	})
}

func TestAStreamThatIsClosedWithUnreadBytesIsReset(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		here, there, l := streamPair(t, open)
		_, err := here.Write([]byte("nobody reads this"))
		must(t, err)
		eventually(t, there.e, "nothing came", func() bool { return there.core.Readable() })
		must(t, there.Close())
		if _, err := here.Read(make([]byte, 1)); !errors.Is(err, ErrReset) || !strings.Contains(err.Error(), "by server") {
			t.Errorf("reading: %v", err)
		}
		if _, err := here.Write([]byte("x")); !errors.Is(err, ErrReset) {
			t.Errorf("writing: %v", err)
		}
		here.Close()

		here, err = here.service.Dial(t.Context(), "server") // bytes that come after the close
		must(t, err)
		conn, err := l.Accept()
		must(t, err)
		_, err = conn.Write([]byte("bye"))
		must(t, err)
		must(t, conn.Close())
		got, err := io.ReadAll(here)
		must(t, err)
		if string(got) != "bye" {
			t.Errorf("%q", got)
		}
		for end := time.Now().Add(10 * time.Second); err == nil && time.Now().Before(end); {
			_, err = here.Write([]byte("late"))
		}
		if !errors.Is(err, ErrReset) {
			t.Errorf("writing to what is closed: %v", err)
		}
		here.Close()
	})
}

func TestWhatWasWrittenIsReadAfterTheOtherProcessEnded(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ended, other, l := streamPair(t, open)
		broken, err := ended.service.Dial(t.Context(), "server")
		must(t, err)
		conn, err := l.Accept()
		must(t, err)
		_, err = ended.Write([]byte("last words"))
		must(t, err)
		must(t, ended.CloseWrite())
		_, err = broken.Write([]byte("last words"))
		must(t, err)
		eventually(t, other.e, "nothing came", conn.(*Stream).core.Readable)
		var reading sync.WaitGroup
		reading.Go(func() {
			got, err := io.ReadAll(conn)
			if string(got) != "last words" || !errors.Is(err, ErrPeerGone) || !strings.Contains(err.Error(), "client") {
				t.Errorf("%q, %v", got, err)
			}
		})
		ended.e.lock() // as a process that ends: it closes nothing
		for len(ended.e.peers) > 0 {
			ended.e.peers[0].fail(errors.New("killed"))
		}
		ended.e.unlock()
		got, err := io.ReadAll(other)
		if string(got) != "last words" || err != nil { // RS6
			t.Errorf("%q, %v", got, err)
		}
		reading.Wait()
		if _, err := other.Write([]byte("x")); !errors.Is(err, ErrPeerGone) {
			t.Errorf("writing: %v", err)
		}
		other.Close()
		conn.Close()
	})
}

func TestAStreamThatNobodyAcceptsIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		server, client := register(t, open(Config{}), "server"), register(t, open(Config{}), "client")
		if _, err := client.Dial(ctx, "server"); !errors.Is(err, ErrNoService) {
			t.Errorf("without streams: %v", err)
		}
		if _, err := client.Dial(ctx, "nobody"); !errors.Is(err, ErrNoService) {
			t.Errorf("without a service: %v", err)
		}
		l := ListenConfig{Backlog: 2, MaxStreams: 3}.Listen(server)
		var all []*Stream
		dial := func() error {
			c, err := client.Dial(ctx, "server")
			if err == nil {
				all = append(all, c)
			}
			return err
		}
		must(t, dial())
		must(t, dial())
		if err := dial(); !errors.Is(err, ErrRefused) {
			t.Errorf("with a full backlog: %v", err)
		}
		conn, err := l.Accept()
		must(t, err)
		must(t, dial())
		if err := dial(); !errors.Is(err, ErrRefused) { // RS7
			t.Errorf("with as many streams as are allowed: %v", err)
		}
		conn.Close()
		all[0].Close()
		for {
			if err = dial(); err == nil || !errors.Is(err, ErrRefused) {
				break
			}
			conn, err = l.Accept() // makes room in the backlog
			must(t, err)
			conn.Close()
		}
		must(t, err)
		must(t, l.Close())
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("accepting after Close: %v", err)
		}
		if err := dial(); !errors.Is(err, ErrRefused) {
			t.Errorf("with a listener that is closed: %v", err)
		}
		for _, c := range all {
			c.Close()
		}
		all = nil
		Listen(server)
		must(t, dial())
		all[0].Close()
	})
}

func TestADialThatIsGivenUpLeavesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		here, _, _ := streamPair(t, open)
		s := here.service
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Dial(ctx, "server"); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		here.Close()
		eventually(t, s.e, "a stream is left", func() bool { return len(s.streams.open.list) == 0 })
	})
}

func TestStreamsEndWithTheirService(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		here, there, l := streamPair(t, open)
		var waiting sync.WaitGroup
		waiting.Go(func() {
			if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("accepting: %v", err)
			}
		})
		waiting.Go(func() {
			if _, err := there.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
				t.Errorf("reading at the closed service: %v", err)
			}
		})
		_, err := there.Write([]byte("bye"))
		must(t, err)
		must(t, there.service.Close())
		got, err := io.ReadAll(here)
		if string(got) != "bye" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		waiting.Wait()
		if _, err := here.service.Dial(testutil.Within(t), "server"); !errors.Is(err, ErrNoService) {
			t.Errorf("dialing a closed service: %v", err)
		}
		here.Close()
	})
}

// Many streams at once carry what was written to them, also where Close crosses data and waiting.
func TestManyStreamsBetweenTwoServices(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		server, client := register(t, open(Config{}), "server"), register(t, open(Config{}), "client")
		l := Listen(server)
		var work sync.WaitGroup
		work.Go(func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				work.Go(func() {
					defer conn.Close()
					io.Copy(conn, conn)
				})
			}
		})
		var clients sync.WaitGroup
		for k := range uint64(16) {
			clients.Go(func() {
				rng := rand.New(rand.NewPCG(k, 3))
				for range 6 {
					c, err := client.Dial(t.Context(), "server")
					if err != nil {
						t.Error(err)
						return
					}
					body := make([]byte, rng.IntN(100<<10))
					for i := range body {
						body[i] = byte(rng.Uint32())
					}
					var writing sync.WaitGroup
					writing.Go(func() {
						for rest := body; len(rest) > 0; {
							n := min(len(rest), 1+rng.IntN(20000))
							if _, err := c.Write(rest[:n]); err != nil {
								t.Error(err)
								return
							}
							rest = rest[n:]
						}
						c.CloseWrite()
					})
					got, err := io.ReadAll(c)
					writing.Wait()
					if err != nil || !bytes.Equal(got, body) {
						t.Errorf("%d of %d bytes came back: %v", len(got), len(body), err)
					}
					c.Close()
				}
			})
		}
		clients.Wait()
		l.Close()
		work.Wait()
		for _, s := range []*Service{server, client} {
			eventually(t, s.e, "streams are left", func() bool { return s.streams.dialed.Len() == 0 && len(s.streams.open.list) == 0 })
		}
	})
}

// A stream for which there is no memory is refused, also if it is the first one of its service, and
// leaves nothing behind.
func TestAStreamWithoutMemoryIsRefused(t *testing.T) {
	ctx := testutil.Within(t)
	authority := testutil.NewAuthority(t)
	row := pair.Shape(DefaultRingBytes).RowBytes
	there := overTLS(t, authority, "server", Config{MaxBytesPerClient: pairBytes(row, row, false) + DefaultStreamBytes/2})
	ListenConfig{}.Listen(register(t, there, "server"))
	client := register(t, overTLS(t, authority, "client", Config{}), "")
	for range 2 {
		if _, err := client.Dial(ctx, "server"); !errors.Is(err, ErrRefused) {
			t.Error(err)
		}
		must(t, there.audit(true))
	}
}
