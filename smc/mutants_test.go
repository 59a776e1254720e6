//go:build mutants

package smc

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/squall-go/squall/internal/mutant"
)

// S5: a claim that is finished at the very moment at which it moves is finished in the next ring.
func TestAClaimThatIsFinishedWhileItMovesIsFinished(t *testing.T) {
	for name, finish := range map[string]func(*Sender, Claim) error{"commit": (*Sender).Commit, "abort": (*Sender).Abort} {
		t.Run(name, func(t *testing.T) {
			old, _ := newRing(4, 64)
			c := claimOf(t, old, "now")
			var err error
			mutant.AtPause = func() {
				mutant.AtPause = nil
				err = finish(old, c)
			}
			defer func() { mutant.AtPause = nil }()
			s, _ := carry(old, 0)
			if err != nil || s.Foreign() != 0 || s.Unfinished() != 0 {
				t.Errorf("S5: finished with %v; the next ring has %d open claims, %d of them of the old one", err, s.Unfinished(), s.Foreign())
			}
			want := uint64(0)
			if name == "commit" {
				want = 1
			}
			if b, _ := s.Publish(0, 9); b.Messages != want {
				t.Errorf("S6: %d messages are published, want %d", b.Messages, want)
			}
		})
	}
}

// S5: a claim that moves at the very moment at which it is finished is finished in the next ring,
// and nowhere else.
func TestAClaimThatMovesWhileItIsFinishedIsFinishedThere(t *testing.T) {
	old, _ := newRing(4, 64)
	c := claimOf(t, old, "now")
	var s *Sender
	mutant.AtPause = func() {
		mutant.AtPause = nil
		s, _ = carry(old, 0)
	}
	defer func() { mutant.AtPause = nil }()
	if err := old.Commit(c); !errors.Is(err, ErrMoved) || s.Foreign() != 1 {
		t.Fatalf("S5: committed with %v in a ring that was taken over; the next one has %d open claims of it", err, s.Foreign())
	}
	if err := s.CommitMoved(c); err != nil {
		t.Fatal(err)
	}
	if b, _ := s.Publish(0, 9); b.Messages != 1 {
		t.Errorf("S6: %d messages are published", b.Messages)
	}
}

// S9: a message that is sent while the ring is shut moves with the others.
func TestARingThatIsShutWhileAGoroutineSendsKeepsTheMessage(t *testing.T) { shutWhileSending(t) }

func shutWhileSending(t testing.TB) {
	old, _ := newRing(4, 64)
	old.Open()
	moved := make(chan *Sender, 1)
	mutant.AtPause = func() {
		mutant.AtPause = nil
		go func() {
			shutRing(old)
			s, _ := carry(old, 0)
			moved <- s
		}()
		for old.ready.Load()&shut == 0 {
			runtime.Gosched()
		}
		if mutant.On(mutant.ShutEarly) {
			moved <- <-moved
		}
	}
	defer func() { mutant.AtPause = nil }()
	if _, ok := old.TrySend([]byte("now")); !ok {
		t.Fatalf("no space")
	}
	if b, _ := (<-moved).Publish(0, 9); b.Messages != 1 {
		t.Fatalf("S6: %d messages are published", b.Messages)
	}
}

// broken is a test that fails with a panic.
type broken struct{ testing.TB }

func (broken) Helper() {}

func (broken) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// Each fault of the ring is found by the model, but for two that only a hostile sender brings
// out, and one for which two goroutines are needed.
func TestEveryMutantOfTheRingIsFound(t *testing.T) {
	defer mutant.Set("")
	for _, name := range mutant.RingNames {
		t.Run(string(name), func(t *testing.T) {
			mutant.Set(name)
			if name == mutant.ShutEarly {
				if fault := faultOf(func() { shutWhileSending(broken{t}) }); fault == nil {
					t.Error("not found")
				}
				return
			}
			if name == mutant.HeaderTwice || name == mutant.LengthUnchecked {
				if fault := faultOf(func() { hostileHeaders(broken{t}) }); fault == nil {
					t.Error("not found")
				}
				return
			}
			random := rand.New(rand.NewPCG(1, 1))
			for range 2000 {
				program := make([]byte, 600)
				for i := range program {
					program[i] = byte(random.Uint32())
				}
				if fault := faultOf(func() { run(broken{t}, program) }); fault != nil {
					t.Log(fault)
					return
				}
			}
			t.Error("not found")
		})
	}
}

// faultOf returns what a function panics with.
func faultOf(f func()) (fault any) {
	defer func() { fault = recover() }()
	f()
	return nil
}
