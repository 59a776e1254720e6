package predicates_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/squall-go/squall/predicates"
)

// P1
func TestEveryStepIsEvaluatedOncePerCycleInOrder(t *testing.T) {
	var trace []string
	var c predicates.Cycle
	work := []int{5, 0, 1000} // however much one does, the others get their turn
	for i := range work {
		c.Then(func() int { trace = append(trace, fmt.Sprint(i)); return work[i] })
	}
	for range 3 {
		if n := c.Step(); n != 1005 {
			t.Errorf("%d work in a cycle of 1005", n)
		}
	}
	if got := strings.Join(trace, " "); got != "0 1 2 0 1 2 0 1 2" {
		t.Errorf("P1: steps were evaluated as %s", got)
	}
}

// parker notes what the runner does with it. Sleep ends at once, so that a loop without work goes
// on.
type parker struct {
	note  func(what string)
	slept chan time.Duration
}

func (p *parker) Announce() { p.note("announce") }
func (p *parker) Retract()  { p.note("retract") }
func (p *parker) Yield()    {}
func (p *parker) Sleep(d time.Duration) {
	p.note("sleep")
	p.slept <- d
}

// P2, P3: announce, look once more, sleep no longer than the next timer, retract.
func TestTheRunnerAnnouncesLooksOnceMoreAndSleepsUntilItsDeadline(t *testing.T) {
	var trace []string
	note := func(what string) { trace = append(trace, what) } // the runner's goroutine only, read when it has ended
	p := &parker{note, make(chan time.Duration)}
	const due = 42 * time.Millisecond
	r := predicates.NewRunner(predicates.Config{
		Step:     func(time.Duration) int { note("step"); return 0 },
		Deadline: func(time.Duration) time.Duration { return due },
		Parker:   p, MaxSpin: -1,
	})
	r.Start()
	for range 5 {
		if d := <-p.slept; d != due {
			t.Errorf("P3: slept for %v, the next timer is due in %v", d, due)
		}
	}
	go func() { // a sleep that is under way when it is stopped ends too
		for range p.slept {
		}
	}()
	r.Stop(func() {})
	<-r.Done()
	close(p.slept)
	sleeps := 0
	for i, what := range trace {
		if what != "sleep" {
			continue
		}
		sleeps++
		if i < 2 || trace[i-1] != "step" || trace[i-2] != "announce" || trace[i+1] != "retract" {
			t.Fatalf("P2: around a sleep: %v", trace[max(0, i-3):i+2])
		}
	}
	if sleeps < 5 || uint64(sleeps) != r.Stats.Sleeps.Load() {
		t.Errorf("%d sleeps, counted %d", sleeps, r.Stats.Sleeps.Load())
	}
}

// What comes between the announcement and the sleep is found by the last look.
func TestWorkFoundByTheLastLookIsDoneWithoutSleeping(t *testing.T) {
	announced, slept := false, false
	found := make(chan bool, 1)
	p := &hooks{announce: func() { announced = true }, sleep: func() { slept = true }}
	r := predicates.NewRunner(predicates.Config{
		Step: func(time.Duration) int {
			if announced && len(found) == 0 {
				found <- slept
				return 1
			}
			return 0
		},
		Deadline: func(time.Duration) time.Duration { return time.Millisecond }, Parker: p, MaxSpin: -1,
	})
	r.Start()
	if <-found {
		t.Error("P2: it slept before the last look")
	}
	r.Stop(func() {})
	<-r.Done()
}

// hooks is a parker whose sleeps end at once.
type hooks struct{ announce, sleep func() }

func (h *hooks) Announce()           { h.announce() }
func (h *hooks) Sleep(time.Duration) { h.sleep() }
func (h *hooks) Retract()            {}
func (h *hooks) Yield()              {}

// slowYields is a parker on a core that another thread keeps for 4 ms of the bubble's time after
// each yield.
type slowYields struct {
	parker
	yields, sleeps int
}

func (p *slowYields) Yield() {
	p.yields++
	time.Sleep(slowYield)
}
func (p *slowYields) Sleep(time.Duration) {
	p.sleeps++
	time.Sleep(time.Millisecond)
}

const slowYield = 4 * time.Millisecond

// runSteps runs a loop among others for so many steps, of which one in eight finds work. It returns
// how many it made until it ended.
func runSteps(rounds, loops int, p predicates.Parker, shared func() bool) (n int) {
	done := make(chan struct{})
	r := predicates.NewRunner(predicates.Config{
		Step: func(time.Duration) int {
			if n++; n == rounds {
				close(done)
			}
			return n % 8 / 7
		},
		Deadline: func(time.Duration) time.Duration { return time.Second }, Parker: p, Shared: shared,
	})
	r.SetLoops(loops)
	began := time.Now()
	r.SetUsage(func() (ran, delayed time.Duration) { // another thread has the core during yields
		slept := time.Duration(0)
		if slow, ok := p.(*slowYields); ok {
			delayed, slept = time.Duration(slow.yields)*slowYield, time.Duration(slow.sleeps)*time.Millisecond
		}
		return time.Since(began) - delayed - slept, delayed
	})
	r.Start()
	<-done
	r.Stop(func() {})
	<-r.Done()
	return n
}

func TestTheRunnerSleepsWhereYieldsCostItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &slowYields{parker: parker{note: func(string) {}}}
		const rounds = 3000
		n := runSteps(rounds, runtime.NumCPU()+1, p, nil)
		// Without learning, each of the rounds yields: 3000 of 4 ms. A verdict takes some yields, and
		// holds for half a second.
		if p.yields < 1 || p.yields > rounds/10 || p.sleeps < rounds/20 {
			t.Errorf("%d yields, %d sleeps in %d steps", p.yields, p.sleeps, n)
		}
	})
}

// Where there are more loops than cores, a loop that other loops of the process wait for does not
// keep their processor: it sleeps after one more look. Otherwise it waits as always.
func TestTheRunnerSleepsWhereOthersNeedItsProcessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // steps take no time there: nothing seems to interrupt them
		for _, loops := range []int{1, runtime.NumCPU() + 1} {
			p := &longLooks{parker: parker{note: func(string) {}}}
			const rounds = 1000
			n := runSteps(rounds, loops, p, func() bool { return true })
			if at := p.sleeps >= rounds/8; p.yields > 0 || at != (loops > 1) {
				t.Errorf("%d loops: %d yields, %d sleeps in %d steps", loops, p.yields, p.sleeps, n)
			}
		}
	})
}

// longLooks is a parker whose yields take no time.
type longLooks struct {
	parker
	yields, sleeps int
	looks          int // since the last yield
}

func (p *longLooks) Yield()              { p.yields, p.looks = p.yields+1, 0 }
func (p *longLooks) Sleep(time.Duration) { p.sleeps++ }

// What the step before a yield takes is the loop's own time: it says nothing of others.
func TestYieldsThatCostNothingAreNotGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &longLooks{parker: parker{note: func(string) {}}}
		const rounds = 1500
		n, done := 0, make(chan struct{})
		r := predicates.NewRunner(predicates.Config{
			Step: func(time.Duration) int {
				if n++; n == rounds {
					close(done)
				}
				switch p.looks++; p.looks {
				case 1:
					return 1 // what was awaited came during the yield
				case 3: // the last one before the next yield
					time.Sleep(200 * time.Microsecond)
				}
				return 0
			},
			Deadline: func(time.Duration) time.Duration { return time.Second }, Parker: p,
		})
		r.SetLoops(runtime.NumCPU() + 1)
		began := time.Now()
		r.SetUsage(func() (ran, delayed time.Duration) { return time.Since(began), 0 })
		r.Start()
		<-done
		r.Stop(func() {})
		<-r.Done()
		if p.sleeps > 0 || p.yields < rounds/5 {
			t.Errorf("%d yields, %d sleeps in %d steps", p.yields, p.sleeps, n)
		}
	})
}

func TestStopEndsALoopThatAlwaysHasWork(t *testing.T) {
	cycles, many := 0, make(chan struct{})
	r := predicates.NewRunner(predicates.Config{
		Step: func(time.Duration) int {
			if cycles++; cycles == 100 {
				close(many)
			}
			return 1
		},
		Deadline: func(time.Duration) time.Duration { return -1 }, Parker: &hooks{func() {}, func() {}},
	})
	r.Start()
	<-many
	r.Stop(func() {})
	<-r.Done()
	if uint64(cycles) != r.Stats.Cycles.Load() {
		t.Errorf("%d cycles, counted %d", cycles, r.Stats.Cycles.Load())
	}
}

func TestTheClockOfStepsNeverGoesBack(t *testing.T) {
	last := time.Duration(-1)
	done, n := make(chan string, 1), 0
	r := predicates.NewRunner(predicates.Config{
		Step: func(now time.Duration) int {
			if now < last {
				done <- fmt.Sprintf("%v after %v", now, last)
			}
			if last, n = now, n+1; n == 2000 {
				done <- ""
			}
			return n % 2
		},
		Deadline: func(time.Duration) time.Duration { return 0 }, Parker: &hooks{func() {}, func() {}},
	})
	r.Start()
	if bad := <-done; bad != "" {
		t.Error(bad)
	}
	r.Stop(func() {})
	<-r.Done()
}

// sleeper sleeps until it is rung, and says when it does.
type sleeper struct {
	bell   chan struct{}
	sleeps chan struct{}
}

func (s *sleeper) Announce() {}
func (s *sleeper) Retract()  {}
func (s *sleeper) Yield()    {}
func (s *sleeper) Sleep(time.Duration) {
	s.sleeps <- struct{}{}
	<-s.bell
}

// The bell that comes with a stop is the last one: the loop finds the stop when it wakes, and does
// not go back to sleep.
func TestALoopThatIsStoppedWhileItSleepsEnds(t *testing.T) {
	s := &sleeper{bell: make(chan struct{}), sleeps: make(chan struct{}, 1)}
	r := predicates.NewRunner(predicates.Config{
		Step: func(time.Duration) int { return 0 }, Deadline: func(time.Duration) time.Duration { return -1 }, Parker: s, MaxSpin: -1,
	})
	r.Start()
	<-s.sleeps
	r.Stop(func() {
		s.bell <- struct{}{}
		select { // wait for what it does then
		case <-r.Done():
		case <-s.sleeps:
			t.Error("it was stopped, and sleeps")
		}
	})
	close(s.bell)
	<-r.Done()
}
