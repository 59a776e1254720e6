package rdmc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/order"
)

// streams make streams that are the connection itself, or refuse them.
type streams struct {
	made    atomic.Int32
	refuses bool
}

var errNoDevice = errors.New("no device")

func (*streams) Name() string { return "test" }

func (s *streams) Stream(_ context.Context, conn net.Conn) (fabric.Stream, error) {
	s.made.Add(1)
	if s.refuses {
		return nil, fmt.Errorf("%w: %w", fabric.ErrRefused, errNoDevice)
	}
	return struct{ fabric.Stream }{conn}, nil
}

// sendOver sends a message between three nodes, and returns why TCP was used instead of streams.
func sendOver(t *testing.T, shared bool, of [3]fabric.Streams) (instead []error) {
	w, reasons := &world{t: t}, make(chan error, 100)
	for i, s := range of {
		n, err := Open(t.Context(), Config{
			Self: Peer{ID: order.NodeID(i + 1), Addr: "127.0.0.1:0"}, NotShared: !shared, Streams: s, OnFallback: func(err error) { reasons <- err },
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close() })
		w.nodes, w.peers = append(w.nodes, n), append(w.peers, n.Peer())
	}
	all := w.open("g", GroupConfig{BlockBytes: 100_000})
	want := noise(1, 3_000_000)
	if err := all[0].Send(testutil.Within(t), want); err != nil {
		t.Fatal(err)
	}
	closeAll(t, all)
	for _, x := range all[1:] {
		if !bytes.Equal(receive(t, x.messages, "message").Data, want) {
			t.Error("the message differs")
		}
	}
	for len(reasons) > 0 {
		instead = append(instead, <-reasons)
	}
	return instead
}

func TestBlocksGoThroughStreamsOfNodesThatHaveThem(t *testing.T) {
	a, b, c := &streams{}, &streams{}, &streams{}
	if instead := sendOver(t, false, [3]fabric.Streams{a, b, c}); len(instead) > 0 || a.made.Load() != 2 || b.made.Load() != 2 || c.made.Load() != 2 {
		t.Errorf("%d, %d and %d streams; instead: %v", a.made.Load(), b.made.Load(), c.made.Load(), instead)
	}
	a, b = &streams{}, &streams{}
	if instead := sendOver(t, false, [3]fabric.Streams{a, b, nil}); len(instead) > 0 || a.made.Load() != 1 || b.made.Load() != 1 {
		t.Errorf("with a node without streams: %d and %d; instead: %v", a.made.Load(), b.made.Load(), instead)
	}
}

func TestBlocksGoThroughTCPIfStreamsAreRefused(t *testing.T) {
	s := &streams{refuses: true}
	instead := sendOver(t, false, [3]fabric.Streams{s, s, s})
	if len(instead) != 6 || !errors.Is(instead[0], errNoDevice) {
		t.Errorf("instead: %v", instead)
	}
}

func TestNodesThatSeeEachOthersMemoryUseNoStreams(t *testing.T) {
	s := &streams{}
	all := [3]fabric.Streams{s, s, s}
	if n, err := Open(t.Context(), Config{Self: Peer{ID: 9, Addr: "127.0.0.1:0"}}); err != nil || n.space.Name() == "" {
		t.Skip("no memory is shared here: ", err)
	} else {
		n.Close()
	}
	if sendOver(t, true, all); s.made.Load() > 0 {
		t.Errorf("%d streams", s.made.Load())
	}
}

func TestStreamsGoWithNoTLS(t *testing.T) {
	_, err := Open(t.Context(), Config{Self: Peer{ID: 1, Addr: "127.0.0.1:0"}, TLS: testutil.NewAuthority(t).TLS(), Streams: &streams{}})
	if !errors.Is(err, ErrConfig) {
		t.Error(err)
	}
}

func TestK2StrangersWithStreamsAreBounded(t *testing.T) {
	s := &streams{}
	n, err := Open(t.Context(), Config{Self: Peer{ID: 1, Addr: "127.0.0.1:0"}, NotShared: true, Streams: s})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	for i := range maxStreams + 1 {
		g := greeting{From: 99, To: 1, Session: fmt.Sprint(i)}
		if _, w, err := knock(t, n.Peer(), g); err != nil || w.Refused != "" || w.Streams != "" {
			t.Fatal(w, err)
		}
		g.Blocks, g.Streams = true, "test"
		_, w, err := knock(t, n.Peer(), g)
		if want := i < maxStreams; err != nil || (w.Streams == "test") != want {
			t.Fatalf("stranger %d: %+v, %v", i, w, err)
		}
	}
}
