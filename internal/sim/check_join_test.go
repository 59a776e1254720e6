package sim

import (
	"testing"

	"github.com/squall-go/squall/internal/testutil"
)

// ghostPlan is a run in which nothing goes wrong, but that the processes of one joiner are not
// heard of any more as they become members.
func ghostPlan(seed uint64) *Plan {
	yes := true
	p, d := Draw(seed, Limits{Nodes: 1 + int(seed%4), Messages: 60, Faults: &yes}), newDice(seed)
	p.Outages, p.Faults = 0, nil
	if len(p.Nodes) > p.Initial {
		n := &p.Nodes[len(p.Nodes)-1]
		n.Ghosts = 1 + d.IntN(3)
		n.Returns, n.Times = d.upTo(p.FailAfter()), n.Ghosts
	}
	return p
}

// J12: a joiner that cost the group time is held back, by each member that waited for it in vain,
// and each time for longer; in the end it joins.
func TestJ12JoinersThatNeverAppearAreHeldBack(t *testing.T) {
	c := Campaign{First: 1, Count: testutil.Seeds[uint64](40, 100), Draw: ghostPlan}
	if err := c.Run(); err != nil {
		t.Fatal(Report(c.Failed, Options{}, err))
	}
	for _, p := range []Probe{JoinerVanished, JoinerHeldBack} {
		if c.Probes[p] == 0 {
			t.Errorf("%d seeds never reached: %v", c.Seeds, p)
		}
	}
	t.Logf("%d vanished, %d held back", c.Probes[JoinerVanished], c.Probes[JoinerHeldBack])
}
