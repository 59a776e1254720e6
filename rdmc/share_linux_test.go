package rdmc

import (
	"os"
	"strings"
	"testing"
)

// leftovers are this process's descriptors and mappings of shared memory.
func leftovers(t *testing.T) (descriptors, mappings int) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if to, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil && strings.Contains(to, "squall-large") {
			descriptors++
		}
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return descriptors, strings.Count(string(maps), "squall-large")
}

func TestNoSharedMemoryIsLeftBehind(t *testing.T) {
	sharesMemory(t)
	descriptorsBefore, mappingsBefore := leftovers(t)
	for _, end := range []string{"closed", "failed", "discarded", "aborted"} {
		t.Run(end, func(t *testing.T) {
			w := newWorld(t, 3, 0)
			all := w.open("g", GroupConfig{InPlace: true})
			meet(t, all)
			for i := range 10 {
				m := w.alloc(0, 100_000)
				if _, err := all[0].Start(Outgoing{Data: m.Bytes(), Filled: -1}); err != nil {
					t.Fatal(err)
				}
				if m.Release(); i%2 == 0 {
					got := receive(t, all[1].messages, "message")
					got.Release()
				}
			}
			half := w.alloc(0, 100_000)
			s, err := all[0].Start(Outgoing{Data: half.Bytes(), Filled: 5000})
			if err != nil {
				t.Fatal(err)
			}
			half.Release()
			switch end {
			case "closed":
				s.Fill(100_000)
				closeAll(t, all)
			case "failed":
				w.nodes[2].kill()
			case "discarded":
				all[1].Discard()
			case "aborted":
				s.Abort(nil)
				closeAll(t, all)
			}
			for _, n := range w.nodes {
				if err := n.Close(); err != nil {
					t.Fatal(err)
				}
			}
			for _, x := range all {
				receive(t, x.Done(), "end")
				for len(x.messages) > 0 {
					m := <-x.messages
					m.Release()
				}
			}
			if d, m := leftovers(t); d != descriptorsBefore || m != mappingsBefore {
				t.Errorf("%d descriptors and %d mappings are left of %d and %d", d, m, descriptorsBefore, mappingsBefore)
			}
		})
	}
}
