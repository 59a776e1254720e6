//go:build linux

package verbstest

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/fabrictest"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/rdmc"
)

// counted counts the streams that are made.
type counted struct {
	fabric.Streams
	made *atomic.Int32
}

func (c counted) Stream(ctx context.Context, conn net.Conn) (fabric.Stream, error) {
	s, err := c.Streams.Stream(ctx, conn)
	if err == nil {
		c.made.Add(1)
	}
	return s, err
}

// Large has three nodes send messages of some size through streams, one of them at a time, and
// leaves nothing open.
func Large(t *testing.T, of Transports, size, messages int) {
	before := fabrictest.Resources()
	t.Run("send", func(t *testing.T) { large(t, of, size, messages) })
	fabrictest.Settle(t, before)
}

func large(t *testing.T, of Transports, size, messages int) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var made atomic.Int32
	var nodes []*rdmc.Node
	var peers []rdmc.Peer
	for i := range 3 {
		n, err := rdmc.Open(ctx, rdmc.Config{
			Self: rdmc.Peer{ID: order.NodeID(i + 1), Addr: "127.0.0.1:0"}, FailAfter: 30 * time.Second, NotShared: true,
			Streams: counted{of(t, order.Rank(i)).(fabric.Streams), &made}, OnFallback: func(err error) { t.Error(err) },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		nodes, peers = append(nodes, n), append(peers, n.Peer())
	}
	data := make([]byte, size)
	rand.NewChaCha8([32]byte{28}).Read(data)
	var groups []*rdmc.Group
	came := make(chan []byte, 3*messages)
	for _, n := range nodes {
		g, err := n.Start(rdmc.GroupConfig{
			Name: "g", Key: "secret", Members: peers, MaxMessageBytes: int64(size), Completed: func(m rdmc.Message) { came <- m.Data },
		})
		if err != nil {
			t.Fatal(err)
		}
		groups = append(groups, g)
	}
	began := time.Now()
	for range messages {
		if err := groups[0].Send(ctx, data); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 * messages {
		select {
		case got := <-came:
			if !bytes.Equal(got, data) {
				t.Error("the message differs")
			}
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		}
	}
	took := time.Since(began)
	for _, g := range groups {
		if err := g.Close(ctx); err != nil {
			t.Error(err)
		}
	}
	if made.Load() != 6 {
		t.Errorf("%d ends of streams were made, not 6", made.Load())
	}
	t.Logf("%d messages of %d bytes to two receivers took %v", messages, size, took)
}
