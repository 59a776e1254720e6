package rdmc

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/order"
)

// world is some nodes on loopback.
type world struct {
	t       *testing.T
	nodes   []*Node
	peers   []Peer
	rejects chan port.Rejection
}

func newWorld(t *testing.T, n int, failAfter time.Duration) *world {
	t.Helper()
	w := &world{t: t, rejects: make(chan port.Rejection, 1000)}
	for i := range n {
		p, err := port.Open(t.Context(), port.Config{Addr: "127.0.0.1:0", OnReject: func(r port.Rejection) { w.rejects <- r }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		node, err := Open(t.Context(), Config{Self: Peer{ID: order.NodeID(i + 1)}, Port: p, FailAfter: failAfter})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { node.Close() })
		w.nodes = append(w.nodes, node)
		w.peers = append(w.peers, node.Peer())
	}
	return w
}

// witness is what one member's application sees of a group.
type witness struct {
	*Group
	messages chan Message
	aborted  chan error
	failed   chan error
}

func (w *world) open(name string, c GroupConfig) (all []*witness) {
	w.t.Helper()
	for _, n := range w.nodes {
		x := &witness{messages: make(chan Message, 1000), aborted: make(chan error, 1000), failed: make(chan error, 2)}
		c.Name, c.Key = name, "secret"
		if c.Members == nil {
			c.Members = w.peers
		}
		c.Completed = func(m Message) { x.messages <- m }
		c.Aborted = func(_ Incoming, err error) { x.aborted <- err }
		c.Failed = func(err error) { x.failed <- err }
		var err error
		if x.Group, err = n.Start(c); err != nil {
			w.t.Fatal(err)
		}
		all = append(all, x)
	}
	return all
}

func noise(seed uint64, size int) []byte {
	b := make([]byte, size)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	r.Read(b)
	return b
}

func receive[T any](t *testing.T, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(20 * time.Second):
		t.Fatalf("no %s came", what)
	}
	return v
}

func closeAll(t *testing.T, all []*witness) {
	t.Helper()
	errs := make(chan error, len(all))
	for _, x := range all {
		go func() { errs <- x.Close(testutil.Within(t)) }()
	}
	for range all {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestEveryMemberGetsEveryMessageInTheOrderOfSending(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5, 8} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w := newWorld(t, n, 0)
			all := w.open("g", GroupConfig{BlockBytes: 10_000})
			var sent [][]byte
			for i, size := range []int{1, 0, 9_999, 10_000, 10_001, 1_000_000, 3, 77_777} {
				sent = append(sent, noise(uint64(i), size))
				if err := all[0].Send(testutil.Within(t), sent[i]); err != nil {
					t.Fatal(err)
				}
			}
			closeAll(t, all)
			for _, x := range all[1:] {
				for i, want := range sent {
					if m := receive(t, x.messages, "message"); m.Index != uint64(i) || !bytes.Equal(m.Data, want) {
						t.Fatalf("message %d of %d bytes differs", m.Index, len(m.Data))
					}
				}
			}
		})
	}
}
