package squall_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
)

// largest is what the tests' subgroups take; their rings take 2 KiB.
const largest = 3 << 20

// bulk is a text of some length that tells what it is.
func bulk(n int, seed uint64) []byte {
	data := make([]byte, n)
	x := seed*0x9e3779b97f4a7c15 + 1
	for i := range data {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		data[i] = byte(x)
	}
	return data
}

// digest stands for a message in a journal.
func digest(data []byte) string {
	if len(data) < 100 {
		return string(data)
	}
	return fmt.Sprintf("%d bytes %x", len(data), sha256.Sum256(data))
}

// digests writes messages down by what stands for them.
func (j *journal) digests(m squall.Message) {
	m.Data = []byte(digest(m.Data))
	j.deliver(m)
}

// bulky is a cluster with large messages.
func bulky(t *testing.T, n int, configure func(i int, c *squall.Config)) ([]*squall.Group, []*journal) {
	t.Helper()
	js := newJournals(n)
	return cluster(t, n, func(i int, c *squall.Config) {
		c.Subgroups = []squall.SubgroupConfig{{Name: "a", RingBytes: 4096, Window: 16, MaxMessageBytes: largest, Deliver: js[i].digests}}
		configure(i, c)
	}), js
}

func nothing(int, *squall.Config) {}

// G1, G2
func TestLargeMessagesAreInOneOrderWithSmallOnes(t *testing.T) {
	for _, fabric := range fabrics {
		t.Run(fabric.String(), func(t *testing.T) {
			groups, js := bulky(t, 3, func(_ int, c *squall.Config) { c.Fabric = fabric })
			var senders sync.WaitGroup
			want := make([][]string, len(groups))
			for i, g := range groups {
				senders.Go(func() {
					for k := range 20 {
						data := fmt.Appendf(nil, "%d", k)
						if k%4 == 1 {
							data = bulk(2049+k*k*1000, uint64(100*i+k))
						}
						want[i] = append(want[i], fmt.Sprintf("%d:%s", g.ID(), digest(data)))
						if err := must(g.Subgroup("a")).Send(t.Context(), data); err != nil {
							t.Errorf("node %d: %v", g.ID(), err)
						}
					}
				})
			}
			senders.Wait()
			same(t, 60, js...)
			for i, g := range groups {
				if got := js[0].from(g.ID()); !slices.Equal(got, want[i]) {
					t.Errorf("of node %d came %q\nnot %q", g.ID(), got, want[i])
				}
			}
			closeAll(groups...)
			if s := must(groups[0].Subgroup("a")).Stats(); s.LargeSent != 5 || s.LargeDelivered != 15 {
				t.Errorf("%d large messages sent, %d delivered", s.LargeSent, s.LargeDelivered)
			}
		})
	}
}

func TestALargeMessageMayBeReadFromAnywhere(t *testing.T) {
	groups, js := bulky(t, 2, nothing)
	s := must(groups[0].Subgroup("a"))
	data := bulk(largest, 1)
	if err := s.SendFrom(t.Context(), bytes.NewReader(data), len(data)); err != nil {
		t.Fatal(err)
	}
	if err := s.SendFrom(t.Context(), bytes.NewReader([]byte("small")), 5); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the disk is broken")
	if err := s.SendFrom(t.Context(), io.MultiReader(bytes.NewReader(data[:1<<20]), failing{broken}), largest); !errors.Is(err, broken) {
		t.Error(err)
	}
	if err := s.SendFrom(t.Context(), bytes.NewReader(data[:1<<20]), largest); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	if err := s.SendFrom(t.Context(), bytes.NewReader(nil), 5); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	f, err := s.SendFuture(t.Context(), data[1:])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	if got := same(t, 3, js...); !slices.Equal(got, []string{"1:" + digest(data), "1:small", "1:" + digest(data[1:])}) {
		t.Errorf("delivered %q", got)
	}
}

type failing struct{ err error }

// Read implements io.Reader.
func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestALargeMessageThatNoMemoryHoldsIsRefusedBeforeAnythingFlows(t *testing.T) {
	groups, js := bulky(t, 2, func(_ int, c *squall.Config) { c.Subgroups[0].MaxMessageBytes = 1 << 39 })
	s := must(groups[0].Subgroup("a"))
	if err := s.SendFrom(t.Context(), failing{errors.New("it was read")}, 1<<39); !errors.Is(err, squall.ErrTooLarge) {
		t.Error(err)
	}
	send(t, s, "after")
	same(t, 1, js...)
}

func TestALargeMessageThatCannotBeSentIsRefused(t *testing.T) {
	groups, js := bulky(t, 2, nothing)
	s := must(groups[0].Subgroup("a"))
	if n := s.MaxMessageBytes(); n != largest {
		t.Errorf("MaxMessageBytes is %d", n)
	}
	if err := s.Send(t.Context(), make([]byte, largest+1)); !errors.Is(err, squall.ErrTooLarge) {
		t.Error(err)
	}
	if err := s.TrySend(make([]byte, largest)); !errors.Is(err, squall.ErrTooLarge) {
		t.Error(err)
	}
	reason := errors.New("changed my mind")
	gone, end := context.WithCancelCause(t.Context())
	end(reason)
	if f, err := s.SendFuture(gone, make([]byte, largest)); !errors.Is(err, reason) || f != nil {
		t.Errorf("%v, %v", f, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	slow, pipe := io.Pipe()
	go func() {
		_, _ = pipe.Write(bulk(1<<20, 1))
		cancel(reason)
		_ = pipe.Close()
	}()
	if err := s.SendFrom(ctx, slow, largest); !errors.Is(err, reason) && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	send(t, s, "after")
	if got := same(t, 1, js...); got[0] != "1:after" {
		t.Errorf("delivered %q", got)
	}
}

// G3, G4: every member sends large messages and small ones, one of them dies at any moment of that.
func TestSurvivorsDeliverTheSameLargeMessages(t *testing.T) {
	t.Parallel()
	for i, fabric := range fabrics {
		for failed := range 3 { // by rank
			if failed != i%3 && testutil.Seeds(1, 3) == 1 {
				continue
			}
			t.Run(fmt.Sprintf("%v/rank=%d", fabric, failed), func(t *testing.T) {
				t.Parallel()
				groups, js := bulky(t, 3, func(_ int, c *squall.Config) { c.Fabric = fabric })
				v := awaitView(t, 3, groups...)
				gone := groups[v.Members[failed].ID-1]
				var over atomic.Bool
				var senders sync.WaitGroup
				ctx, cancel := context.WithCancel(t.Context())
				defer func() { // also when the test has failed
					over.Store(true)
					cancel()
					senders.Wait()
				}()
				want := make([][]string, 3)
				for i, g := range groups {
					senders.Go(func() {
						for k := 0; !over.Load(); k++ {
							data := fmt.Appendf(nil, "%d", k)
							if k%3 > 0 {
								data = bulk(largest/3*(k%4+1)/2, uint64(100*i+k))
							}
							if err := must(g.Subgroup("a")).Send(ctx, data); err != nil {
								if g != gone && ctx.Err() == nil {
									t.Errorf("node %d: %v", g.ID(), err)
								}
								return
							}
							want[i] = append(want[i], fmt.Sprintf("%d:%s", g.ID(), digest(data)))
						}
					})
				}
				eventually(t, "every member delivers", func() bool { return len(js[0].read()) > 30 })
				groups[v.Members[(failed+1)%3].ID-1].ReportFailure(gone.ID())
				<-gone.Done()
				rest := without(groups, gone)
				awaitView(t, 2, rest...)
				at := len(js[rest[0].ID()-1].read())
				eventually(t, "it goes on", func() bool { return len(js[rest[0].ID()-1].read()) > at+20 })
				over.Store(true)
				senders.Wait()
				closeAll(rest...)
				first, second := js[rest[0].ID()-1], js[rest[1].ID()-1]
				if !slices.Equal(first.read(), second.read()) {
					t.Fatalf("the survivors delivered %d and %d messages, not the same", len(first.read()), len(second.read()))
				}
				for _, g := range rest {
					if got := first.from(g.ID()); !slices.Equal(got, want[g.ID()-1]) {
						t.Errorf("node %d: %d messages were accepted, %d delivered", g.ID(), len(want[g.ID()-1]), len(got))
					}
				}
			})
		}
	}
}

func TestLargeMessagesReachJoiners(t *testing.T) {
	groups, js := bulky(t, 2, nothing)
	late := &journal{}
	third := join(t, 3, groups[0], func(c *squall.Config) {
		c.Subgroups = []squall.SubgroupConfig{{Name: "a", RingBytes: 4096, Window: 16, MaxMessageBytes: largest, Deliver: late.digests}}
	})
	awaitView(t, 3, append(groups, third)...)
	for i, g := range append(groups, third) {
		if err := must(g.Subgroup("a")).Send(t.Context(), bulk(1<<20, uint64(i))); err != nil {
			t.Fatal(err)
		}
	}
	same(t, 3, append(js, late)...)
}

// What is delivered while a new member restores the state waits in its backlog, large messages
// among it.
func TestLargeMessagesWaitInABacklog(t *testing.T) {
	state := func(c *squall.Config, restore func(io.Reader) error) {
		c.Subgroups[0].Snapshot = func() func(io.Writer) error { return func(io.Writer) error { return nil } }
		c.Subgroups[0].Restore = restore
	}
	groups, js := bulky(t, 2, func(_ int, c *squall.Config) { state(c, func(io.Reader) error { return nil }) })
	late, restoring, gate := &journal{}, make(chan struct{}), make(chan struct{})
	third := join(t, 3, groups[0], func(c *squall.Config) {
		c.Subgroups = []squall.SubgroupConfig{{Name: "a", RingBytes: 4096, Window: 16, MaxMessageBytes: largest, Deliver: late.digests}}
		state(c, func(io.Reader) error {
			close(restoring)
			<-gate
			return nil
		})
	})
	awaitView(t, 3, append(groups, third)...)
	<-restoring
	for k, data := range [][]byte{[]byte("small"), bulk(largest, 1), []byte("also small"), bulk(largest/2, 2)} {
		if err := must(groups[k%2].Subgroup("a")).Send(t.Context(), data); err != nil {
			t.Fatal(err)
		}
	}
	same(t, 4, js...)
	if got := late.read(); len(got) != 0 {
		t.Errorf("%q came before the state", got)
	}
	close(gate)
	same(t, 4, append(js, late)...)
}

// A large message waits in an AsyncQueueBytes queue without a copy, and is good until its upcall is
// over, or longer if the application holds it.
func TestLargeMessagesWaitInAQueue(t *testing.T) {
	gate := make(chan struct{})
	var kept atomic.Pointer[squall.Body]
	got := make(chan string, 100)
	groups, _ := bulky(t, 2, func(i int, c *squall.Config) {
		c.Subgroups[0].AsyncQueueBytes = 64 << 10
		c.Subgroups[0].Deliver = func(m squall.Message) {
			if i == 0 {
				return
			}
			<-gate
			got <- digest(m.Data)
			if m.Body() != nil {
				kept.CompareAndSwap(nil, m.Body().Hold())
			}
		}
	})
	s := must(groups[0].Subgroup("a"))
	var want []string
	for k := range 6 {
		data := []byte("small")
		if k%2 == 0 {
			data = bulk(largest/2, uint64(k))
		}
		want = append(want, digest(data))
		if k == 4 {
			close(gate) // until then the queue holds up the subgroup
		}
		if err := s.Send(t.Context(), data); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range want {
		if g := <-got; g != w {
			t.Errorf("%q came instead of %q", g, w)
		}
	}
	if b := kept.Load(); b == nil || digest(b.Bytes()) != want[0] {
		t.Error("a body that is held has changed")
	}
}

func TestLargeMessagesMayBeReceivedIntoFiles(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, "1-0-1-1.large")
	if err := os.WriteFile(stale, []byte("of a process that ended"), 0o600); err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(dir, "kept")
	var files atomic.Int64
	groups, js := bulky(t, 2, func(i int, c *squall.Config) {
		if i == 0 {
			return
		}
		c.Subgroups[0].LargeDir = dir
		deliver := c.Subgroups[0].Deliver
		c.Subgroups[0].Deliver = func(m squall.Message) {
			if b := m.Body(); b != nil && b.File() != "" && filepath.Dir(b.File()) == dir && files.Add(1) == 1 {
				if err := os.Rename(b.File(), kept); err != nil {
					t.Error(err)
				}
			}
			deliver(m)
		}
	})
	first := bulk(largest, 1)
	for _, data := range [][]byte{first, []byte("small"), bulk(largest, 2)} {
		if err := must(groups[0].Subgroup("a")).Send(t.Context(), data); err != nil {
			t.Fatal(err)
		}
	}
	same(t, 3, js...)
	closeAll(groups...)
	if data, err := os.ReadFile(kept); err != nil || !bytes.Equal(data, first) {
		t.Errorf("the file that was kept has %d bytes: %v", len(data), err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 || files.Load() != 2 {
		t.Errorf("%d files were received into, left are %v, %v", files.Load(), left, err)
	}
}

func TestAMemberWithoutRoomForALargeMessageHaltsAndSaysWhy(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bodies")
	groups, js := bulky(t, 3, func(i int, c *squall.Config) {
		if i == 2 {
			c.Subgroups[0].LargeDir = dir
		}
	})
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := must(groups[0].Subgroup("a")).Send(t.Context(), bulk(largest, 1)); err != nil {
		t.Fatal(err)
	}
	same(t, 1, js[:2]...)
	awaitView(t, 2, groups[:2]...)
	eventually(t, "it halts", func() bool { return groups[2].Err() != nil })
	if err := groups[2].Err(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("halted: %v", err)
	}
}

func TestLargeMemoryMakesSendersWait(t *testing.T) {
	groups, js := bulky(t, 2, func(i int, c *squall.Config) { c.Subgroups[0].LargeMemoryBytes = largest })
	var senders sync.WaitGroup
	for k := range 8 { // two of them do not fit
		senders.Go(func() {
			if err := must(groups[0].Subgroup("a")).Send(t.Context(), bulk(largest/2+1, uint64(k))); err != nil {
				t.Error(err)
			}
		})
	}
	senders.Wait()
	same(t, 8, js...)
}

// panicking is a reader with a fault. A caller that recovers from it goes on.
type panicking struct{}

// Read implements io.Reader.
func (panicking) Read([]byte) (int, error) { panic("the reader is broken") }

func TestAReaderThatPanicsHoldsUpNothing(t *testing.T) {
	groups, js := bulky(t, 2, func(i int, c *squall.Config) { c.Subgroups[0].LargeMemoryBytes = largest })
	s := must(groups[0].Subgroup("a"))
	func() {
		defer func() { _ = recover() }()
		_ = s.SendFrom(t.Context(), io.MultiReader(bytes.NewReader(bulk(1<<20, 1)), panicking{}), largest)
	}()
	data := bulk(largest, 2) // needs all of the room
	if err := s.Send(t.Context(), data); err != nil {
		t.Fatal(err)
	}
	if got := same(t, 1, js...); got[0] != "1:"+digest(data) {
		t.Errorf("delivered %q", got)
	}
}

// idle is a reader that never has anything.
type idle struct{}

// Read implements io.Reader.
func (idle) Read([]byte) (int, error) { return 0, nil }

func TestAReaderWithoutProgressIsGivenUp(t *testing.T) {
	groups, _ := bulky(t, 2, nothing)
	for _, size := range []int{5, largest} {
		if err := must(groups[0].Subgroup("a")).SendFrom(t.Context(), idle{}, size); !errors.Is(err, io.ErrNoProgress) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// Messages that are everywhere wait for their places because the ring is full.
func TestALargeMessageMayBeGivenUpAfterManyLaterOnesAreEverywhere(t *testing.T) {
	gate := make(chan struct{})
	groups, _ := bulky(t, 2, func(i int, c *squall.Config) {
		c.Subgroups[0].AsyncQueueBytes = 4096
		c.Subgroups[0].Deliver = func(squall.Message) {
			if i == 1 {
				<-gate
			}
		}
	})
	defer close(gate)
	s := must(groups[0].Subgroup("a"))
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("changed my mind")
	given := make(chan error, 100)
	var senders sync.WaitGroup
	for k := range 100 { // the ring has 16 places
		senders.Go(func() { given <- s.Send(ctx, bulk(3000, uint64(k))) })
	}
	moved := func() uint64 { return must(groups[0].Subgroup("a")).Stats().LargeSent }
	eventually(t, "the ring is full", func() bool { return moved() >= 16 })
	cancel(reason)
	senders.Wait()
	close(given)
	for err := range given {
		if err != nil && !errors.Is(err, reason) {
			t.Error(err)
		}
	}
	again, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	_ = s.Send(again, bulk(3000, 0)) // what was given up is told before this
	for _, g := range groups {
		if g.Err() != nil || len(g.View().Members) != 2 {
			t.Errorf("node %d: %v", g.ID(), g.Err())
		}
	}
}

func TestAMemberThatHaltsLeavesNoBodiesBehind(t *testing.T) {
	dir, gate := t.TempDir(), make(chan struct{})
	groups, _ := bulky(t, 3, func(i int, c *squall.Config) {
		if i == 2 {
			c.Subgroups[0].LargeDir, c.Subgroups[0].AsyncQueueBytes = dir, 4096
			c.Subgroups[0].Deliver = func(squall.Message) { <-gate }
		}
	})
	for k := range 3 { // one is in its upcall, one in the queue, one in front of it
		if err := must(groups[0].Subgroup("a")).Send(t.Context(), bulk(10_000, uint64(k))); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all are there", func() bool {
		files, err := os.ReadDir(dir)
		return err == nil && len(files) == 3
	})
	eventually(t, "the queue is full", func() bool { return must(groups[2].Subgroup("a")).Stats().LargeDelivered == 2 })
	groups[0].ReportFailure(groups[2].ID())
	<-groups[2].Done()
	close(gate)
	closeAll(groups...)
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("left are %v, %v", files, err)
	}
}
