package multicast_test

import (
	"fmt"
	"testing"

	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/views"
)

// Skipped rounds are seen by a member that receives one index at a time, too: no sender owes nulls
// for them, so that the member would otherwise wait for ever.
func TestOneAtATimeSeesSkippedRounds(t *testing.T) {
	g := newGroup(t, 2, views.Ordered, multicast.Tuning{OneReceive: true})
	g.nodes[1].Skip(5)
	for k := range 3 {
		g.send(0, "%d", k)
		g.settle()
	}
	g.send(1, "behind")
	g.nodes[1].Skip(2)
	g.send(0, "3")
	g.settle()
	if got := fmt.Sprint(g.same()); got != "[1:0 1:1 1:2 1:3 2:behind]" {
		t.Fatal(got)
	}
}
