package multicast_test

import (
	"testing"

	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/views"
)

// The rest of a run that was taken in part is published for the sender it is from, whichever other
// sender has sent meanwhile: else that sender's room never comes back.
func TestARunTakenInPartIsPublishedForItsSender(t *testing.T) {
	g := newGroup(t, 2, views.Unordered, multicast.Tuning{})
	full := true
	g.nodes[0].take = func(n int) int {
		if full {
			return n / 2
		}
		return n
	}
	for g.send(1, "from 2") {
	}
	g.settle()
	full = false
	g.settle()
	if n := g.nodes[1].Sender.InUse(); n != 0 {
		t.Fatalf("every member took everything, and %d messages still have their room", n)
	}
}
