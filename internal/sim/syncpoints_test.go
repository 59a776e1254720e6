package sim

import (
	"testing"
	"time"

	"github.com/squall-go/squall/views"
)

// smallPlan is a run of three members with a persistent subgroup, in which all members end at once
// if it is dark.
func smallPlan(seed uint64, dark bool) *Plan {
	yes := true
	p := Draw(seed, Limits{Nodes: 3, Messages: 12, Faults: &yes})
	p.Nodes, p.Initial, p.Outages = p.Nodes[:3], 3, 0
	p.Apps, p.Inboxes = p.Apps[:3*len(p.Decls)], p.Inboxes[:3]
	for i := range p.Decls {
		d := &p.Decls[i]
		*d = views.Declaration{Name: d.Name, Mode: views.Persistent, RingBytes: d.RingBytes, Window: d.Window}
	}
	p.Keep, p.Faults = Keep{}, nil
	for i := range p.Nodes {
		n := &p.Nodes[i]
		n.Returns, n.Times, n.Ask = p.FailAfter(), 2, []int{0, 1, 2}
		p.Keep.Disks = append(p.Keep.Disks, DiskPlan{Sync: p.Hop()})
	}
	if dark {
		p.Faults = append(p.Faults, Fault{Kind: Blackout, At: 4 * time.Millisecond, For: p.Hop()})
	}
	return p
}

// The power goes at each sync of a member's disk: before what is synced has arrived, in its middle,
// and when it has. All promises hold, while the others go on, and when all members have to come
// back.
func TestThePowerGoesAtEverySyncPoint(t *testing.T) {
	points := 0
	for _, dark := range []bool{false, true} {
		for _, arrive := range []parts{noParts, tornParts, allParts} {
			for nth, cut := 1, true; cut && nth < 200; nth++ {
				p := smallPlan(uint64(7+nth%3), dark)
				p.Faults = append([]Fault{{Kind: SyncCut, At: 1, Node: nth % 3, Nth: (nth + 2) / 3, InStep: int(arrive)}}, p.Faults...)
				r := Run(p, Options{})
				if r.Err != nil {
					t.Fatalf("dark %v, parts %d, sync %d: %v\n%v", dark, arrive, nth, r.Err, p)
				}
				cut = r.Probes[CrashedInSync] > 0
				points += one(cut)
				if raceEnabled && nth > 10 {
					break
				}
			}
		}
	}
	t.Logf("the power went at %d sync points", points)
	if points < 100 && !raceEnabled {
		t.Errorf("only %d sync points", points)
	}
}
