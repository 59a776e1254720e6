package space

import (
	"testing"

	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/invariants"
)

// Samples of 10 KiB that a reader keeps until they are taken share memory: one allocation is for
// several samples.
func TestSamplesThatAReaderKeepsShareMemory(t *testing.T) {
	if invariants.Enabled {
		t.Skip("checking invariants allocates")
	}
	w := newWorld(t, 1)
	w.topic("t", qos.Set{})
	s, by := w.members[0], w.writer(1, 1, "t", qos.Set{})
	c := w.reader(1, 2, "t", qos.Set{History: qos.KeepAll()})[0]
	record := append(AppendSample(nil, w.now, &Sample{Writer: by, Source: w.now}), make([]byte, 10<<10)...)
	const samples = 60
	taken := make([]Held, 0, samples)
	n := testing.AllocsPerRun(10, func() {
		for range samples {
			if err := s.Apply(Record{View: 1, Sender: 1, Data: record}); err != nil {
				t.Fatal(err)
			}
		}
		taken = c.AppendSelect(taken[:0], Query{Take: true})
	})
	if len(taken) != samples || n/samples > 0.2 {
		t.Errorf("%d samples of %d were taken, with %v allocations for each", len(taken), samples, n/samples)
	}
}

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
