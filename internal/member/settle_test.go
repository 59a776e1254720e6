package member_test

import (
	"testing"
	"time"

	"github.com/squall-go/squall/internal/member"
)

// A member that delivered sleeps, and pushes its delivered counter some time later if nothing takes
// it along before. It does not make one step after the other until then.
func TestAMemberSleepsWhileItsDeliveredCounterWaits(t *testing.T) {
	w := newWorld(t, 2, 16)
	w.pass(time.Second)
	if err := w.send(0); err != nil {
		t.Fatal(err)
	}
	for range 20 { // no time passes
		for _, m := range w.members {
			m.Step(w.now)
		}
	}
	w.delivered(1, 0, 1)
	m := w.members[0] // the counter of the other one went along with what it received
	if d := m.Deadline(w.now); !m.Unsettled() || d != member.SettleTime {
		t.Errorf("the next step is due in %v, not %v; the counter waits: %v", d, member.SettleTime, m.Unsettled())
	}
	w.now += member.SettleTime
	if work := m.Step(w.now); work == 0 || m.Unsettled() {
		t.Errorf("the step did %d; the counter waits: %v", work, m.Unsettled())
	}
	if d := m.Deadline(w.now); d <= 0 {
		t.Errorf("the next step is due in %v", d)
	}
}
