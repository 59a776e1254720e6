package space

import (
	"fmt"
	"testing"

	"github.com/squall-go/squall/dds/qos"
)

// What a reader of a client costs at once is bounded, however long the history and the tail are and
// whatever its filter lets through: where it is opened nothing is looked at, and each call of
// Collect looks at some steps.
func TestCollectLooksAtSomeStepsAtATime(t *testing.T) {
	const samples = 5 * collectSteps
	for _, passes := range []bool{true, false} {
		t.Run(fmt.Sprintf("passes=%v", passes), func(t *testing.T) {
			w := newWorld(t, 1)
			s := w.members[0]
			s.KeepTail(1 << 26)
			w.topic("t", qos.Set{Durability: qos.Transient, Service: qos.DurabilityService{History: qos.KeepAll()}})
			by := w.writer(1, 1, "t", qos.Set{Durability: qos.Transient})
			write := func(n int) {
				for range n {
					w.write(by, "k", "0123456789")
				}
			}
			write(samples)
			w.dispose(by, "k")
			looked := 0
			r := &Followed{Number: 1, Filter: func([]byte) bool {
				looked++
				return passes
			}}
			f := s.Follow()
			f.Expect(id(1, 9), r, nil)
			data, err := AppendOpen(nil, w.now, EndpointInfo{ID: id(1, 9), Topic: "t", Reader: true, QoS: qos.Set{Durability: qos.Transient, History: qos.KeepAll()}})
			w.must(w.apply(1, data, err))
			if looked > 0 {
				t.Fatalf("%d samples were looked at where the reader was opened", looked)
			}
			if at := r.At(); at.Count != 0 {
				t.Errorf("a reader that was told nothing has come to %+v", at)
			}
			collect := func(want int) (calls int) {
				t.Helper()
				told := 0
				for more := true; more; calls++ {
					var all []Fed
					before := looked
					all, more = f.Collect(nil, 1<<30)
					if looked > before {
						t.Fatalf("%d samples were looked at under the lock", looked-before)
					}
					all = Pass(all)
					if looked-before > collectSteps+1 {
						t.Fatalf("%d samples were looked at in one call", looked-before)
					}
					for _, fed := range all {
						if fed.Kind == FedSample {
							told++
						}
					}
					if more && r.due() {
						if at := r.At(); at.Count != uint64(looked) {
							t.Fatalf("after %d samples the reader has come to %+v", looked, at)
						}
					}
				}
				if passes && told != want || !passes && told > 0 {
					t.Errorf("told %d samples of %d", told, want)
				}
				return calls
			}
			if calls := collect(samples); calls < samples/collectSteps {
				t.Errorf("the history was collected by %d calls", calls)
			}
			write(samples)
			if calls := collect(samples); calls < samples/collectSteps {
				t.Errorf("the tail was collected by %d calls", calls)
			}
			if at := r.At(); at.Count != 2*samples || at.Position != s.Position() {
				t.Errorf("in the end the reader has come to %+v", at)
			}
		})
	}
}
