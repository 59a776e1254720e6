package rtps

import (
	"context"
	"log/slog"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/member"
	"github.com/squall-go/squall/dds/rtps/internal/protocol"
	"github.com/squall-go/squall/dds/rtps/internal/wire"
)

// A gateway that stands by has samples of a DDS writer that has ended. The space has them, and the
// end of their origin: they are not carried again (RG2), also when a writer with the same GUID has
// numbered samples anew. The samples of that writer are not taken for earlier ones with their
// numbers (RG1).
func TestSamplesOfAnEndedOriginAreNotCarriedAgain(t *testing.T) {
	ctx := t.Context()
	quiet := slog.New(slog.DiscardHandler)
	p, err := member.Open(ctx, member.Config{
		Group:    squall.Config{Cluster: "test", ID: 1, Listen: "127.0.0.1:0", InitialMembers: 1, Logger: quiet},
		Subgroup: squall.SubgroupConfig{Name: "space"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close(context.Background()) })
	of, err := dds.NewTopic(ctx, p, "notes", dds.EncodedAs("notes", false), dds.QoS{})
	if err != nil {
		t.Fatal(err)
	}
	g := &Gateway{
		log: quiet, p: p, intake: newIntake(),
		machine: protocol.New(protocol.Config{}, nil, 1),
	}
	g.ending, g.end = context.WithCancel(ctx)
	origin := dds.Origin{Side: "d", GUID: [16]byte{1}}
	match := func() *inbound {
		b := &inbound{topic: &topic{}, of: &protocol.RemoteWriter{}, origin: origin}
		if !g.follows(b) {
			g.begins(b)
		}
		return b
	}
	before := match()
	for n := range uint64(3) {
		g.add(before, arrival{Carried: dds.Carried{Sequence: n + 1}})
	}
	w, err := of.WriterFor(ctx, dds.QoS{}, origin)
	if err != nil {
		t.Fatal(err)
	}
	for n := range uint64(3) {
		if err := w.Carry(ctx, dds.Carried{Sequence: n + 1}, dds.Encoded{}); err != nil {
			t.Fatal(err)
		}
	}
	before.gone, before.ended, before.queued = true, true, true
	g.intake.arrivals, g.intake.leaving[wire.GUID{}] = append(g.intake.arrivals, before), []*inbound{before}
	again := match() // before the space has the end
	g.intake.inbounds[again.of] = again
	g.add(again, arrival{Carried: dds.Carried{Sequence: 1}})
	if before.since == 0 || again.since != 0 {
		t.Fatalf("the writers begin at the positions %d and %d", before.since, again.since)
	}
	look := func() {
		t.Helper()
		if _, err := g.look(&progress{g: g}); err != nil {
			t.Fatal(err)
		}
	}
	g.election.appointed = true // nothing is forgotten while the appointed gateway has to end the origin
	look()
	if len(again.waiting) != 1 {
		t.Fatal("RG1: a sample is taken for an earlier one with its number")
	}
	g.election.appointed = false
	for n := range uint64(3) { // as if it had not been acknowledged
		g.add(before, arrival{Carried: dds.Carried{Sequence: n + 1}})
	}
	if err := w.CloseOrigin(ctx); err != nil {
		t.Fatal(err)
	}
	look()
	if len(before.waiting) > 0 || len(g.intake.arrivals) > 0 || len(g.intake.leaving) > 0 {
		t.Fatalf("RG2: %d samples of a writer that has ended, and of which the space has everything, wait", len(before.waiting))
	}
	if again.since == 0 || len(again.waiting) != 1 {
		t.Fatalf("RG1: the next writer begins at position %d, and %d samples of it wait", again.since, len(again.waiting))
	}
}
