package protocol

import (
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/dds/rtps/internal/wire"
)

// acknowledged returns the largest number of a writer's sample that the messages of a participant
// acknowledge.
func acknowledged(t *testing.T, sent []flight, from wire.Locator, writer wire.EntityID) (last int64) {
	t.Helper()
	for _, f := range sent {
		if f.from != from {
			continue
		}
		d, err := wire.NewDecoder(f.data)
		for err == nil {
			s, ok, e := d.Next()
			if err = e; err != nil || !ok {
				break
			}
			if s.Kind != wire.KindAckNack {
				continue
			}
			if a, e := s.AckNack(); e == nil && a.Writer == writer {
				last = max(last, a.Missing.Base-1)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return last
}

func numbers(all []Sample) (n []int64) {
	for _, s := range all {
		n = append(n, s.Sequence)
	}
	return n
}

// A writer that was killed starts again with its GUID, and with numbers from 1. It ends and matches
// anew; the host gets its samples, each once, and nothing is acknowledged to it before.
func TestAWriterThatWasKilledStartsAgain(t *testing.T) {
	for _, matchedAgain := range []bool{false, true} { // whether the participant was gone meanwhile
		w, h, p := only(t)
		p.OpenReader(w.now, endpoint(qos.Set{}), true)
		received(t, w, p, stranger(1, nowhere, wire.Infinite))
		e := endpoint(qos.Set{})
		e.GUID = wire.GUID{Prefix: p.peers[0].Prefix, Entity: wire.Writer(1, true)}
		p.withWriter(p.peers[0], e)
		p.prove(p.peers[0], 0)
		say := func(first, last int64, count uint32, samples ...int64) {
			t.Helper()
			var a wire.Appender
			a.Reset(e.GUID.Prefix)
			a.Heartbeat(wire.Heartbeat{Writer: e.GUID.Entity, First: first, Last: last, Count: count})
			for _, n := range samples {
				a.Data(wire.Unknown, e.GUID.Entity, n, 0, make([]byte, 8))
			}
			received(t, w, p, a.Bytes())
			p.Flush()
		}
		want := []int64{1, 2, 3, 4, 5}
		if matchedAgain {
			h.by[e.GUID].Has(5)
			want = nil
		} else {
			say(1, 5, 100, want...)
		}
		was := h.by[e.GUID]
		was.Acknowledge(w.now, was.delivered)
		p.Flush()
		w.flying = nil
		written := int64(2)
		for count := uint32(1); h.by[e.GUID] == was; count++ {
			if count > 50 {
				t.Fatal("the writer counts as the earlier one")
			}
			if !matchedAgain && count == 5 { // it has more than came from the earlier one
				written = 7
			}
			say(1, written, count, 1, 2, 6, 7)
			w.now += int64(restartAfter) / 10
			p.Tick(w.now)
			was.Acknowledge(w.now, was.delivered)
			p.Flush()
		}
		if n := acknowledged(t, w.flying, h.from, e.GUID.Entity); n > 0 {
			t.Fatalf("RT2: sample %d is acknowledged, and the host has none of this writer", n)
		}
		if !was.Ended() || h.matched != 1 {
			t.Fatalf("the earlier writer has ended: %v; %d writers match", was.Ended(), h.matched)
		}
		is := h.by[e.GUID]
		say(1, 2, 200, 1, 2)
		is.Acknowledge(w.now, is.delivered)
		say(1, 3, 201, 1, 2, 3)
		is.Acknowledge(w.now, is.delivered)
		p.Flush()
		if got := numbers(h.got[e.GUID]); !slices.Equal(got, append(want, 1, 2, 3)) {
			t.Fatalf("RT1: the host has got %v", got)
		}
		if n := acknowledged(t, w.flying, h.from, e.GUID.Entity); n != 3 || h.by[e.GUID] != is || is.Ended() {
			t.Fatalf("sample %d is acknowledged, of 3", n)
		}
	}
}

// Heartbeats that come late, or were forged, do not have a writer that is there start again: it
// answers. Those of a writer that is silent do not if they came before.
func TestAWriterThatIsThereDoesNotStartAgain(t *testing.T) {
	for _, silent := range []bool{false, true} {
		w, h, rw, say := injected(t, qos.Set{}, nil)
		var o *host
		for _, x := range w.hosts {
			if x != h {
				o = x
			}
		}
		out := o.p.writers[0]
		const n = 20
		for i := range n {
			out.Write(Change{Source: int64(i) * 1000, Payload: payload(i, 100)})
		}
		w.until("all have come", time.Minute, func() bool { return out.Acknowledged() })
		o.down = silent
		count := uint32(1)
		for range 50 {
			say(func(a *wire.Appender, id wire.EntityID) {
				a.Heartbeat(wire.Heartbeat{Writer: id, First: 1, Last: 3, Count: count})
			})
			if !silent {
				count += 100
			}
			w.during(restartAfter / 10)
		}
		o.down = false
		for i := range n {
			out.Write(Change{Source: int64(n+i) * 1000, Payload: payload(n+i, 100)})
		}
		w.until("all have come", time.Minute, func() bool { return out.Acknowledged() })
		if h.by[rw.Endpoint.GUID] != rw || rw.Ended() {
			t.Fatal("the writer counts as one that has started again")
		}
		inOrder(t, h.got[rw.Endpoint.GUID], 0, 2*n, func(int) int { return 100 })
	}
}

// A writer with a long history, of which the host has samples, matches again: it has not started
// again, however many heartbeats are lost and however little of the history has room in a window.
func TestAWriterWithAHistoryMatchesAgain(t *testing.T) {
	set := qos.Set{Durability: qos.TransientLocal, Service: qos.DurabilityService{History: qos.KeepAll()}}
	w := newWorld(t, 1, 0)
	a, b := w.host(1, nil), w.host(2, func(c *Config) { c.WindowBytes = 4 << 10 })
	out := b.p.OpenWriter(w.now, endpoint(set), true)
	const n = 200
	for i := range n {
		out.Write(Change{Source: int64(i) * 1000, Key: "k", Payload: payload(i, 200)})
	}
	a.p.OpenReader(w.now, endpoint(set), true)
	w.until("they match", time.Minute, func() bool { return a.matched == 1 && b.matched == 1 })
	rw := a.by[out.Endpoint.GUID]
	rw.Has(n)
	rw.begun, rw.next, rw.acked, rw.delivered = false, 1, 1, 0
	r := out.proxies[0]
	r.begun, r.acked, r.sent = true, 1, 5 // as if the first heartbeats had been lost
	w.flying, a.got[out.Endpoint.GUID] = nil, nil
	out.beat(r)
	w.until("all have come", time.Minute, func() bool { return out.Acknowledged() })
	if a.by[out.Endpoint.GUID] != rw || rw.Ended() {
		t.Fatal("the writer counts as one that has started again")
	}
	inOrder(t, a.got[out.Endpoint.GUID], 0, n, func(int) int { return 200 })
}
