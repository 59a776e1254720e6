package squall_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall"
)

// waitingCalls are all calls that can wait for the loop of a group, each where it has to wait.
func waitingCalls(g *squall.Group) map[string]func() error {
	ctx := context.Background()
	small, log := must(g.Subgroup("small")), must(must(g.Subgroup("log")).Log())
	full := func(f func() error) func() error {
		return func() error {
			for {
				switch err := small.TrySend(make([]byte, 1000)); {
				case errors.Is(err, squall.ErrWindowFull):
					return f()
				case err != nil:
					return err
				}
			}
		}
	}
	future := func(name string) *squall.Future {
		c, err := must(g.Subgroup(name)).TryClaim(1)
		if err != nil {
			panic(err)
		}
		return must(c.CommitFuture())
	}
	end := squall.Version{View: 1 << 40}
	return map[string]func() error{
		"Send":       full(func() error { return small.Send(ctx, make([]byte, 1000)) }),
		"Claim":      full(func() error { _, err := small.Claim(ctx, 1000); return err }),
		"SendFuture": full(func() error { _, err := small.SendFuture(ctx, make([]byte, 1000)); return err }),
		"SendFrom": func() error {
			return must(g.Subgroup("large")).SendFrom(ctx, strings.NewReader(strings.Repeat("x", 1<<16)), 1<<16)
		},
		"Send, large": func() error { return must(g.Subgroup("large")).Send(ctx, make([]byte, 1<<16)) },
		"SendFuture, large": func() error {
			_, err := must(g.Subgroup("large")).SendFuture(ctx, make([]byte, 1<<16))
			return err
		},
		"Wait":          func() error { _, err := future("large").Wait(ctx); return err },
		"Persisted":     func() error { _, err := future("log").Persisted(ctx, squall.OnEveryDisk); return err },
		"WaitPersisted": func() error { return log.WaitPersisted(ctx, squall.OnThisDisk, end) },
		"At":            func() error { _, err := log.At(ctx, squall.TimeOf(time.Now().Add(time.Hour))); return err },
		"Between": func() error {
			for _, err := range log.Between(ctx, 0, squall.TimeOf(time.Now().Add(time.Hour))) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"Tail": func() error {
			for _, err := range log.Tail(ctx, squall.Version{}) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"Views": func() error {
			n := 0
			for range g.Views(ctx) {
				n++
			}
			if n != 1 {
				return fmt.Errorf("%d views", n)
			}
			return squall.ErrInCallback // there is no error to return: it ends
		},
		"Confirm":         func() error { return small.Confirm(ctx) },
		"Confirm, queued": func() error { return must(g.Subgroup("queued")).Confirm(ctx) },
		"Link":            func() error { _, err := g.Debug().Link(1); return err },
		"Dump":            func() error { return g.Debug().Dump(io.Discard) },
		"Leave":           func() error { return g.Leave(ctx) },
		"Close":           func() error { return g.Close(ctx) },
	}
}

// A call that would wait for the upcall that makes it fails, wherever the upcall runs, and the
// group goes on.
func TestACallThatWouldWaitForItsOwnUpcallFails(t *testing.T) {
	var group, joiner *squall.Group
	opened, joined := make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	seen := map[string]int{}
	probe := func(where string, g *squall.Group, fails func(name string) bool) {
		mu.Lock()
		seen[where]++
		first := seen[where] == 1
		mu.Unlock()
		if !first {
			return
		}
		for name, call := range waitingCalls(g) {
			if !fails(name) {
				continue
			}
			if err := call(); !errors.Is(err, squall.ErrInCallback) {
				t.Errorf("%s in %s: %v", name, where, err)
			}
		}
	}
	every := func(string) bool { return true }
	inLoop := func(where string) {
		select {
		case <-opened:
			probe(where, group, every)
		default:
		}
	}
	config := func(node int, c *squall.Config) {
		c.Dir = filepath.Join(t.TempDir(), "node")
		of := func(f func(string)) func(squall.Message) {
			return func(squall.Message) { f("Deliver") }
		}
		if node == 2 {
			of = func(func(string)) func(squall.Message) { return func(squall.Message) {} }
		}
		c.Subgroups = []squall.SubgroupConfig{
			{Name: "small", RingBytes: 4096, Window: 16, Deliver: of(inLoop)},
			{Name: "batch", DeliverBatch: func([]squall.Message) {
				if node == 1 {
					inLoop("DeliverBatch")
				}
			}},
			{Name: "large", RingBytes: 4096, Window: 16, MaxMessageBytes: 1 << 20, Deliver: func(squall.Message) {}},
			{Name: "log", Mode: squall.Persistent, Deliver: func(squall.Message) {}},
			{Name: "queued", AsyncQueueBytes: 4096, RingBytes: 4096, Window: 16, Deliver: func(squall.Message) {
				if <-opened; node == 1 {
					probe("a queued callback", group, func(name string) bool { return name == "Close" || name == "Confirm, queued" })
					if _, err := group.Debug().Link(1); err != nil {
						t.Errorf("Link in a queued callback: %v", err)
					}
				}
			}},
			{Name: "state", Deliver: func(squall.Message) {}, Snapshot: func() func(io.Writer) error {
				inLoop("Snapshot")
				return func(io.Writer) error {
					probe("what Snapshot returned", group, func(name string) bool { return name == "Close" })
					return nil
				}
			}, Restore: func(io.Reader) error {
				<-joined
				probe("Restore", joiner, func(name string) bool { return name == "Close" })
				return nil
			}},
		}
		if node == 1 {
			c.OnView = func(*squall.View) { inLoop("OnView") }
			c.Events = func(e squall.Event) {
				if _, ok := e.(squall.ViewInstalled); ok {
					inLoop("Events")
				}
			}
		}
	}
	group = cluster(t, 1, func(_ int, c *squall.Config) { config(1, c) })[0]
	close(opened)
	for _, name := range []string{"small", "batch", "queued"} {
		send(t, must(group.Subgroup(name)), "x")
	}
	joiner = join(t, 2, group, func(c *squall.Config) { config(2, c) })
	close(joined)
	<-must(joiner.Subgroup("state")).Restored()
	for _, where := range []string{"Deliver", "DeliverBatch", "OnView", "Events", "Snapshot", "what Snapshot returned", "Restore", "a queued callback"} {
		eventually(t, where+" has run", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return seen[where] > 0
		})
	}
	if _, err := must(must(group.Subgroup("log")).SendFuture(t.Context(), []byte("on and on"))).Persisted(t.Context(), squall.OnEveryDisk); err != nil {
		t.Error(err)
	}
}

// TrySend and whatever else does not wait work in an upcall.
func TestCallsThatDoNotWaitWorkInAnUpcall(t *testing.T) {
	var g *squall.Group
	opened, over := make(chan struct{}), make(chan error, 1)
	answered := false
	g = cluster(t, 1, func(_ int, c *squall.Config) {
		c.Subgroups = []squall.SubgroupConfig{{Name: "a", Deliver: func(m squall.Message) {
			<-opened
			if answered {
				over <- nil
				return
			}
			answered = true
			s := must(g.Subgroup("a"))
			if err := errors.Join(s.Skip(1), s.SetSender(true), s.Send(t.Context(), []byte("there is room"))); err != nil {
				over <- err
			}
			g.ReportFailure(99)
			g.Stats()
			s.Stats()
		}}}
	})[0]
	close(opened)
	send(t, must(g.Subgroup("a")), "x")
	if err := <-over; err != nil {
		t.Error(err)
	}
}
