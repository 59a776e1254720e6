package fabric_test

import (
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/predicates"
	"golang.org/x/sys/unix"
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

// With one processor of the runtime goroutines doze in its poller: at once beside others that have
// work, or else after a millisecond.
func TestADozeEndsWithOneProcessor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	p, err := fabric.NewParker()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	if _, err := p.Watch(fds[0], true); err != nil {
		t.Fatal(err)
	}
	defer p.Unwatch(fds[0])
	ends := map[string]struct{ wake, clear func() }{
		"bell":   {p.Wake, func() {}},
		"socket": {func() { unix.Write(fds[1], []byte{1}) }, func() { unix.Read(fds[0], make([]byte, 1)) }},
	}
	for name, end := range ends {
		for _, busy := range []bool{false, true} {
			for _, after := range []time.Duration{0, 100 * time.Microsecond, 3 * time.Millisecond} {
				p.Announce()
				woken := make(chan struct{})
				for range 2 { // one lost the watch, and has not left yet
					go func() {
						p.Doze(busy)
						woken <- struct{}{}
					}()
				}
				time.Sleep(after) // it may doze by now or not: it has to wake in any case
				end.wake()
				for range 2 {
					select {
					case <-woken:
					case <-time.After(5 * time.Second):
						t.Fatalf("a %s %v after the beginning of a doze (busy: %v) does not end it", name, after, busy)
					}
				}
				end.clear()
				p.Retract()
				p.Look() // takes the bell out
			}
		}
	}
}

// With one processor of the runtime and two parkers, as in a member that serves clients, a loop
// sleeps in the runtime's poller, so that the other one can run meanwhile.
func TestASleepBesideAnotherParkerLeavesTheOnlyProcessor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	p, err := fabric.NewParker()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	other, err := fabric.NewParker()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	sleep := func(d time.Duration) (woken chan struct{}) {
		p.Announce()
		woken = make(chan struct{})
		go sleeper(p, d, woken)
		return woken
	}
	ended := func(woken chan struct{}, what string) {
		t.Helper()
		select {
		case <-woken:
		case <-time.After(5 * time.Second):
			t.Fatalf("%s does not end it", what)
		}
	}
	for _, d := range []time.Duration{-1, time.Hour} {
		woken := sleep(d)
		for deadline := time.Now().Add(5 * time.Second); !strings.Contains(stateOf("fabric_test.sleeper("), "IO wait"); {
			if time.Now().After(deadline) {
				t.Fatalf("a sleep of %v keeps the processor: %s", d, stateOf("fabric_test.sleeper("))
			}
			time.Sleep(time.Millisecond)
		}
		p.Wake()
		ended(woken, "a bell")
		woken = sleep(3 * time.Millisecond)
		ended(woken, "its time")
	}
	if !p.Shared() || !other.Shared() {
		t.Error("no loop learns that it keeps the only processor from the other one")
	}
	runtime.GOMAXPROCS(2)
	woken := sleep(time.Millisecond)
	ended(woken, "its time")
	if p.Shared() || other.Shared() {
		t.Error("the loops have two processors, and take them for one")
	}
}

// sleeper sleeps once.
//
//go:noinline
func sleeper(p *fabric.Parker, d time.Duration, woken chan struct{}) {
	defer close(woken)
	p.Sleep(d)
	p.Retract()
}

// stateOf returns what the runtime says of the goroutine that runs a function: its number, and what
// it waits for.
func stateOf(function string) string {
	all := make([]byte, 1<<20)
	for text := range strings.SplitSeq(string(all[:runtime.Stack(all, true)]), "\n\n") {
		if line, stack, _ := strings.Cut(text, "\n"); strings.Contains(stack, function) {
			return line
		}
	}
	return ""
}
