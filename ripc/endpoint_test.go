package ripc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
	"go.uber.org/goleak"
)

// TestMain makes the test binary the process of a service when it is started again as one.
func TestMain(m *testing.M) {
	testutil.BecomeProgramOf(runChild)
	testutil.Overlap(3)
	goleak.VerifyTestMain(m)
}

// transports are the ways in which two endpoints of a test are connected.
var transports = []string{"shm", "tcp", "tls"}

// onEach runs a test over each transport.
func onEach(t *testing.T, test func(t *testing.T, open func(Config) *Endpoint)) {
	for _, name := range transports {
		t.Run(name, func(t *testing.T) {
			certificates := testutil.NewAuthority(t).TLS()
			test(t, func(cfg Config) *Endpoint {
				switch name {
				case "shm":
					cfg.Transport = TransportSHM
				case "tls":
					cfg.TLS = certificates
					fallthrough
				case "tcp":
					cfg.Transport, cfg.Listen = TransportTCP, "127.0.0.1:0"
				}
				return open(t, cfg)
			})
		})
	}
}

// open opens an endpoint that the test closes.
func open(t testing.TB, cfg Config) *Endpoint {
	t.Helper()
	if cfg.Resolver == nil {
		cfg.Resolver = OneHost(fmt.Sprint(t.Name(), os.Getpid())) // another run of the tests may use this host
	}
	e, err := Open(t.Context(), cfg)
	if err != nil {
		if errors.Is(err, errors.ErrUnsupported) {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(e.audit(false), e.Close(), e.auditClosed(false)); err != nil {
			t.Error(err)
		}
	})
	return e
}

// register makes a service.
func register(t testing.TB, e *Endpoint, id ID) *Service {
	t.Helper()
	s, err := e.Register(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// must fails the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestMessagesAreReceivedInTheOrderOfTheirSender(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		a, b := register(t, open(Config{}), "a"), register(t, open(Config{}), "b")
		const count = 20000
		var sending sync.WaitGroup
		defer sending.Wait()
		sending.Go(func() {
			to := a.To("b")
			for k := range uint64(count) {
				body := make([]byte, 8+k%500)
				binary.LittleEndian.PutUint64(body, k)
				if err := a.Send(ctx, to, body[:3], body[3:]); err != nil {
					t.Error(err)
					return
				}
			}
		})
		for k := range uint64(count) {
			m, err := b.Receive(ctx)
			must(t, err)
			if got := binary.LittleEndian.Uint64(m.Data); got != k || len(m.Data) != int(8+k%500) || m.From() != "a" || m.IsRequest() {
				t.Fatalf("message %d of %d bytes from %s where %d was next", got, len(m.Data), m.From(), k)
			}
			m.Release()
			m.Release()
		}
	})
}

// Messages that follow each other closely may wait for the next ones, but not for long: what was
// sent last is received although nothing else happens.
func TestWhatWasSentLastIsReceived(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		a, b := register(t, open(Config{}), "a"), register(t, open(Config{}), "b")
		to := a.To("b")
		must(t, to.Connect(ctx))
		for round := range 20 {
			const burst = 10
			for k := range burst {
				must(t, a.Send(ctx, to, []byte{byte(round), byte(k)}))
			}
			for k := range burst {
				m, err := b.Receive(ctx)
				must(t, err)
				if !bytes.Equal(m.Data, []byte{byte(round), byte(k)}) {
					t.Fatalf("%x where %d of %d was next", m.Data, k, round)
				}
				m.Release()
			}
		}
	})
}

// echo answers every request with its bytes, and sends messages back to their senders.
func echo(ctx context.Context, s *Service) error {
	return s.Serve(ctx, func(ctx context.Context, m *Message) {
		if m.IsRequest() {
			m.Reply(m.Data)
			return
		}
		s.Send(ctx, m.Sender(), m.Data)
	})
}

func TestCallsAreAnsweredConcurrently(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		server, client := register(t, open(Config{}), "server"), register(t, open(Config{}), "")
		var serving, calling sync.WaitGroup
		served, stop := context.WithCancel(ctx)
		defer serving.Wait()
		defer stop()
		for range 3 {
			serving.Go(func() { echo(served, server) })
		}
		to := client.To("server")
		for g := range 16 {
			calling.Go(func() {
				for k := range 500 {
					want := fmt.Sprintf("%d of %d", k, g)
					m, err := client.Call(ctx, to, []byte(want))
					if err != nil {
						t.Error(err)
						return
					}
					if string(m.Data) != want {
						t.Errorf("%q was answered with %q", want, m.Data)
					}
					m.Release()
				}
			})
		}
		calling.Wait()
	})
}

func TestARequestThatIsNotAnsweredIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		server, client := register(t, open(Config{}), "server"), register(t, open(Config{}), "")
		served, stop := context.WithCancel(ctx)
		var serving sync.WaitGroup
		serving.Go(func() {
			server.Serve(served, func(_ context.Context, m *Message) {
				if string(m.Data) == "why" {
					m.Refuse("because")
				}
			})
		})
		defer serving.Wait()
		defer stop()
		for question, want := range map[string]string{"": "ripc: calling server: refused: the service did not answer", "why": "ripc: calling server: refused: because"} {
			if _, err := client.Call(ctx, client.To("server"), []byte(question)); !errors.Is(err, ErrRefused) || err.Error() != want {
				t.Errorf("%q: %v", question, err)
			}
		}
	})
}
