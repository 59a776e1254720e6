package squall_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/fabrictest"
	"github.com/squall-go/squall/internal/handshake"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/trust"
)

// besieged is a group of three over TCP that counts what it delivers and what its first member
// rejects.
type besieged struct {
	t         *testing.T
	groups    []*squall.Group
	delivered [3]atomic.Int64
	sent      int64
	mu        sync.Mutex
	rejected  map[string]int
}

func newBesieged(t *testing.T) *besieged {
	b := &besieged{t: t, rejected: map[string]int{}}
	b.groups = cluster(t, 3, func(i int, c *squall.Config) {
		c.Fabric = squall.FabricTCP
		c.Subgroups = []squall.SubgroupConfig{{Name: "a", Deliver: func(squall.Message) { b.delivered[i].Add(1) }}}
		if i == 0 {
			c.Events = b.event
		}
	})
	return b
}

func (b *besieged) event(e squall.Event) {
	if r, ok := e.(squall.ConnectionRejected); ok {
		b.mu.Lock()
		b.rejected[r.Reason]++
		b.mu.Unlock()
	}
}

func (b *besieged) count(r port.Reason) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rejected[r.String()]
}

// flow has every member send and all deliver.
func (b *besieged) flow() {
	b.t.Helper()
	const each = 50
	for _, g := range b.groups {
		for range each {
			if err := must(g.Subgroup("a")).Send(b.t.Context(), []byte("on and on")); err != nil {
				b.t.Fatal(err)
			}
		}
	}
	b.sent += 3 * each
	for i := range b.delivered {
		b.until("deliveries", func() bool { return b.delivered[i].Load() == b.sent })
	}
}

func (b *besieged) until(what string, holds func() bool) {
	b.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		for _, g := range b.groups {
			if err := g.Err(); err != nil {
				b.t.Fatalf("node %d halted: %v", g.ID(), err)
			}
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("not in time: %s", what)
		}
	}
}

func (b *besieged) dial() net.Conn {
	b.t.Helper()
	conn, err := net.Dial("tcp", b.groups[0].Addr())
	if err != nil {
		b.t.Fatal(err)
	}
	return conn
}

// knock says something and waits until the group hangs up.
func (b *besieged) knock(first []byte) {
	b.t.Helper()
	conn := b.dial()
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	conn.Write(first)
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		b.t.Errorf("%q was not hung up on", first)
	}
}

func preamble(version, kind byte) []byte { return append([]byte("SQUALL"), version, kind) }

// hello is the greeting of a member, as far as a stranger can know it, on a connection for rows.
func (b *besieged) hello(change func(*handshake.Hello)) []byte {
	v := b.groups[0].View()
	h := handshake.Hello{View: v.ID, Tag: v.Scope().Tag(), From: 1, To: 0, MAC: trust.NewNonce()}
	change(&h)
	return append(preamble(port.ProtocolVersion, byte(port.KindRows)), message(h)...)
}

// message is a value as it is sent.
func message(v any) []byte {
	var frame bytes.Buffer
	_ = wire.WriteMessage(&frame, v)
	return frame.Bytes()
}

func TestStrangersAtThePortDisturbNobody(t *testing.T) {
	before := fabrictest.Resources()
	t.Run("group", func(t *testing.T) {
		b := newBesieged(t)
		b.flow()
		for name, c := range map[string]struct {
			first  []byte
			reason port.Reason
		}{
			"garbage":         {bytes.Repeat([]byte{0xC7}, 4096), port.Garbage},
			"another program": {[]byte("GET / HTTP/1.1\r\n\r\n"), port.Garbage},
			"another version": {preamble(port.ProtocolVersion+1, byte(port.KindRows)), port.VersionDiffers},
			"an unknown kind": {preamble(port.ProtocolVersion, 200), port.UnknownKind},
		} {
			was := b.count(c.reason)
			b.knock(c.first)
			b.until("an event about "+name, func() bool { return b.count(c.reason) == was+1 })
			b.flow()
		}

		// These connections pass the preamble and wait for a view that no member opens, or send
		// nothing more: they cost a connection each.
		control := preamble(port.ProtocolVersion, byte(port.KindControl))
		var silent []net.Conn
		for _, first := range [][]byte{
			b.hello(func(h *handshake.Hello) { h.Tag = "" }),
			b.hello(func(h *handshake.Hello) { h.Tag = "guessed" }),
			b.hello(func(h *handshake.Hello) { h.From = 9 }),
			b.hello(func(h *handshake.Hello) { h.To = 2 }),
			b.hello(func(*handshake.Hello) {}), // everything right, but for the MAC
			b.hello(func(*handshake.Hello) {})[:20],
			append(bytes.Clone(control), 0xFF, 0xFF, 0xFF, 0x7F, 0, 0, 0, 0, 1),
			control[:5],
			nil,
		} {
			conn := b.dial()
			defer conn.Close()
			conn.Write(first)
			silent = append(silent, conn)
			b.flow()
		}
		crowd(b)
		b.flow()
		for _, conn := range silent {
			conn.Close()
		}
		b.flow()
		for _, g := range b.groups { // all at once: the last member would see the others leave
			if err := g.Err(); err != nil {
				t.Errorf("node %d: %v", g.ID(), err)
			}
		}
	})
	fabrictest.Settle(t, before)
}

// crowd opens 500 connections at once, of which some say something, and sends meanwhile. Each is
// one event at most.
func crowd(b *besieged) {
	const strangers = 500
	total := func() (n int) {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, k := range b.rejected {
			n += k
		}
		return n
	}
	was := total()
	var conns [strangers]net.Conn
	var dialing sync.WaitGroup
	for w := range 20 {
		dialing.Go(func() {
			for i := w; i < strangers; i += 20 {
				conn, err := net.Dial("tcp", b.groups[0].Addr())
				if err != nil {
					continue // the system's queue of connections is full: no member has seen this connection
				}
				conns[i] = conn
				switch i % 4 {
				case 0:
					conn.Write([]byte("garbage!garbage!"))
				case 1:
					conn.Write(b.hello(func(h *handshake.Hello) { h.Tag = fmt.Sprint(i) }))
				}
			}
		})
	}
	b.flow()
	dialing.Wait()
	b.flow()
	for _, conn := range conns {
		if conn != nil {
			conn.Close()
		}
	}
	b.until("events about the crowd", func() bool { return total() > was })
	if n := total() - was; n > strangers {
		b.t.Errorf("%d connections made %d events", strangers, n)
	}
}

// While a group forms, a process that does not know the view's key claims to be the member that all
// others wait for, and uses up the room for connections. The group forms with the real member.
func TestAnImpostorDoesNotGetAMembersPlace(t *testing.T) {
	first := testutil.FreeAddress(t)
	stop := make(chan struct{})
	var impostors sync.WaitGroup
	tried := atomic.Int64{}
	for k := range 3 {
		impostors.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				conn, err := net.Dial("tcp", first)
				if err != nil {
					time.Sleep(time.Millisecond) // the first member does not listen yet
					continue
				}
				defer conn.Close()
				if tried.Add(1) > 1200 {
					return
				}
				hello := handshake.Hello{View: 1, Tag: []string{"", "guess", "tag"}[k], From: 1, To: 0}
				conn.Write(append(preamble(port.ProtocolVersion, byte(port.KindRows)), message(hello)...))
			}
		})
	}
	defer impostors.Wait()
	defer close(stop)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	delivered := make(chan string, 4)
	groups, errs := make([]*squall.Group, 2), make([]error, 2)
	var opening sync.WaitGroup
	for i := range groups {
		cfg := squall.Config{
			Cluster: t.Name(), ID: squall.NodeID(i + 1), Listen: first, InitialMembers: 2, Logger: quiet, Fabric: squall.FabricTCP,
			Subgroups: []squall.SubgroupConfig{{Name: "a", Deliver: func(m squall.Message) { delivered <- string(m.Data) }}},
		}
		if i > 0 {
			cfg.Listen, cfg.Join = "127.0.0.1:0", []string{first}
			for deadline := time.Now().Add(10 * time.Second); tried.Load() < 300 && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond) // the impostors come first, more than twice as many as the first member has seats
			}
		}
		opening.Go(func() { groups[i], errs[i] = squall.Open(ctx, cfg) })
	}
	opening.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("node %d: %v", i+1, err)
		}
		defer groups[i].Close(ctx)
	}
	if groups[0].Stats().RejectedConnections == 0 {
		t.Error("no impostor was rejected")
	}
	for _, g := range groups {
		if err := must(g.Subgroup("a")).Send(ctx, []byte("it is me")); err != nil {
			t.Fatal(err)
		}
	}
	for range 4 {
		select {
		case m := <-delivered:
			if m != "it is me" {
				t.Errorf("delivered %q", m)
			}
		case <-ctx.Done():
			t.Fatal("nothing is delivered")
		}
	}
}
