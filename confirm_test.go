package squall_test

import (
	"context"
	"encoding/binary"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall"
)

// register is an application whose state is the last number that it was given.
type register struct{ last atomic.Uint64 }

func (r *register) deliver(m squall.Message) { r.last.Store(binary.LittleEndian.Uint64(m.Data)) }

// TestWhatIsReadAfterConfirmIsNotOld has one member write numbers, and the others read after
// Confirm: they see every number that the writer's application had been given before.
func TestWhatIsReadAfterConfirmIsNotOld(t *testing.T) {
	t.Parallel()
	for name, configure := range map[string]func(*squall.SubgroupConfig){
		"ordered": func(*squall.SubgroupConfig) {},
		"queued":  func(sg *squall.SubgroupConfig) { sg.AsyncQueueBytes = 1 << 16 },
		"log":     func(sg *squall.SubgroupConfig) { sg.Mode = squall.Persistent },
		"after disks": func(sg *squall.SubgroupConfig) {
			sg.Mode, sg.Log.DeliverAfterPersist = squall.Persistent, true
		},
	} {
		t.Run(name, func(t *testing.T) {
			const members = 3
			dir := t.TempDir()
			registers := make([]register, members)
			groups := cluster(t, members, func(i int, c *squall.Config) {
				sg := squall.SubgroupConfig{Name: "a", Deliver: registers[i].deliver}
				if configure(&sg); sg.Mode == squall.Persistent {
					c.Dir = filepath.Join(dir, string(rune('a'+i)))
				}
				c.Subgroups = []squall.SubgroupConfig{sg}
			})
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			var reading sync.WaitGroup
			var over atomic.Bool
			for i := 1; i < members; i++ {
				reading.Go(func() {
					for n := 0; n < 10 || !over.Load(); n++ {
						before := registers[0].last.Load()
						if err := must(groups[i].Subgroup("a")).Confirm(ctx); err != nil {
							t.Error(err)
							return
						}
						if now := registers[i].last.Load(); now < before {
							t.Errorf("B11: member %d reads %d, and another one had %d before", i+1, now, before)
							return
						}
					}
				})
			}
			a := must(groups[0].Subgroup("a"))
			for k := uint64(1); k <= 300; k++ {
				if err := a.Send(ctx, binary.LittleEndian.AppendUint64(nil, k)); err != nil {
					t.Fatal(err)
				}
			}
			if err := a.Confirm(ctx); err != nil {
				t.Error(err)
			}
			over.Store(true)
			reading.Wait()
		})
	}
}

func TestConfirmFails(t *testing.T) {
	groups := cluster(t, 2, func(i int, c *squall.Config) {
		c.Subgroups = []squall.SubgroupConfig{
			{Name: "unordered", Mode: squall.Unordered, Deliver: func(squall.Message) {}},
			{Name: "elsewhere", Members: []squall.NodeID{1}, Deliver: func(squall.Message) {}},
			{Name: "a", Deliver: func(squall.Message) {}},
		}
	})
	ctx := t.Context()
	for name, want := range map[string]error{"unordered": squall.ErrUnordered, "elsewhere": squall.ErrNotSender, "a": nil} {
		s := must(groups[1].Subgroup(name))
		got := make(chan error, 1)
		s.ConfirmFunc(func(err error) { got <- err })
		if err, later := s.Confirm(ctx), <-got; !errors.Is(err, want) || !errors.Is(later, want) {
			t.Errorf("%s: %v, and ConfirmFunc %v; want %v", name, err, later, want)
		}
	}
	s := must(groups[1].Subgroup("a"))
	if err := groups[1].Close(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.Confirm(ctx); !errors.Is(err, squall.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// What ConfirmFunc calls is an upcall.
func TestConfirmFuncRunsAnUpcall(t *testing.T) {
	g := cluster(t, 1, func(_ int, c *squall.Config) {
		c.Subgroups = []squall.SubgroupConfig{{Name: "a", Deliver: func(squall.Message) {}}}
	})[0]
	s := must(g.Subgroup("a"))
	got := make(chan error, 1)
	s.ConfirmFunc(func(err error) { got <- errors.Join(err, g.Close(context.Background())) }) // wherever it runs
	if err := <-got; !errors.Is(err, squall.ErrInCallback) {
		t.Error(err)
	}
}

func TestConfirmAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	g := cluster(t, 1, func(_ int, c *squall.Config) {
		c.Subgroups = []squall.SubgroupConfig{{Name: "a", Deliver: func(squall.Message) {}}}
	})[0]
	s, ctx := must(g.Subgroup("a")), context.Background()
	if n := testing.AllocsPerRun(200, func() {
		if err := s.Confirm(ctx); err != nil {
			t.Error(err)
		}
	}); n >= 1 {
		t.Errorf("%v allocations", n)
	}
}
