package tcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/handshake"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/order"
)

// links is a transport that refuses every link, those to rank 2 when ctx ends.
type links struct {
	fabric.Links
	slow chan struct{} // takes one for each setup with rank 2
}

func (links) Name() string { return "slow" }

func (ls links) Connect(ctx context.Context, _ net.Conn, peer order.Rank) (fabric.Link, error) {
	if peer == 2 {
		ls.slow <- struct{}{}
		<-ctx.Done()
	}
	return nil, fmt.Errorf("%w: for a test", fabric.ErrRefused)
}

// greeted says Hello to rank 0 as another rank that has the transport.
func (d *desk) greeted(as order.Rank) net.Conn {
	d.t.Helper()
	conn, spec := d.dial(), d.spec(as)
	spec.Links = links{}
	h, err := handshake.NewHello(spec, 0, challenged(d.t, conn))
	if err == nil {
		err = wire.WriteMessage(conn, h)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return conn
}

func TestASetupThatStallsKeepsNobodyElseWaiting(t *testing.T) {
	d := newDesk(t, patience)
	spec := d.spec(0)
	ls := links{slow: make(chan struct{}, 3)}
	spec.Links = ls
	ctx, cancel := context.WithCancel(t.Context())
	came, ended := make(chan order.Rank, 3), make(chan struct{})
	go func() {
		defer close(ended)
		everybody := func(order.Rank) bool { return true }
		d.Await(ctx, spec, everybody, make([]byte, rowShape.RowBytes), func(r order.Rank, l fabric.Link) {
			came <- r
			l.Close()
		})
	}()
	first := d.greeted(2)
	<-ls.slow
	again := d.greeted(2)
	if err := wire.ReadMessage(again, helloBytes, &handshake.Welcome{}); !errors.Is(err, io.EOF) {
		t.Errorf("a second connection of a rank whose first one is being set up: %v", err)
	}
	if r := <-d.rejected; len(ls.slow) > 0 {
		t.Errorf("a rank has two setups at once; rejected: %v", r)
	}
	d.greeted(1)
	if r := <-came; r != 1 {
		t.Errorf("rank %d came", r)
	}
	var w handshake.Welcome
	if err := wire.ReadMessage(first, helloBytes, &w); err != nil || w.Transport != "slow" {
		t.Errorf("%+v, %v", w, err)
	}
	cancel()
	<-ended // while the setup of rank 2 stalls
}
