package space

import "testing"

// A tail that is full uses the memory of the steps that it drops again.
func TestATailUsesTheMemoryOfDroppedSteps(t *testing.T) {
	const most = 100
	var l tail
	next := uint64(0)
	add := func() {
		next++
		l.add(step{position: next})
		if len(l.all) > most {
			l.all[0] = step{}
			l.all = l.all[1:]
			l.base++
		}
	}
	for range 10 * most {
		add()
	}
	if n := testing.AllocsPerRun(10*most, add); n > 0 {
		t.Errorf("a step takes %v allocations", n)
	}
	if n := cap(l.memory); n > 4*most {
		t.Errorf("%d steps take the memory of %d", most, n)
	}
	for i := range l.all {
		if want := next - uint64(len(l.all)-1-i); l.all[i].position != want {
			t.Fatalf("step %d is in the place of step %d", l.all[i].position, want)
		}
	}
	for i := range l.memory[:cap(l.memory)] {
		if p := l.memory[i].position; p != 0 && p <= l.base {
			t.Fatalf("the memory has dropped step %d", p)
		}
	}
}
