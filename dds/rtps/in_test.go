package rtps

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/cdr"
	"github.com/squall-go/squall/dds/rtps/internal/protocol"
	"github.com/squall-go/squall/dds/rtps/internal/wire"
)

// What a DDS writer that is gone has left at a gateway that stands by is carried when that one is
// appointed; of a writer that left nothing, nothing stays.
func TestWhatAWriterThatIsGoneHasLeftIsCarried(t *testing.T) {
	g := &Gateway{log: slog.New(slog.DiscardHandler), intake: newIntake(), election: election{changed: make(chan struct{})}}
	guids := byte(0)
	add := func(samples int) (*protocol.RemoteWriter, *inbound) {
		guids++
		w := &protocol.RemoteWriter{Endpoint: wire.Endpoint{GUID: wire.GUID{Prefix: wire.Prefix{guids}}}}
		b := &inbound{topic: &topic{}, of: w, waiting: make([]arrival, samples), queued: true}
		g.intake.inbounds[w], g.intake.arrivals = b, append(g.intake.arrivals, b)
		return w, b
	}
	w, left := add(3)
	left.carried = 2 // by an earlier appointment: another gateway may have known of none
	empty, _ := add(0)
	(*host)(g).WriterGone(nil, w)
	(*host)(g).WriterGone(nil, empty)
	if len(g.intake.arrivals) != 1 || g.intake.arrivals[0] != left {
		t.Fatalf("%d writers that are gone are waited for, and one has left a sample", len(g.intake.arrivals))
	}
	g.elect(nil)
	if len(g.intake.arrivals) != 1 || g.intake.arrivals[0] != left {
		t.Fatalf("RG2: after the appointment %d writers have samples to carry", len(g.intake.arrivals))
	}
	if left.carried != 0 {
		t.Errorf("%d samples of 3 are not carried", left.carried)
	}
}

// A DDS writer matches again while a sample of it that came before is not carried. That one goes
// first: behind a larger number it would have no effect (RG2).
func TestAWriterThatMatchesAgainWaitsForWhatItHasLeft(t *testing.T) {
	g := &Gateway{log: slog.New(slog.DiscardHandler), intake: newIntake(), election: election{appointed: true}}
	match := func(number uint64) (*protocol.RemoteWriter, *inbound) {
		w := &protocol.RemoteWriter{}
		b := &inbound{topic: &topic{}, of: w}
		g.intake.inbounds[w] = b
		g.add(b, arrival{Carried: dds.Carried{Sequence: number}})
		return w, b
	}
	w, before := match(5)
	before.queued, before.resting = true, true // the space has refused it for now
	(*host)(g).WriterGone(nil, w)
	_, again := match(6)
	g.intake.arrivals = append(g.intake.arrivals, again)
	if b := g.next(); b != nil {
		t.Fatalf("RG2: sample %d is carried, and 5 is not", b.waiting[0].Sequence)
	}
	g.intake.arrivals = append(g.intake.arrivals, before)
	if b := g.next(); b != before {
		t.Fatal("what the writer has left is not carried")
	}
	g.left(before)
	if b := g.next(); b != again {
		t.Fatal("the writer that matches again is not carried")
	}
}

// The samples of all DDS writers on their way have a bound, within which a writer with none has
// room for one.
func TestSamplesOfAllWritersOnTheirWayAreBounded(t *testing.T) {
	type sample struct{ Data []byte }
	payloads, err := TypeOf[sample]()
	if err != nil {
		t.Fatal(err)
	}
	codec, err := cdr.New[sample]()
	if err != nil {
		t.Fatal(err)
	}
	large, err := codec.Append(nil, &sample{make([]byte, waitingBytes/4)}, cdr.XCDR1)
	if err != nil {
		t.Fatal(err)
	}
	g := &Gateway{log: slog.New(slog.DiscardHandler), intake: newIntake()}
	var all []*inbound
	for range 2 * allBytes / waitingBytes {
		w := &protocol.RemoteWriter{}
		b := &inbound{topic: &topic{Topic: Topic{Type: payloads}}, of: w, gone: true}
		g.intake.inbounds[w] = b
		all = append(all, b)
		for n := int64(1); (*host)(g).Sample(nil, w, protocol.Sample{Sequence: n, Payload: large}); n++ {
		}
		if len(b.waiting) == 0 {
			t.Fatal("a writer with nothing in flight has no room")
		}
	}
	if most := allBytes + len(all)*len(large); g.intake.held.bytes > most {
		t.Fatalf("%d bytes are in flight, and %d may be", g.intake.held.bytes, most)
	}
	for _, b := range all {
		g.acknowledge(b, 1<<20)
	}
	if g.intake.held != (held{}) {
		t.Fatalf("nothing is in flight, and %+v is counted", g.intake.held)
	}
}

// What follows the space goes on after a failure.
func TestAGatewayGoesOnAfterAFailure(t *testing.T) {
	t.Parallel()
	g := &Gateway{log: slog.New(slog.DiscardHandler)}
	g.ending, g.end = context.WithCancel(t.Context())
	steps := 0
	g.repeat("a step", func() error {
		if steps++; steps == 2 {
			g.end()
		}
		return errors.New("of a test")
	})
	if steps != 2 {
		t.Fatalf("%d steps", steps)
	}
}

func TestAKeyWithoutAStatusIsNoSample(t *testing.T) {
	type note struct {
		Author int32 `dds:"key"`
	}
	kind, err := TypeOf[note]()
	if err != nil {
		t.Fatal(err)
	}
	key := []byte{0, 1, 0, 0, 7, 0, 0, 0}
	of := &topic{Topic: Topic{Type: kind}}
	if _, err := of.arrival(&protocol.Sample{Sequence: 1, IsKey: true, Payload: key}); !errors.Is(err, errKeyAlone) {
		t.Errorf("a key without a status: %v", err)
	}
	a, err := of.arrival(&protocol.Sample{Sequence: 1, IsKey: true, Status: wire.Disposed, Payload: key})
	if err != nil || a.Operation != dds.OperationDispose {
		t.Errorf("a key with a status: %+v, %v", a, err)
	}
}

// A way names spaces and sides by turns: a space with the name of a side is another thing.
func TestAWriterIsRefusedForItsWayOnly(t *testing.T) {
	g := &Gateway{cfg: Config{Side: "d", Space: "s"}}
	for way, want := range map[string]bool{
		"": false, "s": true, "o": false, "d": false, "o\nd\np": true, "o\ne\ns": true, "o\ns\np": false, strings.Repeat("x", maxWayBytes-2): false, strings.Repeat("x", maxWayBytes-1): true,
	} {
		if _, refused := g.refuse(&wire.Endpoint{Way: way}); refused != want {
			t.Errorf("%.20q: refused %v", way, refused)
		}
	}
	if g.passed(nil) || g.passed(&dds.Origin{Side: "e\nd"}) || !g.passed(&dds.Origin{Side: "d"}) || !g.passed(&dds.Origin{Side: "e\no\nd"}) {
		t.Error("RG3: sides of origins")
	}
	if way := g.wayOf(&dds.Origin{Side: "e\no"}); way != "s\ne\no" {
		t.Errorf("%q", way)
	}
}
