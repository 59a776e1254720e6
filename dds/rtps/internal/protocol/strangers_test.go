package protocol

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/dds/rtps/internal/wire"
	"github.com/squall-go/squall/internal/testutil"
)

// stranger returns an announcement of a participant that is nowhere.
func stranger(n uint32, at wire.Locator, lease time.Duration) []byte {
	me := wire.Participant{Lease: lease, Builtin: wire.BuiltinEndpoints, Metatraffic: []wire.Locator{at}, Default: []wire.Locator{at}}
	binary.BigEndian.PutUint32(me.Prefix[:], 1<<31|n)
	var a wire.Appender
	a.Reset(me.Prefix)
	a.Data(wire.Unknown, wire.ParticipantWriter, 1, 0, me.Append(nil))
	return a.Bytes()
}

var nowhere = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 9, 9}), 7410)

// An acknowledgement with discovery numbers that were sent to another peer, or to no peer, does not
// verify an address.
func TestAPeerProvesThatItReceives(t *testing.T) {
	w := newWorld(t, testutil.Seed(t), 0)
	h, o := w.host(1, func(c *Config) { c.Secret = [32]byte{1} }), w.host(2, nil)
	w.until("both are known", time.Minute, func() bool { return h.p.Peers() == 1 && o.p.Peers() == 1 })
	w.during(time.Second)
	if known := h.p.peers[0]; !known.proved {
		t.Fatal("a peer that answers has proved nothing")
	}
	if err := h.p.Receive(w.now, nowhere, stranger(1, nowhere, time.Hour)); err != nil {
		t.Fatal(err)
	}
	s := h.p.peers[1]
	for _, base := range []int64{1, 2, h.p.publications.next(), h.p.publications.proxy(wire.GUID{Prefix: o.p.cfg.Prefix, Entity: wire.PublicationsReader}).offset + 1} {
		a := wire.AckNack{Missing: wire.Numbers{Base: base}, Count: uint32(base), Final: true}
		h.p.publications.acknack(wire.GUID{Prefix: s.Prefix, Entity: wire.PublicationsReader}, &a)
		if s.proved {
			t.Fatalf("RT5: the number %d is a proof", base)
		}
	}
}

// Strangers that fill the table of peers make room for one that comes, and a peer that answers
// stays.
func TestStrangersMakeRoomForPeers(t *testing.T) {
	w := newWorld(t, testutil.Seed(t), 0)
	h, o := w.host(1, nil), w.host(2, nil)
	w.until("both are known", time.Minute, func() bool { return h.p.Peers() == 1 && o.p.Peers() == 1 })
	w.during(time.Second)
	for i := range uint32(3 * maxPeers) {
		if err := h.p.Receive(w.now, nowhere, stranger(i, nowhere, time.Hour)); err != nil {
			t.Fatal(err)
		}
		h.p.Flush()
	}
	if n := h.p.Peers(); n != maxPeers {
		t.Fatalf("RT4: %d participants are known", n)
	}
	w.host(3, nil)
	w.until("another one is known", 20*time.Second, func() bool { return h.p.byID[wire.Prefix{1, 2, 3, 3}] != nil })
	if h.p.byID[o.p.cfg.Prefix] == nil {
		t.Fatal("a peer that has answered was forgotten for strangers")
	}
}

// A reliable reader with an endless lease that answers nothing does not hold up its writer for
// ever, and matches again when it answers.
func TestAReaderThatIsSilentIsGoneOnWithout(t *testing.T) {
	w := newWorld(t, testutil.Seed(t), 0)
	a, b := w.host(1, nil), w.host(2, func(c *Config) { c.Lease = wire.Infinite })
	out := a.p.OpenWriter(w.now, endpoint(qos.Set{}), true)
	b.p.OpenReader(w.now, endpoint(qos.Set{}), true)
	w.until("both match", time.Minute, func() bool { return a.matched == 1 && b.matched == 1 })
	w.during(3 * defaultSilent)
	if a.matched != 1 || a.silent != 0 {
		t.Fatal("a reader that owes no answer is taken for silent")
	}
	b.down = true
	n := 0
	for ; out.Room(); n++ {
		out.Write(Change{Payload: payload(n, 100)})
	}
	w.during(defaultSilent - 5*time.Second)
	if out.Room() || a.matched != 1 {
		t.Fatal("RT3: the writer goes on without a reader that may still answer")
	}
	w.until("there is room", 15*time.Second, out.Room)
	if a.matched != 0 || a.silent != 1 {
		t.Fatalf("%d readers match, and %d are silent", a.matched, a.silent)
	}
	b.down = false
	w.until("it matches again", time.Minute, func() bool { return a.matched == 1 })
	before := len(b.got[out.Endpoint.GUID])
	out.Write(Change{Payload: payload(n, 100)})
	w.until("a sample comes", time.Minute, func() bool { return len(b.got[out.Endpoint.GUID]) > before })
}
