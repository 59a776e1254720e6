package sim

import (
	"testing"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/views"
)

// reformedPlan is a run in which a log's shard has no members whenever one of its members is
// missing, so that each goes on from its own log, with a backlog for a slow disk, as one view
// follows the other.
func reformedPlan(seed uint64) *Plan {
	p, d := keptPlan(seed, 3+int(seed%3), 100)
	p.Outages, p.Faults = 0, nil
	p.Keep.Memory = 600
	for i := range p.Keep.Disks {
		p.Keep.Disks[i].Sync = 4 * p.Hop()
	}
	for i := range p.Decls {
		if decl := &p.Decls[i]; decl.Mode == views.Persistent {
			decl.Shards, decl.MinMembers, decl.MaxMembers, decl.LayoutName = 0, p.Initial, 0, ""
		}
	}
	for i := range p.Apps {
		p.Apps[i].Burst, p.Apps[i].MaxBytes = 40, 1000
	}
	d.crashes(p)
	return p
}

// While the log takes the backlog of a stay, nothing of it counts as persisted, and no reading is
// answered, although an earlier stay in the same shard is over.
func TestAShardThatFormsAnewHoldsItsLogs(t *testing.T) {
	c := Campaign{First: 1, Count: testutil.Seeds[uint64](40, 400), Draw: reformedPlan}
	if err := c.Run(); err != nil {
		t.Fatal(Report(c.Failed, Options{}, err))
	}
}
