package squall_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/handshake"
	joining "github.com/squall-go/squall/internal/join"
	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/trust"
	"github.com/squall-go/squall/views"
)

// insider is a member of a group that does what it can to the others: it has the view, the keys, a
// private key of its own, and a valid certificate.
type insider struct {
	t   *testing.T
	g   *squall.Group
	tls *tls.Config
	shm bool // rows are in shared memory
}

func (e *insider) self(v *views.View) order.Rank {
	r, _ := v.RankOf(e.g.ID())
	return r
}

// hello is a greeting for rows in the name of a rank, authenticated as well as the insider can.
func (e *insider) hello(v *views.View, as, to order.Rank, c handshake.Challenge) handshake.Hello {
	e.t.Helper()
	layout, err := member.NewLayout(v)
	if err != nil {
		e.t.Fatal(err)
	}
	spec := fabric.Spec{Scope: v.Scope(), Identity: e.g.Identity(), Self: e.self(v)}
	for r, m := range v.Members {
		spec.Peers = append(spec.Peers, fabric.Peer{ID: m.ID, Incarnation: m.Incarnation, PublicKey: m.PublicKey, Shape: layout.Shape(order.Rank(r))})
	}
	h, err := handshake.NewHello(&spec, to, c)
	if err != nil {
		e.t.Fatal(err)
	}
	h.From, h.Shape = as, layout.Shape(as)
	return h
}

// dial calls a member, and reads its challenge.
func (e *insider) dial(addr string, kind port.Kind, challenge any) net.Conn {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), 20*time.Second)
	defer cancel()
	conn, err := port.Dial(ctx, addr, kind, e.tls)
	if err == nil {
		conn.SetDeadline(time.Now().Add(20 * time.Second))
		err = wire.ReadMessage(conn, wire.MaxMessageBytes, challenge)
	}
	if err != nil {
		e.t.Fatalf("calling %s for %v: %v", addr, kind, err)
	}
	e.t.Cleanup(func() { conn.Close() })
	return conn
}

// unheard says a message, and checks that nothing is answered.
func (e *insider) unheard(what string, conn net.Conn, say any) {
	e.t.Helper()
	defer conn.Close()
	if err := wire.WriteMessage(conn, say); err != nil {
		e.t.Errorf("%s: %v", what, err)
		return
	}
	if n, err := conn.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		e.t.Errorf("%s: it was answered, or kept: %v", what, err)
	}
}

// poseShared is pose for the row of a member in shared memory: no descriptor is given away.
func (e *insider) poseShared(what string, v *views.View, as, to order.Rank) {
	e.t.Helper()
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: "@" + v.Members[to].SHM, Net: "unixpacket"})
	if err != nil {
		e.t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	packet, rights := make([]byte, 4096), make([]byte, 1024)
	n, err := conn.Read(packet)
	var c handshake.Challenge
	if err == nil {
		err = json.Unmarshal(packet[:n], &c)
	}
	if err != nil {
		e.t.Fatal(err)
	}
	said, _ := json.Marshal(e.hello(v, as, to, c))
	if _, err := conn.Write(said); err != nil {
		e.t.Fatal(err)
	}
	n, oob, _, _, err := conn.ReadMsgUnix(packet, rights)
	if n > 0 || oob > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		e.t.Errorf("shared row %s: %d bytes and %d of descriptors, %v", what, n, oob, err)
	}
}

// stateRequest is the message of a fresh member that wants a state.
type stateRequest struct {
	View     order.ViewID `json:"view"`
	Subgroup int          `json:"subgroup"`
	Node     order.NodeID `json:"node"`
	Done     bool         `json:"done,omitempty"`
	Nonce    trust.Nonce  `json:"nonce"`
	MAC      trust.MAC    `json:"mac"`
}

// pose tries everything that is authenticated at one member, in the name of another one.
func (e *insider) pose(v *views.View, as, to order.Rank) {
	e.t.Helper()
	victim, other, own := v.Members[to], v.Members[as], v.Members[e.self(v)]
	what := fmt.Sprintf("as rank %d to rank %d", as, to)

	var c handshake.Challenge
	if e.shm {
		e.poseShared(what, v, as, to)
	} else {
		conn := e.dial(victim.Addr, port.KindRows, &c)
		e.unheard("rows "+what, conn, e.hello(v, as, to, c))
	}

	for _, verb := range []joining.Verb{joining.Greet, joining.Apply} {
		var c joining.Challenge
		conn := e.dial(victim.Addr, port.KindControl, &c)
		q := joining.Request{Verb: verb, Cluster: v.Cluster, Member: own}
		q, err := q.Sign(e.g.Identity(), c)
		if err != nil {
			e.t.Fatal(err)
		}
		q.Member = other
		e.unheard(fmt.Sprintf("%q %s", verb, what), conn, q)
	}

	for _, done := range []bool{false, true} {
		var c struct {
			Nonce trust.Nonce `json:"nonce"`
		}
		conn := e.dial(victim.Addr, port.KindState, &c)
		k, err := e.g.Identity().Key(trust.State, v.Scope(), own.Party(), victim.Party())
		if err != nil {
			e.t.Fatal(err)
		}
		q := stateRequest{View: v.ID, Node: other.ID, Done: done, Nonce: trust.NewNonce()}
		q.MAC = k.MAC(trust.Dialer, c, q)
		var answer struct{ Later, Refused string }
		if err := errors.Join(wire.WriteMessage(conn, q), wire.ReadMessage(conn, wire.MaxMessageBytes, &answer)); err != nil || answer.Later+answer.Refused == "" {
			e.t.Errorf("state %s: %+v, %v", what, answer, err)
		}
		conn.Close()
	}

	var b struct {
		Key   trust.PublicKey `json:"key"`
		Nonce trust.Nonce     `json:"nonce"`
	}
	conn := e.dial(victim.Addr, port.KindBlocks, &b)
	greeting := map[string]any{"from": other.ID, "to": victim.ID, "session": "s", "key": other.PublicKey, "nonce": trust.NewNonce(), "mac": trust.NewNonce()}
	e.unheard("blocks "+what, conn, greeting)
}

// otherCertificate greets the members of lower rank as itself, with its own key: once with its own
// certificate, which is answered, and once with another one of the same authority, which is not
// (T4).
func (e *insider) otherCertificate(v *views.View, other *tls.Config) {
	e.t.Helper()
	self := e.self(v)
	for to := range self {
		var c handshake.Challenge
		conn := e.dial(v.Members[to].Addr, port.KindRows, &c)
		var w handshake.Welcome
		if err := errors.Join(wire.WriteMessage(conn, e.hello(v, self, to, c)), wire.ReadMessage(conn, wire.MaxMessageBytes, &w)); err != nil || w.Refused == "" {
			e.t.Errorf("rows of rank %d, with its own certificate: %+v, %v", to, w, err)
		}
		conn.Close()

		thief := *e
		thief.tls = other
		conn = thief.dial(v.Members[to].Addr, port.KindRows, &c)
		thief.unheard(fmt.Sprintf("rows of rank %d, with another certificate", to), conn, thief.hello(v, self, to, c))
	}
}

// crowd calls a member many times in the name of another one, and hangs up later.
func (e *insider) crowd(v *views.View, as, to order.Rank) {
	calls := 200
	if e.tls != nil { // handshakes cost both sides
		calls = 40
	}
	body, _ := json.Marshal(e.hello(v, as, to, handshake.Challenge{}))
	var calling sync.WaitGroup
	for range 8 {
		calling.Go(func() {
			for range calls / 8 {
				conn, err := port.Dial(e.t.Context(), v.Members[to].Addr, port.KindRows, e.tls)
				if err != nil {
					continue
				}
				_ = wire.WriteMessage(conn, json.RawMessage(body))
				defer conn.Close()
			}
		})
	}
	calling.Wait()
}

// TestAHostileMemberTakesNothingFromTheOthers has a member of a group call the others in each
// other's names, while they send, and while the membership changes under it.
func TestAHostileMemberTakesNothingFromTheOthers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fabric squall.Fabric
		secure bool
	}{"shm": {squall.FabricSHM, false}, "tcp": {squall.FabricTCP, false}, "tls": {squall.FabricTCP, true}} {
		if testing.Short() && name == "tcp" {
			continue // all of it is in tls
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hostileMember(t, c.fabric, c.secure)
		})
	}
}

func hostileMember(t *testing.T, mode squall.Fabric, secure bool) {
	const n = 4
	var delivered [n + 1]atomic.Int64
	var down atomic.Int64
	configs := make([]*tls.Config, n+1)
	var ca *testutil.Authority
	if secure {
		ca = testutil.NewAuthority(t)
		for i := range configs {
			configs[i] = ca.TLS()
		}
	}
	configure := func(i int, c *squall.Config) {
		c.Fabric, c.TLS = mode, configs[i]
		c.Subgroups = []squall.SubgroupConfig{{Name: "a", MaxMessageBytes: 1 << 20, RingBytes: 64 << 10, Deliver: func(squall.Message) { delivered[i].Add(1) }}}
		c.Events = func(e squall.Event) {
			if _, is := e.(squall.MemberDown); is {
				down.Add(1)
			}
		}
	}
	groups := cluster(t, n, configure)
	sent := int64(0)
	flow := func() {
		t.Helper()
		for _, g := range groups {
			for k := range 20 {
				if err := must(g.Subgroup("a")).Send(t.Context(), make([]byte, 10+k%2*100_000)); err != nil {
					t.Fatal(err)
				}
			}
		}
		sent += int64(20 * len(groups))
		for i := range n {
			eventually(t, "deliveries", func() bool { return delivered[i].Load() == sent })
		}
	}
	flow()
	evil := &insider{t, groups[n-1], configs[n-1], mode == squall.FabricSHM}
	v := evil.g.View()
	var others []order.Rank
	for r := range order.Rank(n) {
		if r != evil.self(v) {
			others = append(others, r)
		}
	}
	var posing sync.WaitGroup // most of its time it waits until it is hung up on
	for _, to := range others {
		for _, as := range others {
			if as != to {
				posing.Go(func() {
					t.Run(fmt.Sprintf("as %d to %d", as, to), func(t *testing.T) {
						(&insider{t, evil.g, evil.tls, evil.shm}).pose(v, as, to)
					})
				})
			}
		}
	}
	posing.Wait()
	if secure {
		for i, g := range groups {
			if r, _ := v.RankOf(g.ID()); int(r) == n-1 { // it calls all others
				(&insider{t, g, configs[i], false}).otherCertificate(v, ca.TLS())
			}
		}
	}
	evil.crowd(v, others[2], others[0])
	flow()

	// The members connect once more for the next view, and the insider calls in their names as soon
	// as it knows it.
	calling := make(chan struct{})
	go func() {
		defer close(calling)
		for next := range evil.g.Views(t.Context()) {
			if next.ID == v.ID {
				continue
			}
			evil.crowd(next, others[2], others[0])
			evil.crowd(next, others[1], others[0])
			return
		}
	}()
	cfg := squall.Config{Cluster: t.Name(), ID: n + 1, Listen: "127.0.0.1:0", InitialMembers: n, Logger: quiet, Join: []string{groups[0].Addr()}}
	configure(n, &cfg)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	late, err := squall.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	groups = append(groups, late)
	defer closeAll(late)
	<-calling
	flow()
	for _, g := range groups {
		if err := g.Err(); err != nil || g.View().ID != v.ID+1 || len(g.View().Members) != n+1 {
			t.Errorf("node %d: view %d with %d members, %v", g.ID(), g.View().ID, len(g.View().Members), err)
		}
	}
	if down.Load() > 0 {
		t.Errorf("%d members were suspected", down.Load())
	}
	if groups[0].Stats().RejectedConnections == 0 {
		t.Error("nothing was rejected")
	}
}
