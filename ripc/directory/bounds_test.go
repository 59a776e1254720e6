package directory

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/ripc"
)

// blocked is a directory of one member whose loop is in an upcall until release is called, and a
// service of a client that calls it.
type blocked struct {
	client  *ripc.Service
	news    *squall.Subgroup
	release func()
}

func newBlocked(t *testing.T) blocked {
	t.Helper()
	ctx := testutil.Within(t)
	upcall, free := make(chan struct{}), make(chan struct{})
	var began, once sync.Once
	d := New(Config{})
	g, err := squall.Open(ctx, squall.Config{
		Cluster: t.Name(), ID: 1, Listen: "127.0.0.1:0", InitialMembers: 1,
		Subgroups: []squall.SubgroupConfig{d.Subgroup(), {Name: "news", Window: 4 * maxRelayed, Deliver: func(squall.Message) {
			began.Do(func() { close(upcall) })
			<-free
		}}},
	})
	must(t, err)
	t.Cleanup(func() { g.Close(context.Background()) })
	e, err := ripc.Open(ctx, ripc.Config{Listen: "127.0.0.1:0", Resolver: d})
	must(t, err)
	t.Cleanup(func() { e.Close() })
	serving, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	t.Cleanup(cancel)
	b := blocked{release: func() { once.Do(func() { close(free) }) }}
	t.Cleanup(b.release)
	running.Go(func() { d.Serve(serving, g, e) })
	<-d.attached
	b.news, err = g.Subgroup("news")
	must(t, err)
	running.Go(func() { d.Relay(serving, e, b.news) })
	_, far := client(t, ClientConfig{Addresses: []string{e.Addr()}}, ripc.Config{})
	b.client, err = far.Register(ctx, "client")
	must(t, err)
	for _, to := range []ripc.ID{ToSubgroup("news"), ServiceID} {
		for b.client.To(to).Connect(ctx) != nil {
			must(t, ctx.Err())
		}
	}
	must(t, b.news.Send(ctx, []byte("first")))
	<-upcall
	return b
}

// call makes so many calls at a time, and counts how they end.
func (b blocked) call(t *testing.T, count int, to ripc.ID, body string, ended func(error)) (wait func()) {
	ctx := testutil.Within(t)
	var running sync.WaitGroup
	for range count {
		running.Go(func() {
			m, err := b.client.Call(ctx, b.client.To(to), []byte(body))
			if err == nil {
				m.Release()
			}
			ended(err)
		})
	}
	return running.Wait
}

func TestRequestsThatWaitForTheGroupAreBounded(t *testing.T) {
	b := newBlocked(t)
	ended := make(chan error, maxRequests+1)
	wait := b.call(t, maxRequests+1, ServiceID, `{"records":[{"action":1,"name":"x","place":{"incarnation":"i"}}]}`, func(err error) { ended <- err })
	if err := <-ended; !errors.Is(err, ripc.ErrRefused) {
		t.Errorf("one more than can wait: %v", err)
	}
	b.release()
	wait()
	for range maxRequests {
		if err := <-ended; err != nil {
			t.Errorf("one that waits: %v", err)
		}
	}
}

func TestCallsOfARelayThatWaitAreBounded(t *testing.T) {
	b := newBlocked(t)
	const more = 20
	wait := b.call(t, maxRelayed+more, ToSubgroup("news"), "x", func(err error) {
		if err != nil {
			t.Error(err)
		}
	})
	const most = 1 + maxRelayed + 1 // the first message, those that wait, and one that waits to wait
	eventually(t, "the relay does not take what it may", func() bool { return b.news.Stats().Undelivered >= most })
	if n := b.news.Stats().Undelivered; n > most {
		t.Errorf("%d messages are on their way, and %d may be", n, most)
	}
	b.release()
	wait()
}
