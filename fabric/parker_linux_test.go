package fabric_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/predicates"
)

// between is a step of which the middle can be reached: it takes the orders that were placed, then
// looks at the sockets. Its first last look before a sleep has an order placed, and the bell rung,
// exactly between the two.
type between struct {
	*fabric.Parker
	announced     bool // the loop's
	rung          bool
	placed, taken atomic.Bool
}

func (b *between) Announce() {
	b.announced = true
	b.Parker.Announce()
}

func (b *between) Retract() {
	b.announced = false
	b.Parker.Retract()
}

func (b *between) step(time.Duration) (work int) {
	if b.placed.Load() && !b.taken.Load() {
		b.taken.Store(true)
		work++
	}
	if b.announced && !b.rung {
		b.rung = true
		b.placed.Store(true)
		b.Wake()
	}
	b.Look()
	return work
}

// P2
func TestABellThatComesInTheMiddleOfTheLastLookEndsTheSleep(t *testing.T) {
	p, err := fabric.NewParker()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	b := &between{Parker: p}
	r := predicates.NewRunner(predicates.Config{
		Step: b.step, Deadline: func(time.Duration) time.Duration { return -1 }, Parker: b, MaxSpin: -1,
	})
	r.Start()
	for deadline := time.Now().Add(5 * time.Second); !b.taken.Load(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Error("P2: an order was placed and the bell rung during the last look, and the loop sleeps")
			break
		}
	}
	r.Stop(p.Wake)
	p.Wake() // should the loop have lost that one, too
	select {
	case <-r.Done():
	case <-time.After(5 * time.Second):
		t.Fatal("the loop does not end")
	}
}

// A parker that is awake uses bells up: a bell for what was found already does not end every sleep
// from then on.
func TestABellThatIsNotNeededEndsOneSleepAtMost(t *testing.T) {
	p, err := fabric.NewParker()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	sleeps := func(taker string) time.Duration {
		p.Announce()
		p.Wake()
		if taker == "sleep" {
			p.Sleep(time.Minute)
		}
		p.Retract()
		p.Look()
		p.Announce()
		p.Look()
		start := time.Now()
		p.Sleep(20 * time.Millisecond)
		p.Retract()
		return time.Since(start)
	}
	for _, taker := range []string{"sleep", "look"} {
		slept := sleeps(taker)
		for tries := 1; slept < 20*time.Millisecond && tries < 10; tries++ { // a signal ends a sleep, too
			slept = sleeps(taker)
		}
		if slept < 20*time.Millisecond {
			t.Errorf("after a %s that took the bell the next sleep ended after %v, not 20 ms", taker, slept)
		}
	}
}
