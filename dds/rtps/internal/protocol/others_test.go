package protocol

import (
	"net/netip"
	"testing"
	"time"

	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/dds/rtps/internal/wire"
)

// only returns a participant and the host that records what it sends, without a network.
func only(t *testing.T) (*world, *host, *Participant) {
	w := newWorld(t, 1, 0)
	h := w.host(1, nil)
	return w, h, h.p
}

func received(t *testing.T, w *world, p *Participant, message []byte) {
	t.Helper()
	if err := p.Receive(w.now, nowhere, message); err != nil {
		t.Fatal(err)
	}
}

func TestAnAnnouncementIsOfItsSenderOnly(t *testing.T) {
	w, _, p := only(t)
	me := wire.Participant{Prefix: wire.Prefix{9}, Lease: wire.Infinite, Builtin: wire.BuiltinEndpoints, Metatraffic: []wire.Locator{nowhere}, Default: []wire.Locator{nowhere}}
	var a wire.Appender
	a.Reset(wire.Prefix{8})
	a.Data(wire.Unknown, wire.ParticipantWriter, 1, 0, me.Append(nil))
	received(t, w, p, a.Bytes())
	if p.Peers() != 0 {
		t.Fatal("a participant is known by the announcement of another one")
	}
}

func TestMessagesForAnotherParticipantHaveNoEffect(t *testing.T) {
	w, _, p := only(t)
	for _, target := range []wire.Prefix{{7}, p.cfg.Prefix} {
		me := wire.Participant{Prefix: wire.Prefix{9}, Lease: wire.Infinite, Metatraffic: []wire.Locator{nowhere}, Default: []wire.Locator{nowhere}}
		var a wire.Appender
		a.Reset(me.Prefix)
		a.Target(target)
		a.Data(wire.Unknown, wire.ParticipantWriter, 1, 0, me.Append(nil))
		received(t, w, p, a.Bytes())
		if known := p.Peers() == 1; known != (target == p.cfg.Prefix) {
			t.Fatalf("a message for %v: known %v", target, known)
		}
	}
}

func TestAnEndpointIsAnnouncedByItsParticipantOnly(t *testing.T) {
	w, h, p := only(t)
	p.OpenReader(w.now, endpoint(qos.Set{}), true)
	received(t, w, p, stranger(1, nowhere, wire.Infinite))
	o := p.peers[0]
	for _, prefix := range []wire.Prefix{{7}, o.Prefix} {
		e := endpoint(qos.Set{})
		e.GUID = wire.GUID{Prefix: prefix, Entity: wire.Writer(1, true)}
		p.discovered(p.publicationsOf, o, &Sample{Payload: e.Append(nil)})
		if matches := h.matched == 1; matches != (prefix == o.Prefix) {
			t.Fatalf("a writer of %v, announced by %v: it matches: %v", prefix, o.Prefix, matches)
		}
	}
}

// A heartbeat that comes again, or late, does not hide samples that the last one has named.
func TestAnEarlierHeartbeatHasNoEffect(t *testing.T) {
	w, h, p := only(t)
	p.OpenReader(w.now, endpoint(qos.Set{}), true)
	received(t, w, p, stranger(1, nowhere, wire.Infinite))
	e := endpoint(qos.Set{})
	e.GUID = wire.GUID{Prefix: p.peers[0].Prefix, Entity: wire.Writer(1, true)}
	p.withWriter(p.peers[0], e)
	p.prove(p.peers[0], 0)
	rw := h.by[e.GUID]
	rw.heartbeat(&wire.Heartbeat{First: 1, Last: 5, Count: 2})
	rw.heartbeat(&wire.Heartbeat{First: 1, Last: 3, Count: 1})
	rw.heartbeat(&wire.Heartbeat{First: 1, Last: 3, Count: 2})
	if rw.last != 5 {
		t.Fatalf("the last sample is %d", rw.last)
	}
}

func TestAReaderCannotHaveWhatWasNotWritten(t *testing.T) {
	w, _, p := only(t)
	out := p.OpenWriter(w.now, endpoint(qos.Set{}), true)
	received(t, w, p, stranger(1, nowhere, wire.Infinite))
	e := endpoint(qos.Set{})
	e.GUID = wire.GUID{Prefix: p.peers[0].Prefix, Entity: wire.Reader(1, true)}
	p.withReader(p.peers[0], e)
	out.acknack(e.GUID, &wire.AckNack{Missing: wire.Numbers{Base: 1000}, Count: 1, Final: true})
	out.Write(Change{Payload: payload(1, 100)})
	if out.Acknowledged() {
		t.Fatal("RT3: a sample counts as acknowledged before it was written")
	}
}

// Addresses that several hosts share are not used for unicast (RT5).
func TestAddressesOfManyHostsAreNotUsed(t *testing.T) {
	for _, at := range []string{"239.255.0.1", "255.255.255.255", "0.0.0.0", "10.0.9.9"} {
		w, _, p := only(t)
		received(t, w, p, stranger(1, netip.AddrPortFrom(netip.MustParseAddr(at), 7410), wire.Infinite))
		if known := p.Peers() == 1; known != (at == "10.0.9.9") {
			t.Errorf("%s: known %v", at, known)
		}
	}
}

// A writer that the host refuses does not match; one that is refused after it matched matches no
// more.
func TestAWriterThatIsRefusedDoesNotMatch(t *testing.T) {
	w, h, p := only(t)
	p.cfg.Refuse = func(e *wire.Endpoint) (string, bool) { return "", e.Way != "" }
	p.OpenReader(w.now, endpoint(qos.Set{}), true)
	received(t, w, p, stranger(1, nowhere, wire.Infinite))
	o := p.peers[0]
	for _, c := range []struct {
		way  string
		want int
	}{{"a", 0}, {"", 1}, {"a", 0}} {
		e := endpoint(qos.Set{})
		e.GUID, e.Way = wire.GUID{Prefix: o.Prefix, Entity: wire.Writer(1, true)}, c.way
		p.discovered(p.publicationsOf, o, &Sample{Payload: e.Append(nil)})
		if h.matched != c.want {
			t.Fatalf("way %q: %d match", c.way, h.matched)
		}
	}
}

// A participant that is announced again has the lease that it says then.
func TestALeaseIsTheOneThatWasAnnouncedLast(t *testing.T) {
	w, _, p := only(t)
	for _, lease := range []time.Duration{time.Hour, time.Minute} {
		received(t, w, p, stranger(1, nowhere, lease))
		if o := p.peers[len(p.peers)-1]; o.Lease != lease {
			t.Errorf("its lease is %v, announced is %v", o.Lease, lease)
		}
	}
}

// The writers of a participant that says that it ends have ended.
func TestTheWritersOfAParticipantEndWithIt(t *testing.T) {
	w, h, rw, _ := injected(t, qos.Set{}, nil)
	if rw.Ended() {
		t.Fatal("a writer has ended that did not say so")
	}
	for _, o := range w.hosts {
		if o != h {
			o.p.Close(w.now)
		}
	}
	w.until("the writer is gone", time.Minute, func() bool { return h.matched == 0 })
	if !rw.Ended() {
		t.Error("a writer is gone, and its participant has said that it ends")
	}
}
