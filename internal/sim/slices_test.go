package sim

import (
	"testing"

	"github.com/squall-go/squall/internal/testutil"
)

// slowPlan is a run without faults in which callbacks take long, and runs of them longer than a
// member may be silent.
func slowPlan(seed uint64) *Plan {
	no := false
	p, d := Draw(seed, Limits{Nodes: 3, Messages: 400, Faults: &no}), newDice(seed)
	for i := range p.Inboxes {
		for k := range p.Inboxes[i] {
			p.Inboxes[i][k] = Inbox{Cost: d.upTo(p.FailAfter() / 40)}
		}
	}
	p.Net.SocketBytes = 64 << 10 // a link that takes little in each step delays heartbeats, too
	return p
}

// B13
func TestSlowCallbacksDelayNoHeartbeatByMoreThanASlice(t *testing.T) {
	c := Campaign{First: 1, Count: testutil.Seeds[uint64](60, 200), Draw: slowPlan, Options: Options{Only: "live"}}
	if c.Run() != nil {
		t.Error(c.Err)
	}
	if c.Probes[SliceOver] == 0 {
		t.Errorf("%d seeds never reached: %v", c.Seeds, SliceOver)
	}
}
