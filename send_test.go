package squall_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall"
)

// alone opens a group of one, whose subgroup "a" has a window of 16 messages.
func alone(t testing.TB, sg squall.SubgroupConfig) *squall.Subgroup {
	t.Helper()
	sg.Name, sg.RingBytes, sg.Window = "a", 4096, 16
	return must(cluster(t, 1, func(_ int, c *squall.Config) { c.Subgroups = []squall.SubgroupConfig{sg} })[0].Subgroup("a"))
}

func claim(t testing.TB, s *squall.Subgroup, text string) squall.Claim {
	t.Helper()
	c, err := s.Claim(t.Context(), len(text))
	if err != nil {
		t.Fatal(err)
	}
	copy(c.Bytes, text)
	return c
}

// done commits or aborts.
func done(t testing.TB, finish func() error) {
	t.Helper()
	if err := finish(); err != nil {
		t.Error(err)
	}
}

func TestClaimsAreDeliveredInTheOrderInWhichTheyWereMade(t *testing.T) {
	js := newJournals(2)
	groups := cluster(t, 2, func(i int, c *squall.Config) {
		c.Subgroups = []squall.SubgroupConfig{{Name: "a", Deliver: js[i].deliver}}
	})
	s := must(groups[0].Subgroup("a"))
	first, second, third := claim(t, s, "first"), claim(t, s, "second"), claim(t, s, "third")
	send(t, must(groups[1].Subgroup("a")), "not held up")
	same(t, 1, js...)
	done(t, third.Commit)
	done(t, second.Abort)
	done(t, first.Commit)
	if got := same(t, 3, js...); !slices.Equal(got, []string{"2:not held up", "1:first", "1:third"}) {
		t.Errorf("%q", got)
	}
}

func TestAClaimIsFinishedOnlyOnce(t *testing.T) {
	j := &journal{}
	s := alone(t, squall.SubgroupConfig{Deliver: j.deliver})
	for _, first := range []func(squall.Claim) error{squall.Claim.Commit, squall.Claim.Abort} {
		c := claim(t, s, "once")
		done(t, func() error { return first(c) })
		for range 2 {
			if err := errors.Join(c.Commit(), c.Abort()); !errors.Is(err, squall.ErrClaimDone) {
				t.Error(err)
			}
		}
		for range 40 { // laps later
			send(t, s, "x")
		}
		if err := c.Commit(); !errors.Is(err, squall.ErrClaimDone) {
			t.Error(err)
		}
	}
	var none squall.Claim
	if err := none.Commit(); !errors.Is(err, squall.ErrClaimDone) {
		t.Error(err)
	}
	if err := none.Abort(); !errors.Is(err, squall.ErrClaimDone) {
		t.Error(err)
	}
	if got := j.await(t, 81); len(got) != 81 || got[0] != "1:once" || slices.Contains(got[1:], "1:once") {
		t.Errorf("%q", got)
	}
}

// With the window full of claims nothing waits that must not, and what waits ends with its context.
func TestAFullWindow(t *testing.T) {
	j := &journal{}
	s := alone(t, squall.SubgroupConfig{Deliver: j.deliver})
	var claims []squall.Claim
	for {
		c, err := s.TryClaim(8)
		if err != nil {
			if !errors.Is(err, squall.ErrWindowFull) {
				t.Error(err)
			}
			break
		}
		claims = append(claims, c)
	}
	if len(claims) != 16 {
		t.Errorf("a window of 16 took %d claims", len(claims))
	}
	if err := s.TrySend(nil); !errors.Is(err, squall.ErrWindowFull) {
		t.Errorf("TrySend: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error, 1)
	go func() { waited <- s.Send(ctx, []byte("withdrawn")) }()
	cancel()
	if err := <-waited; !errors.Is(err, context.Canceled) {
		t.Errorf("Send with a cancelled context: %v", err)
	}
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := s.Claim(short, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Claim with a deadline: %v", err)
	}
	go func() { waited <- s.Send(t.Context(), []byte("patient")) }()
	for _, c := range claims {
		done(t, c.Abort)
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}
	if got := j.await(t, 1); !slices.Equal(got, []string{"1:patient"}) {
		t.Errorf("%q", got)
	}
}

func TestABatchIsSentAsItsMessagesOneAfterTheOther(t *testing.T) {
	j := &journal{}
	s := alone(t, squall.SubgroupConfig{Deliver: j.deliver, MaxMessageBytes: 4096})
	var batch [][]byte
	var want []string
	for k := range 100 { // many windows, with large messages in between
		text := fmt.Sprintf("%d%s", k, strings.Repeat(".", k%7*500))
		batch, want = append(batch, []byte(text)), append(want, "1:"+text)
	}
	if n, err := s.SendBatch(t.Context(), batch); n != len(batch) || err != nil {
		t.Fatalf("%d of %d are sent: %v", n, len(batch), err)
	}
	if got := same(t, len(batch), j); !slices.Equal(got, want) {
		t.Errorf("%.100q", got)
	}
	if n, err := s.SendBatch(t.Context(), [][]byte{nil, {1}, make([]byte, 5000), nil}); n != 2 || !errors.Is(err, squall.ErrTooLarge) {
		t.Errorf("%d before the one that is too large: %v", n, err)
	}
	same(t, len(batch)+2, j)
	open := claim(t, s, "nothing is published") // and the window is full
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := s.SendBatch(ctx, batch); n == 0 || n > 15 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d of a batch are sent next to an open claim: %v", n, err)
	}
	done(t, open.Abort)
}

func TestMessagesOfAnySizeThatTheRingTakes(t *testing.T) {
	for _, fabric := range fabrics {
		t.Run(fabric.String(), func(t *testing.T) {
			var got [2][][]byte
			all := make(chan struct{}, 2)
			sizes := []int{0, 1, 7, 8, 9, 0, 2047, 2048, 0, 2048}
			groups := cluster(t, 2, func(i int, c *squall.Config) {
				c.Fabric = fabric
				c.Subgroups = []squall.SubgroupConfig{{Name: "a", RingBytes: 4096, Deliver: func(m squall.Message) {
					if got[i] = append(got[i], bytes.Clone(m.Data)); len(got[i]) == len(sizes) {
						all <- struct{}{}
					}
				}}}
			})
			s := must(groups[0].Subgroup("a"))
			limit := s.MaxMessageBytes()
			if limit != 2048 {
				t.Fatalf("half of 4096 is %d", limit)
			}
			for k, n := range sizes {
				if err := s.Send(t.Context(), bytes.Repeat([]byte{byte('a' + k)}, n)); err != nil {
					t.Error(err)
				}
				large := make([]byte, limit+1)
				_, claim := s.Claim(t.Context(), -1)
				_, tryClaim := s.TryClaim(limit + 1)
				for what, err := range map[string]error{
					"Send": s.Send(t.Context(), large), "TrySend": s.TrySend(large), "Claim": claim, "TryClaim": tryClaim,
				} {
					if !errors.Is(err, squall.ErrTooLarge) || !strings.Contains(err.Error(), "the ring takes 2048") {
						t.Errorf("%s: %v", what, err)
					}
				}
			}
			for range got {
				select {
				case <-all:
				case <-time.After(20 * time.Second):
					t.Fatal("not everything is delivered")
				}
			}
			for i := range got {
				for k, n := range sizes {
					if !bytes.Equal(got[i][k], bytes.Repeat([]byte{byte('a' + k)}, n)) {
						t.Errorf("node %d: message %d of %d bytes: %q", i+1, k, n, got[i][k])
					}
				}
			}
		})
	}
}

// What can be delivered at once comes in one upcall.
func TestDeliverBatchGetsTheWholeRun(t *testing.T) {
	runs := make(chan []string, 100)
	s := alone(t, squall.SubgroupConfig{DeliverBatch: func(run []squall.Message) {
		var texts []string
		for i, m := range run {
			if m.Sender != 1 || m.Seq != run[0].Seq+squall.Seq(i) {
				t.Errorf("message %d of a run: %+v", i, m)
			}
			texts = append(texts, string(m.Data))
		}
		runs <- texts
	}})
	var claims []squall.Claim
	var want []string
	for k := range 10 {
		want = append(want, fmt.Sprint(k))
		claims = append(claims, claim(t, s, fmt.Sprint(k)))
	}
	slices.Reverse(claims)
	for _, c := range claims { // the first one comes last, and all others wait for it
		done(t, c.Commit)
	}
	if got := <-runs; !slices.Equal(got, want) {
		t.Errorf("first run: %q", got)
	}
}

func TestCloseWaitsUntilEverybodyHasDelivered(t *testing.T) {
	const n = 1000
	for _, fabric := range fabrics {
		t.Run(fabric.String(), func(t *testing.T) {
			js := newJournals(3)
			groups := cluster(t, 3, func(i int, c *squall.Config) {
				c.Fabric = fabric
				c.Subgroups = []squall.SubgroupConfig{{Name: "a", Deliver: js[i].deliver}}
			})
			everybodySends(t, "a", n, groups[0])
			if err := groups[0].Close(t.Context()); err != nil {
				t.Error(err)
			}
			for i, j := range js {
				if got := len(j.read()); got != n {
					t.Errorf("node %d delivered %d of %d", i+1, got, n)
				}
			}
		})
	}
}

// A member that does not take what was sent keeps Close waiting as long as its context says, and
// not longer; a caller that waits to send is sent away, and what comes later too.
func TestCloseGivesUpWithItsContext(t *testing.T) {
	gate := make(chan struct{})
	groups := cluster(t, 2, func(i int, c *squall.Config) {
		c.Subgroups = []squall.SubgroupConfig{{Name: "a", RingBytes: 4096, Window: 16, Deliver: func(squall.Message) {
			if i == 1 {
				<-gate
			}
		}}}
	})
	defer close(gate)
	s := must(groups[0].Subgroup("a"))
	accepted := 0
	for range 16 {
		if s.TrySend(nil) == nil {
			accepted++
		}
	}
	waited := make(chan error, 1)
	go func() { waited <- s.Send(context.Background(), nil) }()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := groups[0].Close(ctx); accepted != 16 || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close with %d messages in flight: %v", accepted, err)
	}
	if err := <-waited; !errors.Is(err, squall.ErrClosed) {
		t.Errorf("the Send that waited: %v", err)
	}
	_, err := s.Claim(t.Context(), 1)
	_, none := s.SendBatch(t.Context(), nil)
	for _, err := range []error{err, none, s.Send(t.Context(), nil), s.TrySend(nil), groups[0].Debug().Dump(testWriter{t}), groups[0].Err()} {
		if !errors.Is(err, squall.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}
