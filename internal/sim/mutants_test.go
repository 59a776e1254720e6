package sim

import (
	"github.com/squall-go/squall/views"
)

// A checker that no mutant trips is not a checker. Each mutant breaks one promise on purpose; the
// simulator has to find it within so many seeds.
const mutantSeeds = 3000

// keptPlan is a run with faults, of so many initial members and messages, in which something is
// kept on disks; and dice to change it with.
func keptPlan(seed uint64, initial, messages int) (*Plan, dice) {
	yes := true
	p, d := Draw(seed, Limits{Nodes: initial, Messages: messages, Faults: &yes}), newDice(seed)
	if !p.keeps() {
		d.keeps(p, true)
	}
	return p, d
}

// movingPlan is a run in which members of a log's shards come, go and move, one soon after the
// other.
func movingPlan(seed uint64) *Plan {
	p, d := shardedPlan(seed)
	p.Outages, p.Faults = 0, nil
	d.crashes(p)
	return p
}

// crashes has members end and come back, one soon after the other.
func (d dice) crashes(p *Plan) {
	at := d.upTo(p.FailAfter() / 4)
	for range 6 {
		p.Faults = append(p.Faults, Fault{Kind: Crash, At: at, Node: 1 + d.IntN(p.Initial-1)})
		at += d.upTo(p.FailAfter() / 2)
	}
	for i := range p.Nodes {
		p.Nodes[i].Returns, p.Nodes[i].Times = d.upTo(p.FailAfter()/8), 3
	}
}

// shardedPlan is a run with logs in two shards, between which members move.
func shardedPlan(seed uint64) (*Plan, dice) {
	p, d := keptPlan(seed, 4+int(seed%2), 100)
	for i := range p.Decls {
		if decl := &p.Decls[i]; decl.Mode == views.Persistent {
			decl.Shards, decl.MinMembers, decl.MaxMembers, decl.LayoutName = 2, 1, 0, turning
			p.Keep.After &^= 1 << i
		}
	}
	return p, d
}
