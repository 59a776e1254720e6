package rdmc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/relay"
	"github.com/squall-go/squall/internal/samehost"
	"github.com/squall-go/squall/internal/testutil"
)

// sharesMemory skips a test where there is none to share.
func sharesMemory(t testing.TB) {
	t.Helper()
	if s := samehost.NewSpace(func(string, error) {}); s.Name() == "" {
		t.Skip("this system has no shared memory for segments")
	} else {
		s.Close()
	}
}

func (w *world) alloc(node, size int) *Memory {
	w.t.Helper()
	m, err := w.nodes[node].Alloc(size)
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

// noBlocks is a way that no block must take.
type noBlocks struct{ t *testing.T }

func (n noBlocks) writeBlock(h *relay.Header, _ []byte, _ func() bool) {
	n.t.Errorf("block %d of message %d was sent", h.Block, h.Message)
}

// forbidBlocks fails the test if any is sent.
func forbidBlocks(t *testing.T, all []*witness) {
	t.Helper()
	meet(t, all)
	for _, x := range all {
		x.mu.Lock()
		for _, m := range x.members {
			if m != nil {
				m.way = noBlocks{t}
			}
		}
		x.mu.Unlock()
	}
}

func TestWhatLiesInSharedMemoryIsCopiedFromThere(t *testing.T) {
	t.Parallel()
	sharesMemory(t)
	for _, view := range []bool{false, true} {
		t.Run(fmt.Sprint("view=", view), func(t *testing.T) {
			w := newWorld(t, 4, 0)
			all := w.open("g", GroupConfig{InPlace: view})
			forbidBlocks(t, all)
			r := rand.New(rand.NewPCG(1, 2))
			const count = 40
			for i := range count {
				m := w.alloc(0, 1+r.IntN(3<<20))
				data := m.Bytes()[r.IntN(len(m.Bytes())):]
				if len(data) == 0 {
					data = m.Bytes()
				}
				copy(data, noise(uint64(i), len(data)))
				if _, err := all[0].Start(Outgoing{Tag: uint64(len(data)), Data: data, Filled: -1}); err != nil {
					t.Fatal(err)
				}
				m.Release() // at once: the memory is kept as long as a member needs it
			}
			for _, x := range all[1:] {
				for i := range count {
					m := receive(t, x.messages, "message")
					if m.Index != uint64(i) || m.InPlace != view || !bytes.Equal(m.Data, noise(uint64(i), int(m.Tag))) {
						t.Fatalf("message %d of %d bytes differs, view: %v", m.Index, len(m.Data), m.InPlace)
					}
					m.Release()
					m.Release()
				}
			}
			closeAll(t, all)
		})
	}
}

func TestSharedMemoryIsFilledInSteps(t *testing.T) {
	sharesMemory(t)
	w := newWorld(t, 3, 0)
	all := w.open("g", GroupConfig{})
	forbidBlocks(t, all)
	const size = 5<<20 + 17
	want := noise(7, size)
	m := w.alloc(0, size)
	sent := make(chan error, 2)
	s, err := all[0].Start(Outgoing{Data: m.Bytes(), Sent: func(err error) { sent <- err }, Everywhere: func(err error) { sent <- err }})
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < size; n = min(n+100_000, size) {
		copy(m.Bytes()[n:min(n+100_000, size)], want[n:])
		if s.Fill(int64(n)); len(all[1].messages)+len(all[2].messages)+len(sent) > 0 {
			t.Fatalf("it is complete with %d bytes", n)
		}
	}
	s.Fill(size)
	for range 2 {
		if err := receive(t, sent, "end"); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range all[1:] {
		if got := receive(t, x.messages, "message"); !bytes.Equal(got.Data, want) {
			t.Fatal("it differs")
		}
	}
	m.Release()
	closeAll(t, all)
}

func TestMemoryIsFreeWhenItsViewsAreReleased(t *testing.T) {
	sharesMemory(t)
	w := newWorld(t, 3, 0)
	all := w.open("g", GroupConfig{InPlace: true})
	meet(t, all)
	m := w.alloc(0, 1<<20)
	where := &m.Bytes()[0]
	copy(m.Bytes(), "first")
	sent, everywhere := make(chan error, 1), make(chan error, 1)
	if _, err := all[0].Start(Outgoing{Data: m.Bytes(), Filled: -1, Sent: func(err error) { sent <- err }, Everywhere: func(err error) { everywhere <- err }}); err != nil {
		t.Fatal(err)
	}
	m.Release()
	if err := receive(t, everywhere, "end"); err != nil || len(sent) > 0 {
		t.Fatalf("%v; it is looked at, and %d were told that it is free", err, len(sent))
	}
	if other := w.alloc(0, 1<<20); &other.Bytes()[0] == where {
		t.Fatal("memory is used again while it is looked at")
	}
	for _, x := range all[1:] {
		got := receive(t, x.messages, "message")
		if string(got.Data[:5]) != "first" || len(sent) > 0 {
			t.Fatalf("%q", got.Data[:5])
		}
		got.Release()
	}
	if err := receive(t, sent, "end"); err != nil {
		t.Fatal(err)
	}
	if again := w.alloc(0, 1<<20); &again.Bytes()[0] != where {
		t.Fatal("memory is not used again when it is free")
	}
	closeAll(t, all)
}

func TestASendDoesNotWaitForViewsWhenItsContextHasEnded(t *testing.T) {
	sharesMemory(t)
	w := newWorld(t, 3, 0)
	all := w.open("g", GroupConfig{InPlace: true})
	meet(t, all)
	m := w.alloc(0, 1<<20)
	where := &m.Bytes()[0]
	copy(m.Bytes(), "first")
	ctx, cancel := context.WithCancelCause(testutil.Within(t))
	sent := make(chan error, 1)
	go func() { sent <- all[0].Send(ctx, m.Bytes()) }()
	first, second := receive(t, all[1].messages, "message"), receive(t, all[2].messages, "message")
	first.Release()
	reason := errors.New("waited for long enough")
	cancel(reason)
	if err := receive(t, sent, "end"); !errors.Is(err, reason) || !errors.Is(err, ErrInUse) {
		t.Errorf("%v; node 3 looks at it for ever", err)
	}
	m.Release()
	if other := w.alloc(0, 1<<20); &other.Bytes()[0] == where {
		t.Error("memory is used again while it is looked at")
	}
	if string(second.Data[:5]) != "first" {
		t.Errorf("%q", second.Data[:5])
	}
	second.Release()
	if err := all[0].Send(testutil.Within(t), []byte("next")); err != nil {
		t.Error(err)
	}
	closeAll(t, all)
}

func TestAViewOutlivesItsGroup(t *testing.T) {
	sharesMemory(t)
	for _, fail := range []bool{false, true} {
		t.Run(fmt.Sprint("fail=", fail), func(t *testing.T) {
			w := newWorld(t, 2, 0)
			all := w.open("g", GroupConfig{InPlace: true})
			meet(t, all)
			m := w.alloc(0, 1<<20)
			copy(m.Bytes(), "hello")
			sent := make(chan error, 1)
			if _, err := all[0].Start(Outgoing{Data: m.Bytes(), Filled: -1, Sent: func(err error) { sent <- err }}); err != nil {
				t.Fatal(err)
			}
			got := receive(t, all[1].messages, "message")
			if fail {
				w.nodes[0].kill()
				for _, x := range all {
					receive(t, x.Done(), "end")
				}
			} else {
				closeAll(t, all)
			}
			if err := receive(t, sent, "end"); fail && !errors.Is(err, ErrFailed) || !fail && !errors.Is(err, ErrInUse) {
				t.Fatal(err)
			}
			m.Release()
			copy(w.alloc(0, 1<<20).Bytes(), "other") // not the same pages
			if err := w.nodes[0].Close(); err != nil {
				t.Fatal(err)
			}
			if string(got.Data[:5]) != "hello" {
				t.Fatalf("%q", got.Data[:5])
			}
			got.Release()
		})
	}
}

func TestAViewCannotBeWritten(t *testing.T) {
	sharesMemory(t)
	w := newWorld(t, 2, 0)
	all := w.open("g", GroupConfig{InPlace: true})
	meet(t, all)
	m := w.alloc(0, 1000)
	if _, err := all[0].Start(Outgoing{Data: m.Bytes(), Filled: -1}); err != nil {
		t.Fatal(err)
	}
	got := receive(t, all[1].messages, "message")
	func() {
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		defer func() {
			if recover() == nil {
				t.Error("it was written")
			}
		}()
		got.Data[0]++
	}()
	got.Release()
	closeAll(t, all)
}

func TestAnAbortOfWhatLiesInSharedMemoryIsHeardByAll(t *testing.T) {
	sharesMemory(t)
	for _, view := range []bool{false, true} {
		w := newWorld(t, 3, 0)
		all := w.open("g", GroupConfig{InPlace: view})
		forbidBlocks(t, all)
		reason := errors.New("changed my mind")
		m := w.alloc(0, 10<<20)
		told := make(chan error, 2)
		s, err := all[0].Start(Outgoing{Data: m.Bytes(), Filled: 5 << 20, Sent: func(err error) { told <- err }, Everywhere: func(err error) { told <- err }})
		if err != nil {
			t.Fatal(err)
		}
		s.Abort(reason)
		for range 2 {
			if err := receive(t, told, "end"); !errors.Is(err, reason) {
				t.Fatal(err)
			}
		}
		m.Release()
		next := w.alloc(0, 1000)
		if _, err := all[0].Start(Outgoing{Data: next.Bytes(), Filled: -1}); err != nil {
			t.Fatal(err)
		}
		for _, x := range all[1:] {
			if err := receive(t, x.aborted, "abort"); !errors.Is(err, ErrAborted) {
				t.Fatal(err)
			}
			got := receive(t, x.messages, "message")
			if got.Index != 1 || len(got.Data) != 1000 {
				t.Fatalf("message %d of %d bytes", got.Index, len(got.Data))
			}
			got.Release()
		}
		next.Release()
		closeAll(t, all)
	}
}

func TestWhoSharesNothingGetsBlocks(t *testing.T) {
	w := newWorld(t, 2, 0)
	n, err := Open(t.Context(), Config{Self: Peer{ID: 9}, Port: listenPort(t), NotShared: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	w.nodes, w.peers = append(w.nodes, n), append(w.peers, n.Peer())
	all := w.open("g", GroupConfig{InPlace: true})
	want := noise(1, 1<<20)
	m := w.alloc(0, len(want))
	copy(m.Bytes(), want)
	if err := all[0].Send(testutil.Within(t), m.Bytes()); err != nil {
		t.Fatal(err)
	}
	m.Release()
	for _, x := range all[1:] {
		got := receive(t, x.messages, "message")
		if got.InPlace || !bytes.Equal(got.Data, want) {
			t.Fatalf("view: %v", got.InPlace)
		}
		got.Release()
	}
	if m := w.alloc(2, 10); m.Shared() {
		t.Fatal("it shares memory")
	}
	closeAll(t, all)
}

func TestWhatIsReadIsSeenToo(t *testing.T) {
	sharesMemory(t)
	w := newWorld(t, 3, 0)
	all := w.open("g", GroupConfig{InPlace: true})
	forbidBlocks(t, all)
	for i := range uint64(3) {
		want := noise(i, 3*fillBytes+17)
		if err := all[0].SendFrom(testutil.Within(t), bytes.NewReader(want), int64(len(want))); err != nil {
			t.Fatal(err)
		}
		for _, x := range all[1:] {
			got := receive(t, x.messages, "message")
			if !got.InPlace || !bytes.Equal(got.Data, want) {
				t.Fatal("it differs")
			}
			defer got.Release() // so late that each message has memory of its own
		}
	}
	if err := all[0].SendFrom(testutil.Within(t), bytes.NewReader(nil), 10); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	closeAll(t, all)
}

func TestWhatAStrangerSaysOfItsMemoryIsJudged(t *testing.T) {
	sharesMemory(t)
	w := newWorld(t, 1, 0)
	self := w.nodes[0].view()
	for _, c := range []struct {
		name    string
		view    view
		refused bool
	}{
		{"nothing", view{}, false},
		{"of another host", view{Host: "far away", SHM: self.SHM}, false},
		{"a socket of something else", view{Host: self.Host, SHM: "/tmp/.X11-unix/X0"}, false},
		{"a socket of nobody", view{Host: self.Host, SHM: self.SHM[:len(self.SHM)-4] + "0000"}, false},
		{"a long name", view{Host: self.Host, SHM: strings.Repeat("x", 1000)}, true},
	} {
		_, welcome, err := knock(t, w.peers[0], greeting{From: 99, To: 1, Session: c.name, view: c.view})
		if err != nil || (welcome.Refused != "") != c.refused {
			t.Errorf("%s: %+v, %v", c.name, welcome, err)
		}
		if !c.refused && welcome.SHM != self.SHM {
			t.Errorf("%s: told %q", c.name, welcome.SHM)
		}
		if _, welcome, err = knock(t, w.peers[0], greeting{From: 99, To: 1, Session: c.name, Blocks: true}); err != nil || welcome.Sees {
			t.Errorf("%s: it is seen: %+v, %v", c.name, welcome, err)
		}
	}
}

func TestAPlaceThatIsNotThereFailsTheGroup(t *testing.T) {
	sharesMemory(t)
	w := newWorld(t, 3, 0)
	all := w.open("g", GroupConfig{})
	meet(t, all)
	for name, place := range map[string]string{"nonsense": "up there", "nobody's": samehost.Place{ID: samehost.ID{1}}.String()} {
		all := w.open(name, GroupConfig{})
		meet(t, all)
		all[0].do(func(r *relay.Relay, out *relay.Effects) {
			if _, err := r.Offer(10, 0, 10, place, out); err != nil {
				t.Error(err)
			}
			all[0].sendings[0] = &Sending{group: all[0].Group}
		})
		for _, x := range all {
			var f *Failure
			if err := receive(t, x.failed, "failure"); !errors.As(err, &f) || f.Code != FailureNoMemory {
				t.Fatal(err)
			}
		}
	}
	closeAll(t, all)
}

func listenPort(t *testing.T) *port.Port {
	t.Helper()
	p, err := port.Open(t.Context(), port.Config{Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// Memory of a message that cannot be sent is its owner's alone again: no member was shown it.
func TestMemoryOfAMessageThatIsRefusedIsUsedAgain(t *testing.T) {
	sharesMemory(t)
	w := newWorld(t, 2, 0)
	all := w.open("g", GroupConfig{MaxMessageBytes: 1000})
	meet(t, all)
	m := w.alloc(0, 100_000)
	if _, err := all[0].Start(Outgoing{Data: m.Bytes(), Filled: -1}); !errors.Is(err, ErrTooLarge) {
		t.Fatal(err)
	}
	first := &m.Bytes()[0]
	m.Release()
	again := w.alloc(0, 100_000)
	if &again.Bytes()[0] != first {
		t.Error("the memory of a message that was refused stays held")
	}
	again.Release()
	closeAll(t, all)
}
