package sim

import (
	"testing"

	"github.com/squall-go/squall/internal/testutil"
)

// A process that sleeps would find nothing if it made another step. So runs in which it makes that
// step are the same, event by event.
func TestStepsThatAreLeftOutChangeNothing(t *testing.T) {
	seeds := testutil.Seeds(15, 40)
	extras := 0
	for seed := uint64(1); seed <= uint64(seeds); seed++ {
		p := Draw(seed, Limits{})
		r, with := Run(p, Options{}), Run(Draw(seed, Limits{}), Options{extra: true})
		if with.Err != nil {
			t.Fatal(Report(p, Options{extra: true}, with.Err))
		}
		extras += with.extras
		with.extras = 0
		for _, r := range []*Result{&r, &with} {
			for k := range r.Probes {
				// an application that refuses what it is offered does so in every step
				r.Probes[k] = min(r.Probes[k], 1)
			}
		}
		if with != r {
			t.Fatalf("seed %d: with the steps that are left out\n%+v\nand without\n%+v", seed, with, r)
		}
	}
	if extras < 1000*seeds {
		t.Errorf("%d steps that were left out in %d runs", extras, seeds)
	}
}
