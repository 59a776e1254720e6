package sim

import (
	"cmp"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
)

// duelPlan is a run in which all members end, and the processes that come back end again with votes
// for different views.
func duelPlan(seed uint64) *Plan {
	p, d := keptPlan(seed, 3+int(seed%3), 50)
	at := d.upTo(p.FailAfter())
	p.Outages, p.Faults = 0, append([]Fault{{Kind: Blackout, At: at, For: d.upTo(p.Hop()), Peer: 2}}, d.duel(p, at)...)
	p.Keep.LateIn = 2
	return p
}

// What a restart does with the votes of two attempts, and with letters of attempts that are over,
// is seen often enough.
func TestRestartsChooseBetweenVotes(t *testing.T) {
	const enough = 200
	c := Campaign{First: 1, Count: cmp.Or(*seedsFlag, testutil.Seeds[uint64](40, enough)), Draw: duelPlan}
	if err := c.Run(); err != nil {
		t.Fatal(Report(c.Failed, Options{}, err))
	}
	t.Logf("%d seeds: %v", c.Seeds, &c.Probes)
	for _, p := range []Probe{RestartTwoVotes, RestartChoseVote, StaleVote, StalePromise} {
		if c.Probes[p] == 0 && c.Count >= enough {
			t.Errorf("%d seeds never reached: %v", c.Seeds, p)
		}
	}
}
