package sim

import (
	"testing"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/views"
)

// leavingPlan is a run in which no process gets a log from another one, and few get a state. Those
// that come in leave again, while sources end.
func leavingPlan(seed uint64) *Plan {
	p, d := keptPlan(seed, 4+int(seed%2), 400)
	fa, at := p.FailAfter(), d.upTo(p.FailAfter()/2)
	p.Outages, p.Faults, p.Keep.TornIn, p.Keep.LostIn = 0, nil, 1, 0
	for i := range p.Decls {
		decl := &p.Decls[i]
		decl.Members, decl.Shards, decl.MinMembers, decl.MaxMembers, decl.LayoutName = nil, 0, 0, 0, ""
		if decl.Mode == views.Ordered {
			p.States |= 1 << i
		}
	}
	leaver := 1 + d.IntN(p.Initial-1)
	for i := range p.Nodes {
		p.Nodes[i].Joins, p.Nodes[i].Returns, p.Nodes[i].Times = d.upTo(2*fa), 0, 0
		if i == leaver || i >= p.Initial {
			p.Faults = append(p.Faults, Fault{Kind: Leave, At: at + 3*fa + d.upTo(4*fa), Node: i})
		}
	}
	p.Nodes[leaver].Returns, p.Nodes[leaver].Times = d.upTo(fa/8), 1
	p.Faults = append(p.Faults, Fault{Kind: Crash, At: at, Node: leaver}, Fault{Kind: Crash, At: at, Node: p.Initial - 1, On: Gives, Nth: 1 + d.IntN(3)})
	for i := range p.Apps {
		p.Apps[i].Burst, p.Apps[i].Gap, p.Apps[i].Start = 40, fa/64, 0
	}
	return p
}

// B14: a process that leaves does not wait for a state or a log that it still gets.
func TestNoLeaverWaitsForAState(t *testing.T) {
	c := Campaign{First: 1, Count: testutil.Seeds[uint64](100, 1000), Draw: leavingPlan}
	if err := c.Run(); err != nil {
		t.Fatal(Report(c.Failed, Options{}, err))
	}
	if c.Probes[LeftWithoutState] == 0 {
		t.Error("no process left without a state")
	}
}
