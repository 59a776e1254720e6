package multicast_test

import (
	"slices"
	"testing"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/views"
)

// N5, M1, M11: a row is frozen while its owner goes on, which delivers, sends, and skips rounds
// between two words that are copied. What the copy shows is what the member could have seen: no
// message counts as a null, and no counter is beyond one that it never passes.
func TestARowIsFrozenBetweenAnyTwoWords(t *testing.T) {
	for _, mode := range []views.Mode{views.Ordered, views.Unordered, views.Persistent} {
		for at := range 3 * fabric.WordsPerLine {
			nodes, _, links := twoLinked(t, mode)
			g := &group{t: t, nodes: nodes}
			send := func(r int, data string) { g.send(r, "%s", data) }
			if mode == views.Persistent {
				send = g.sendTimed
			}
			send(1, "first")
			g.settle()
			send(0, "other")
			nodes[0].cycle()
			links[0].between = func(word int) {
				if word != at {
					return
				}
				for range 3 {
					nodes[1].cycle()
				}
				if mode == views.Persistent {
					nodes[1].Persist(nodes[1].Delivered(), true)
				}
				send(1, "second")
				nodes[1].cycle()
				nodes[1].Skip(5)
			}
			one := nodes[0]
			one.table.Freeze(1)
			if p := one.Progress(1); p.Persisted > p.Delivered || p.Delivered > p.Received {
				t.Errorf("%v, before word %d: the frozen row says %+v", mode, at, p)
			}
			one.Exchange()
			one.Wedge()
			trim := slices.Clone(one.Reach())
			if err := one.Trim(trim); err != nil {
				t.Fatal(err)
			}
			for range 10 {
				one.Subgroup.Deliver()
			}
			if trim[1] > 1 && !slices.Contains(one.log, "2:second") {
				t.Errorf("N5: %v, before word %d: %d indexes of the sender are here, and %v was delivered", mode, at, trim[1], one.log)
			}
			if !one.Finished() {
				t.Errorf("%v, before word %d: %v was delivered, and that is not all", mode, at, one.log)
			}
		}
	}
}
