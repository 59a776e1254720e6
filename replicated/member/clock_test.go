package member

import (
	"testing"
	"time"
)

func TestTheTimeOfRecordsIsThatOfTheClock(t *testing.T) {
	const slack = uint64(time.Millisecond) // the clocks differ in their rates by far less than this
	for _, age := range []time.Duration{0, maxReading / 2, maxReading, time.Hour, -time.Hour} {
		last := time.Now().Add(-age)
		lastReading.Store(&clocks{uint64(last.UnixNano()), last})
		before := uint64(time.Now().UnixNano())
		got := now()
		after := uint64(time.Now().UnixNano())
		if got+slack < before || got > after+slack {
			t.Errorf("a reading of %v before: %d, and the clock was between %d and %d", age, got, before, after)
		}
	}
}

func TestAStepOfTheClockShowsInTheTimesOfRecords(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, time.Hour} {
		last := time.Now().Add(-maxReading)
		lastReading.Store(&clocks{uint64(last.Add(-step).UnixNano()), last})
		before := uint64(time.Now().UnixNano())
		if got, after := now(), uint64(time.Now().UnixNano()); got < before || got > after {
			t.Errorf("a step of %v: %d, and the clock was between %d and %d", step, got, before, after)
		}
	}
}
