//go:build system

package testlab

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/persist"
)

// onDisk is what a disk has, of which everything is checked before.
type onDisk struct {
	State
	lives Lives
}

func (c *Cluster) readDisk(id squall.NodeID, l *Load) (d onDisk, err error) {
	dir := c.Disk(id)
	report, err := persist.Verify(context.Background(), dir, nil, nil)
	if err == nil && !report.OK() {
		err = fmt.Errorf("%s is damaged: %+v", dir, report)
	}
	if err == nil {
		d.State, d.lives, err = ReadDisk(context.Background(), dir, l)
	}
	if err != nil {
		err = fmt.Errorf("node %d: %w", id, err)
	}
	return d, err
}

// auditStates is audit for loads with snapshots: of the records behind which a snapshot stands it
// knows only what the snapshot says.
func (c *Cluster) auditStates(same bool, nodes ...squall.NodeID) (f Findings, err error) {
	for i := range c.opts.Loads {
		var all []onDisk
		var most onDisk
		for _, id := range nodes {
			d, err := c.readDisk(id, &c.opts.Loads[i])
			if err != nil {
				return f, err
			}
			if all = append(all, d); most.Messages < d.Messages {
				most = d
			}
		}
		for _, k := range c.acknowledged(i) {
			if most.lives.Of(k.Life) <= k.Number {
				return f, fmt.Errorf("lost: %v, message %d of process %d, which was acknowledged", k.Version, k.Number, k.Life)
			}
			for j, id := range nodes {
				if slices.Contains(k.On, id) && all[j].lives.Of(k.Life) <= k.Number {
					return f, fmt.Errorf("lost: %v, message %d of process %d, was acknowledged by nodes %v, and node %d does not have it", k.Version, k.Number, k.Life, k.On, id)
				}
			}
			f.Acknowledged++
		}
		f.Records += most.Messages
		for j, h := range all {
			if f.Behind += most.Messages - h.Messages; same && h.State != most.State {
				return f, fmt.Errorf("node %d has %+v on its disk, and another one %+v", nodes[j], h.State, most.State)
			}
		}
	}
	return f, nil
}

// Processes are killed while they take snapshots, while they restore them, and while the records
// behind them are replayed.
func TestStatesFromSnapshotsAreWholeWhenAllAreKilled(t *testing.T) {
	for _, engine := range engines {
		t.Run("engine="+engine, func(t *testing.T) {
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
