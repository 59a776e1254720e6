package sim

import (
	"testing"

	"github.com/squall-go/squall/internal/testutil"
)

// Members move between shards whose applications see what is on every disk: what each shard
// delivered to them last, their applications do not see, and a caller that waits for it is told so.
func TestMembersThatMoveForgoTheTail(t *testing.T) {
	draw := func(seed uint64) *Plan {
		p := movingPlan(seed)
		for i := range p.Apps {
			p.Apps[i].FutureIn = 2
		}
		p.Keep.After = 1<<len(p.Decls) - 1
		return p
	}
	c := Campaign{First: 1, Count: testutil.Seeds[uint64](20, 60), Draw: draw}
	if err := c.Run(); err != nil {
		t.Fatal(Report(c.Failed, Options{}, err))
	}
	if t.Logf("%d futures ended as their member left a shard", c.Probes[TailForgone]); c.Probes[TailForgone] == 0 {
		t.Error("no member left a shard before its application saw its messages")
	}
}
