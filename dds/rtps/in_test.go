package rtps

import (
	"log/slog"
	"testing"

	"github.com/squall-go/squall/dds/rtps/internal/protocol"
)

// What a DDS writer that is gone has left at a gateway that stands by is carried when that one is appointed; of a writer that left nothing, nothing stays.
func TestWhatAWriterThatIsGoneHasLeftIsCarried(t *testing.T) {
	g := &Gateway{log: slog.New(slog.DiscardHandler), inbounds: map[*protocol.RemoteWriter]*inbound{}, reappointed: make(chan struct{}), work: make(chan struct{}, 1)}
	add := func(samples int) (*protocol.RemoteWriter, *inbound) {
		w := &protocol.RemoteWriter{}
		b := &inbound{topic: &topic{}, of: w, waiting: make([]arrival, samples), queued: true}
		g.inbounds[w], g.arrivals = b, append(g.arrivals, b)
		return w, b
	}
	w, left := add(1)
	empty, _ := add(0)
	(*host)(g).WriterGone(nil, w)
	(*host)(g).WriterGone(nil, empty)
	if len(g.arrivals) != 1 || g.arrivals[0] != left {
		t.Fatalf("%d writers that are gone are waited for, and one has left a sample", len(g.arrivals))
	}
	g.appoint(nil)
	if len(g.arrivals) != 1 || g.arrivals[0] != left {
		t.Fatalf("RG2: after the appointment %d writers have samples to carry", len(g.arrivals))
	}
}
