package ripc

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/testutil"
)

// A goroutine that receives and was woken for a message that another one took waits on, and the end
// of the service reaches it.
func TestCloseWakesAllThatReceive(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		e := open(Config{})
		server := register(t, e, "server")
		var receiving sync.WaitGroup
		for range 3 {
			receiving.Go(func() {
				if _, err := server.Receive(ctx); !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
			})
		}
		waits := func() bool { return len(server.waiting) == 3 && e.role.IsAsleep() }
		eventually(t, e, "no sender waits", waits)
		for range 3 {
			e.lock()
			server.rouse() // as if another goroutine took what came
			e.unlock()
		}
		eventually(t, e, "some do not wait any more", waits)
		must(t, server.Close())
		receiving.Wait()
	})
}

func TestAServiceThatWithdrewAnswersWhatItReceived(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		old, young, client := register(t, open(Config{}), "server"), open(Config{}), register(t, open(Config{}), "client")
		l := Listen(old)
		stream, err := client.Dial(ctx, "server")
		must(t, err)
		other, err := l.Accept()
		must(t, err)
		var calling sync.WaitGroup
		call := func(want string) {
			calling.Go(func() {
				m, err := client.Call(ctx, client.To("server"), []byte("?"))
				if err != nil || string(m.Data) != want {
					t.Errorf("%q, %v", m.Data, err)
					return
				}
				at := m.Sender()
				m.Release()
				again, err := client.DialRemote(ctx, at) // in the process that answered, though its name is another's
				if want == "old" && err == nil {
					again.Close()
				} else if want == "old" {
					t.Error(err)
				}
			})
		}
		call("old")
		m, err := old.Receive(ctx)
		must(t, err)
		m.Free()
		must(t, old.Withdraw())
		if _, err := old.Receive(ctx); !errors.Is(err, ErrClosed) {
			t.Errorf("receiving: %v", err)
		}
		successor := register(t, young, "server")
		served, stop := context.WithCancel(ctx)
		var serving sync.WaitGroup
		serving.Go(func() { successor.Serve(served, func(_ context.Context, m *Message) { m.Reply([]byte("new")) }) })
		must(t, m.Reply([]byte("old")))
		calling.Wait()
		call("new")
		calling.Wait()
		_, err = other.Write([]byte("still here"))
		must(t, err)
		must(t, other.Close())
		got, err := io.ReadAll(stream)
		if string(got) != "still here" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		stream.Close()
		must(t, old.Close())
		stop()
		serving.Wait()
	})
}

// slowResolver is a resolver that withdraws a service when the endpoint has ended everything else.
type slowResolver struct {
	Static
	e         *Endpoint
	called    chan struct{}
	withdrawn atomic.Bool
}

func (r *slowResolver) Publish(context.Context, ID, Place) (withdraw func() error, err error) {
	return func() error {
		close(r.called)
		for awaited := false; !awaited; runtime.Gosched() {
			r.e.lock()
			awaited = r.e.awaited
			r.e.unlock()
		}
		time.Sleep(time.Millisecond) // the endpoint that does not wait has closed by then
		r.withdrawn.Store(true)
		return nil
	}, nil
}

// An endpoint waits for the withdrawal of a service that another goroutine closes: the resolver may
// be closed next.
func TestAnEndpointWaitsForItsServicesToBeWithdrawn(t *testing.T) {
	r := &slowResolver{called: make(chan struct{})}
	r.e = open(t, Config{Transport: TransportTCP, Listen: "127.0.0.1:0", Resolver: r})
	s := register(t, r.e, "server")
	var closing sync.WaitGroup
	closing.Go(func() { s.Close() })
	<-r.called
	must(t, r.e.Close())
	if !r.withdrawn.Load() {
		t.Error("the endpoint is closed, and a service is not withdrawn")
	}
	closing.Wait()
}
