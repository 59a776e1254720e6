package predicates_test

import (
	"fmt"
	"time"

	"github.com/squall-go/squall/predicates"
)

// bell is a parker for a loop within one process: a goroutine with work for the loop rings it.
type bell chan struct{}

func (b bell) Announce() {}
func (b bell) Retract()  {}
func (b bell) Yield()    {}

func (b bell) Sleep(d time.Duration) {
	if d < 0 {
		<-b
		return
	}
	select {
	case <-b:
	case <-time.After(d):
	}
}

func (b bell) ring() {
	select {
	case b <- struct{}{}:
	default: // it rings already
	}
}

// A loop of two steps adds up the numbers that it is given, and sleeps while there are none.
func ExampleRunner() {
	numbers, sums := make(chan int, 8), make(chan int, 8)
	sum, told := 0, 0
	var cycle predicates.Cycle
	cycle.Then(func() (work int) { // what has come?
		select {
		case n := <-numbers:
			sum += n
			return 1
		default:
			return 0
		}
	})
	cycle.Then(func() (work int) { // is there something to tell?
		if sum == told {
			return 0
		}
		told = sum
		sums <- sum
		return 1
	})

	wake := make(bell, 1)
	loop := predicates.NewRunner(predicates.Config{
		Step:     func(time.Duration) int { return cycle.Step() },
		Deadline: func(time.Duration) time.Duration { return -1 }, // it has no timers
		Parker:   wake,
	})
	loop.Start()
	for n := range 4 {
		numbers <- n + 1
		wake.ring()
	}
	for range 4 {
		fmt.Println(<-sums)
	}
	loop.Stop(wake.ring)
	<-loop.Done()
	// Output:
	// 1
	// 3
	// 6
	// 10
}
