package ripc

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/ripc/internal/pair"
)

// overwrite has the only peer of an endpoint do what a hostile process can do: it changes each
// place of its own row that holds some bytes, and pushes the change.
func overwrite(t *testing.T, e *Endpoint, what, with []byte) {
	t.Helper()
	e.lock()
	defer e.unlock()
	p, changed := e.peers[0], 0
	for at := bytes.Index(p.line.own, what); at >= 0; at = bytes.Index(p.line.own, what) {
		copy(p.line.own[at:], with)
		changed++
		if !p.direct {
			p.line.link.Push(at, len(with))
			p.flush()
		}
	}
	if changed == 0 {
		t.Fatalf("the row has no %.20q", what)
	}
}

// A message that was received over a socket does not change until it is released: a peer that
// writes to it loses its connection (RP18).
func TestAPeerThatChangesWhatItSentOverASocketIsLost(t *testing.T) {
	for _, name := range []string{"tcp", "tls"} {
		t.Run(name, func(t *testing.T) {
			ctx := testutil.Within(t)
			there, here := Config{Transport: TransportTCP, Listen: "127.0.0.1:0"}, Config{Transport: TransportTCP, Listen: "127.0.0.1:0"}
			if name == "tls" {
				certificates := testutil.NewAuthority(t).TLS()
				there.TLS, here.TLS = certificates, certificates
			}
			lost := make(chan error, 1)
			there.Events = func(e Event) {
				if e, ok := e.(PeerLost); ok {
					lost <- e.Err
				}
			}
			server, client := register(t, open(t, there), "server"), register(t, open(t, here), "client")
			text := bytes.Repeat([]byte("A"), 1000)
			must(t, client.Send(ctx, client.To("server"), text))
			m, err := server.Receive(ctx)
			must(t, err)
			defer m.Release()
			overwrite(t, client.e, text, bytes.Repeat([]byte("B"), len(text)))
			select {
			case cause := <-lost:
				if !errors.Is(cause, fabric.ErrViolation) {
					t.Error(cause)
				}
			case <-ctx.Done():
				t.Fatal("the connection stands")
			}
			if !bytes.Equal(m.Data, text) {
				t.Errorf("the message has changed at byte %d", bytes.IndexByte(m.Data, 'B'))
			}
		})
	}
}

// What a service gets that copies messages does not change, whatever the peer does with its memory:
// messages, requests in a batch, replies and notices.
func TestWhatIsCopiedDoesNotChange(t *testing.T) {
	ctx := testutil.Within(t)
	before, after := bytes.Repeat([]byte("before"), 50), bytes.Repeat([]byte("after!"), 50)
	server := register(t, open(t, Config{Transport: TransportSHM}), "server")
	server.CopyMessages()
	client := register(t, open(t, Config{Transport: TransportSHM}), "client")
	to := client.To("server")

	must(t, client.Send(ctx, to, before))
	m, err := server.Receive(ctx)
	must(t, err)
	overwrite(t, client.e, before, after)
	if !bytes.Equal(m.Data, before) {
		t.Errorf("a message: %.20q", m.Data)
	}
	m.Release()

	notices := make(chan []byte)
	overwritten := make(chan struct{})
	server.OnNotify(func(_ ID, _ uint64, data []byte) {
		notices <- nil
		<-overwritten
		notices <- bytes.Clone(data)
	})
	must(t, client.Notify(ctx, to, 1, before))
	<-notices
	overwrite(t, client.e, before, after)
	close(overwritten)
	if data := <-notices; !bytes.Equal(data, before) {
		t.Errorf("a notice: %.20q", data)
	}

	client.CopyMessages()
	served, stop := context.WithCancel(ctx)
	var serving sync.WaitGroup
	defer serving.Wait()
	defer stop()
	var turn sync.Mutex
	old, changed := before, after
	for range 3 { // a batch, or some of them
		must(t, client.Send(ctx, to, before))
	}
	serving.Go(func() {
		server.Serve(served, func(_ context.Context, m *Message) {
			if m.IsRequest() {
				m.Reply(before)
				return
			}
			turn.Lock()
			defer turn.Unlock()
			got := bytes.Clone(m.Data)
			overwrite(t, client.e, old, changed)
			if old, changed = changed, old; !bytes.Equal(m.Data, got) {
				t.Errorf("a message of a batch: %.20q, then %.20q", got, m.Data)
			}
		})
	})
	reply, err := client.Call(ctx, to)
	must(t, err)
	overwrite(t, server.e, before, after)
	if !bytes.Equal(reply.Data, before) {
		t.Errorf("a reply: %.20q", reply.Data)
	}
	reply.Release()
}

// Copies use memory again, and a copied message that is kept does not block the ring of its pair.
func TestCopiedMessagesThatAreKeptLeaveTheRing(t *testing.T) {
	ctx := testutil.Within(t)
	server := register(t, open(t, Config{Transport: TransportSHM}), "server")
	server.CopyMessages()
	client := register(t, open(t, Config{Transport: TransportSHM}), "client")
	echo := register(t, client.e, "echo")
	to := client.To("server")
	body := make([]byte, 1000)
	var kept []Message
	for range 4 {
		must(t, client.Send(ctx, to, body))
		m, err := server.Receive(ctx)
		must(t, err)
		kept = append(kept, m)
	}
	must(t, echo.Send(ctx, echo.To("server"), body))
	last, err := server.Receive(ctx)
	must(t, err)
	last.Release()
	server.e.lock()
	held := server.e.peers[0].rx.Held()
	server.e.unlock()
	if held != 0 {
		t.Errorf("%d bytes of the ring are in use for messages that were copied", held)
	}
	for i := range kept {
		kept[i].Release()
	}
	if raceEnabled {
		return
	}
	if n := testing.AllocsPerRun(200, func() {
		must(t, client.Send(ctx, to, body))
		m, err := server.Receive(ctx)
		must(t, err)
		m.Release()
	}); n > 0 {
		t.Errorf("%v allocations for a copied message", n)
	}
}

// A process of this host that changes the text of an opening while it is read does no harm:
// encoding/json panics where text changes under it.
func TestAnOpeningThatChangesWhileItIsReadIsHarmless(t *testing.T) {
	ctx := testutil.Within(t)
	victim := register(t, open(t, Config{Transport: TransportSHM}), "victim")
	serving, stop := context.WithCancel(ctx)
	var receiving sync.WaitGroup
	defer receiving.Wait()
	defer stop()
	receiving.Go(func() { victim.Serve(serving, func(context.Context, *Message) {}) })
	for range 40 {
		e, err := Open(ctx, Config{Transport: TransportSHM, Resolver: victim.e.cfg.Resolver})
		must(t, err)
		s, err := e.Register(ctx, "")
		must(t, err)
		must(t, s.To("victim").Connect(ctx))
		e.lock()
		p := e.peers[0]
		p.line.release = func() error { return nil } // the hostile goroutine may write once more
		e.unlock()
		for range 4 {
			if !openHostile(t, p) {
				break
			}
		}
		must(t, e.Close())
	}
}

// openHostile opens a channel to a service that does not exist, and changes the text until it is
// answered or the peer is lost.
func openHostile(t *testing.T, p *peer) bool {
	const prefix, suffix = `{"x":"`, `","from":"a","number":1,"to":"nobody"}`
	text := []byte(prefix + string(bytes.Repeat([]byte{'a'}, 7000)) + suffix)
	ring := p.line.own[pair.ControlBytes:]
	e := p.e
	e.lock()
	channel, ok := p.opened.states.Open()
	if ok = ok && !p.ended(); ok {
		p.opened.out[channel] = newRemote(&Service{e: e}, "nobody")
	}
	e.unlock()
	if !ok {
		return false
	}
	p.send.mu.Lock()
	_, sent := p.send.tx.Total()
	at := int(sent) & (len(ring) - 1)
	if at+pair.HeaderBytes+len(text) > len(ring) {
		at = 0
	}
	target := (*uint32)(unsafe.Pointer(&ring[(at+pair.HeaderBytes+len(prefix)+3500)&^3]))
	four := func(s string) uint32 { return *(*uint32)(unsafe.Pointer(unsafe.StringData(s))) }
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() {
			for range 50 {
				atomic.StoreUint32(target, four(`aa"a`))
				atomic.StoreUint32(target, four(`aaaa`))
			}
		}
	}()
	status := p.send.tx.Put(pair.Open, channel, 0, [][]byte{text})
	p.line.ring()
	p.send.mu.Unlock()
	if status == pair.Accepted {
		eventually(t, e, "the opening is not answered", func() bool { return p.ended() || p.opened.out[channel] == nil })
	}
	stop.Store(true)
	<-done
	return true
}
