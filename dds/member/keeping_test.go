package member_test

import (
	"context"
	"encoding/binary"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/member"
	"github.com/squall-go/squall/dds/qos"
)

// keepers are two members with a raw topic that has a history of so many samples.
func keepers(t *testing.T, depth int) (all []*member.Member, topics []*dds.Topic[[]byte]) {
	t.Helper()
	all = open(t, 2)
	for _, p := range all {
		topics = append(topics, keptTopic(t, p, depth))
	}
	return all, topics
}

func keptTopic(t *testing.T, p *member.Member, depth int) *dds.Topic[[]byte] {
	t.Helper()
	tp, err := dds.NewTopic(t.Context(), p, "kept", dds.Raw(), dds.QoS{Durability: qos.Transient, Service: qos.DurabilityService{History: qos.KeepLast(depth)}})
	if err != nil {
		t.Fatal(err)
	}
	return tp
}

var keptWriter = dds.QoS{Durability: qos.Transient}

// ofNumber is a sample that has its number in each word.
func ofNumber(n uint64, bytes int) []byte {
	b := make([]byte, bytes)
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], n)
	}
	return b
}

// numberOf is the inverse.
func numberOf(t *testing.T, b []byte) uint64 {
	t.Helper()
	n := binary.LittleEndian.Uint64(b)
	for i := 0; i < len(b); i += 8 {
		if other := binary.LittleEndian.Uint64(b[i:]); other != n {
			t.Fatalf("sample %d has %d in word %d", n, other, i/8)
		}
	}
	return n
}

// history takes the history that a new reader of a topic gets: samples with numbers that follow
// each other, up to the depth. It returns the number after the last one.
func history(t *testing.T, tp *dds.Topic[[]byte], depth int) uint64 {
	t.Helper()
	r, err := tp.Reader(t.Context(), dds.QoS{Durability: qos.Transient, History: qos.KeepAll()})
	if err != nil {
		t.Fatal(err)
	}
	all, err := r.Take(dds.Query{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(s dds.Sample[[]byte]) bool { return !s.Info.Valid }) // the end of the writer
	if len(all) < depth {
		t.Fatalf("the history has %d samples in place of %d", len(all), depth)
	}
	first := numberOf(t, all[0].Value)
	for i, s := range all {
		if n := numberOf(t, s.Value); n != first+uint64(i) {
			t.Fatalf("sample %d follows sample %d", n, first+uint64(i)-1)
		}
	}
	return first + uint64(len(all))
}

// A history refers to the ring while samples come and go. Readers that come meanwhile, also at a
// member that has just joined, and views that begin and end, find it as it was written.
func TestAHistoryInTheRingIsAsItWasWritten(t *testing.T) {
	const depth = 30
	all, topics := keepers(t, depth)
	w, err := topics[0].Writer(t.Context(), keptWriter)
	if err != nil {
		t.Fatal(err)
	}
	var kept atomic.Uint64
	listener, err := topics[1].Reader(t.Context(), dds.QoS{}, dds.Listen(func(*dds.Sample[[]byte], error) {
		if all[1].Keeps() {
			kept.Add(1)
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	sent := uint64(0)
	write := func() error {
		err := w.Write(t.Context(), ofNumber(sent, 8*(1+int(sent*37%400))))
		if err == nil {
			sent++
		}
		return err
	}
	for range depth {
		if err := write(); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 8 {
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			var err error
			for ctx.Err() == nil && err == nil {
				err = write()
			}
			done <- err
		}()
		for range 5 {
			history(t, topics[round%2], depth)
		}
		late := join(t, all[0], squall.NodeID(10+round), 2)
		history(t, keptTopic(t, late, depth), depth)
		if err := late.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if next := history(t, topics[0], depth); next != sent {
			t.Errorf("the history ends before %d, and %d samples were written", next, sent)
		}
	}
	if kept.Load() == 0 {
		t.Error("no sample was ever kept in the ring")
	}
	if err := listener.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A history that has most of the ring gives it back to a sample that needs it, also while few other
// samples come.
func TestALongSampleGetsTheRoomThatAHistoryHas(t *testing.T) {
	const depth = 1000
	all, topics := keepers(t, depth)
	var writers []*dds.Writer[[]byte]
	for _, tp := range topics {
		w, err := tp.Writer(t.Context(), keptWriter)
		if err != nil {
			t.Fatal(err)
		}
		writers = append(writers, w)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range 5 {
		for range depth {
			if err := writers[0].Write(ctx, ofNumber(1, 1200)); err != nil {
				t.Fatal(err)
			}
		}
		few, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() {
			for few.Err() == nil {
				if err := writers[1].Write(ctx, ofNumber(2, 8)); err != nil {
					done <- err
					return
				}
				if err := writers[1].Flush(ctx); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		if err := writers[0].Write(ctx, ofNumber(3, 800<<10)); err != nil {
			t.Fatalf("a long sample: %v", err)
		}
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if err := writers[0].Flush(ctx); err != nil {
		t.Fatal(err)
	}
	for ; all[0].Keeps() || all[1].Keeps(); time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatal("samples are kept for ever")
		}
	}
}

// Closing does not wait for a history that refers to the ring.
func TestAParticipantWithSamplesInTheRingCloses(t *testing.T) {
	all, topics := keepers(t, 100)
	w, err := topics[0].Writer(t.Context(), keptWriter)
	if err != nil {
		t.Fatal(err)
	}
	for n := range uint64(100) {
		if err := w.Write(t.Context(), ofNumber(n, 800)); err != nil {
			t.Fatal(err)
		}
	}
	if err := all[0].Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if next := history(t, topics[1], 100); next != 100 {
		t.Errorf("the history ends before %d", next)
	}
	if err := all[1].Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A long sample that is delivered together with short ones has all be let go, and the histories
// copy these first.
func TestAHistoryCopiesWhatIsDeliveredTogetherWithALongSample(t *testing.T) {
	const depth = 30
	all, topics := keepers(t, depth)
	w, err := topics[0].Writer(t.Context(), keptWriter)
	if err != nil {
		t.Fatal(err)
	}
	loose, err := dds.NewTopic(t.Context(), all[0], "loose", dds.Raw(), dds.QoS{})
	if err != nil {
		t.Fatal(err)
	}
	other, err := loose.Writer(t.Context(), dds.QoS{})
	if err != nil {
		t.Fatal(err)
	}
	n := uint64(0)
	for range 20 {
		for k := range depth {
			if err := w.Write(t.Context(), ofNumber(n, 800)); err != nil {
				t.Fatal(err)
			}
			if n++; k%7 != 3 {
				continue
			}
			if err := other.Write(t.Context(), ofNumber(1, 100<<10)); err != nil { // of more than a 64th of the ring
				t.Fatal(err)
			}
		}
		for range 40 { // more than a ring
			if err := other.Write(t.Context(), ofNumber(2, 100<<10)); err != nil {
				t.Fatal(err)
			}
		}
		if err := other.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, tp := range topics {
			if next := history(t, tp, depth); next != n {
				t.Fatalf("the history ends before %d, and %d samples were written", next, n)
			}
		}
	}
}
