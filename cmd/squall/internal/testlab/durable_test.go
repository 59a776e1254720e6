//go:build system

package testlab

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
)

var durableRounds = flag.Int("rounds", 3, "rounds of killing all members of a group and starting them again, for each engine")

// durableNodes is how many members a group has whose members are all killed.
const durableNodes = 3

// acksBefore is how many messages of each member are acknowledged before something happens.
const acksBefore = 500

// wreck kills all members of a group again and again.
type wreck struct {
	lab  *Cluster
	dice *rand.Rand
}

func newWreck(t *testing.T, o Options) *wreck {
	t.Helper()
	seed := *stormSeed
	if seed == 0 {
		seed = testutil.Seed(t)
	}
	o.Replay = fmt.Sprintf("-args -seed %d -rounds %d", seed, *durableRounds)
	t.Log("wreck:", o.Replay)
	return &wreck{lab: NewCluster(t, o), dice: rand.New(rand.NewPCG(seed, 1))}
}

// upTo is some pause.
func (w *wreck) upTo(most time.Duration) func() time.Duration {
	return func() time.Duration { return time.Duration(w.dice.Int64N(int64(most))) }
}

// nodes are all of them, in some order.
func (w *wreck) nodes() (nodes []squall.NodeID) {
	for _, i := range w.dice.Perm(durableNodes) {
		nodes = append(nodes, squall.NodeID(i+1))
	}
	return nodes
}

// strike starts all nodes in some order, lets them come as far as they do by some moment, and kills
// all of them in some order.
func (w *wreck) strike() {
	w.lab.t.Helper()
	started, err := w.lab.Restart(durableNodes, w.upTo(50*time.Millisecond), w.nodes()...)
	w.lab.must(err)
	if w.dice.IntN(4) > 0 { // otherwise they may be killed while they find each other
		w.lab.Each(started, (*Process).AwaitOpen)
		w.lab.Each(started, (*Process).Send)
		w.lab.AwaitAcks(1, started...)
	}
	time.Sleep(w.upTo(400 * time.Millisecond)())
	w.dice.Shuffle(len(started), func(i, j int) { started[i], started[j] = started[j], started[i] })
	pause := w.upTo(10 * time.Millisecond)
	if w.dice.IntN(4) == 0 { // the others notice, and go on in another view
		pause = w.upTo(300 * time.Millisecond)
	}
	KillAll(started, pause)
}

func TestNothingAcknowledgedIsLostWhenAllAreKilled(t *testing.T) {
	for _, engine := range engines {
		t.Run("engine="+engine, func(t *testing.T) {
			rounds := *durableRounds
			if testing.Short() {
				rounds = min(rounds, 1)
			}
			load := DurableMessages(engine)
			load.Most = 5000 // so that reading everything after each round takes no longer than the round
			w := newWreck(t, Options{Loads: []Load{load}})
			w.lab.opts.Fabric = fabrics[0].of
			w.lab.Found(durableNodes)
			w.lab.CutPower(w.lab.Live())
			start := time.Now()
			for round := range rounds {
				w.lab.opts.Fabric = fabrics[round%len(fabrics)].of
				w.lab.opts.Loads[0].AfterPersist = w.dice.IntN(2) == 0
				w.strike()
				f := w.lab.Audit(false, 1, 2, 3)
				t.Logf("round %d, fabric %s: %v", round+1, fabrics[round%len(fabrics)].name, f)
			}
			w.lab.opts.Fabric = fabrics[rounds%len(fabrics)].of
			members := w.lab.Back(durableNodes, w.nodes()...)
			w.lab.AwaitAcks(1, members...)
			w.lab.Rest(members...)
			w.lab.Finish()
			t.Logf("%d rounds in %v: %v", rounds, time.Since(start).Round(time.Millisecond), w.lab.Audit(true, 1, 2, 3))
		})
	}
}

// caughtUp is what a process says of its log.
type caughtUp struct{ records, cut uint64 }

// awaitCatchUp waits until a process got what its log lacked.
func awaitCatchUp(t *testing.T, p *Process) (all caughtUp) {
	t.Helper()
	texts, err := p.AwaitEvents("caught up: ", 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		var c caughtUp
		if _, err := fmt.Sscanf(text, caughtUpFormat, &c.records, &c.cut); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		all.records += c.records
		all.cut += c.cut
	}
	return all
}
