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

// A message that is larger than the subgroup takes is refused, and the relay goes on.
func TestARelayRefusesAMessageThatIsTooLargeAndGoesOn(t *testing.T) {
	ctx := testutil.Within(t)
	d := New(Config{})
	g, err := squall.Open(ctx, squall.Config{
		Cluster: t.Name(), ID: 1, Listen: "127.0.0.1:0", InitialMembers: 1,
		Subgroups: []squall.SubgroupConfig{d.Subgroup(), {Name: "news", RingBytes: 64 << 10, Deliver: func(squall.Message) {}}},
	})
	must(t, err)
	defer g.Close(context.Background())
	e, err := ripc.Open(ctx, ripc.Config{Listen: "127.0.0.1:0", Resolver: d})
	must(t, err)
	defer e.Close()
	serving, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { d.Serve(serving, g, e) })
	news, err := g.Subgroup("news")
	must(t, err)
	ended := make(chan error, 1)
	<-d.attached
	running.Go(func() { ended <- d.Relay(serving, e, news) })
	_, far := client(t, ClientConfig{Addresses: []string{e.Addr()}}, ripc.Config{RingBytes: 256 << 10})
	s, err := far.Register(ctx, "client")
	must(t, err)
	to := s.To(ToSubgroup("news"))
	for to.Connect(ctx) != nil {
		must(t, ctx.Err())
	}
	if _, err := s.Call(ctx, to, make([]byte, news.MaxMessageBytes()+1)); !errors.Is(err, ripc.ErrRefused) {
		t.Errorf("a call with a message that is too large: %v", err)
	}
	must(t, s.Send(ctx, to, make([]byte, news.MaxMessageBytes()+1)))
	m, err := s.Call(ctx, to, make([]byte, news.MaxMessageBytes()))
	must(t, err)
	if _, ok := Relayed(m.Data); !ok {
		t.Errorf("the answer to the largest message: %q", m.Data)
	}
	m.Release()
	for range 40 { // more than the relay has space for, if it kept them
		must(t, s.Send(ctx, to, make([]byte, news.MaxMessageBytes())))
	}
	select {
	case err := <-ended:
		t.Errorf("the relay has ended: %v", err)
	default:
	}
}
