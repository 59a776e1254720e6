package rdmc

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/rdmc/schedule"
)

// stream is a reader of noise that has no memory of it.
type stream struct{ *rand.ChaCha8 }

func newStream() stream { return stream{rand.NewChaCha8([32]byte{7})} }

// blind makes the nodes see no memory of each other, as if each were a host of its own.
func (w *world) blind() {
	for i, n := range w.nodes {
		n.cfg.Self.Host, n.cfg.Self.SHM = "", ""
		w.peers[i] = n.Peer()
		n.space.Close()
	}
}

func TestSendFromKeepsAWindowOfTheMessage(t *testing.T) {
	const size = 256<<20 + 17
	for _, n := range []int{2, 3, 5} {
		w := newWorld(t, n, 0)
		w.blind()
		all := w.open("g", GroupConfig{MaxMessageBytes: size})
		meet(t, all)
		window, err := all[0].window(size)
		if err != nil || window == 0 || window > 2*aheadBytes {
			t.Errorf("%d members: %d bytes are kept of %d: %v", n, window, size, err)
		}
		for _, x := range all {
			x.Discard()
		}
	}
}

func TestAMessageThatPassesThroughAWindowArrivesWhole(t *testing.T) {
	t.Parallel()
	const size = 48<<20 + 17
	sizes := []int{2, 3, 4, 5}
	if testing.Short() {
		sizes = []int{4}
	}
	for _, n := range sizes {
		w := newWorld(t, n, 0)
		w.blind()
		all := w.open("g", GroupConfig{BlockBytes: 100_000})
		meet(t, all)
		if window, err := all[0].window(size); err != nil || window == 0 {
			t.Fatalf("%d members: %d bytes are kept: %v", n, window, err)
		}
		if err := all[0].SendFrom(testutil.Within(t), newStream(), size); err != nil {
			t.Fatal(err)
		}
		want := make([]byte, size)
		if _, err := io.ReadFull(newStream(), want); err != nil {
			t.Fatal(err)
		}
		closeAll(t, all)
		for _, x := range all[1:] {
			if m := receive(t, x.messages, "message"); !bytes.Equal(m.Data, want) {
				t.Fatalf("%d members: the message differs", n)
			}
		}
		runtime.GC()
	}
}

func TestAScheduleThatSendsBlocksAgainKeepsTheWholeMessage(t *testing.T) {
	for _, a := range []schedule.Algorithm{schedule.Sequential, schedule.Tree} {
		w := newWorld(t, 4, 0)
		w.blind()
		all := w.open("g", GroupConfig{Algorithm: a, BlockBytes: 100_000})
		meet(t, all)
		if window, err := all[0].window(48 << 20); err != nil || window != 0 {
			t.Errorf("%v: a window of %d bytes: %v", a, window, err)
		}
		if err := all[0].SendFrom(testutil.Within(t), newStream(), 20<<20); err != nil {
			t.Error(err)
		}
		closeAll(t, all)
	}
}

// A message that ends while its reader waits for the window to have room ends the reader's wait,
// too.
func TestAWindowWithoutRoomIsLeftWhenTheMessageIsGivenUp(t *testing.T) {
	w := newWorld(t, 2, 0)
	w.blind()
	reason := errors.New("no space for it here")
	stuck := make(chan struct{})
	all := w.open("g", GroupConfig{BlockBytes: 100_000, Incoming: func(in Incoming) ([]byte, error) {
		<-stuck
		return nil, reason
	}})
	meet(t, all)
	sent := make(chan error, 1)
	go func() { sent <- all[0].SendFrom(testutil.Within(t), newStream(), 100<<20) }()
	close(stuck)
	if err := receive(t, sent, "end"); !errors.Is(err, ErrFailed) {
		t.Error(err)
	}
	for _, x := range all {
		receive(t, x.Done(), "end")
	}
}
