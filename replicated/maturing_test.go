package replicated

import (
	"slices"
	"testing"
	"time"
)

// The time of an operation begins when all members have it, and anew when one of them lacks it for a while.
func TestAnOperationMaturesWhileAllMembersHaveIt(t *testing.T) {
	e, start := enabling{delay: 10 * time.Minute}, time.Unix(1e9, 0)
	for i, x := range []struct {
		after time.Duration
		ready []string
		may   []string
		next  time.Duration
	}{
		{0, []string{"a"}, nil, 10 * time.Minute},
		{4 * time.Minute, []string{"a", "b"}, nil, 6 * time.Minute},
		{10 * time.Minute, []string{"a", "b"}, []string{"a"}, 4 * time.Minute},
		{11 * time.Minute, nil, nil, 0},
		{12 * time.Minute, []string{"b"}, nil, 10 * time.Minute},
		{22 * time.Minute, []string{"b"}, []string{"b"}, 0},
	} {
		if may, next := e.mature(x.ready, start.Add(x.after)); !slices.Equal(may, x.may) || next != x.next {
			t.Errorf("step %d: %q, the next one after %v", i, may, next)
		}
	}
	e = enabling{delay: -1}
	e.mature([]string{"a"}, start)
	if may, next := e.mature([]string{"a"}, start.Add(1000*time.Hour)); len(may) != 0 || next != 0 {
		t.Errorf("with a negative delay: %q, %v", may, next)
	}
}
