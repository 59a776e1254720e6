//go:build mutants

package sim

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// likePlan draws runs with the faults of a plan that failed once: the plan itself, and others with
// more chance.
func likePlan(name string) func(uint64) *Plan {
	return func(seed uint64) *Plan {
		text, err := os.ReadFile(filepath.Join("testdata", "plans", name+".json"))
		var file PlanFile
		if err == nil {
			err = json.Unmarshal(text, &file)
		}
		if err != nil {
			panic(err) // it is part of the repository
		}
		file.Plan.Seed += seed - 1
		return file.Plan
	}
}

// meetingPlan is a run in which large messages move while one view follows the other, and processes
// stand still, or lose their links, as their groups of transfers meet.
func meetingPlan(seed uint64) *Plan {
	yes := true
	p, d := Draw(seed, Limits{Nodes: 2 + int(seed%4), Messages: 60, Faults: &yes}), newDice(seed)
	p.Outages, p.Faults = 0, nil
	p.BulkTime = d.upTo(p.FailAfter())
	for i := range p.Decls {
		p.Decls[i].MaxMessageBytes, p.Decls[i].LargeMemoryBytes = 4<<10, 8<<10
	}
	for i := range p.Apps {
		p.Apps[i].LargeIn = 2
	}
	p.Bodies.BlockBytes = 1 << 10
	at := d.upTo(p.FailAfter() / 4)
	for range 1 + d.IntN(3) {
		n := 1 + d.IntN(2*len(p.Nodes))
		if d.oneIn(2) {
			p.Faults = append(p.Faults, Fault{Kind: Crash, At: at, Node: d.IntN(len(p.Nodes))})
		}
		if d.oneIn(2) {
			p.Faults = append(p.Faults, Fault{Kind: Hang, At: at, On: Installs, Nth: n, For: p.FailAfter()/8 + d.upTo(p.FailAfter()*11/8)})
		}
		if d.oneIn(2) {
			p.Faults = append(p.Faults, Fault{Kind: Reset, At: at, On: Installs, Nth: n + d.IntN(2), Set: ^uint64(0), InStep: d.IntN(2)})
		}
		at += d.upTo(p.FailAfter())
	}
	for i := range p.Nodes {
		p.Nodes[i].Returns, p.Nodes[i].Times = d.upTo(p.FailAfter()/8), 2
	}
	return p
}
