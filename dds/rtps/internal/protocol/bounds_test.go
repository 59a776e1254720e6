package protocol

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/dds/rtps/internal/wire"
	"github.com/squall-go/squall/internal/testutil"
)

// One instance of a writer is written once, other instances again and again. The writer keeps the
// samples of its history and no place for the samples that were replaced; a late reader learns the
// numbers of the replaced samples from a few GAP messages.
func TestAHistoryCostsWhatItHolds(t *testing.T) {
	w := newWorld(t, testutil.Seed(t), 0)
	a := w.host(1, nil)
	set := qos.Set{Durability: qos.TransientLocal, Service: qos.DurabilityService{History: qos.KeepLast(1)}}
	out := a.p.OpenWriter(w.now, endpoint(set), true)
	const n = 20_000
	for i := range n {
		key := "moves"
		if i == 0 {
			key = "stays"
		}
		out.Write(Change{Source: int64(i) * 1000, Key: key, Payload: payload(i, 100)})
	}
	if len(out.changes) > 10 {
		t.Fatalf("the writer keeps %d samples of a history of 2", len(out.changes))
	}
	b := w.host(2, nil)
	b.p.OpenReader(w.now, endpoint(set), true)
	w.until("all have come", time.Minute, func() bool { return b.matched == 1 && len(b.got[out.Endpoint.GUID]) > 0 && out.Acknowledged() })
	got := b.got[out.Endpoint.GUID]
	if len(got) != 2 || got[0].Sequence != 1 || got[1].Sequence != n {
		t.Fatalf("RT1: the late reader has %d samples", len(got))
	}
	if w.messages > 500 {
		t.Fatalf("it took %d messages", w.messages)
	}
}

// Endpoints that come and go leave nothing, also if a peer acknowledges nothing.
func TestEndpointsThatEndLeaveNothing(t *testing.T) {
	w := newWorld(t, testutil.Seed(t), 0)
	a, b := w.host(1, nil), w.host(2, func(c *Config) { c.Lease = wire.Infinite })
	a.p.OpenWriter(w.now, endpoint(qos.Set{}), true)
	r := b.p.OpenReader(w.now, endpoint(qos.Set{}), true)
	w.until("both match", time.Minute, func() bool { return a.matched == 1 && b.matched == 1 })
	w.during(time.Second)
	for range 1000 {
		a.p.CloseWriter(w.now, a.p.OpenWriter(w.now, endpoint(qos.Set{}), true))
		w.step()
	}
	w.during(5 * time.Second)
	if p := a.p.publications; len(p.changes) > 2*ends+10 || len(p.kept) > ends+10 {
		t.Fatalf("of one writer %d announcements are kept, with %d keys", len(p.changes), len(p.kept))
	}
	b.down = true
	w.during(10 * time.Minute)
	if p := a.p.liveliness; len(p.changes) > 10 {
		t.Fatalf("RT4: %d assertions wait for a silent peer", len(p.changes))
	}
	b.down = false
	b.p.CloseReader(w.now, r) // and it has forgotten the peer, which has not forgotten it
	w.until("the reader is gone", time.Minute, func() bool { return a.matched == 0 })
}

// injected returns two participants of which one has a reader, and the other one a writer that
// matches it and says what the test has it say.
func injected(t *testing.T, set qos.Set, change func(*Config)) (w *world, h *host, rw *RemoteWriter, say func(func(a *wire.Appender, id wire.EntityID))) {
	w = newWorld(t, testutil.Seed(t), 0)
	h = w.host(1, change)
	o := w.host(2, nil)
	h.p.OpenReader(w.now, endpoint(set), true)
	out := o.p.OpenWriter(w.now, endpoint(set), true)
	w.until("both match", time.Minute, func() bool { return h.matched == 1 && o.matched == 1 })
	say = func(f func(*wire.Appender, wire.EntityID)) {
		t.Helper()
		var a wire.Appender
		a.Reset(wire.Prefix{1, 2, 3, 2})
		f(&a, out.Endpoint.GUID.Entity)
		if err := h.p.Receive(w.now, nowhere, a.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	return w, h, h.by[out.Endpoint.GUID], say
}

// A sample that was held because the host had no room, and comes again, is not held any more.
func TestASampleThatWasHeldComesAgain(t *testing.T) {
	_, h, rw, say := injected(t, qos.Set{}, nil)
	say(func(a *wire.Appender, id wire.EntityID) {
		a.Heartbeat(wire.Heartbeat{Writer: id, First: 1, Last: 0, Count: 1 << 20})
	})
	h.full = true
	say(func(a *wire.Appender, id wire.EntityID) {
		a.Data(wire.Unknown, id, 2, 0, make([]byte, 8))
		a.Gap(wire.Unknown, id, 1, 2) // now it is the turn of sample 2, which the host does not take
	})
	h.full = false
	say(func(a *wire.Appender, id wire.EntityID) { a.Data(wire.Unknown, id, 2, 0, make([]byte, 8)) })
	if len(h.got[rw.Endpoint.GUID]) != 1 || rw.next != 3 {
		t.Fatalf("RT1: the host has %v, and the next number is %d", h.got, rw.next)
	}
	if len(rw.held) != 0 || rw.heldBytes != 0 || h.p.kept != 0 {
		t.Fatalf("RT4: %d samples with %d bytes are held", len(rw.held), rw.heldBytes)
	}
}

// RT4: what is kept of samples that a writer does not have any more is freed, and a sample too far
// ahead is not kept.
func TestNothingIsKeptOfSamplesThatDoNotCome(t *testing.T) {
	for held, ahead := range [][]int64{{maxAhead + 1}, {maxAhead + 1, maxAhead}} {
		_, h, rw, say := injected(t, qos.Set{}, nil)
		count := uint32(1 << 20)
		beat := func(first, last int64) {
			count++
			say(func(a *wire.Appender, id wire.EntityID) {
				a.Heartbeat(wire.Heartbeat{Writer: id, First: first, Last: last, Count: count})
			})
		}
		beat(1, 4)
		sample := make([]byte, 4000)
		say(func(a *wire.Appender, id wire.EntityID) {
			for _, seq := range []int64{2, 3, 9} {
				a.DataFrag(wire.Unknown, id, seq, 0, sample, 1, 2000)
			}
			for _, k := range ahead {
				a.Data(wire.Unknown, id, rw.next+k, 0, sample)
			}
		})
		if len(rw.partial) != 3 || len(rw.held) != held || rw.heldBytes != held*len(sample) {
			t.Fatalf("fragments of %d samples, and %d samples with %d bytes are kept", len(rw.partial), len(rw.held), rw.heldBytes)
		}
		beat(5, 4)
		if len(rw.partial) != 1 || h.p.kept != rw.heldBytes+rw.partialBytes {
			t.Fatalf("fragments of %d samples are kept after sample %d, and %d bytes", len(rw.partial), rw.next-1, h.p.kept)
		}
	}
}

// The largest number of all has no successor, and is refused.
func TestTheLastNumberIsRefused(t *testing.T) {
	w, h, rw, _ := injected(t, qos.Set{Reliability: qos.Reliability{Kind: qos.BestEffort}}, nil)
	var a wire.Appender
	a.Reset(wire.Prefix{1, 2, 3, 2})
	a.Data(wire.Unknown, rw.Endpoint.GUID.Entity, math.MaxInt64, 0, make([]byte, 8))
	if err := h.p.Receive(w.now, nowhere, a.Bytes()); err == nil || rw.next < 1 {
		t.Fatalf("the next number is %d (%v)", rw.next, err)
	}
}

// A best effort writer of which fragments are lost, of as many samples as there is room for, goes
// on.
func TestLostFragmentsDoNotStopABestEffortWriter(t *testing.T) {
	_, h, rw, say := injected(t, qos.Set{Reliability: qos.Reliability{Kind: qos.BestEffort}}, func(c *Config) { c.SampleBytes = 10_000 })
	sample := make([]byte, 4000)
	for seq := int64(1); seq <= 40; seq++ {
		say(func(a *wire.Appender, id wire.EntityID) {
			a.DataFrag(wire.Unknown, id, seq, 0, sample, 1, 2000)
			if seq%10 == 0 {
				a.DataFrag(wire.Unknown, id, seq, 0, sample, 2, 2000)
			}
		})
	}
	if got := h.got[rw.Endpoint.GUID]; len(got) != 4 {
		t.Fatalf("%d samples have come, and 4 were whole", len(got))
	}
	if rw.partialBytes > 10_000+40 {
		t.Fatalf("RT4: %d bytes of fragments", rw.partialBytes)
	}
}

// Fragments of many writers have a bound together, and each writer's next sample comes
// nevertheless.
func TestFragmentsOfAllWritersAreBounded(t *testing.T) {
	w := newWorld(t, testutil.Seed(t), 0)
	h, o := w.host(1, nil), w.host(2, nil)
	h.p.OpenReader(w.now, endpoint(qos.Set{}), true)
	var all []*Writer
	for range 12 {
		all = append(all, o.p.OpenWriter(w.now, endpoint(qos.Set{}), true))
	}
	w.until("all match", time.Minute, func() bool { return h.matched == len(all) && o.matched == len(all) })
	const size = 60 << 20
	part := make([]byte, 2000)
	for _, out := range all {
		rw := h.by[out.Endpoint.GUID]
		d := wire.Data{Writer: out.Endpoint.GUID.Entity, Sequence: rw.next, Payload: part, Fragment: 1, Fragments: 1, FragmentBytes: 2000, SampleBytes: size}
		rw.fragment(&d, Sample{Sequence: d.Sequence})
		if rw.partial[d.Sequence] == nil {
			t.Fatal("the next sample has no room")
		}
		sum := 0
		for _, o := range h.by {
			sum += o.partialBytes + o.heldBytes
		}
		if sum != h.p.kept || sum > maxKept {
			t.Fatalf("RT4: %d bytes are kept, and counted as %d", sum, h.p.kept)
		}
	}
}

// An answer that lacks a long history is served in parts.
func TestAnAnswerIsServedWithinAWindow(t *testing.T) {
	w := newWorld(t, testutil.Seed(t), 0)
	a, b := w.host(1, nil), w.host(2, nil)
	set := qos.Set{Durability: qos.TransientLocal, Service: qos.DurabilityService{History: qos.KeepAll()}}
	out := a.p.OpenWriter(w.now, endpoint(set), true)
	b.p.OpenReader(w.now, endpoint(set), true)
	w.until("both match", time.Minute, func() bool { return a.matched == 1 && b.matched == 1 })
	for i := range 200 {
		for !out.Room() {
			w.step()
		}
		out.Write(Change{Payload: payload(i, 10_000), Key: fmt.Sprint(i)})
	}
	w.until("all have come", time.Minute, out.Acknowledged)
	w.during(time.Second)
	r := out.proxies[0]
	missing := wire.Numbers{Base: 1}
	for seq := int64(1); seq <= 200; seq++ {
		missing.Add(seq)
	}
	before := len(w.flying)
	bytes := 0
	out.acknack(r.Endpoint.GUID, &wire.AckNack{Missing: missing, Count: 1 << 20, Final: true})
	a.p.Flush()
	for _, f := range w.flying[before:] {
		bytes += len(f.data)
	}
	if most := 2 * a.p.cfg.WindowBytes; bytes == 0 || bytes > most {
		t.Fatalf("an answer costs %d bytes, and the window has %d", bytes, a.p.cfg.WindowBytes)
	}
}

// The number of endpoints of all peers is bounded, and so is the size of an announcement. A known
// endpoint may change its policies at the bound.
func TestEndpointsOfAllPeersAreBounded(t *testing.T) {
	_, h, rw, _ := injected(t, qos.Set{}, nil)
	o := rw.of
	announce := func(number uint32, set qos.Set) {
		e := endpoint(set)
		e.GUID = wire.GUID{Prefix: o.Prefix, Entity: wire.Writer(number, true)}
		h.p.discovered(h.p.publicationsOf, o, &Sample{Payload: e.Append(nil)})
	}
	fits := qos.Set{UserData: make([]byte, 30_000), TopicData: make([]byte, 30_000)}
	announce(7, fits)
	if len(o.writers) != 2 {
		t.Fatalf("%d writers are known, and two were announced", len(o.writers))
	}
	large := fits
	large.GroupData = make([]byte, 30_000)
	announce(8, large)
	next := endpoint(qos.Set{})
	for i := byte(0); h.p.roomFor(o, &next); i++ {
		h.p.peers = append(h.p.peers, &peer{Prefix: wire.Prefix{9, i}, writers: make([]wire.Endpoint, maxEndpoints)})
	}
	announce(9, qos.Set{})
	if len(o.writers) != 2 {
		t.Fatalf("RT4: %d writers are known", len(o.writers))
	}
	announce(7, qos.Set{UserData: []byte("new")})
	if string(o.writers[1].QoS.UserData) != "new" {
		t.Fatal("an endpoint that is known has not changed")
	}
}

// The memory of what a peer, and what all peers, announced of their endpoints is bounded, and
// counted until the endpoints end.
func TestTheMemoryOfAnnouncementsIsBounded(t *testing.T) {
	w, _, p := only(t)
	number := uint32(0)
	announce := func(o *peer) {
		e := endpoint(qos.Set{Partitions: make([]string, 8000)})
		number++
		e.GUID = wire.GUID{Prefix: o.Prefix, Entity: wire.Writer(number, true)}
		p.discovered(p.publicationsOf, o, &Sample{Payload: e.Append(nil)})
	}
	all := func() (bytes int) {
		for _, o := range p.peers {
			sum := 0
			for i := range o.writers {
				sum += o.writers[i].Memory()
			}
			if sum != o.bytes || o.bytes > endpointBytes {
				t.Fatalf("RT4: the endpoints of a peer take %d bytes, counted as %d", sum, o.bytes)
			}
			bytes += sum
		}
		return bytes
	}
	for n := range uint32(allEndpointBytes/endpointBytes + 2) {
		received(t, w, p, stranger(n, nowhere, wire.Infinite))
		for range 100 {
			announce(p.peers[n])
		}
	}
	e := endpoint(qos.Set{Partitions: make([]string, 8000)})
	one := e.Memory()
	if n := all(); n > allEndpointBytes || n < allEndpointBytes-endpointBytes {
		t.Fatalf("RT4: the endpoints of all peers take %d bytes", n)
	}
	o := p.peers[0]
	if o.bytes < endpointBytes-2*one {
		t.Fatalf("the endpoints of a peer take %d bytes, and more fit", o.bytes)
	}
	e.GUID, e.QoS.Deadline = o.writers[0].GUID, time.Second // it has changed, and takes the place of what was known
	p.discovered(p.publicationsOf, o, &Sample{Payload: e.Append(nil)})
	if got := o.endpoint(e.GUID).QoS.Deadline; got != time.Second {
		t.Fatalf("an endpoint that has changed has the deadline %v", got)
	}
	before := len(o.writers)
	p.withoutWriter(o, o.writers[0].GUID)
	announce(o)
	if all(); len(o.writers) != before {
		t.Fatalf("%d endpoints are known in place of %d", len(o.writers), before)
	}
}

// Nothing is kept of what a peer says that has proved nothing, but its addresses.
func TestNothingIsKeptForAPeerThatProvesNothing(t *testing.T) {
	w, h, p := only(t)
	p.OpenReader(w.now, endpoint(qos.Set{}), true)
	received(t, w, p, stranger(1, nowhere, wire.Infinite))
	o := p.peers[0]
	e := endpoint(qos.Set{})
	e.GUID = wire.GUID{Prefix: o.Prefix, Entity: wire.Writer(1, true)}
	say := func() {
		var a wire.Appender
		a.Reset(o.Prefix)
		a.Heartbeat(wire.Heartbeat{Reader: wire.PublicationsReader, Writer: wire.PublicationsWriter, First: 1, Last: 1, Count: uint32(w.now)})
		a.Data(wire.PublicationsReader, wire.PublicationsWriter, 1, 0, e.Append(nil))
		a.Data(wire.PublicationsReader, wire.PublicationsWriter, 3, 0, e.Append(nil))
		received(t, w, p, a.Bytes())
		w.now++
	}
	say()
	if len(o.writers) != 0 || o.bytes != 0 || h.matched != 0 || p.kept != 0 {
		t.Fatalf("RT4: %d writers, %d bytes", len(o.writers), p.kept)
	}
	p.prove(o, 0)
	say()
	if len(o.writers) != 1 || h.matched != 1 {
		t.Fatalf("%d writers of a peer that has proved its address", len(o.writers))
	}
}

// What a writer will not send, and was passed already, is not held.
func TestAGapOfSamplesThatWerePassedHasNoEffect(t *testing.T) {
	_, h, rw, say := injected(t, qos.Set{}, nil)
	say(func(a *wire.Appender, id wire.EntityID) {
		a.Heartbeat(wire.Heartbeat{Writer: id, First: 1, Last: 0, Count: 1 << 20})
		a.Data(wire.Unknown, id, 1, 0, make([]byte, 8))
		a.Data(wire.Unknown, id, 2, 0, make([]byte, 8))
	})
	gap := wire.Gap{Start: 1, Numbers: wire.Numbers{Base: 1}}
	gap.Numbers.Add(2)
	gap.Numbers.Add(4)
	rw.gap(&gap)
	if h.check(); rw.next != 3 || len(rw.held) != 1 {
		t.Fatalf("the next sample is %d, and %d are held", rw.next, len(rw.held))
	}
}

// What a writer will not send to one reader, it may send to another one.
func TestAGapIsForItsReader(t *testing.T) {
	_, h, rw, say := injected(t, qos.Set{}, nil)
	for _, c := range []struct {
		to   wire.EntityID
		next int64
	}{{wire.Reader(77, true), 1}, {rw.reader.Endpoint.GUID.Entity, 5}} {
		say(func(a *wire.Appender, id wire.EntityID) {
			a.Heartbeat(wire.Heartbeat{Writer: id, First: 1, Last: 0, Count: 1 << 20})
			a.Gap(c.to, id, 1, 5)
		})
		if h.check(); rw.next != c.next {
			t.Fatalf("after a GAP for %v the next sample is %d", c.to, rw.next)
		}
	}
}

// A reader that comes late does not hold up a writer whose history is short.
func TestAWriterHasRoomForALateReader(t *testing.T) {
	w, _, p := only(t)
	out := p.OpenWriter(w.now, endpoint(qos.Set{Durability: qos.TransientLocal}), true)
	for i := range 2 * unacknowledged {
		out.Write(Change{Payload: payload(i, 8)})
	}
	received(t, w, p, stranger(1, nowhere, wire.Infinite))
	e := endpoint(qos.Set{Durability: qos.TransientLocal})
	e.GUID = wire.GUID{Prefix: p.peers[0].Prefix, Entity: wire.Reader(1, true)}
	if p.withReader(p.peers[0], e); len(out.proxies) != 1 || !out.Room() {
		t.Errorf("%d readers match, and the first one gets all from %d of %d on", len(out.proxies), out.proxies[0].start, out.next())
	}
}

// A writer that waits for a reader has room again when the reader is gone.
func TestAWriterHasRoomWhenItsReaderIsGone(t *testing.T) {
	w := newWorld(t, testutil.Seed(t), 0)
	a, b := w.host(1, nil), w.host(2, nil)
	out := a.p.OpenWriter(w.now, endpoint(qos.Set{}), true)
	b.p.OpenReader(w.now, endpoint(qos.Set{}), true)
	w.until("both match", time.Minute, func() bool { return a.matched == 1 && b.matched == 1 })
	b.down = true
	for i := 0; out.Room(); i++ {
		out.Write(Change{Payload: payload(i, 100)})
	}
	w.until("the reader is gone", 10*time.Minute, func() bool { return a.matched == 0 })
	if a.rooms != 1 {
		t.Fatalf("the host was told %d times that there is room", a.rooms)
	}
}

// A reader that asks for fragments is there (RT4).
func TestAReaderThatAsksForFragmentsIsNotSilent(t *testing.T) {
	w, h, p := only(t)
	out := p.OpenWriter(w.now, endpoint(qos.Set{}), true)
	received(t, w, p, stranger(1, nowhere, wire.Infinite))
	e := endpoint(qos.Set{})
	e.GUID = wire.GUID{Prefix: p.peers[0].Prefix, Entity: wire.Reader(1, true)}
	p.withReader(p.peers[0], e)
	out.Write(Change{Payload: payload(1, 5*p.cfg.FragmentBytes)})
	out.beat(out.proxies[0])
	for count := range uint32(4) {
		p.now += int64(p.cfg.Silent)/2 + 1
		out.nackFrag(e.GUID, &wire.NackFrag{Sequence: 1, Missing: wire.Numbers{Base: 1}, Count: count + 1})
		if due := out.proxies[0].at - p.now; due <= 0 || due > int64(heartbeatEvery)/4 { // to know soon whether they came
			t.Fatalf("the next heartbeat is due after %v", time.Duration(due))
		}
		if out.tick(); h.silent > 0 {
			t.Fatalf("after %d answers the reader counts as silent", count+1)
		}
	}
}
