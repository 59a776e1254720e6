package rdmc

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/attach"
	"github.com/squall-go/squall/internal/relay"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/rdmc/schedule"
	"github.com/squall-go/squall/trust"
)

// stranger speaks the protocol by hand.
type stranger struct {
	t               *testing.T
	control, blocks net.Conn
}

// somebody is the identity of all strangers.
var somebody = trust.NewIdentity()

// signed is a greeting that a stranger signs, with that node's key or the key that the greeting
// names.
func (g greeting) signed(t *testing.T, id *trust.Identity, c challenge, to order.NodeID) greeting {
	t.Helper()
	g.Key, g.Nonce = id.PublicKey(), trust.NewNonce()
	k, err := id.Key(trust.Blocks, trust.Scope{}, trust.Party{Node: uint64(g.From), PublicKey: g.Key}, trust.Party{Node: uint64(to), PublicKey: c.Key})
	if err != nil {
		t.Fatal(err)
	}
	g.MAC = k.MAC(trust.Dialer, c, g)
	return g
}

// knock opens one connection, and says a greeting.
func knock(t *testing.T, p Peer, g greeting) (net.Conn, welcome, error) {
	t.Helper()
	conn, err := port.Dial(testutil.Within(t), p.Addr, port.KindBlocks, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	var c challenge
	if err := wire.ReadMessage(conn, wire.MaxMessageBytes, &c); err != nil {
		t.Fatal(err)
	}
	if err := wire.WriteMessage(conn, g.signed(t, somebody, c, p.ID)); err != nil {
		t.Fatal(err)
	}
	var w welcome
	return conn, w, wire.ReadMessage(conn, wire.MaxMessageBytes, &w)
}

// visit makes a link to a node.
func visit(t *testing.T, p Peer, as order.NodeID) *stranger {
	t.Helper()
	s := &stranger{t: t}
	var err [2]error
	session := rand.Text()
	s.control, _, err[0] = knock(t, p, greeting{From: as, To: p.ID, Session: session})
	s.blocks, _, err[1] = knock(t, p, greeting{From: as, To: p.ID, Session: session, Blocks: true})
	if err := errors.Join(err[:]...); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *stranger) say(c relay.Control) {
	s.t.Helper()
	if _, err := s.control.Write(c.Append(nil)); err != nil {
		s.t.Fatal(err)
	}
}

// hear reads frames until one of a kind comes.
func (s *stranger) hear(kind relay.Kind) relay.Control {
	s.t.Helper()
	_ = s.control.SetReadDeadline(time.Now().Add(20 * time.Second))
	for {
		var b [relay.ControlBytes]byte
		if _, err := io.ReadFull(s.control, b[:]); err != nil {
			s.t.Fatalf("no %v came: %v", kind, err)
		}
		c, n, err := relay.ParseControl(&b)
		if err != nil {
			s.t.Fatal(err)
		}
		text := make([]byte, n)
		if _, err := io.ReadFull(s.control, text); err != nil {
			s.t.Fatal(err)
		}
		if c.SetText(text); c.Kind == kind {
			return c
		}
	}
}

// answerPings answers the questions whether it is there, until mute is called. Nothing else that
// comes is read by anybody.
func (s *stranger) answerPings() (mute func()) {
	var muted atomic.Bool
	go func() {
		for {
			var b [relay.ControlBytes]byte
			if _, err := io.ReadFull(s.control, b[:]); err != nil {
				return
			}
			c, n, err := relay.ParseControl(&b)
			if err != nil {
				return
			}
			if _, err := io.CopyN(io.Discard, s.control, int64(n)); err != nil {
				return
			}
			if c.Kind == relay.Ping && !muted.Load() {
				_, _ = s.control.Write((&relay.Control{Kind: relay.Pong}).Append(nil)) // the link may have ended
			}
		}
	}()
	return func() { muted.Store(true) }
}

// attach becomes a member of a group, and returns the channel of the other side.
func (s *stranger) attach(g *Group) uint32 {
	const ours = 2
	s.say(relay.Control{Kind: relay.Attach, Channel: ours, Token: g.token, Word: g.digest})
	c := s.hear(relay.Attach)
	s.say(relay.Control{Kind: relay.Attach, Channel: ours, Index: uint64(c.Channel), Token: g.token, Word: g.digest})
	return c.Channel
}

func closed(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("it was not closed")
	}
}

func (w *world) rejected(reason port.Reason) {
	w.t.Helper()
	if r := receive(w.t, w.rejects, "rejection"); r.Reason != reason || r.Kind != port.KindBlocks {
		w.t.Fatal(r)
	}
}

// lone is a group of which only this node exists; the other member is the test.
func (w *world) lone(root int) *witness {
	c := GroupConfig{Members: []Peer{w.peers[0], {ID: 99, Addr: "127.0.0.1:1"}}, Root: root, MaxMessageBytes: 1 << 20}
	return w.open("lone", c)[0]
}

func TestGarbageInsteadOfAGreetingIsRejected(t *testing.T) {
	w := newWorld(t, 1, 0)
	for _, sent := range []string{"GET / HTTP/1.1\r\n\r\n", "\xff\xff\xff\x7f\x00\x00\x00\x00\x01", "\x02\x00\x00\x00\x00\x00\x00\x00\x01[]"} {
		conn, err := port.Dial(testutil.Within(t), w.peers[0].Addr, port.KindBlocks, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, sent); err != nil {
			t.Fatal(err)
		}
		closed(t, conn)
		w.rejected(port.Garbage)
	}
}

func TestAGreetingThatNamesTheWrongNodesIsRefused(t *testing.T) {
	w := newWorld(t, 1, 0)
	for _, g := range []greeting{
		{From: 99, To: 2, Session: "s"},                      // to another node
		{From: 1, To: 1, Session: "s"},                       // from itself
		{From: 0, To: 1, Session: "s"},                       // from the node that should be dialed
		{From: 99, To: 1, Session: ""},                       // without a session
		{From: 99, To: 1, Session: string(make([]byte, 65))}, // with a long one
		{From: 99, To: 1, Session: "nobody's", Blocks: true}, // blocks of no link
	} {
		if _, welcome, err := knock(t, w.peers[0], g); err != nil || welcome.Refused == "" {
			t.Errorf("%+v: %+v, %v", g, welcome, err)
		}
		w.rejected(port.NotMember)
	}
}

func TestGarbageOnALinkEndsItAndNothingElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, 0)
	var header [relay.HeaderBytes]byte
	(&relay.Header{Channel: 1, Length: 1}).Put(&header)
	huge := header
	binary.LittleEndian.PutUint32(huge[20:], 1<<31)
	all := w.open("g", GroupConfig{BlockBytes: 1000})
	meet(t, all)
	for name, c := range map[string]struct{ control, blocks []byte }{
		"no frame":               {control: bytes.Repeat([]byte("x"), 100)},
		"a long text":            {control: append([]byte{byte(relay.Fail), 0, 0xff, 0xff}, make([]byte, 36)...)},
		"a channel never given":  {control: (&relay.Control{Kind: relay.Ack, Channel: 1}).Append(nil)},
		"attach of channel 0":    {control: (&relay.Control{Kind: relay.Attach}).Append(nil)},
		"no block":               {blocks: bytes.Repeat([]byte("x"), 100)},
		"a block of 2 GiB":       {blocks: huge[:]},
		"a block for no channel": {blocks: header[:]},
	} {
		t.Run(name, func(t *testing.T) {
			s := visit(t, w.peers[0], 99)
			s.control.Write(c.control)
			s.blocks.Write(c.blocks)
			closed(t, s.control)
			closed(t, s.blocks)
			w.rejected(port.Garbage)
		})
	}
	if err := all[0].Send(testutil.Within(t), noise(1, 5000)); err != nil {
		t.Fatal(err)
	}
	closeAll(t, all)
}

func TestK3WhoDoesNotKnowTheTokenIsOutside(t *testing.T) {
	w := newWorld(t, 1, 0)
	x := w.lone(0)
	s := visit(t, w.peers[0], 99)
	wrong := x.token
	wrong[3]++
	s.say(relay.Control{Kind: relay.Attach, Channel: 1, Token: wrong})
	other := visit(t, w.peers[0], 98) // a process that knows the token, and is no member
	other.say(relay.Control{Kind: relay.Attach, Channel: 1, Token: x.token})
	w.rejected(port.NotMember)
	select {
	case <-x.complete:
		t.Fatal("it is a member")
	default:
	}
	s.attach(x.Group)
	receive(t, x.complete, "member")
}

// A process knows the token and all descriptions, and claims to be node 99: before node 99
// connects, and afterwards.
func TestK3WhoKnowsTheTokenIsNoOtherMember(t *testing.T) {
	w := newWorld(t, 1, 0)
	real := trust.NewIdentity()
	member := Peer{ID: 99, Addr: "127.0.0.1:1", PublicKey: real.PublicKey()}
	x := w.open("bound", GroupConfig{Members: []Peer{w.peers[0], member}, MaxMessageBytes: 1 << 20})[0]
	pose := func() {
		t.Helper()
		s := visit(t, w.peers[0], 99)
		s.say(relay.Control{Kind: relay.Attach, Channel: 1, Token: x.token, Word: x.digest})
		w.rejected(port.NotMember)
		select {
		case <-x.complete:
			t.Fatal("it is a member")
		default:
		}
	}
	pose()
	mine := somebody
	defer func() { somebody = mine }()
	somebody = real
	s := visit(t, w.peers[0], 99)
	s.attach(x.Group)
	receive(t, x.complete, "member")
	somebody = mine
	late := visit(t, w.peers[0], 99)
	late.say(relay.Control{Kind: relay.Attach, Channel: 1, Token: x.token, Word: x.digest})
	w.rejected(port.NotMember)
	if err := x.Err(); err != nil {
		t.Errorf("the group has failed: %v", err)
	}
	// Its greeting says the real one's key, for which it has no private key.
	conn, err := port.Dial(testutil.Within(t), w.peers[0].Addr, port.KindBlocks, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var c challenge
	if err := wire.ReadMessage(conn, wire.MaxMessageBytes, &c); err != nil {
		t.Fatal(err)
	}
	g := greeting{From: 99, To: 1, Session: "stolen"}.signed(t, mine, c, 1)
	g.Key = real.PublicKey()
	if err := wire.WriteMessage(conn, g); err != nil {
		t.Fatal(err)
	}
	closed(t, conn)
	w.rejected(port.NotMember)
}

// A stranger takes the connection for blocks of a link whose control connection the member has
// opened.
func TestBothConnectionsOfALinkAreOfOneProcess(t *testing.T) {
	w := newWorld(t, 1, 0)
	real, mine := trust.NewIdentity(), somebody
	defer func() { somebody = mine }()
	somebody = real
	if _, welcome, err := knock(t, w.peers[0], greeting{From: 99, To: 1, Session: "s"}); err != nil || welcome.Refused != "" {
		t.Fatal(welcome, err)
	}
	somebody = mine
	if _, welcome, err := knock(t, w.peers[0], greeting{From: 99, To: 1, Session: "s", Blocks: true}); err != nil || welcome.Refused == "" {
		t.Fatal(welcome, err)
	}
	w.rejected(port.NotMember)
	somebody = real
	if _, welcome, err := knock(t, w.peers[0], greeting{From: 99, To: 1, Session: "s", Blocks: true}); err != nil || welcome.Refused != "" {
		t.Fatal(welcome, err)
	}
}

// A process listens where a member was, and answers for it.
func TestADialerKnowsThePeerThatItDials(t *testing.T) {
	w := newWorld(t, 2, 0)
	stale := w.peers[0]
	stale.PublicKey = trust.NewIdentity().PublicKey()
	g, err := w.nodes[1].Start(GroupConfig{Name: "stale", Members: []Peer{stale, w.peers[1]}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Discard()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		w.nodes[1].mu.Lock()
		r := w.nodes[1].routes[1]
		w.nodes[1].mu.Unlock()
		var why error
		if r != nil {
			w.nodes[1].mu.Lock()
			why = r.err
			w.nodes[1].mu.Unlock()
		}
		if errors.Is(why, trust.ErrUnproven) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the route's error is %v", why)
		}
	}
	select {
	case <-g.complete:
		t.Error("another process is a member")
	default:
	}
}

func TestK2WhatStrangersCostIsBounded(t *testing.T) {
	w := newWorld(t, 1, 0)
	s := visit(t, w.peers[0], 99)
	for i := range attach.MaxWaiting + 1 {
		c := relay.Control{Kind: relay.Attach, Channel: uint32(i + 1)}
		binary.LittleEndian.PutUint32(c.Token[:], uint32(i))
		if _, err := s.control.Write(c.Append(nil)); err != nil {
			break
		}
	}
	closed(t, s.control)
	w.rejected(port.TooMany)
	var first net.Conn
	for i := range maxStrangers + 1 {
		conn, _, err := knock(t, w.peers[0], greeting{From: 99, To: 1, Session: fmt.Sprint("half ", i)})
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = conn
		}
	}
	closed(t, first)
}

func TestK2AHugeMessageIsRefusedBeforeThereIsRoomForIt(t *testing.T) {
	w := newWorld(t, 1, 0)
	x := w.lone(1)
	s := visit(t, w.peers[0], 99)
	channel := s.attach(x.Group)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s.say(relay.Control{Kind: relay.Announce, Channel: channel, Code: uint8(schedule.Chain), Size: 1 << 39, Word: relay.MaxBlockBytes})
	if c := s.hear(relay.Fail); relay.Code(c.Code) != relay.NoRoom {
		t.Fatalf("%+v", c)
	}
	runtime.ReadMemStats(&after)
	if more := after.TotalAlloc - before.TotalAlloc; more > 1<<20 {
		t.Fatalf("%d bytes were allocated", more)
	}
}

func TestK4WhoIsSilentWhileSomethingIsUnderWayIsGivenUp(t *testing.T) {
	t.Parallel()
	const failAfter = 200 * time.Millisecond
	for name, root := range map[string]int{"a receiver": 0, "the root": 1} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, failAfter)
			x := w.lone(root)
			s := visit(t, w.peers[0], 99)
			channel := s.attach(x.Group)
			receive(t, x.complete, "member")
			mute := s.answerPings()     // one may have been asked before it was attached
			<-time.After(2 * failAfter) // nothing is under way: silence is no fault
			if x.Err() != nil {
				t.Fatal(x.Err())
			}
			mute()
			if root == 0 {
				if _, err := x.Start(Outgoing{Data: noise(1, 1000), Filled: -1}); err != nil {
					t.Fatal(err)
				}
			} else {
				s.say(relay.Control{Kind: relay.Announce, Channel: channel, Code: uint8(schedule.Chain), Size: 10, Word: 10})
			}
			var f *Failure
			if err := receive(t, x.failed, "failure"); !errors.As(err, &f) || f.Code != FailureSilent || f.Node != 99 {
				t.Fatal(err)
			}
		})
	}
}

// A peer that begins to attach and says nothing more may be gone: this side would wait for it for
// ever, and take no other link for its groups.
func TestK4WhoIsSilentBeforeItIsAttachedIsGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 400*time.Millisecond) // more than a crowded machine takes between what this test says
	x := w.lone(0)
	s := visit(t, w.peers[0], 99)
	s.say(relay.Control{Kind: relay.Attach, Channel: 2, Token: x.token, Word: x.digest})
	s.hear(relay.Attach)
	closed(t, s.control)
	if x.Err() != nil {
		t.Fatalf("the group, which it was no member of, failed: %v", x.Err())
	}
	for links := 1; links > 0; runtime.Gosched() { // its connections end before the link is forgotten
		w.nodes[0].mu.Lock()
		links = len(w.nodes[0].links)
		w.nodes[0].mu.Unlock()
	}
	visit(t, w.peers[0], 99).attach(x.Group)
	receive(t, x.complete, "member")
}

// A peer that stalls in the middle of a block holds the buffer, until it is given up.
func TestK4ABlockThatStopsHalfWayIsGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, time.Second)
	x := w.lone(1)
	s := visit(t, w.peers[0], 99)
	channel := s.attach(x.Group)
	s.say(relay.Control{Kind: relay.Announce, Channel: channel, Code: uint8(schedule.Chain), Size: 1000, Word: 1000})
	s.hear(relay.Ready)
	var b [relay.HeaderBytes]byte
	(&relay.Header{Channel: channel, Length: 1000}).Put(&b)
	s.blocks.Write(append(b[:], make([]byte, 500)...))
	x.Group.mu.Lock()
	into := x.Group.buffers[0]
	x.Group.mu.Unlock()
	for l := w.nodes[0].links[0]; l.traffic.moving.Load() == 0; {
		select {
		case <-l.over:
			t.Fatal("the link has ended")
		default:
			runtime.Gosched() // the header has not arrived
		}
	}
	x.Discard()
	receive(t, x.Done(), "end")
	mine := bytes.Repeat([]byte("m"), 1000) // the memory is the application's again
	copy(into, mine)
	_, _ = s.blocks.Write(bytes.Repeat([]byte("p"), 500)) // the link has ended, unless what moved was a control frame
	_ = s.blocks.SetReadDeadline(time.Now().Add(time.Second))
	_, _ = io.Copy(io.Discard, s.blocks)
	if !bytes.Equal(into, mine) {
		t.Fatal("R5: done while a block was being read")
	}
}

// A dead root that was told nothing: K1, a peer that reads nothing is cut off, and no member waits
// for it.
func TestK1APeerThatReadsNothingHoldsUpNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 300*time.Millisecond)
	x := w.lone(0)
	s := visit(t, w.peers[0], 99)
	channel := s.attach(x.Group)
	s.say(relay.Control{Kind: relay.Ready, Channel: channel}) // too early: it is the group's end
	if c := s.hear(relay.Fail); relay.Code(c.Code) != relay.Violation {
		t.Fatalf("%+v", c)
	}
	receive(t, x.Done(), "end")
	ping := (&relay.Control{Kind: relay.Ping}).Append(nil)
	_ = s.control.SetWriteDeadline(time.Now().Add(20 * time.Second))
	for range 100_000 {
		if _, err := s.control.Write(bytes.Repeat(ping, 1000)); err != nil {
			var late net.Error
			if errors.As(err, &late) && late.Timeout() {
				t.Fatal("it was not cut off")
			}
			return
		}
	}
}
