package sim

import (
	"testing"
	"time"
)

// waitingPlan is a run in which shards of two or more members lose members and logs, and have to
// wait for them.
func waitingPlan(seed uint64) *Plan {
	p, d := keptPlan(seed, 3+int(seed%4), 40)
	fa, at := p.FailAfter(), d.upTo(p.FailAfter()/2)
	for i := range p.Decls {
		decl := &p.Decls[i]
		decl.Members, decl.Shards, decl.MinMembers, decl.MaxMembers, decl.LayoutName = nil, 1+d.IntN(3), 1+d.IntN(2), 0, ""
		if d.oneIn(3) {
			decl.MaxMembers = decl.MinMembers + d.IntN(2)
		}
	}
	p.Faults = nil
	for range 3 + d.IntN(6) {
		p.Faults = append(p.Faults, Fault{Kind: pick(d, Crash, Crash, Crash, Leave, PowerOff, LostDisk, DamagedLogs), At: at, Node: d.IntN(len(p.Nodes)), InStep: pick(d, 0, 0, 3)})
		if d.oneIn(6) {
			at += d.upTo(fa)
			p.Faults = append(p.Faults, Fault{Kind: Blackout, At: at, Peer: pick(d, 0, 1), For: d.upTo(fa), Set: d.Uint64() & d.Uint64() & d.Uint64()})
		}
		at += d.upTo(pick(d, fa/4, fa, 3*fa))
	}
	for i := range p.Nodes {
		p.Nodes[i].Joins, p.Nodes[i].Returns, p.Nodes[i].Times = d.upTo(2*fa), d.upTo(pick(d, fa/8, fa, 4*fa)), d.IntN(5)
	}
	return p
}

// refillPlan is a run in which one of four members stays, with the logs of both shards, and others
// come while the first of them still gets one of these.
func refillPlan(seed uint64) *Plan {
	p, d := keptPlan(seed, 4, 40)
	fa := p.FailAfter()
	for i := range p.Decls {
		decl := &p.Decls[i]
		decl.Members, decl.Shards, decl.MinMembers, decl.MaxMembers, decl.LayoutName = nil, 2, 2, 0, ""
	}
	p.Outages, p.BulkTime, p.Faults = 0, fa/2, nil
	for i, node := range []int{3, 0, 2} {
		p.Faults = append(p.Faults, Fault{Kind: Crash, At: time.Duration(1+4*i) * fa, Node: node})
	}
	for i := range p.Nodes {
		p.Nodes[i].Joins, p.Nodes[i].Returns, p.Nodes[i].Times = 12*fa+d.upTo(2*fa), 0, 0
	}
	p.Nodes[0].Returns, p.Nodes[0].Times = 7*fa+d.upTo(2*fa), 1
	return p
}

// V11: a shard waits only for what is not there.
func TestNoShardWaitsForWhatIsThere(t *testing.T) {
	for _, draw := range []func(uint64) *Plan{waitingPlan, refillPlan} {
		c := Campaign{First: 1, Count: 20, Draw: draw}
		if err := c.Run(); err != nil {
			t.Error(Report(c.Failed, Options{}, err))
		}
	}
}
