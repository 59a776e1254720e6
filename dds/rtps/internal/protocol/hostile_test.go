package protocol

import (
	"math"
	"testing"
	"time"

	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/dds/rtps/internal/wire"
	"github.com/squall-go/squall/internal/testutil"
)

// FuzzReceive has a peer that matches say anything: the participant goes on, and does not keep more
// for it than its bounds (RT4).
func FuzzReceive(f *testing.F) {
	peer := wire.Prefix{1, 2, 3, 2}
	var a wire.Appender
	a.Reset(peer)
	a.Data(wire.Unknown, wire.Writer(1, true), 3, 0, make([]byte, 8))
	a.DataFrag(wire.Unknown, wire.Writer(1, true), 2, 0, make([]byte, 100), 2, 64)
	a.Heartbeat(wire.Heartbeat{Writer: wire.Writer(1, true), First: 1, Last: 5, Count: 1})
	a.Gap(wire.Unknown, wire.Writer(1, true), 1, 5)
	f.Add(a.Bytes())
	a.Reset(peer)
	a.AckNack(wire.AckNack{Reader: wire.Reader(2, true), Writer: wire.Writer(1, true), Missing: wire.Numbers{Base: 1, N: 3, Bits: [8]uint32{7 << 29}}, Count: 1})
	a.NackFrag(wire.NackFrag{Reader: wire.Reader(2, true), Writer: wire.Writer(1, true), Sequence: 1, Missing: wire.Numbers{Base: 1, N: 1, Bits: [8]uint32{1 << 31}}, Count: 1})
	f.Add(a.Bytes())
	f.Fuzz(func(t *testing.T, message []byte) {
		w := newWorld(t, 1, 0)
		h, o := w.host(1, nil), w.host(2, nil)
		for _, x := range []*host{h, o} {
			x.p.OpenWriter(w.now, endpoint(qos.Set{Durability: qos.TransientLocal}), true).Write(Change{Payload: make([]byte, 4000)})
			x.p.OpenReader(w.now, endpoint(qos.Set{}), true)
		}
		w.until("both match", time.Minute, func() bool { return h.matched == 2 && o.matched == 2 })
		_ = h.p.Receive(w.now, nowhere, message)
		h.p.Tick(w.now + int64(time.Second))
		for _, rw := range h.by {
			if len(rw.held) > maxHeld || len(rw.partial) > maxPartial || rw.partialBytes > 2*h.p.cfg.SampleBytes {
				t.Fatalf("RT4: %d samples are held, %d partial with %d bytes", len(rw.held), len(rw.partial), rw.partialBytes)
			}
		}
	})
}

// A writer that has samples far ahead of their turn, and then passes all numbers before them, costs
// no step for each number.
func TestNumbersThatArePassedCostNothing(t *testing.T) {
	w := newWorld(t, testutil.Seed(t), 0)
	h, o := w.host(1, nil), w.host(2, nil)
	h.p.OpenReader(w.now, endpoint(qos.Set{}), true)
	out := o.p.OpenWriter(w.now, endpoint(qos.Set{}), true)
	w.until("both match", time.Minute, func() bool { return h.matched == 1 && o.matched == 1 })
	var a wire.Appender
	a.Reset(wire.Prefix{1, 2, 3, 2})
	id := out.Endpoint.GUID.Entity
	a.Heartbeat(wire.Heartbeat{Writer: id, First: 1, Last: 0, Count: 1 << 20})
	a.Data(wire.Unknown, id, math.MaxInt64-2, 0, make([]byte, 8))
	a.Data(wire.Unknown, id, 9, 0, make([]byte, 8))
	a.Heartbeat(wire.Heartbeat{Writer: id, First: math.MaxInt64 - 5, Last: math.MaxInt64 - 1, Count: 1<<20 + 1})
	if err := h.p.Receive(w.now, nowhere, a.Bytes()); err != nil {
		t.Fatal(err)
	}
	if got := h.got[out.Endpoint.GUID]; len(got) != 1 || got[0].Sequence != 9 {
		t.Fatalf("RT1: the host has %v", got)
	}
}

// A reader asks for samples that were not sent to it, or not written: it gets none of them before
// their turn, and the answer has an end.
func TestSamplesThatWereNotSentAreNotSentAgain(t *testing.T) {
	w := newWorld(t, testutil.Seed(t), 0)
	h, o := w.host(1, func(c *Config) { c.WindowBytes = 2000 }), w.host(2, nil)
	o.manual = true
	out := h.p.OpenWriter(w.now, endpoint(qos.Set{}), true)
	r := o.p.OpenReader(w.now, endpoint(qos.Set{}), true)
	w.until("both match", time.Minute, func() bool { return h.matched == 1 && o.matched == 1 })
	for i := range 20 {
		out.Write(Change{Payload: payload(i, 500)})
	}
	w.during(time.Second)
	sent := out.proxies[0].sent
	if sent <= 1 || sent >= out.next() {
		t.Fatalf("all below %d of %d were sent", sent, out.next())
	}
	for count, base := range []int64{sent, out.next() - 1, out.next(), math.MaxInt64 - 300} {
		before := h.messages
		a := wire.AckNack{Reader: r.Endpoint.GUID.Entity, Missing: wire.Numbers{Base: base, N: 256}, Count: uint32(1000 + count)}
		for i := range a.Missing.Bits {
			a.Missing.Bits[i] = math.MaxUint32
		}
		out.again(out.proxies[0], base, &a)
		h.p.Flush()
		if h.messages != before {
			t.Fatalf("from %d on, %d messages were sent", base, h.messages-before)
		}
	}
}
