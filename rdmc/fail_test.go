package rdmc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/relay"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/rdmc/schedule"
	"github.com/squall-go/squall/trust"
)

// kill cuts a node off, as the end of its process does.
func (n *Node) kill() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.links {
		l.fail(io.EOF)
	}
}

// meet waits until all members know each other.
func meet(t *testing.T, all []*witness) {
	t.Helper()
	for _, x := range all {
		receive(t, x.complete, "member")
	}
}

func TestADeathAtAnyBlockIsTheSameReasonForAllWhoLive(t *testing.T) {
	t.Parallel()
	const n, blocks = 4, 200
	for _, victim := range []int{0, 1, 2, 3} {
		for _, at := range []int64{0, 1, 2, 3, 30, 100, blocks - 1} {
			t.Run(fmt.Sprint(victim, "/", at), func(t *testing.T) {
				w := newWorld(t, n, 0)
				all := w.open("g", GroupConfig{BlockBytes: 1000, Algorithm: schedule.Pipeline})
				meet(t, all)
				everywhere := make(chan error, 1)
				s, err := all[0].Start(Outgoing{Data: noise(1, blocks*1000), Everywhere: func(err error) { everywhere <- err }})
				if err != nil {
					t.Fatal(err)
				}
				for i := range at {
					s.Fill(i * 1000)
				}
				w.nodes[victim].kill()
				s.Fill(blocks * 1000)
				for i, x := range all {
					if i == victim {
						continue
					}
					var f *Failure
					if err := receive(t, x.failed, "failure"); !errors.As(err, &f) || *f != (Failure{Node: order.NodeID(victim + 1), Code: FailureGone, Text: "is gone"}) {
						t.Fatalf("node %d was told: %v", i+1, err)
					}
					if err := x.Close(testutil.Within(t)); !errors.Is(err, ErrFailed) || len(x.messages) > 0 {
						t.Fatalf("node %d closed with %v and %d messages", i+1, err, len(x.messages))
					}
				}
				if err := receive(t, everywhere, "end"); !errors.Is(err, ErrFailed) {
					t.Fatal(err)
				}
			})
		}
	}
}

func TestAGroupMayBeCreatedAgainUnderItsName(t *testing.T) {
	w := newWorld(t, 4, 0)
	for round := range 30 {
		all := w.open("g", GroupConfig{BlockBytes: 100})
		switch round % 3 {
		case 0: // at its end
			if err := all[0].Send(testutil.Within(t), noise(uint64(round), 1000)); err != nil {
				t.Fatal(err)
			}
			closeAll(t, all)
			for _, x := range all[1:] {
				receive(t, x.messages, "message")
			}
		case 1: // in the middle of a message
			if _, err := all[0].Start(Outgoing{Data: noise(1, 100_000), Filled: 50_000}); err != nil {
				t.Fatal(err)
			}
			meet(t, all)
			all[round%4].Discard()
			for _, x := range all {
				if err := receive(t, x.failed, "failure"); !errors.Is(err, ErrDiscarded) {
					t.Fatal(err)
				}
				x.Discard()
			}
		case 2: // before the members have met
			for _, x := range all {
				x.Discard()
				receive(t, x.Done(), "end")
			}
		}
	}
}

func TestASendWhoseContextEndsIsGivenUpAtEverybody(t *testing.T) {
	w := newWorld(t, 3, 0)
	all := w.open("g", GroupConfig{BlockBytes: 1000})
	reason := errors.New("changed my mind")
	ctx, cancel := context.WithCancelCause(testutil.Within(t))
	r, wr := io.Pipe()
	sent := make(chan error, 1)
	go func() { sent <- all[0].SendFrom(ctx, r, 2*fillBytes) }()
	if _, err := wr.Write(make([]byte, fillBytes)); err != nil {
		t.Fatal(err)
	}
	meet(t, all)
	cancel(reason)
	go wr.Write(make([]byte, fillBytes)) // in case it waits for that
	defer r.Close()
	if err := receive(t, sent, "end"); !errors.Is(err, reason) {
		t.Fatal(err)
	}
	if err := all[0].Send(testutil.Within(t), []byte("next")); err != nil {
		t.Fatal(err)
	}
	closeAll(t, all)
	for _, x := range all[1:] {
		if err := receive(t, x.aborted, "abort"); !errors.Is(err, ErrAborted) || !strings.Contains(err.Error(), "changed my mind") {
			t.Fatal(err)
		}
		if m := receive(t, x.messages, "message"); string(m.Data) != "next" || m.Index != 1 {
			t.Fatalf("message %d: %q", m.Index, m.Data)
		}
	}
}

func TestSendFromSendsWhatItReads(t *testing.T) {
	w := newWorld(t, 3, 0)
	all := w.open("g", GroupConfig{BlockBytes: 1000})
	want := noise(5, 3*fillBytes+17)
	if err := all[0].SendFrom(testutil.Within(t), iotest.HalfReader(bytes.NewReader(want)), int64(len(want))); err != nil {
		t.Fatal(err)
	}
	if err := all[0].SendFrom(testutil.Within(t), strings.NewReader("short"), 10); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	closeAll(t, all)
	for _, x := range all[1:] {
		if m := receive(t, x.messages, "message"); !bytes.Equal(m.Data, want) {
			t.Fatal("the message differs")
		}
		receive(t, x.aborted, "abort")
	}
}

func TestGroupsThatOverlapDoNotDisturbEachOther(t *testing.T) {
	const n, count = 4, 5
	w := newWorld(t, n, 0)
	var groups [][]*witness
	for root := range n {
		groups = append(groups, w.open(fmt.Sprint("g", root), GroupConfig{BlockBytes: 5000, Root: root}))
	}
	w.nodes[1].Start(GroupConfig{Name: "nobody else's", Members: w.peers})
	sent := make(chan error, n)
	for root, all := range groups {
		go func() {
			var err error
			for i := range count {
				err = errors.Join(err, all[root].Send(testutil.Within(t), noise(uint64(root*100+i), 300_000)))
			}
			sent <- err
		}()
	}
	for range groups {
		if err := receive(t, sent, "end"); err != nil {
			t.Fatal(err)
		}
	}
	for root, all := range groups {
		closeAll(t, all)
		for place, x := range all {
			for i := range count {
				if place != root && !bytes.Equal(receive(t, x.messages, "message").Data, noise(uint64(root*100+i), 300_000)) {
					t.Fatalf("message %d of root %d differs", i, root)
				}
			}
		}
	}
}

func TestAnOwnBufferIsReadInto(t *testing.T) {
	w := newWorld(t, 2, 0)
	buffer := make([]byte, 5000)
	all := w.open("g", GroupConfig{BlockBytes: 999, Incoming: func(in Incoming) ([]byte, error) {
		if in.Tag != 77 || in.Size != 5000 {
			return nil, fmt.Errorf("it is %+v", in)
		}
		return buffer, nil
	}})
	want := noise(3, 5000)
	if _, err := all[0].Start(Outgoing{Tag: 77, Data: want, Filled: -1}); err != nil {
		t.Fatal(err)
	}
	closeAll(t, all)
	if m := receive(t, all[1].messages, "message"); &m.Data[0] != &buffer[0] || m.Tag != 77 || !bytes.Equal(buffer, want) {
		t.Fatal("it was not read into")
	}
}

func TestABufferThatDoesNotFitIsTheReasonEverywhere(t *testing.T) {
	w := newWorld(t, 3, 0)
	short := true // at the first that asks
	all := w.open("g", GroupConfig{Incoming: func(in Incoming) ([]byte, error) {
		if in.Tag == 1 && short {
			return make([]byte, in.Size-1), nil
		}
		return make([]byte, in.Size), nil
	}})
	if _, err := all[0].Start(Outgoing{Tag: 1, Data: noise(1, 1000), Filled: -1}); err != nil {
		t.Fatal(err)
	}
	for _, x := range all {
		var f *Failure
		if err := receive(t, x.failed, "failure"); !errors.As(err, &f) || f.Code != FailureNoMemory || !strings.Contains(f.Text, "999 bytes instead of 1000") {
			t.Fatal(err)
		}
	}
}

func TestOpenWaitsForAllAndNamesWhoIsMissing(t *testing.T) {
	w := newWorld(t, 3, 0)
	c := GroupConfig{Name: "g", Members: w.peers}
	ctx, cancel := context.WithTimeout(testutil.Within(t), 50*time.Millisecond)
	defer cancel()
	if _, err := w.nodes[2].Open(ctx, c); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 2") {
		t.Fatal(err)
	}
	created := make(chan error, 3)
	for _, n := range w.nodes {
		go func() {
			g, err := n.Open(testutil.Within(t), c)
			if err == nil {
				err = g.Close(testutil.Within(t))
			}
			created <- err
		}()
	}
	for range w.nodes {
		if err := receive(t, created, "group"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMembersThatDisagreeAboutTheGroupFail(t *testing.T) {
	w := newWorld(t, 2, 0)
	for i, n := range w.nodes {
		g, err := n.Start(GroupConfig{Name: "g", Members: w.peers, Root: i})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			receive(t, g.Done(), "end")
			var f *Failure
			if !errors.As(g.Err(), &f) || f.Code != FailureViolation {
				t.Error(g.Err())
			}
			if _, err := g.Start(Outgoing{Data: []byte("late")}); !errors.As(err, &f) || f.Code != FailureViolation {
				t.Error(err)
			}
		}()
	}
}

func TestWhatCannotWorkIsRefused(t *testing.T) {
	w := newWorld(t, 2, 0)
	for name, c := range map[string]GroupConfig{
		"without this node": {Members: w.peers[1:]},
		"nobody":            {},
		"twice":             {Members: append(w.peers, w.peers[0])},
		"no such root":      {Members: w.peers, Root: 2},
		"huge blocks":       {Members: w.peers, BlockBytes: 1 << 30},
		"huge messages":     {Members: w.peers, MaxMessageBytes: 1 << 60},
	} {
		if _, err := w.nodes[0].Start(c); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	all := w.open("g", GroupConfig{MaxMessageBytes: 10})
	if _, err := w.nodes[0].Start(GroupConfig{Name: "g", Key: "secret", Members: w.peers}); !errors.Is(err, ErrConfig) {
		t.Error(err)
	}
	if err := all[1].Send(testutil.Within(t), nil); !errors.Is(err, ErrNotRoot) {
		t.Error(err)
	}
	if err := all[0].Send(testutil.Within(t), make([]byte, 11)); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	closeAll(t, all)
	if err := all[0].Send(testutil.Within(t), nil); !errors.Is(err, ErrLeaving) {
		t.Error(err)
	}
}

func TestAnEndOfTheProcessAfterCloseIsNoFailure(t *testing.T) {
	for range 20 {
		w := newWorld(t, 4, 0)
		all := w.open("g", GroupConfig{})
		if err := all[0].Send(testutil.Within(t), noise(1, 10_000)); err != nil {
			t.Fatal(err)
		}
		errs := make(chan error, 4)
		for i, x := range all {
			go func() {
				err := x.Close(testutil.Within(t))
				errs <- errors.Join(err, w.nodes[i].Close())
			}()
		}
		for range all {
			if err := receive(t, errs, "end"); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestAMessageMayBeGivenUpLongAfterItWasEverywhere(t *testing.T) {
	for _, later := range []int{0, 1, relay.Window, relay.Window + 1, 10 * relay.Window} {
		t.Run(fmt.Sprint(later), func(t *testing.T) {
			w := newWorld(t, 3, 0)
			all := w.open("g", GroupConfig{BlockBytes: 1000})
			everywhere := make(chan error, 1)
			start := func() *Sending {
				s, err := all[0].Start(Outgoing{Data: noise(1, 5000), Filled: -1, Everywhere: func(err error) { everywhere <- err }})
				if err != nil {
					t.Fatal(err)
				}
				if err := receive(t, everywhere, "end"); err != nil {
					t.Fatal(err)
				}
				return s
			}
			s := start()
			for range later {
				start()
			}
			s.Abort(errors.New("once"))
			s.Abort(errors.New("twice"))
			start()
			closeAll(t, all)
			for _, x := range all[1:] {
				if err := receive(t, x.aborted, "abort"); !errors.Is(err, ErrAborted) || len(x.aborted) > 0 || len(x.messages) != later+2 {
					t.Errorf("%v, and %d more; %d messages", err, len(x.aborted), len(x.messages))
				}
			}
		})
	}
}

type panicking struct{}

// Read implements io.Reader.
func (panicking) Read([]byte) (int, error) { panic("the reader is broken") }

func TestAReaderThatPanicsHoldsUpNothing(t *testing.T) {
	w := newWorld(t, 3, 0)
	all := w.open("g", GroupConfig{BlockBytes: 1000})
	meet(t, all)
	func() {
		defer func() { _ = recover() }()
		_ = all[0].SendFrom(testutil.Within(t), io.MultiReader(bytes.NewReader(noise(1, fillBytes)), panicking{}), 2*fillBytes)
	}()
	if err := all[0].Send(testutil.Within(t), noise(2, 1000)); err != nil {
		t.Fatal(err)
	}
	for _, x := range all[1:] {
		receive(t, x.aborted, "abort")
		receive(t, x.messages, "message")
	}
	closeAll(t, all)
}

func TestAPeerThatHangsUpAtOnceIsNotCalledAgainAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, 0)
	p, err := port.Open(t.Context(), port.Config{Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	calls := make(chan struct{}, 100)
	p.Handle(port.KindBlocks, func(conn net.Conn) {
		defer conn.Close()
		var g greeting
		c := challenge{somebody.PublicKey(), trust.NewNonce()}
		if errors.Join(wire.WriteMessage(conn, c), wire.ReadMessage(conn, wire.MaxMessageBytes, &g)) != nil {
			return
		}
		k, err := somebody.Key(trust.Blocks, trust.Scope{}, trust.Party{Node: 1, PublicKey: c.Key}, trust.Party{Node: 2, PublicKey: g.Key})
		if err == nil && answer(conn, k, &g, view{}, nil) == nil && g.Blocks {
			calls <- struct{}{}
		}
	})
	g, err := w.nodes[1].Start(GroupConfig{Name: "g", Members: []Peer{{ID: 1, Addr: p.Addr()}, w.peers[1]}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Discard)
	receive(t, calls, "call")
	start := time.Now()
	for range 6 {
		receive(t, calls, "call")
	}
	if took := time.Since(start); took < (1+2+4+8+16)*pauseMin {
		t.Errorf("it called 6 times in %v", took)
	}
}

func TestAGroupOfTheSameNameWithOtherMembersCutsNoLink(t *testing.T) {
	w := newWorld(t, 3, 0)
	all := w.open("all", GroupConfig{BlockBytes: 1000})
	meet(t, all)
	link := all[2].members[0].link
	// Node 3 takes itself for a member of "g" together with node 1, which has opened "g" with node
	// 2.
	other, err := w.nodes[0].Start(GroupConfig{Name: "g", Members: w.peers[:2]})
	if err != nil {
		t.Fatal(err)
	}
	mine, err := w.nodes[2].Start(GroupConfig{Name: "g", Members: []Peer{w.peers[0], w.peers[2]}})
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Discard()
	if r := receive(t, w.rejects, "rejection"); r.Reason != port.NotMember || !strings.Contains(r.Err.Error(), `node 3 has opened group "g" with other members`) {
		t.Error(r)
	}
	if err := all[0].Send(testutil.Within(t), noise(1, 10_000)); err != nil {
		t.Fatal(err)
	}
	receive(t, all[2].messages, "message")
	// It is told of the next group of that name, if it is a member of that.
	other.Discard()
	again, err := w.nodes[0].Open(testutil.Within(t), GroupConfig{Name: "g", Members: []Peer{w.peers[0], w.peers[2]}})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Discard()
	receive(t, mine.complete, "member")
	if err := link.err; err != nil {
		t.Errorf("the link of nodes 1 and 3 ended: %v", err)
	}
	closeAll(t, all)
}

// idle is a reader that never has anything.
type idle struct{}

// Read implements io.Reader.
func (idle) Read([]byte) (int, error) { return 0, nil }

func TestAReaderWithoutProgressIsGivenUp(t *testing.T) {
	w := newWorld(t, 3, 0)
	all := w.open("g", GroupConfig{BlockBytes: 1000})
	meet(t, all)
	err := all[0].SendFrom(testutil.Within(t), io.MultiReader(bytes.NewReader(noise(1, fillBytes)), idle{}), 2*fillBytes)
	if !errors.Is(err, io.ErrNoProgress) {
		t.Error(err)
	}
	for _, x := range all[1:] {
		receive(t, x.aborted, "abort")
	}
	closeAll(t, all)
}
