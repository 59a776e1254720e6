package multicast_test

import (
	"testing"

	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// A sender whose ring is full gets room as soon as all of it is delivered, however small the
// messages are: nothing waits for company then.
func TestADeliveredRingDoesNotWaitForCompany(t *testing.T) {
	for _, mode := range []views.Mode{views.Ordered, views.Unordered} {
		for _, size := range []int{1, 7, 8, 9} {
			sg := views.Subgroup{Name: "a", Mode: mode, RingBytes: 4096, Window: 4096, Senders: []order.Rank{0}}
			g := newGroupOf(t, sg, func(int, *multicast.Config) {}, 2, multicast.Tuning{})
			sent := 0
			for sent < sg.Window && g.send(0, "%0*d", size, 0) {
				sent++
			}
			for range 8 { // far fewer steps than SettleAfter
				for _, n := range g.nodes {
					n.cycle()
				}
			}
			if got := len(g.nodes[1].log); got != sent {
				t.Fatalf("%v, %d bytes: %d of %d messages are delivered", mode, size, got, sent)
			}
			if s := g.nodes[0].Sender; s.InUse() > sent*3/4 {
				t.Errorf("%v, %d bytes: %d of %d messages hold room", mode, size, s.InUse(), sent)
			}
		}
	}
}
