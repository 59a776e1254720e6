package restart

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/views"
)

// run draws a history of one seed, and then starts everything again and lets nothing break.
func run(seed uint64, trace func(string, ...any)) (*world, error) {
	return runWith(seed, trace, func(*world) {})
}

// runWith is a run of a world to which something was added.
func runWith(seed uint64, trace func(string, ...any), add func(*world)) (*world, error) {
	w := newWorld(seed, 1+int(seed/2%5))
	add(w)
	if trace != nil {
		w.trace = trace
	}
	for range 800 {
		if w.step(); w.err != nil {
			return w, w.err
		}
	}
	w.calm, w.net, w.sides = true, nil, nil
	for _, n := range w.nodes {
		n.crash()
	}
	for _, n := range w.nodes {
		n.start()
	}
	w.ends("it did not end", w.settled)
	w.ends("they are not together again", func() bool {
		for _, n := range w.nodes {
			if n.view != nil && !w.together() {
				w.turn(n)
			}
		}
		return w.together()
	})
	return w, w.err
}

// ends lets nothing break until something is so.
func (w *world) ends(what string, so func() bool) {
	for deadline := w.now + time.Minute; w.err == nil && !so(); {
		for range 4 * len(w.nodes) {
			w.deliver()
		}
		for _, n := range w.nodes {
			if n.core != nil {
				n.reconcile()
			}
		}
		if w.pass(20 * time.Millisecond); w.now > deadline {
			w.fail("%s: %s", what, w.describe())
		}
	}
}

// together reports whether every node is in one view of the group, in which no shard waits for a
// member that has its log.
func (w *world) together() bool {
	for _, n := range w.nodes {
		if n.view == nil || n.view != w.nodes[0].view || len(n.view.Members) != len(w.nodes) {
			return false
		}
	}
	return !slices.ContainsFunc(w.nodes[0].view.Subgroups, func(sg views.Subgroup) bool { return !sg.Provisioned() })
}

func (w *world) settled() bool {
	for _, n := range w.nodes {
		if n.core != nil {
			return false
		}
	}
	return true
}

func (w *world) describe() (text string) {
	for _, n := range w.nodes {
		text += fmt.Sprintf("\nnode %d.%d: ", n.id, n.inc)
		if n.core != nil {
			text += n.core.waits
		}
		if v := n.disk.View; v != nil {
			for _, sg := range v.Subgroups {
				if !sg.Provisioned() {
					text += " " + sg.WaitingFor()
				}
			}
			text += fmt.Sprintf(" view %d %v promised %v incomplete %v of %v", v.ID, v.Members, n.disk.Promised, n.disk.Incomplete, n.disk.Incarnations)
		}
	}
	return text
}

func TestRandomRestartsAgreeAndLoseNothing(t *testing.T) {
	seeds := testutil.Seeds[uint64](100, 2000)
	var restarts, adoptions, changes, waits, returns int
	for seed := range seeds {
		w, err := run(seed, nil)
		if err != nil {
			_, _ = run(seed, t.Logf)
			t.Fatalf("seed %d: %v", seed, err)
		}
		restarts, adoptions, changes = restarts+w.restarts, adoptions+w.adoptions, changes+w.changes
		waits, returns = waits+w.waits, returns+w.returns
	}
	t.Logf("%d seeds: %d restarts, %d views found that may have been decided, %d changes within a view; %d shards waited for a member that has their log, %d no longer",
		seeds, restarts, adoptions, changes, waits, returns)
	if restarts < int(seeds) || adoptions < int(seeds)/50 || changes < int(seeds) || waits < int(seeds)/20 || returns < int(seeds)/20 {
		t.Fatal("next to nothing happened")
	}
}
