package viewchange

import (
	"errors"
	"testing"
)

// V10: no member sees a decision that its owner could forget.
func TestADecisionIsEchoedOnlyWhenItIsOnDisk(t *testing.T) {
	for seed := range uint64(50) {
		c := newCourt(t, seed, 4)
		asked := make([]Ballot, 4)
		for r, ch := range c.changes {
			ch.cfg.Record = func(b Ballot, d *Decision) {
				if asked[r] = b; d.Ballot != b || d.View.ID != 2 {
					t.Errorf("seed %d: rank %d records %v of %v", seed, r, b, d)
				}
			}
		}
		c.crash(3)
		c.changes[0].Report(3, errors.New("crashed"))
		all := func() bool { return asked[0] != 0 && asked[0] == asked[1] && asked[0] == asked[2] }
		c.settle(func() bool { return asked[0] != 0 })
		for range 300 {
			c.step()
		}
		if asked[1] != 0 || asked[2] != 0 || c.changes[0].own[wordDecided] != 0 {
			t.Fatalf("seed %d: a decision is in a row and not on disk", seed)
		}
		c.changes[0].Recorded(asked[0])
		if !c.settle(all) {
			t.Fatalf("seed %d: the leader recorded its decision, and the others were asked for %v", seed, asked)
		}
		c.changes[1].Recorded(asked[1])
		for range 300 {
			c.step()
		}
		if c.changes[1].Done() != nil || c.changes[2].own[wordDecided] != 0 {
			t.Fatalf("seed %d: done, and rank 2 has nothing on disk", seed)
		}
		c.changes[2].Recorded(asked[2])
		if !c.settle(func() bool {
			return c.changes[0].Done() != nil && c.changes[1].Done() != nil && c.changes[2].Done() != nil
		}) {
			t.Fatalf("seed %d: all recorded the decision, and it is not installed", seed)
		}
	}
}
