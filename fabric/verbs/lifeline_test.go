//go:build linux

package verbs

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/verbs/internal/fake"
	"github.com/squall-go/squall/internal/wire"
)

// tcpPair returns the two ends of a connection.
func tcpPair(t *testing.T) (here, there net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	here, err = net.Dial("tcp", l.Addr().String())
	must(t, err)
	t.Cleanup(func() { here.Close() })
	there, err = l.Accept()
	must(t, err)
	t.Cleanup(func() { there.Close() })
	return here, there
}

// A table that is retired is closed on another goroutine, while the loop goes on with the next one
// and with the same parker.
func TestALinkThatIsClosedElsewhereLeavesReadinessToTheLoop(t *testing.T) {
	here, there := tcpPair(t)
	parker, err := fabric.NewParker()
	must(t, err)
	defer parker.Close()
	line, err := newLifeline(here, parker)
	must(t, err)
	c := line.(*connection)
	c.ready.In = true
	if c.look() || !c.ready.In {
		t.Errorf("gone: %v, ready: %v", c.gone, c.ready.In)
	}
	if c.ended() || c.ready.In {
		t.Errorf("the loop looked: gone: %v, ready: %v", c.gone, c.ready.In)
	}
	must(t, there.Close())
	for !c.ended() {
		parker.Look()
	}
	must(t, c.close())
}

// impatient is a connection on which every time that is allowed has passed.
type impatient struct{ net.Conn }

func (c impatient) SetDeadline(time.Time) error { return c.Conn.SetDeadline(time.Unix(1, 0)) }

// A peer that was slow is called again: it is not gone before the heartbeats say so.
func TestASetupThatTakesTooLongCountsAsHangingUp(t *testing.T) {
	w := newWorld(t, 2, smallShape, fake.Options{Seed: 1})
	defer w.close(t)
	here, there := tcpPair(t)
	for _, n := range []struct {
		at   *node
		conn net.Conn
	}{{w.nodes[0], here}, {w.nodes[1], there}} {
		if _, err := n.at.links.Connect(t.Context(), impatient{n.conn}, 1-n.at.self); !errors.Is(err, fabric.ErrHungUp) || errors.Is(err, fabric.ErrRefused) {
			t.Errorf("rank %d: %v", n.at.self, err)
		}
	}
}

// A peer agrees on the transport, and then says nothing: closing a table does not wait for it.
func TestASetupEndsWithItsContext(t *testing.T) {
	w := newWorld(t, 2, smallShape, fake.Options{Seed: 1})
	defer w.close(t)
	here, there := tcpPair(t)
	ctx, cancel := context.WithCancel(t.Context())
	result, before := make(chan error), w.net.Open()
	go func() {
		_, err := w.nodes[0].links.Connect(ctx, here, 1)
		result <- err
	}()
	must(t, wire.ReadMessage(there, setupBytes, &setup{})) // it has its pair, and waits for ours
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if open := w.net.Open(); open != before {
		t.Errorf("%d pairs and queues, before the setup %d", open, before)
	}
}
