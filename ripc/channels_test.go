package ripc

import (
	"errors"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/ripc/internal/pair"
)

var comeAndGo = flag.Int("services", testutil.Seeds(2000, 10000), "services that come and go over one connection, in a test")

// Services come and go at both sides of one connection, many more than it has channels: each sends,
// calls and is called, and none of it stays behind.
func TestManyServicesComeAndGoOverOneConnection(t *testing.T) {
	t.Parallel()
	services := *comeAndGo
	if testing.Short() {
		services = min(services, 1000)
	}
	for _, transport := range []string{"shm", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			ctx := testutil.Within(t)
			cfg := Config{Transport: TransportSHM}
			if transport == "tcp" {
				cfg.Transport, cfg.Listen = TransportTCP, "127.0.0.1:0"
			}
			here, there := open(t, cfg), open(t, cfg)
			server, client := register(t, there, "server"), register(t, here, "client")
			var serving sync.WaitGroup
			serving.Go(func() { echo(ctx, server) })
			ask := func(from, at *Service, what string) error {
				m, err := from.Call(ctx, from.To(at.ID()), []byte(what))
				if err != nil {
					return fmt.Errorf("%s: %w", what, err)
				}
				defer m.Release()
				if string(m.Data) != what {
					return fmt.Errorf("%q was answered with %q", what, m.Data)
				}
				return nil
			}
			// One goroutine has guests that call the server and end, another one has guests that the client
			// calls.
			var working sync.WaitGroup
			working.Go(func() {
				for k := range services / 2 {
					guest, err := here.Register(ctx, "")
					if err == nil {
						err = errors.Join(guest.Send(ctx, guest.To("server"), []byte("a message")), ask(guest, server, fmt.Sprint("guest ", k)), guest.Close())
					}
					if err != nil {
						t.Errorf("guest %d here: %v", k, err)
						return
					}
				}
			})
			working.Go(func() {
				for k := range services / 2 {
					id := ID(fmt.Sprint("guest", k%100)) // the ids come again
					guest, err := there.Register(ctx, id)
					if err != nil {
						t.Error(err)
						return
					}
					var echoing sync.WaitGroup
					echoing.Go(func() { echo(ctx, guest) })
					err = ask(client, guest, fmt.Sprint("for guest ", k))
					err = errors.Join(err, guest.Close())
					echoing.Wait()
					if err != nil {
						t.Errorf("guest %d there: %v", k, err)
						return
					}
				}
			})
			working.Wait()
			for _, e := range []*Endpoint{here, there} {
				inTime(t, "the end of all unused channels", func() bool {
					e.lock()
					defer e.unlock()
					for _, p := range e.peers {
						if used, leaving := p.opened.states.Used(); used > 2 || leaving > 0 || p.served.owed > 0 || len(p.opened.pins) > 2 {
							return false
						}
					}
					return len(e.services.all) == 1
				})
				if n := e.Peers(); n != 1 {
					t.Errorf("%d connections", n)
				}
			}
			must(t, server.Close())
			serving.Wait()
		})
	}
}

// A message that was sent before its sender was closed is received, however late, and its channel
// is used again only then.
func TestWhatAClosedServiceSentIsReceived(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		here, there := open(Config{}), open(Config{})
		server, guest := register(t, there, "server"), register(t, here, "guest")
		const count = 3
		for k := range count {
			must(t, guest.Send(ctx, guest.To("server"), []byte{byte(k)}))
		}
		must(t, guest.Close())
		if err := guest.Send(ctx, guest.To("server")); !errors.Is(err, ErrClosed) {
			t.Errorf("a service that is closed sends: %v", err)
		}
		next := register(t, here, "next")
		for range 2 * pair.Channels {
			to := newRemote(next, "server") // another address has another channel
			must(t, to.Connect(ctx))
			to.abandon()
		}
		must(t, next.Send(ctx, next.To("server"), []byte("next")))
		for k := range count {
			m, err := server.Receive(ctx)
			must(t, err)
			if m.From() != "guest" || len(m.Data) != 1 || int(m.Data[0]) != k {
				t.Errorf("%q of %s", m.Data, m.From())
			}
			if k == count-1 {
				defer m.Release() // the message is held, and its sender's channel may be used
				continue
			}
			m.Release()
		}
		m, err := server.Receive(ctx)
		must(t, err)
		if m.From() != "next" || string(m.Data) != "next" {
			t.Errorf("%q of %s", m.Data, m.From())
		}
		m.Release()
		inTime(t, "the last count", func() bool {
			here.lock()
			defer here.unlock()
			used, leaving := here.peers[0].opened.states.Used()
			return used == 1 && leaving == 0
		})
	})
}

// When all channels are in use, the next service is told so; when one is given up, it has its turn.
func TestAChannelThatIsGivenUpIsTheNextServices(t *testing.T) {
	ctx := testutil.Within(t)
	here, there := open(t, Config{Transport: TransportSHM}), open(t, Config{Transport: TransportSHM})
	server := register(t, there, "server")
	var guests []*Service
	for range pair.Channels - 1 {
		guest := register(t, here, "")
		must(t, guest.Send(ctx, guest.To("server")))
		guests = append(guests, guest)
	}
	late := register(t, here, "late")
	if err := late.Send(ctx, late.To("server")); !errors.Is(err, ErrLimit) {
		t.Errorf("a channel too many: %v", err)
	}
	must(t, guests[7].Close()) // its message was not received: the channel is given back when it is
	sent := make(chan error, 1)
	go func() { sent <- late.Send(ctx, late.To("server"), []byte("late")) }()
	inTime(t, "a service that waits for a channel", func() bool {
		here.lock()
		defer here.unlock()
		return len(here.peers[0].opened.wanting) == 1
	})
	for n := 0; ; n++ {
		m, err := server.Receive(ctx)
		must(t, err)
		last := string(m.Data) == "late"
		m.Release()
		if last {
			if n != len(guests) {
				t.Errorf("%d messages came before", n)
			}
			break
		}
	}
	must(t, <-sent)
}

// A goroutine that still has the route of a channel that others use now does not send on it.
func TestARouteThatIsOverIsNotUsed(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		here, there := open(Config{}), open(Config{})
		one, other, client := register(t, there, "one"), register(t, there, "other"), register(t, here, "")
		to := client.To("one")
		must(t, to.Connect(ctx))
		r := to.route.Load()
		must(t, one.Close())
		inTime(t, "the end of the route", func() bool { return to.route.Load() == nil })
		next := client.To("other")
		for next.route.Load() == nil || next.route.Load().channel != r.channel {
			next.abandon()
			must(t, next.Connect(ctx))
		}
		if status, over := r.peer.put(r, pair.Message, 0, [][]byte{[]byte("for one")}); status != pair.Shut || !over {
			t.Error(status, over)
		}
		to.route.Store(r) // as a slow goroutine still holds it
		if _, again, err := client.call(ctx, to, r, nil); !again || err != nil {
			t.Error("called:", again, err)
		}
		if m, ok := other.TryReceive(); ok {
			t.Errorf("another service received %q", m.Data)
		}
		to.route.Store(nil)
	})
}

// Notices that were not taken do not outlive their service.
func TestNoticesOfAClosedServiceAreGivenBack(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		there := open(Config{})
		server, client := register(t, there, "server"), register(t, open(Config{}), "")
		must(t, client.Notify(ctx, client.To("server"), 1, []byte(strings.Repeat("n", 100))))
		kept := func() (n int) {
			there.lock()
			defer there.unlock()
			for _, p := range there.peers {
				n += p.life.Kept()
			}
			return n
		}
		inTime(t, "the notice", func() bool { return kept() == 1 })
		must(t, server.Close())
		if n := kept(); n != 0 {
			t.Errorf("%d frames are kept", n)
		}
	})
}
