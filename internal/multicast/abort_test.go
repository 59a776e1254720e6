package multicast_test

import (
	"testing"

	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/views"
)

// The room of aborted claims comes back even if nothing is ever sent.
func TestAbortedClaimsDoNotFillTheWindow(t *testing.T) {
	for _, mode := range []views.Mode{views.Ordered, views.Unordered} {
		g := newGroup(t, 2, mode, multicast.Tuning{})
		for k := range 50 {
			c, ok := g.nodes[0].Sender.Claim(100)
			if !ok {
				t.Fatalf("%v: no room for claim %d: all earlier claims were aborted", mode, k)
			}
			g.nodes[0].Sender.Abort(c)
			g.settle()
		}
		if n := g.nodes[0].Sender.InUse(); n != 0 {
			t.Errorf("%v: %d aborted claims are still in use", mode, n)
		}
	}
}
