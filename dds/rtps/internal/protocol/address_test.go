package protocol

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/dds/rtps/internal/wire"
	"github.com/squall-go/squall/internal/testutil"
)

// counted is a host that counts what leaves for an address, with the headers of UDP and IPv4.
type counted struct {
	*host
	bytes map[wire.Locator]int
}

func (c *counted) Send(to wire.Locator, message []byte) { c.bytes[to] += len(message) + headerBytes }

// alone returns a participant with a writer and a reader, to which only the test speaks.
func alone(t *testing.T) (*world, *Participant, *Writer, *counted) {
	w := newWorld(t, 1, 0)
	c := &counted{host: &host{world: w, got: map[wire.GUID][]Sample{}, by: map[wire.GUID]*RemoteWriter{}}, bytes: map[wire.Locator]int{}}
	at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, 1}), 7410)
	p := New(Config{Prefix: wire.Prefix{1, 2, 3, 1}, Metatraffic: []wire.Locator{at}, Default: []wire.Locator{at}, Secret: [32]byte{7}}, c, w.now)
	p.OpenReader(w.now, endpoint(qos.Set{}), true)
	out := p.OpenWriter(w.now, endpoint(qos.Set{Reliability: qos.Reliability{Kind: qos.BestEffort}}), true)
	return w, p, out, c
}

// pass lets time pass for a participant.
func pass(w *world, p *Participant, d time.Duration) {
	for end := w.now + int64(d); w.now < end; {
		w.now = min(max(p.Due(), w.now+1), end)
		if p.Due() <= w.now {
			p.Tick(w.now)
		}
		p.Flush()
	}
}

// endsAndBegins is the message of a participant that ends, and begins again in the same message,
// some times.
func endsAndBegins(n uint32, times int) []byte {
	one := stranger(n, nowhere, wire.Infinite)
	me := wire.Prefix(one[8:20])
	var a wire.Appender
	a.Reset(me)
	for range times {
		a.Data(wire.Unknown, wire.ParticipantWriter, 1, wire.Disposed|wire.Unregistered, wire.AppendParticipantKey(nil, me))
	}
	message := append([]byte(nil), one[:wire.HeaderBytes]...)
	gone := a.Bytes()[wire.HeaderBytes:]
	for range times {
		message = append(append(message, one[wire.HeaderBytes:]...), gone[:len(gone)/times]...)
	}
	return append(message, one[wire.HeaderBytes:]...)
}

// For each byte that names an address where nobody answers, at most three leave for it, whatever is
// said and how often.
func TestAtMostThreeBytesLeaveForAByte(t *testing.T) {
	same := func(message func(n uint32) []byte) func(uint32) []byte {
		return func(uint32) []byte { return message(1) }
	}
	announcement := func(n uint32) []byte { return stranger(n, nowhere, wire.Infinite) }
	heartbeats := func(n uint32) []byte {
		b := announcement(1)
		var a wire.Appender
		a.Reset(wire.Prefix(b[8:20]))
		for k := range uint32(20) {
			a.Heartbeat(wire.Heartbeat{Writer: wire.PublicationsWriter, First: 1, Last: 200, Count: 100*n + k})
		}
		return append(b, a.Bytes()[wire.HeaderBytes:]...)
	}
	for _, c := range []struct {
		name    string
		message func(n uint32) []byte
		count   int
		every   time.Duration
	}{
		{"one", announcement, 1, 0},
		{"10/s", same(announcement), 200, 100 * time.Millisecond},
		{"1000/s", same(announcement), 20_000, time.Millisecond},
		{"10/s of many participants", announcement, 200, 100 * time.Millisecond},
		{"1000/s of many participants", announcement, testutil.Seeds(300, 5000), time.Millisecond},
		{"heartbeats", heartbeats, 200, 10 * time.Millisecond},
		{"ends in one message", func(n uint32) []byte { return endsAndBegins(n, 10) }, 200, 10 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, p, out, sent := alone(t)
			came := 0
			for n := range c.count {
				m := c.message(uint32(n))
				came += len(m) + headerBytes
				received(t, w, p, m)
				out.Write(Change{Payload: payload(n, 1000)})
				pass(w, p, c.every)
			}
			pass(w, p, 5*time.Minute)
			left := sent.bytes[nowhere]
			if left > 3*came || left == 0 {
				t.Errorf("RT5: %d bytes left for %d", left, came)
			}
			if p.Peers() != 0 {
				t.Error("RT5: a participant that has answered nothing is still known")
			}
		})
	}
}

// answers is a message with answers of the readers of discovery.
func answers(prefix wire.Prefix, count uint32, numbers ...int64) []byte {
	var a wire.Appender
	a.Reset(prefix)
	for i, n := range numbers {
		for _, id := range [][2]wire.EntityID{{wire.PublicationsReader, wire.PublicationsWriter}, {wire.SubscriptionsReader, wire.SubscriptionsWriter}} {
			a.AckNack(wire.AckNack{Reader: id[0], Writer: id[1], Missing: wire.Numbers{Base: n}, Count: count + uint32(i), Final: true})
		}
	}
	return a.Bytes()
}

// After some wrong numbers an address is ignored for a while, and its participants are forgotten.
func TestAnAddressWithWrongAnswersIsIgnored(t *testing.T) {
	w, p, _, _ := alone(t)
	prefix := wire.Prefix(stranger(1, nowhere, wire.Infinite)[8:20])
	received(t, w, p, stranger(1, nowhere, wire.Infinite))
	received(t, w, p, stranger(2, nowhere, wire.Infinite))
	other := netip.MustParseAddrPort("10.0.9.8:7410")
	received(t, w, p, stranger(3, other, wire.Infinite))
	for n := range uint32(guesses / 2) {
		if p.Peers() != 3 {
			t.Fatalf("%d participants are known after %d wrong answers", p.Peers(), 2*n)
		}
		received(t, w, p, answers(prefix, n+1, 2))
	}
	if p.Peers() != 1 {
		t.Fatalf("RT5: %d participants are known, and two have an address with wrong answers", p.Peers())
	}
	received(t, w, p, stranger(4, nowhere, wire.Infinite))
	if p.Peers() != 1 {
		t.Fatal("RT5: an address with wrong answers is used")
	}
	w.now += int64(guessTime)
	received(t, w, p, stranger(4, nowhere, wire.Infinite))
	if p.Peers() != 2 {
		t.Fatal("an address is ignored permanently")
	}
}

// Participants of Fast DDS see short numbers. Two of their readers must answer, and not while many
// wrong answers come from everywhere.
func TestShortNumbersNeedTwoAnswers(t *testing.T) {
	w, p, _, _ := alone(t)
	fast := func(n byte) *peer {
		a := wire.Participant{Prefix: wire.Prefix{8, n}, Lease: wire.Infinite, Builtin: wire.BuiltinEndpoints, Vendor: fastDDS, Metatraffic: []wire.Locator{netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 8, n}), 7410)}}
		var m wire.Appender
		m.Reset(a.Prefix)
		b := a.Append(nil)
		for i := range len(b) - 5 { // the parameter of the vendor
			if b[i] == 0x16 && b[i+1] == 0 && b[i+2] == 4 && b[i+3] == 0 {
				copy(b[i+4:], fastDDS[:])
				break
			}
		}
		m.Data(wire.Unknown, wire.ParticipantWriter, 1, 0, b)
		received(t, w, p, m.Bytes())
		return p.byID[a.Prefix]
	}
	answer := func(o *peer, which int, count uint32) {
		id := [][2]wire.EntityID{{wire.PublicationsReader, wire.PublicationsWriter}, {wire.SubscriptionsReader, wire.SubscriptionsWriter}}[which]
		var a wire.Appender
		a.Reset(o.Prefix)
		a.AckNack(wire.AckNack{Reader: id[0], Writer: id[1], Missing: wire.Numbers{Base: o.paths[0].offsets[which] + 1}, Count: count, Final: true})
		received(t, w, p, a.Bytes())
	}
	o := fast(1)
	if n := o.paths[0].offsets[0]; n > 1<<17 {
		t.Fatalf("the numbers begin at %d", n)
	}
	answer(o, 0, 1)
	if o.proved {
		t.Fatal("RT5: one short number is a proof")
	}
	answer(o, 1, 1)
	if !o.proved {
		t.Fatal("two answers are no proof")
	}
	late := fast(2)
	for n := range byte(allGuesses/(guesses-2) + 1) { // below the bound of each address
		q := fast(100 + n)
		for k := range uint32(guesses/2 - 1) {
			received(t, w, p, answers(q.Prefix, k+1, 1<<40))
		}
	}
	answer(late, 0, 1)
	answer(late, 1, 1)
	if late.proved {
		t.Fatal("RT5: a short number is a proof while many wrong ones come")
	}
	w.now += int64(guessTime)
	answer(late, 0, 2)
	if !late.proved {
		t.Fatal("short numbers are refused permanently")
	}
}

// A participant announces several addresses, of which only one can be reached from here, in any
// place.
func TestAllAddressesOfAParticipantAreTried(t *testing.T) {
	for place := range 3 {
		for _, from := range []bool{true, false} { // whether messages come from an address that it announces
			t.Run(fmt.Sprint(place, from), func(t *testing.T) {
				w := newWorld(t, uint64(place), 0)
				a, b := w.host(1, nil), w.host(2, nil)
				all := []wire.Locator{nowhere, netip.MustParseAddrPort("10.0.9.8:7410"), netip.MustParseAddrPort("10.0.9.7:7410")}
				all[place] = b.at
				b.p.cfg.Metatraffic, b.p.cfg.Default = all, all
				if !from {
					b.from = netip.MustParseAddrPort("10.0.7.7:1")
				}
				in := a.p.OpenReader(w.now, endpoint(qos.Set{}), true)
				out := b.p.OpenWriter(w.now, endpoint(qos.Set{}), true)
				w.until("both match", time.Minute, func() bool { return a.matched == 1 && b.matched == 1 })
				out.Write(Change{Payload: payload(1, 100)})
				w.until("a sample comes", time.Minute, func() bool { return len(a.got[out.Endpoint.GUID]) == 1 })
				w.until("it is acknowledged", time.Minute, out.Acknowledged)
				if o := in.writers[0].of; o.meta.to != b.at || o.data.to != b.at {
					t.Fatalf("the peer is sent to at %v and %v", o.meta.to, o.data.to)
				}
			})
		}
	}
}

// While another address is tried, what was put together for the one before has the numbers of that
// one: it does not go elsewhere, where an answer would prove the wrong address (RT5).
func TestNumbersOfAnAddressGoNowhereElse(t *testing.T) {
	for seed := range uint64(40) { // in which the announcements and answers come in different orders
		w := newWorld(t, seed, 0)
		a, b := w.host(1, nil), w.host(2, nil)
		b.p.cfg.Metatraffic = []wire.Locator{nowhere, b.at}
		b.p.cfg.Default = b.p.cfg.Metatraffic
		in := a.p.OpenReader(w.now, endpoint(qos.Set{}), true)
		b.p.OpenWriter(w.now, endpoint(qos.Set{}), true)
		w.until("both match", time.Minute, func() bool { return a.matched == 1 && b.matched == 1 })
		if o := in.writers[0].of; o.meta.to != b.at {
			t.Fatalf("RT5: %v counts as proved, where nobody is", o.meta.to)
		}
	}
}

// An answer to what was sent to one address of a peer proves no other one.
func TestAnAnswerProvesItsAddressOnly(t *testing.T) {
	w, p, _, _ := alone(t)
	other := netip.MustParseAddrPort("10.0.9.8:7410")
	me := wire.Participant{Prefix: wire.Prefix{8}, Lease: wire.Infinite, Builtin: wire.BuiltinEndpoints, Metatraffic: []wire.Locator{nowhere, other}}
	var a wire.Appender
	a.Reset(me.Prefix)
	a.Data(wire.Unknown, wire.ParticipantWriter, 1, 0, me.Append(nil))
	received(t, w, p, a.Bytes()) // it comes from nowhere, which is used first
	o := p.byID[me.Prefix]
	received(t, w, p, answers(me.Prefix, 1, o.paths[1].offsets[0]+1))
	if !o.proved || o.meta.to != other {
		t.Fatalf("RT5: %v is used (proved %v), and %v was proved", o.meta.to, o.proved, other)
	}
}

// Samples for a reader with an address of its own go there, if it is of the host that was proved.
func TestAReaderWithAnAddressOfItsOwn(t *testing.T) {
	own := netip.AddrPortFrom(nowhere.Addr(), 9999)
	for _, c := range []struct {
		unicast []wire.Locator
		want    wire.Locator
	}{
		{nil, nowhere},
		{[]wire.Locator{own}, own},
		{[]wire.Locator{netip.MustParseAddrPort("10.0.9.8:9999"), own}, own},
		{[]wire.Locator{netip.MustParseAddrPort("10.0.9.8:9999")}, nowhere},
	} {
		w, p, out, sent := alone(t)
		received(t, w, p, stranger(1, nowhere, wire.Infinite))
		o := p.peers[0]
		p.prove(o, 0)
		p.Flush()
		e := endpoint(qos.Set{Reliability: qos.Reliability{Kind: qos.BestEffort}})
		e.GUID = wire.GUID{Prefix: o.Prefix, Entity: wire.Reader(2, true)}
		announce := func(at []wire.Locator) {
			e.Unicast = at
			p.discovered(p.subscriptionsOf, o, &Sample{Payload: e.Append(nil)})
		}
		announce(c.unicast)
		write := func() {
			clear(sent.bytes)
			out.Write(Change{Payload: payload(1, 100)})
			p.Flush()
		}
		if write(); sent.bytes[c.want] == 0 || len(sent.bytes) != 1 {
			t.Errorf("%v: a sample was sent to %v", c.unicast, sent.bytes)
		}
		announce(nil)
		if write(); sent.bytes[nowhere] == 0 || len(sent.bytes) != 1 {
			t.Errorf("without an address of its own: a sample was sent to %v", sent.bytes)
		}
	}
}

// When another address of a participant is proved, samples for its readers go there.
func TestSamplesGoToTheAddressThatIsProvedNow(t *testing.T) {
	w, p, out, sent := alone(t)
	received(t, w, p, stranger(1, nowhere, wire.Infinite))
	o, other := p.peers[0], netip.MustParseAddrPort("10.0.9.8:7410")
	o.paths = append(o.paths, path{meta: other, data: other})
	p.prove(o, 0)
	e := endpoint(qos.Set{Reliability: qos.Reliability{Kind: qos.BestEffort}})
	e.GUID, e.Unicast = wire.GUID{Prefix: o.Prefix, Entity: wire.Reader(2, true)}, []wire.Locator{netip.AddrPortFrom(nowhere.Addr(), 9999)}
	p.withReader(o, e)
	p.prove(o, 1)
	p.Flush()
	clear(sent.bytes)
	out.Write(Change{Payload: payload(1, 100)})
	if p.Flush(); sent.bytes[other] == 0 || len(sent.bytes) != 1 {
		t.Errorf("a sample was sent to %v", sent.bytes)
	}
}
