package member

import (
	"slices"
	"testing"

	"github.com/squall-go/squall"
)

// A process of before that says late that it serves no more says nothing about its successor.
func TestAProcessWithdrawsOnlyItself(t *testing.T) {
	s := &servers{map[squall.NodeID]servingAt{}}
	for i, said := range []struct {
		servingAt
		serves uint64
	}{
		{servingAt{Node: 1, Incarnation: 5, Addr: "a:1"}, 5}, {servingAt{Node: 1, Incarnation: 6, Addr: "b:1"}, 6},
		{servingAt{Node: 1, Incarnation: 5}, 6}, {servingAt{Node: 1, Incarnation: 6}, 0},
	} {
		_, _ = s.set(&Context{}, said.servingAt)
		if got := s.Serving[1].Incarnation; got != said.serves {
			t.Errorf("after word %d incarnation %d serves, want %d", i, got, said.serves)
		}
	}
}

// What was touched is sent once, in records of bounded size.
func TestATouchedSessionIsTakenOnce(t *testing.T) {
	o := &object{}
	o.touches.sessions = map[uint64]struct{}{}
	for n := range uint64(maxTouched + 5) {
		o.touches.sessions[n] = struct{}{}
	}
	first, second, third := o.takeTouched(), o.takeTouched(), o.takeTouched()
	all := slices.Sorted(slices.Values(slices.Concat(first, second)))
	if len(first) != maxTouched || len(second) != 5 || len(third) != 0 || len(slices.Compact(all)) != maxTouched+5 {
		t.Errorf("%d, %d and %d sessions are taken", len(first), len(second), len(third))
	}
}
