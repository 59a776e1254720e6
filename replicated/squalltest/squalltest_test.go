package squalltest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
)

// counter is the state of an object.
type counter struct{ N int64 }

var (
	add  = replicated.NewCommand[int64, int64]("add")
	read = replicated.NewQuery[struct{}, int64]("read")
)

func (c *counter) add(_ *member.Context, n int64) (int64, error) {
	c.N += n
	return c.N, nil
}

func (c *counter) read(*member.Context, struct{}) (int64, error) { return c.N, nil }

func newCounter() simulated {
	return member.New(squall.SubgroupConfig{Name: "counter"}, func() *counter { return &counter{} },
		member.Handle(add, (*counter).add), member.Handle(read, (*counter).read))
}

// count adds and reads, with calls at the same time, and is silent now and then for so long that
// the session may end.
func count(c *Client) {
	one := func() {
		for range 8 {
			if c.Rand().IntN(8) == 0 {
				c.Sleep(time.Duration(c.Rand().Int64N(int64(400 * time.Millisecond))))
			}
			if c.Rand().IntN(4) == 0 {
				_, _ = read.Call(c.Context(), c.Object(), struct{}{})
			} else {
				_, _ = add.Call(c.Context(), c.Object(), 1)
			}
		}
	}
	c.Go(one)
	one()
}

func right(any) error { return nil }

func TestTheSameSeedGivesTheSameRun(t *testing.T) {
	for seed := uint64(1); seed <= 20; seed++ {
		one, err := play(Config{}, seed, newCounter, count, right, false)
		if err != nil {
			t.Fatal(err)
		}
		two, err := play(Config{}, seed, newCounter, count, right, false)
		if err != nil || one.result.Hash != two.result.Hash || len(one.calls) != len(two.calls) || one.attempts != two.attempts {
			t.Fatalf("seed %d: %x with %d requests, and %x with %d, %v", seed, one.result.Hash, one.attempts, two.result.Hash, two.attempts, err)
		}
	}
}

// TestWhatIsWrongIsFound plays objects and workloads in which something is wrong.
func TestWhatIsWrongIsFound(t *testing.T) {
	bad := errors.New("bad")
	shared := int64(0)
	object := func(f func(*counter, *member.Context, int64) (int64, error), q func(*counter, *member.Context, struct{}) (int64, error)) func() simulated {
		return func() simulated {
			return member.New(squall.SubgroupConfig{Name: "counter"}, func() *counter { return &counter{} }, member.Handle(add, f), member.Handle(read, q))
		}
	}
	stale := int64(0)
	for _, c := range []struct {
		name   string
		object func() simulated
		work   func(*Client)
		check  func(any) error
		want   string
	}{
		{"an invariant", newCounter, count, func(s any) error {
			if s.(*counter).N > 3 {
				return bad
			}
			return nil
		}, "an invariant does not hold"},
		{"a handler that does not do the same everywhere", object(func(c *counter, _ *member.Context, n int64) (int64, error) {
			shared++
			c.N += shared
			return c.N, nil
		}, (*counter).read), count, right, "the copies differ"},
		{"a handler that panics", object(func(*counter, *member.Context, int64) (int64, error) { panic(bad) }, (*counter).read), count, right, "panicked"},
		{"a query that answers from elsewhere", object((*counter).add, func(c *counter, _ *member.Context, _ struct{}) (int64, error) {
			stale++
			return c.N - stale%2, nil
		}), count, right, "not linearizable"},
		{"a client's own finding", newCounter, func(c *Client) { c.Fail(bad) }, right, "client"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := uint64(1); seed <= 60; seed++ {
				if _, err := play(Config{}, seed, c.object, c.work, c.check, false); err != nil {
					if !strings.Contains(err.Error(), c.want) {
						t.Errorf("seed %d: %v", seed, err)
					}
					return
				}
			}
			t.Error("60 seeds did not show it")
		})
	}
}

func TestFaultsAreChosen(t *testing.T) {
	r, err := play(Config{Faults: NoFaults, Members: 3, Clients: 2}, 1, newCounter, count, right, false)
	if err != nil || r.result.Views != 1 || len(r.clients) != 2 {
		t.Errorf("%d views, %d clients, %v", r.result.Views, len(r.clients), err)
	}
	if (Crashes|Disks).kinds() == Faults(0).kinds() || Faults(0).kinds() == 0 {
		t.Error("a set of faults is all faults")
	}
	if _, err := play(Config{}, 1, func() simulated {
		return member.New(squall.SubgroupConfig{Name: "x", Shards: 2}, func() *counter { return nil })
	}, count, right, false); err == nil {
		t.Error("an object that is wrongly declared was played")
	}
}
