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
	"sync"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
)

// pattern is a body of n bytes that follow from a number.
func pattern(k uint64, n int) []byte {
	b := make([]byte, n)
	rng := rand.NewChaCha8([32]byte{byte(k), byte(k >> 8)})
	rng.Read(b)
	return b
}

// inLib is what a service of a test takes: bodies in memory of the library.
var inLib = Long{MaxBytes: 256 << 20, MaxPeerBytes: 256 << 20}

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
		"bytes": Bytes(want), "buffer": b.Body(), "reader": Reader(bytes.NewReader(want), int64(len(want))), "file": File(file, 5, int64(len(want))),
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

// A call has a body, and its reply one that goes into the return buffer, into a window, or is looked at where it is.
func TestACallWithLongBodiesIsAnswered(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		server, client := register(t, open(Config{}), "server"), register(t, open(Config{}), "")
		must(t, server.TakeLong(inLib))
		must(t, client.TakeLong(Long{InPlace: true, MaxBytes: 256 << 20, MaxPeerBytes: 256 << 20}))
		served, stop := context.WithCancel(ctx)
		var serving sync.WaitGroup
		defer serving.Wait()
		defer stop()
		for range 2 {
			serving.Go(func() {
				server.Serve(served, func(ctx context.Context, m *Message) {
					if err := m.ReplyLong(ctx, Bytes(m.Body()), []byte("re: "), m.Data); err != nil {
						t.Error(err)
					}
				})
			})
		}
		into := make([]byte, 1<<20)
		for k, n := range []int{0, 1, 5000, 1 << 20, 1<<20 + 1} {
			want := pattern(uint64(k), n)
			for _, buffer := range [][]byte{nil, into} {
				m, err := client.CallLong(ctx, client.To("server"), buffer, Bytes(want), fmt.Append(nil, k))
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
		if err := client.SendLong(ctx, to, Bytes(make([]byte, 10))); !errors.Is(err, ErrNoWindow) {
			t.Errorf("a service that takes none: %v", err)
		}
		must(t, server.TakeLong(Long{MaxBytes: 1000, MaxPeerBytes: 1000}))
		if err := client.SendLong(ctx, to, Bytes(make([]byte, 1001))); !errors.Is(err, ErrTooLarge) {
			t.Errorf("one that is too large: %v", err)
		}
		must(t, client.SendLong(ctx, to, Bytes(make([]byte, 600))))
		second := make(chan error, 1)
		go func() { second <- client.SendLong(ctx, to, Bytes(make([]byte, 500))) }()
		first, err := server.Receive(ctx)
		must(t, err)
		must(t, client.SendLong(ctx, to, Bytes(make([]byte, 300)))) // there is room for it
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
		must(t, server.TakeLong(Long{MaxBytes: 1000, MaxPeerBytes: 1000, Refuse: true}))
		must(t, client.SendLong(ctx, to, Bytes(make([]byte, 600))))
		if err := client.SendLong(ctx, to, Bytes(make([]byte, 600))); !errors.Is(err, ErrNoWindow) {
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
		must(t, server.Post(NewWindow(small), NewWindow(large), FileWindow(file, 7, 1<<20)))
		want := pattern(1, 90000)
		for range 2 {
			must(t, client.SendLong(ctx, client.To("server"), Bytes(want)))
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
		must(t, server.TakeLong(Long{Allocate: func(o Offer) (*Window, error) {
			if string(o.Head) == "no" {
				return nil, errors.New("not today")
			}
			return NewWindow(make([]byte, o.Size)), nil
		}}))
		must(t, client.SendLong(ctx, client.To("server"), Bytes(want)))
		if err := client.SendLong(ctx, client.To("server"), Bytes(want), []byte("no")); !errors.Is(err, ErrNoWindow) || !bytes.Contains([]byte(err.Error()), []byte("not today")) {
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
