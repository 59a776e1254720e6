package testlab

import (
	"testing"
	"time"
)

// Processes are killed while they take snapshots, while they restore them, and while the records
// behind them are replayed.
func TestStatesFromSnapshotsAreWholeWhenAllAreKilled(t *testing.T) {
	for _, engine := range engines {
		t.Run("engine="+engine.String(), func(t *testing.T) {
			rounds := *durableRounds
			if testing.Short() {
				rounds = min(rounds, 1)
			}
			load := DurableMessages(engine)
			load.Most, load.Snapshots = 5000, true
			w := newWreck(t, Options{Loads: []Load{load}})
			w.lab.Found(durableNodes)
			w.lab.AwaitAcks(snapshotEvery, w.lab.Live()...)
			w.lab.CutPower(w.lab.Live())
			audit := func(same bool) Findings {
				t.Helper()
				f, err := w.lab.auditStates(same, 1, 2, 3)
				w.lab.must(err)
				return f
			}
			start := time.Now()
			for round := range rounds {
				w.lab.opts.Fabric = fabrics[round%len(fabrics)].of
				l := &w.lab.opts.Loads[0]
				l.AfterPersist, l.Snapshots = w.dice.IntN(2) == 0, w.dice.IntN(4) > 0
				w.strike()
				t.Logf("round %d, fabric %s, %+v: %v", round+1, fabrics[round%len(fabrics)].name, *l, audit(false))
			}
			w.lab.opts.Loads[0].Snapshots = true
			w.lab.opts.Fabric = fabrics[rounds%len(fabrics)].of
			members := w.lab.Back(durableNodes, w.nodes()...)
			w.lab.AwaitAcks(1, members...)
			w.lab.Rest(members...)
			w.lab.Finish()
			t.Logf("%d rounds in %v: %v", rounds, time.Since(start).Round(time.Millisecond), audit(true))
		})
	}
}
