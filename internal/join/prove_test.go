package join

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/trust"
	"github.com/squall-go/squall/views"
)

// byHand is the identity of test code that speaks the protocol by hand.
var byHand = trust.NewIdentity()

// signed is a request of a process, whichever record it has.
func signed(t *testing.T, q Request, c Challenge, i *trust.Identity) Request {
	t.Helper()
	record := q.Member
	q.Member.PublicKey = i.PublicKey()
	k, err := keyWith(i, q.Cluster, nil, q.Member.Party(), trust.Party{PublicKey: c.PublicKey})
	if err != nil {
		t.Fatal(err)
	}
	q.Member = record
	return q.signed(k, c)
}

// answering is the conversation of a process that was called, played by hand.
func answering(p *process, conn net.Conn) (*conversation, Request, error) {
	c := p.Config
	c.silence = patience
	if err := c.prove(); err != nil {
		return nil, Request{}, err
	}
	talk := speak(conn, c.silence)
	q, err := newLimiter(c, 1).challenge(talk)
	return talk, q, err
}

// expectSilence waits until the other side hangs up, and fails if it says anything.
func expectSilence(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if n, err := conn.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("it is answered, or kept: %v", err)
	}
}

// J11: a member knows the record of every joiner that greets it, and everything else but its
// private key.
func TestJ11NobodyAsksInAnothersName(t *testing.T) {
	all := cluster(t, 2)
	g := formedOf(t, all)
	joiner := g.newcomer(9, 0)
	joining := joiner.start(within(t))
	candidate := g.candidates(1)[0]
	evil := trust.NewIdentity()
	greet, apply := Request{Verb: Greet, Cluster: "blue", Member: candidate}, Request{Cluster: "blue", Member: candidate, Declarations: all[0].Declarations}
	member := Request{Verb: Greet, Cluster: "blue", Member: g.view.Members[1]} // a process that greets as a member is told the view
	var recorded Request
	for name, say := range map[string]func(Challenge) Request{
		"a greeting":             func(c Challenge) Request { return signed(t, greet, c, evil) },
		"an application":         func(c Challenge) Request { return signed(t, apply, c, evil) },
		"a greeting of a member": func(c Challenge) Request { return signed(t, member, c, evil) },
		"without a MAC":          func(Challenge) Request { return apply },
		"recorded elsewhere": func(Challenge) Request {
			recorded = signed(t, apply, Challenge{g.view.Members[0].PublicKey, trust.NewNonce()}, evil)
			return recorded
		},
		"of a key that every process knows": func(c Challenge) Request {
			q := signed(t, apply, c, evil)
			q.Member.PublicKey = trust.PublicKey{}
			return q
		},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := port.Dial(within(t), g.all[0].Port.Addr(), port.KindControl, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			var c Challenge
			if err := wire.ReadMessage(conn, wire.MaxMessageBytes, &c); err != nil {
				t.Fatal(err)
			}
			if err := wire.WriteMessage(conn, say(c)); err != nil {
				t.Fatal(err)
			}
			expectSilence(t, conn)
			all[0].await("rejected", turnedAway(port.NotMember, trust.ErrUnproven))
		})
	}
	if c := g.doors[0].Candidates(); len(c) != 1 || c[0] != candidate {
		t.Errorf("the candidates are %v", c)
	}
	g.admit(g.candidates(1))
	for i := range all {
		if lost := g.installAt(i); len(lost) > 0 {
			t.Errorf("node %d has lost %v", i+1, lost)
		}
	}
	if got := get(t, joining); got.err != nil {
		t.Error(got.err)
	}
}

// J14: a process that knows no secret, or another one, and one that recorded a proof, gets a
// refusal without any word of the group.
func TestJ14OnlyAProcessThatProvesTheSecretIsAnswered(t *testing.T) {
	all := cluster(t, 2)
	secret := []byte("sixteen bytes or more")
	for _, p := range all {
		p.Shared = secret
	}
	g := formedOf(t, all)
	apply := Request{Cluster: "blue", Member: views.Member{ID: 9, Incarnation: 9, Addr: "127.0.0.1:9", PublicKey: byHand.PublicKey()}, Declarations: all[0].Declarations}
	proved := func(q Request, secret []byte, c Challenge) Request {
		k, err := keyWith(byHand, q.Cluster, secret, q.Member.Party(), trust.Party{PublicKey: c.PublicKey})
		if err != nil {
			t.Fatal(err)
		}
		q.Secured = len(secret) > 0
		return q.signed(k, c)
	}
	greet := apply
	greet.Verb = Greet
	for name, say := range map[string]func(Challenge) Request{
		"no secret":                func(c Challenge) Request { return proved(apply, nil, c) },
		"another secret":           func(c Challenge) Request { return proved(apply, []byte("another secret of 16 bytes"), c) },
		"a greeting":               func(c Challenge) Request { return proved(greet, nil, c) },
		"a proof that is recorded": func(c Challenge) Request { return proved(apply, secret, Challenge{c.PublicKey, trust.NewNonce()}) },
		"a proof of another record": func(c Challenge) Request {
			q := proved(apply, secret, c)
			q.Member.ID = 8
			return q
		},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := port.Dial(within(t), g.all[0].Port.Addr(), port.KindControl, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			var c Challenge
			var answer Message
			if err := wire.ReadMessage(conn, wire.MaxMessageBytes, &c); err != nil {
				t.Fatal(err)
			}
			if err := wire.WriteMessage(conn, say(c)); err != nil {
				t.Fatal(err)
			}
			if err := wire.ReadMessage(conn, wire.MaxMessageBytes, &answer); err != nil {
				t.Fatal(err)
			}
			if got, want := fmt.Sprintf("%+v", answer), fmt.Sprintf("%+v", Message{Verb: sayRefuse, Text: trust.ErrSecret.Error()}); got != want {
				t.Errorf("the answer is %s", got)
			}
			expectSilence(t, conn)
			all[0].await("rejected", turnedAway(port.NotMember, trust.ErrSecret))
		})
	}
	if c := g.doors[0].Candidates(); len(c) > 0 {
		t.Errorf("the candidates are %v", c)
	}
}

// J11: a process with the id and the incarnation of a joiner, and a key of its own, is another
// process: it ends nothing of the joiner.
func TestJ11AnotherKeyIsAnotherProcess(t *testing.T) {
	all := cluster(t, 2)
	g := formedOf(t, all)
	joining := g.newcomer(9, 0).start(within(t))
	candidate := g.candidates(1)[0]
	posing := candidate
	posing.PublicKey = byHand.PublicKey()
	h := dialByHand(t, all[0].Port.Addr())
	h.say(Request{Cluster: "blue", Member: posing, Declarations: all[0].Declarations})
	h.hear(sayWait)
	if c := g.doors[0].Candidates(); len(c) != 1 || c[0] != candidate {
		t.Errorf("the candidates are %v", c)
	}
	g.admit(g.candidates(1))
	for i := range all {
		g.installAt(i)
	}
	if got := get(t, joining); got.err != nil {
		t.Error(got.err)
	}
}

// J11: a stranger listens at a member's former address, and greets the joiner in its place.
func TestJ11NobodyGreetsForAMember(t *testing.T) {
	t.Parallel()
	all := cluster(t, 3)
	g := formedOf(t, all)
	g.doors[2].Close()
	imposter, called := cluster(t, 1)[0], make(chan struct{}, 100)
	imposter.Port = all[2].Port
	imposter.Port.Handle(port.KindControl, func(conn net.Conn) {
		defer conn.Close()
		if talk, _, err := answering(imposter, conn); err == nil {
			_ = talk.say(Message{Verb: sayGreeted})
		}
		called <- struct{}{}
	})
	ctx, cancel := context.WithCancel(within(t))
	joining := g.newcomer(order.NodeID(9), 0).start(ctx)
	for range 3 {
		get(t, called)
	}
	if c := g.doors[0].Candidates(); len(c) > 0 {
		t.Errorf("%v is a candidate, and one of the members did not greet it", c)
	}
	cancel()
	expectError(t, get(t, joining).err, context.Canceled)
}
