package sim

import (
	"testing"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/views"
)

// turnedPlan is a run with an unordered subgroup in two shards, between which members move with
// every view, views that end soon after they began, and claims that are given back.
func turnedPlan(seed uint64) *Plan {
	yes := true
	p, d := Draw(seed, Limits{Nodes: 4 + int(seed%2), Messages: 100, Faults: &yes}), newDice(seed)
	decl := &p.Decls[0]
	decl.Mode, decl.Members, decl.Senders = views.Unordered, nil, nil
	decl.Shards, decl.MinMembers, decl.MaxMembers, decl.LayoutName = 2, 1, 0, turning
	for i := range p.Apps {
		if p.Apps[i].Decl == 0 {
			p.Apps[i].Messages, p.Apps[i].Gap, p.Apps[i].AbortIn = 30, d.upTo(p.Hop()), pick(d, 0, 2, 4)
		}
	}
	p.Outages, p.Faults, p.Keep.After = 0, nil, 0
	at := d.upTo(4 * p.Hop())
	for range 3 {
		p.Faults = append(p.Faults, Fault{Kind: Leave, At: at, Node: d.IntN(len(p.Nodes))})
		p.Faults = append(p.Faults, Fault{Kind: Crash, At: at, On: Acks, Nth: 1 + d.IntN(2), InStep: 1})
		at += d.upTo(p.FailAfter() / 4)
	}
	for i := range p.Nodes {
		p.Nodes[i].Returns, p.Nodes[i].Times = d.upTo(4*p.Hop()), 3
	}
	return p
}

// M10: a member that delivered messages beyond the trim does not deliver them again, although their
// sender was in another shard for a view that was over before they were sent there.
func TestAMessageIsNotRepeatedAfterAViewInAnotherShard(t *testing.T) {
	c := Campaign{First: 1, Count: testutil.Seeds[uint64](60, 600), Draw: turnedPlan}
	if err := c.Run(); err != nil {
		t.Fatal(Report(c.Failed, Options{}, err))
	}
}
