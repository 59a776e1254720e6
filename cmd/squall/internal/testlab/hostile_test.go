//go:build system

package testlab

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/join"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/trust"
	"github.com/squall-go/squall/views"
)

// stranger talks to a member by hand.
type stranger struct {
	t    *testing.T
	conn *wire.Conn
}

// said is what matters of a message.
type said struct {
	Verb string `json:"verb"`
	Text string `json:"text"`
}

// stranded is the key pair of all strangers.
var stranded = trust.NewIdentity()

// record is a process that listens, and says that it is whatever process is asked for.
func record(t *testing.T, lab *Cluster, id squall.NodeID) views.Member {
	t.Helper()
	listener, err := port.Open(t.Context(), port.Config{Addr: "127.0.0.1:0"})
	lab.must(err)
	t.Cleanup(func() { listener.Close() })
	listener.Handle(port.KindPresence, func(conn net.Conn) {
		defer conn.Close()
		var q map[string]any
		if wire.ReadMessage(conn, wire.MaxMessageBytes, &q) == nil && wire.WriteMessage(conn, map[string]any{"here": true}) == nil {
			_, _ = io.Copy(io.Discard, conn)
		}
	})
	return views.Member{ID: id, Incarnation: 4711, Addr: listener.Addr(), PublicKey: stranded.PublicKey()}
}

// strangerAt asks a member to join, as a node.
func strangerAt(t *testing.T, lab *Cluster, p *Process, id squall.NodeID) *stranger {
	t.Helper()
	addr, err := p.AwaitAddr()
	lab.must(err)
	return asks(t, lab, addr, "", record(t, lab, id))
}

// asks opens a conversation of a stranger.
func asks(t *testing.T, lab *Cluster, addr, verb string, as views.Member) *stranger {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, err := port.Dial(ctx, addr, port.KindControl, nil)
	lab.must(err)
	t.Cleanup(func() { conn.Close() })
	lab.must(conn.SetDeadline(time.Now().Add(patience)))
	s := &stranger{t, wire.New(conn, wire.Times{Silence: patience, Pulse: DefaultHeartbeat}, wire.MaxMessageBytes)}
	var c join.Challenge
	lab.must(wire.ReadMessage(conn, wire.MaxMessageBytes, &c))
	q, err := join.Request{
		Verb: join.Verb(verb), Cluster: lab.Name, Member: as,
		Declarations: []views.Declaration{{Name: SmallMessages.Name, RingBytes: SmallMessages.RingBytes, Window: SmallMessages.Window}},
	}.Sign(stranded, c)
	lab.must(err)
	s.say(q)
	return s
}

func (s *stranger) say(message any) {
	s.t.Helper()
	if err := s.conn.Say(message); err != nil {
		s.t.Fatal(err)
	}
}

// hear waits for a verb.
func (s *stranger) hear(verb string) said {
	s.t.Helper()
	for {
		var m said
		if err := s.conn.Hear(&m); err != nil {
			s.t.Fatalf("waiting for %s: %v", verb, err)
		}
		if m.Verb == verb {
			return m
		}
	}
}

// end waits until the member hangs up.
func (s *stranger) end() {
	s.t.Helper()
	for {
		var m said
		if err := s.conn.Hear(&m); errors.Is(err, os.ErrDeadlineExceeded) {
			s.t.Fatal("the member does not hang up")
		} else if err != nil {
			return
		}
	}
}

// unmoved fails the test unless the group goes on in view 1.
func unmoved(t *testing.T, lab *Cluster, members []*Process) {
	t.Helper()
	lab.AwaitProgress(messagesBefore, members...)
	for _, p := range members {
		if v := p.View(); v.ID != 1 {
			t.Errorf("node %d is in view %d", p.ID(), v.ID)
		}
	}
}

func TestAJoinerThatFallsSilentIsForgotten(t *testing.T) {
	takesTime(t)
	t.Parallel()
	lab := NewCluster(t, Options{})
	members := lab.Form(3)
	silent := strangerAt(t, lab, members[0], 9)
	silent.hear("meet") // it is to greet the others, and does nothing
	unmoved(t, lab, members)
	p, err := lab.Join(4) // others are not held up by it
	lab.must(err)
	members = append(members, p)
	lab.AwaitView(members...)
	silent.end()
	lab.AwaitProgress(messagesBefore, members...)
	lab.Finish()
}

func TestAJoinerThatOnlySaysThatItIsReadyIsSentAway(t *testing.T) {
	t.Parallel()
	lab := NewCluster(t, Options{})
	members := lab.Form(3)
	for _, ready := range []map[string]any{
		{"verb": "ready", "view_id": 1}, // it greeted no member
		{"verb": "ready", "view_id": 1, "words": []map[string]any{{"id": 2, "word": "made up"}, {"id": 3, "word": "made up"}}},
	} {
		s := strangerAt(t, lab, members[0], 9)
		s.hear("meet")
		s.say(ready)
		if m := s.hear("refuse"); !strings.Contains(m.Text, "without the word of node") {
			t.Errorf("refused: %q", m.Text)
		}
		s.end()
	}
	unmoved(t, lab, members)
	lab.Finish()
}

func TestAJoinerThatMakesProposalsIsHungUpOn(t *testing.T) {
	t.Parallel()
	lab := NewCluster(t, Options{})
	members := lab.Form(3)
	for _, verb := range []string{"view", "install", "meet", "nonsense"} {
		s := strangerAt(t, lab, members[0], 9)
		s.hear("meet")
		alone := &views.View{ID: 2, Cluster: lab.Name, Members: []views.Member{{ID: 9, Addr: "127.0.0.1:1"}}}
		s.say(map[string]any{"verb": verb, "view_id": 2, "view": alone})
		s.end()
	}
	if told, err := members[0].AwaitEvents("broke the rules", 4); err != nil || len(told) != 4 {
		t.Errorf("want one event each: %q, %v", told, err)
	}
	unmoved(t, lab, members)
	lab.Finish()
}

func TestAJoinerThatClaimsTheIDOfAMemberIsRefused(t *testing.T) {
	takesTime(t)
	t.Parallel()
	lab := NewCluster(t, Options{})
	members := lab.Form(3)
	s := strangerAt(t, lab, members[0], members[1].ID())
	defer s.conn.Pulses()()
	if m := s.hear("refuse"); !strings.Contains(m.Text, "node id 2 is in use by the member at") {
		t.Errorf("refused: %q", m.Text)
	}
	unmoved(t, lab, members)
	lab.Finish()
}

// floodSize is more connections than a port lets stand around.
const floodSize = 600

// awaitRejected waits until a member has rejected so many connections. A connection is established
// before the member accepts it.
func awaitRejected(t *testing.T, p *Process, least uint64) uint64 {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		status, err := p.Status()
		if err != nil {
			t.Fatal(err)
		}
		if status.Rejected >= least {
			return status.Rejected
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d connections were rejected", status.Rejected, least)
		}
	}
}

func TestAFloodOfConnectionsIsBoundedAndToldOfInFewWords(t *testing.T) {
	t.Parallel()
	lab := NewCluster(t, Options{})
	members := lab.Form(3)
	before, err := members[0].Use()
	lab.must(err)
	addr, err := members[0].AwaitAddr()
	lab.must(err)
	start := time.Now()
	conns := make([]net.Conn, floodSize)
	for i := range conns {
		conns[i], err = net.Dial("tcp", addr)
		lab.must(err)
		if i%2 == 0 {
			_, _ = conns[i].Write([]byte("GET / HTTP/1.1\r\n\r\n"))
		}
	}
	awaitRejected(t, members[0], floodSize-port.DefaultMaxPending) // the others stand around
	during, err := members[0].Use()
	lab.must(err)
	lab.AwaitProgress(messagesBefore, members...)
	for _, c := range conns {
		c.Close()
	}
	rejected := awaitRejected(t, members[0], floodSize)
	after := settled(t, members[0], before)
	told, err := members[0].AwaitEvents("reject", 1)
	lab.must(err)
	t.Logf("before: %v; during: %v; after: %v; %d rejected, %d told of, in %v", before, during, after, rejected, len(told), time.Since(start))
	if !after.within(before) {
		t.Errorf("left behind: before %v, after %v\n%s", before, after, after.Stacks)
	}
	if most := 11 * (1 + int(time.Since(start)/time.Second)); len(told) > most {
		t.Errorf("%d events, want at most %d", len(told), most)
	}
	unmoved(t, lab, members)
	lab.Finish()
}
