package sim

import (
	"testing"

	"github.com/squall-go/squall/internal/testutil"
)

// hostilePlan is a run in which one member lies.
func hostilePlan(seed uint64) *Plan {
	yes := true
	return Draw(seed, Limits{Nodes: 5 + int(seed%2), Faults: &yes, Kinds: FaultKinds(0).With(Hostile)})
}

// What the others promise each other holds beside a member that lies, and it can take one of them
// with it at most.
func TestTheOthersGoOnBesideAMemberThatLies(t *testing.T) {
	c := Campaign{First: 1, Count: testutil.Seeds[uint64](40, 80), Draw: hostilePlan}
	if err := c.Run(); err != nil {
		t.Fatal(Report(c.Failed, Options{}, err))
	}
	for _, p := range []Probe{MemberLied, LiarBelieved, LiarSpoke} {
		if c.Probes[p] == 0 {
			t.Errorf("%d seeds never reached: %v", c.Seeds, p)
		}
	}
}
