package ripc

import (
	"bytes"
	"errors"
	"net"
	"os"
	"sync"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/ripc/internal/pair"
)

// A receiver knows of the sending process what its certificate proves, or what the network or the
// kernel tells: with messages, requests, replies, long messages and streams.
func TestAReceiverKnowsWhichProcessSent(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		there := open(Config{})
		server, client := register(t, there, "server"), register(t, open(Config{}), "")
		check := func(what string, got Peer) {
			t.Helper()
			want := Peer{Addr: got.Addr, User: -1}
			switch {
			case there.cfg.TLS != nil:
				want.Identity = "CN=node"
			case there.cfg.Transport == TransportSHM:
				want = Peer{Process: os.Getpid(), User: os.Getuid()}
			}
			if host, _, err := net.SplitHostPort(got.Addr); got != want || (err == nil) != (there.cfg.Transport == TransportTCP) || host != "" && host != "127.0.0.1" {
				t.Errorf("%s: %+v", what, got)
			}
		}
		offers := make(chan Offer, 1)
		must(t, server.TakeLong(LongConfig{Allocate: func(o Offer) (*Window, error) {
			offers <- o
			return NewWindow(make([]byte, o.Size)), nil
		}}))
		var sending sync.WaitGroup
		defer sending.Wait()
		sending.Go(func() {
			to := client.To("server")
			if err := errors.Join(client.Send(ctx, to), client.SendLong(ctx, to, NewBody(make([]byte, 10000)))); err != nil {
				t.Error(err)
			}
			reply, err := client.Call(ctx, to)
			if err != nil {
				t.Error(err)
				return
			}
			check("reply", reply.Peer())
			reply.Release()
			c, err := client.Dial(ctx, "server")
			if err != nil {
				t.Error(err)
				return
			}
			check("server of a stream", c.Peer())
			c.Close()
		})
		l := Listen(server)
		for _, what := range []string{"message", "long message", "request"} {
			m, err := server.Receive(ctx)
			must(t, err)
			check(what, m.Peer())
			if m.Identity() != m.Peer().Identity {
				t.Error(what, m.Identity())
			}
			if m.IsRequest() {
				must(t, m.Reply())
			}
			m.Release()
		}
		check("offer", (<-offers).Peer)
		c, err := l.Accept()
		must(t, err)
		check("client of a stream", c.(*Stream).Peer())
		must(t, c.Close())
	})
}

// overTLS opens an endpoint with a certificate for a name.
func overTLS(t *testing.T, authority *testutil.Authority, name string, cfg Config) *Endpoint {
	cfg.Transport, cfg.Listen, cfg.TLS = TransportTCP, "127.0.0.1:0", authority.Named(name)
	return open(t, cfg)
}

// Whatever a process says and writes into its row, its messages come from the identity in its
// certificate, and it cannot bring long messages for another one.
func TestAnIdentityCannotBeForged(t *testing.T) {
	ctx := testutil.Within(t)
	authority := testutil.NewAuthority(t)
	there := overTLS(t, authority, "server", Config{})
	server := register(t, there, "server")
	alice := register(t, overTLS(t, authority, "alice", Config{}), "CN=alice")
	thief := overTLS(t, authority, "thief", Config{})
	bob := register(t, thief, "thief")
	for _, s := range []*Service{alice, bob} {
		must(t, s.Send(ctx, s.To("server")))
		m, err := server.Receive(ctx)
		must(t, err)
		if want := map[*Service]string{alice: "CN=alice", bob: "CN=thief"}[s]; m.Identity() != want {
			t.Errorf("%q, not %q", m.Identity(), want)
		}
		m.Release()
	}
	p := bob.To("server").route.Load().peer
	thief.lock()
	p.opened.out[40] = &thief.nowhere // the answer that it is open is for nobody, and no violation
	p.say(pair.Open, 40, 0, []byte(`{"from":"CN=alice","number":1,"to":"server","identity":"CN=alice","Identity":"CN=alice"}`))
	p.say(pair.Message, 40, 0, []byte("pay"))
	thief.unlock()
	m, err := server.Receive(ctx)
	must(t, err)
	if m.From() != "CN=alice" || m.Identity() != "CN=thief" || string(m.Data) != "pay" {
		t.Errorf("%q of %s comes from %q", m.Data, m.From(), m.Identity())
	}
	m.Release()

	// The token of another pair, which only its two processes know, would not help.
	there.lock()
	var tokens []string
	for token, p := range there.memory.byToken {
		if p.who.Identity == "CN=alice" {
			tokens = append(tokens, token)
		}
	}
	there.unlock()
	if len(tokens) != 1 {
		t.Fatalf("%d pairs of alice", len(tokens))
	}
	if conn, _, err := thief.greetTCP(ctx, there.Place(), tokens[0], ""); err == nil {
		conn.Close()
		t.Error("another process brings the long messages of a pair")
	}
	must(t, server.TakeLong(inLib))
	must(t, alice.SendLong(ctx, alice.To("server"), NewBody([]byte("long")))) // and her own connection is still wanted
	m, err = server.Receive(ctx)
	must(t, err)
	if m.Identity() != "CN=alice" || string(m.Body()) != "long" {
		t.Errorf("%q of %q", m.Body(), m.Identity())
	}
	m.Release()
}

// One identity, process or address has a part of the connections, and leaves the others to the
// rest.
func TestOneCallerHasAPartOfTheConnections(t *testing.T) {
	ctx := testutil.Within(t)
	authority := testutil.NewAuthority(t)
	there := overTLS(t, authority, "server", Config{MaxPeers: 4})
	register(t, there, "server")
	connect := func(name string) (*Endpoint, error) {
		e := overTLS(t, authority, name, Config{})
		return e, register(t, e, "").To("server").Connect(ctx)
	}
	var ends []*Endpoint
	for k := range 3 {
		e, err := connect("flood")
		if refused := k == 2; errors.Is(err, ErrRefused) != refused || err != nil && !refused {
			t.Errorf("connection %d: %v", k, err)
		}
		ends = append(ends, e)
	}
	if _, err := connect("client"); err != nil {
		t.Error(err)
	}
	must(t, ends[0].Close())
	for there.Peers() > 2 {
		if ctx.Err() != nil {
			t.Fatal("a connection that ended counts")
		}
		pause()
	}
	if _, err := connect("flood"); err != nil {
		t.Error(err)
	}
	there.lock()
	defer there.unlock()
	a := there.accounts.Find("identity CN=flood")
	if peers, called := a.Peers(); there.accounts.Len() != 2 || called != 2 || peers != 2 {
		t.Errorf("%+v of %d accounts", a, there.accounts.Len())
	}
}

// The bytes and windows that one sender may take are counted for its identity, not for each of its
// connections.
func TestTheLongMessagesOfOneSenderAreBounded(t *testing.T) {
	ctx := testutil.Within(t)
	authority := testutil.NewAuthority(t)
	for name, rules := range map[string]LongConfig{
		"bytes":   {MaxBytes: 4000, MaxPeerBytes: 1000},
		"windows": {MaxPeerWindows: 1},
	} {
		t.Run(name, func(t *testing.T) {
			send := func(name string) chan error {
				s := register(t, overTLS(t, authority, name, Config{}), "")
				sent := make(chan error, 1)
				go func() { sent <- s.SendLong(ctx, s.To("server"), NewBody(bytes.Repeat([]byte(name), 1000)[:1000])) }()
				return sent
			}
			there := overTLS(t, authority, "server", Config{})
			server := register(t, there, "server")
			if name == "windows" {
				must(t, server.Post(NewWindow(make([]byte, 1000)), NewWindow(make([]byte, 1000))))
			}
			must(t, server.TakeLong(rules))
			first := send("flood")
			m, err := server.Receive(ctx)
			must(t, err)
			must(t, <-first)
			second := send("flood") // over another connection
			for waits := 0; waits == 0; pause() {
				there.lock()
				waits = len(server.long.waiting)
				there.unlock()
				must(t, ctx.Err())
			}
			other := send("client")
			got, err := server.Receive(ctx)
			must(t, err)
			must(t, <-other)
			if got.Identity() != "CN=client" {
				t.Errorf("a message of %s beyond its limit", got.Identity())
			}
			m.Release()
			if name == "windows" {
				must(t, server.Post(NewWindow(make([]byte, 1000))))
			}
			m, err = server.Receive(ctx)
			must(t, err)
			must(t, <-second)
			m.Release()
			got.Release()
			there.lock()
			defer there.unlock()
			if i := &server.long.places; !i.IsIdle() {
				t.Errorf("bytes or windows are still counted: %+v", i)
			}
		})
	}
}

// Processes of one account take half of the places for greetings at most.
func TestOneCallerHasAPartOfTheGreetings(t *testing.T) {
	g := newGate(3)
	for k, want := range []bool{true, true, false} {
		if err := g.enter("a"); (err == nil) != want {
			t.Error(k, err)
		}
	}
	must(t, g.enter("b"))
	if err := g.enter("c"); !errors.Is(err, ErrLimit) {
		t.Error(err)
	}
	g.leave("a")
	must(t, g.enter("c"))
	g.leave("a")
	g.leave("b")
	g.leave("c")
	if g.inside != 0 || len(g.of) != 0 {
		t.Error(g.inside, g.of)
	}
}
