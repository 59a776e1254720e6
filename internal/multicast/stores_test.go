//go:build mutants

package multicast_test

import (
	"testing"

	"github.com/squall-go/squall/sst"
	"github.com/squall-go/squall/views"
)

// M1, M2, M11: a peer that shares memory sees every store for itself. Between any two of them it
// finds nothing that cannot be.
func TestAPeerMayLookBetweenAnyTwoStores(t *testing.T) {
	for _, mode := range []views.Mode{views.Ordered, views.Unordered, views.Persistent} {
		t.Run(mode.String(), func(t *testing.T) {
			nodes, _ := twoSharedOf(t, mode)
			g := &group{t: t, nodes: nodes}
			send := g.sendTimed
			if mode != views.Persistent {
				send = func(r int, data string) { g.send(r, "%s", data) }
			}
			looks := 0
			look := func() {
				hook := sst.AfterStore
				sst.AfterStore = nil // what the peer stores itself does not count
				peer := nodes[1]
				peer.Exchange()
				peer.Subgroup.Deliver()
				if mode == views.Persistent {
					peer.Everywhere()
				}
				sst.AfterStore = hook
				looks++
				if f := peer.table.Failures(); len(f) > 0 {
					t.Fatalf("after store %d: %v", looks, f)
				}
			}
			defer func() { sst.AfterStore = nil }()
			for range 5 {
				send(0, "a")
				send(1, "b")
				nodes[1].cycle()
				sst.AfterStore = look
				for range 3 {
					nodes[0].cycle()
					if mode == views.Persistent {
						nodes[0].Persist(nodes[0].Delivered(), true)
					}
				}
				nodes[0].Skip(1)
				sst.AfterStore = nil
			}
			if looks < 10 {
				t.Errorf("the peer looked %d times", looks)
			}
		})
	}
}
