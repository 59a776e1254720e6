package squall

import (
	"testing"
	"time"

	"github.com/squall-go/squall/internal/multicast"
)

// overSlices are slices of which one is over.
func overSlices(report func(CallbackSlow)) *timeSlices {
	s := newSlices(&Config{FailAfter: 10 * time.Second})
	s.report = report
	s.End(s.Mark())
	return s
}

// B13
func TestARunOfCallbacksStopsAfterAMessageWhenTheSliceIsOver(t *testing.T) {
	var s *timeSlices
	var delivered, reports int
	sg := SubgroupConfig{Name: "a", Deliver: func(Message) {
		if delivered++; delivered == 3 {
			s.End(s.Mark())
		}
	}}
	s = newSlices(&Config{FailAfter: 10 * time.Second})
	s.report = func(CallbackSlow) { reports++ }
	s.ended.Store(int64(-time.Second)) // the callback went on for a tenth of FailAfter
	app := sg.application(&upcalls{}, s, func() {})
	if n := app.Deliver(make([]multicast.Message, 8)); n != 3 || delivered != 3 {
		t.Errorf("%d taken, %d delivered, the slice was over after 3", n, delivered)
	}
	if n := app.Deliver(make([]multicast.Message, 5)); n != 1 {
		t.Errorf("%d taken by a slice that is over: one message has to make progress", n)
	}
	if reports != 1 {
		t.Errorf("%d reports of slow callbacks in FailAfter", reports)
	}
}

func TestBatchesAreShorterAfterASliceThatEndedInOne(t *testing.T) {
	s := overSlices(func(CallbackSlow) {})
	var batches []int
	app := SubgroupConfig{DeliverBatch: func(run []Message) { batches = append(batches, len(run)) }}.application(&upcalls{}, s, func() {})
	run := make([]multicast.Message, 100)
	for range 3 {
		app.Deliver(run)
	}
	s.Slice.Begin()
	for range 5 {
		app.Deliver(run)
	}
	for i, want := range []int{100, 50, 25, 12, 24, 48, 96, 100} {
		if batches[i] != want {
			t.Fatalf("batches of %v", batches)
		}
	}
}

func TestASliceEndsWhenItsTimeHasPassed(t *testing.T) {
	s := newSlices(&Config{FailAfter: 10 * time.Second})
	defer s.stop()
	s.begin(time.Hour)
	if s.end(); s.Over() {
		t.Error("a timer that came late ended the next slice")
	}
	s.begin(time.Millisecond)
	for deadline := time.Now().Add(20 * time.Second); !s.Over(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the slice does not end")
		}
	}
}

// A slice that its timer ends late shows that the process did not run, also before the timer has
// run.
func TestATimerThatIsLateShowsThatTheProcessDidNotRun(t *testing.T) {
	s := newSlices(&Config{FailAfter: 10 * time.Second})
	if late := s.late(); late != 0 {
		t.Errorf("before the first slice: %v", late)
	}
	s.begin(time.Hour)
	s.Slice.Begin()
	if late := s.late(); late != 0 {
		t.Errorf("in a slice: %v", late)
	}
	s.until.Store(int64(time.Since(s.began) - 5*time.Second)) // it should have ended 5 s ago
	if late := s.late(); late < 5*time.Second {
		t.Errorf("before the timer has run: %v", late)
	}
	s.end()
	late := s.late()
	if late < 5*time.Second || !s.Over() {
		t.Errorf("after the timer has run: %v", late)
	}
	if again := s.late(); again != late { // a callback that goes on makes no timer late
		t.Errorf("later: %v, and %v before", again, late)
	}
	s.timer.Stop()
}
