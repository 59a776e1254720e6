package rtps_test

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/cdr"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/dds/rtps"
	"github.com/squall-go/squall/dds/rtps/internal/protocol"
	"github.com/squall-go/squall/dds/rtps/internal/wire"
	"github.com/squall-go/squall/internal/testutil"
)

// guest is a participant of DDS in this process, over UDP.
type guest struct {
	mu      sync.Mutex
	machine *protocol.Participant
	conn    *net.UDPConn
	begun   time.Time
	got     []protocol.Sample                // of all readers
	last    map[*protocol.RemoteWriter]int64 // numbers of the samples that are to be acknowledged
	done    chan struct{}
	running sync.WaitGroup
}

func (g *guest) now() int64 { return int64(time.Since(g.begun)) + 1 }

func (g *guest) Send(to wire.Locator, message []byte) {
	_, _ = g.conn.WriteToUDPAddrPort(message, to) // a reliable writer sends lost messages again
}
func (g *guest) Sample(_ *protocol.Reader, w *protocol.RemoteWriter, s protocol.Sample) bool {
	g.got = append(g.got, s)
	g.last[w] = s.Sequence
	return true
}
func (g *guest) WriterMatched(*protocol.Reader, *protocol.RemoteWriter)    {}
func (g *guest) WriterGone(_ *protocol.Reader, w *protocol.RemoteWriter)   { delete(g.last, w) }
func (g *guest) ReaderMatched(*protocol.Writer, wire.Endpoint)             {}
func (g *guest) ReaderGone(*protocol.Writer, wire.Endpoint)                {}
func (g *guest) ReaderSilent(*protocol.Writer, wire.Endpoint)              {}
func (g *guest) Incompatible(_, _ wire.Endpoint, _ string, _ []qos.Policy) {}
func (g *guest) Room(*protocol.Writer)                                     {}

// newGuest returns a participant that announces itself to gateways.
func newGuest(t *testing.T, prefix wire.Prefix, domain int, to ...*rtps.Gateway) *guest {
	t.Helper()
	return newGuestAt(t, "127.0.0.1:0", protocol.Config{Prefix: prefix, Domain: int32(domain)}, to...)
}

func newGuestAt(t *testing.T, addr string, cfg protocol.Config, to ...*rtps.Gateway) *guest {
	t.Helper()
	conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(addr)))
	if err != nil {
		t.Fatal(err)
	}
	g := &guest{conn: conn, begun: time.Now(), done: make(chan struct{}), last: map[*protocol.RemoteWriter]int64{}}
	at := []wire.Locator{conn.LocalAddr().(*net.UDPAddr).AddrPort()}
	var announce []wire.Locator
	for _, gw := range to {
		announce = append(announce, netip.MustParseAddrPort(gw.Addr()))
	}
	cfg.Metatraffic, cfg.Default, cfg.Announce = at, at, announce
	g.machine = protocol.New(cfg, g, g.now())
	g.running.Go(func() {
		buf := make([]byte, 1<<16)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			g.with(func() {
				_ = g.machine.Receive(g.now(), netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), append([]byte(nil), buf[:n]...))
			})
		}
	})
	g.running.Go(func() {
		for {
			select {
			case <-g.done:
				return
			case <-time.After(2 * time.Millisecond):
				g.with(func() { g.machine.Tick(g.now()) })
			}
		}
	})
	return g
}

// with calls f with the lock, acknowledges the samples that came, and sends what was put together.
func (g *guest) with(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
	for w, last := range g.last {
		w.Acknowledge(g.now(), last)
	}
	clear(g.last)
	g.machine.Flush()
}

// end stops the participant, which says that it ends.
func (g *guest) end() {
	g.with(func() { g.machine.Close(g.now()) })
	g.kill()
}

// kill stops the participant, which says nothing.
func (g *guest) kill() {
	close(g.done)
	g.conn.Close()
	g.running.Wait()
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("this does not happen: " + what)
		}
	}
}

// A DDS writer ends, and starts again with its GUID and with numbers from 1, at two gateways of a
// space: what is acknowledged is in the order (RG1), once, also when the second gateway goes on
// (RG2).
func TestAWriterThatStartsAgainWithItsGUIDLosesNothing(t *testing.T) {
	const each = 5
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, domain := space(t, nil), newDomain()
	codec, err := cdr.New[keyedSeq]()
	if err != nil {
		t.Fatal(err)
	}
	r := readerOf(t, keyed(t, p, "positions", dds.QoS{}), dds.QoS{History: qos.KeepAll()})
	topic := rtps.Topic{Name: "positions", Direction: rtps.In}
	first := namedGateway(t, p, domain, "s", topic)
	await(t, "the first gateway is appointed", func() bool { return first.Stats().Active })
	second := namedGateway(t, p, domain, "s", topic)
	gateways := []*rtps.Gateway{first, second}
	for run := range uint32(3) {
		if run == 2 { // the second gateway carries
			closeGateway(t, first)
			gateways = gateways[1:]
			await(t, "the second gateway is appointed", func() bool { return second.Stats().Active })
		}
		program := newGuest(t, wire.Prefix{9, 9, 9, 9}, domain, gateways...)
		var w *protocol.Writer
		program.with(func() {
			w = program.machine.OpenWriter(program.now(), wire.Endpoint{Topic: "positions", Type: "KeyedSeq"}, true)
		})
		check := func(what string, f func() bool) {
			t.Helper()
			await(t, what, func() (ok bool) { program.with(func() { ok = f() }); return ok })
		}
		check("the gateways match", func() bool { return w.Readers() == len(gateways) })
		for i := range uint32(each) {
			payload, err := codec.Append(nil, &keyedSeq{Keyval: 1, Seq: 100*run + i}, cdr.XCDR1)
			if err != nil {
				t.Fatal(err)
			}
			program.with(func() { w.Write(protocol.Change{Source: time.Now().UnixNano(), Payload: payload}) })
		}
		check("all samples are acknowledged", w.Acknowledged)
		for i := range uint32(each) {
			for {
				s, err := r.Next(ctx)
				if err != nil {
					t.Fatalf("RG1: run %d: sample %d is acknowledged, and does not come: %v", run, 100*run+i, err)
				}
				if !s.Info.Valid { // the end of the run before
					continue
				}
				if s.Value.Seq != 100*run+i {
					t.Fatalf("RG1: run %d: sample %d comes instead of %d", run, s.Value.Seq, 100*run+i)
				}
				break
			}
		}
		program.end()
		await(t, "the writer is gone", func() bool {
			n := 0
			for _, g := range gateways {
				n += g.Stats().Writers
			}
			return n == 0
		})
	}
	if s := second.Stats(); s.Duplicates > 0 {
		t.Fatalf("%+v", s)
	}
}

// A DDS writer is killed, and starts again with its GUID and with numbers from 1: at once and at
// the same address, so that the gateway does not know, or elsewhere and after its lease. What is
// acknowledged is in the order (RG1), once (RG2).
func TestAWriterThatIsKilledAndStartsAgainLosesNothing(t *testing.T) {
	testutil.Long(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, domain := space(t, nil), newDomain()
	codec, err := cdr.New[keyedSeq]()
	if err != nil {
		t.Fatal(err)
	}
	r := readerOf(t, keyed(t, p, "positions", dds.QoS{}), dds.QoS{History: qos.KeepAll()})
	gateway := namedGateway(t, p, domain, "s", rtps.Topic{Name: "positions", Direction: rtps.In})
	at := "127.0.0.1:0"
	for run := range uint32(3) {
		program := newGuestAt(t, at, protocol.Config{Prefix: wire.Prefix{9, 9, 9, 9}, Domain: int32(domain), Lease: time.Second}, gateway)
		var w *protocol.Writer
		program.with(func() {
			w = program.machine.OpenWriter(program.now(), wire.Endpoint{Topic: "positions", Type: "KeyedSeq"}, true)
		})
		check := func(what string, f func() bool) {
			t.Helper()
			await(t, what, func() (ok bool) { program.with(func() { ok = f() }); return ok })
		}
		check("the gateway matches", func() bool { return w.Readers() == 1 })
		each := 5 - run // fewer than the one before: that is how a gateway finds out
		for i := range each {
			payload, err := codec.Append(nil, &keyedSeq{Keyval: 1, Seq: 100*run + i}, cdr.XCDR1)
			if err != nil {
				t.Fatal(err)
			}
			program.with(func() { w.Write(protocol.Change{Source: time.Now().UnixNano(), Payload: payload}) })
		}
		check("all samples are acknowledged", w.Acknowledged)
		for i := range each {
			for {
				s, err := r.Next(ctx)
				if err != nil {
					t.Fatalf("RG1: run %d: sample %d is acknowledged, and does not come: %v", run, 100*run+i, err)
				}
				if !s.Info.Valid { // the end of the run before
					continue
				}
				if s.Value.Seq != 100*run+i {
					t.Fatalf("RG1: run %d: sample %d comes instead of %d", run, s.Value.Seq, 100*run+i)
				}
				break
			}
		}
		program.kill()
		if at = program.conn.LocalAddr().String(); run == 1 {
			at = "127.0.0.1:0"
			await(t, "the lease ends", func() bool { return gateway.Stats().Writers == 0 })
		}
	}
	if s := gateway.Stats(); s.Duplicates > 0 {
		t.Fatalf("%+v", s)
	}
}
