package rdmc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/attach"
	"github.com/squall-go/squall/internal/relay"
	"github.com/squall-go/squall/internal/testutil"
)

// K2: the frames that a peer does not read are bounded, and then the link ends.
func TestTheFramesThatAPeerDoesNotReadAreBounded(t *testing.T) {
	l := newLink(&Node{}, 2, true, "session")
	here, there := net.Pipe()
	defer there.Close()
	l.control, l.blocks = here, here
	frame := relay.Control{Kind: relay.Ack}
	for range 2 * maxOutboxBytes / relay.ControlBytes {
		l.enqueue(&frame)
	}
	if n := len(l.queue.frames); n > maxOutboxBytes+relay.ControlBytes {
		t.Errorf("%d bytes wait, at most %d", n, maxOutboxBytes)
	}
	if !errors.Is(l.err, errMuch) {
		t.Errorf("the link ended with %v", l.err)
	}
	there.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := there.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the connection stands: %v", err)
	}
}

// Groups share a link, and over TLS a header and its block are gathered in memory of the link:
// blocks go one at a time.
func TestBlocksOfSeveralGroupsDoNotMix(t *testing.T) {
	const groups, blocks, length = 4, 50, 5000
	l := newLink(&Node{}, 2, true, "session")
	here, there := net.Pipe() // which is no TCP connection, as TLS is not
	l.blocks = here
	var writing sync.WaitGroup
	for g := range uint32(groups) {
		writing.Go(func() {
			block := bytes.Repeat([]byte{byte(g)}, length)
			for k := range uint32(blocks) {
				l.writeBlock(&relay.Header{Channel: g, Block: k, Length: length}, block, wanted)
			}
		})
	}
	next := make([]uint32, groups)
	for range groups * blocks {
		var head [relay.HeaderBytes]byte
		block := make([]byte, length)
		if _, err := io.ReadFull(there, head[:]); err != nil {
			t.Fatal(err)
		}
		h, err := relay.ParseHeader(&head)
		if err == nil {
			_, err = io.ReadFull(there, block)
		}
		if err != nil || h.Channel >= groups || h.Block != next[h.Channel] || !bytes.Equal(block, bytes.Repeat([]byte{byte(h.Channel)}, length)) {
			here.Close()
			there.Close()
			t.Fatalf("block %d of group %d, want %d: %v; its bytes are another group's, or it came twice", h.Block, h.Channel, next, err)
		}
		next[h.Channel]++
	}
	writing.Wait()
}

func wanted() bool { return true }

// A block waits for those of other groups. When its turn comes it may not be wanted any more: then
// the next one leaves at once.
func TestABlockThatIsNotWantedWhenItsTurnComesDoesNotLeave(t *testing.T) {
	l := newLink(&Node{}, 2, true, "session")
	here, there := net.Pipe()
	defer there.Close()
	l.blocks = here
	block := make([]byte, 100)
	var writing sync.WaitGroup
	writing.Go(func() { l.writeBlock(&relay.Header{Channel: 1, Length: 100}, block, wanted) })
	first := make([]byte, 10)
	if _, err := io.ReadFull(there, first); err != nil { // now the first one is being written
		t.Fatal(err)
	}
	var givenUp atomic.Bool
	writing.Go(func() {
		l.writeBlock(&relay.Header{Channel: 2, Length: 100}, block, func() bool { return !givenUp.Load() })
	})
	givenUp.Store(true)
	if _, err := io.ReadFull(there, make([]byte, relay.HeaderBytes+90)); err != nil {
		t.Fatal(err)
	}
	writing.Wait()
	writing.Go(func() { l.writeBlock(&relay.Header{Channel: 3, Length: 100}, block, wanted) })
	var head [relay.HeaderBytes]byte
	if _, err := io.ReadFull(there, head[:]); err != nil {
		t.Fatal(err)
	}
	if h, err := relay.ParseHeader(&head); err != nil || h.Channel != 3 {
		t.Errorf("the next block is of group %d, %v", h.Channel, err)
	}
	if _, err := io.ReadFull(there, block); err != nil {
		t.Fatal(err)
	}
	writing.Wait()
}

// detour forwards connections to a node. Once it is broken, what their dialer sends is lost, and
// their acceptor finds them closed; their dialer is not told.
type detour struct {
	net.Listener
	broken    atomic.Bool
	accepting sync.WaitGroup
	running   sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
	far   []net.Conn // the acceptor's
}

func newDetour(t *testing.T, to string) *detour {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &detour{Listener: listener}
	t.Cleanup(func() {
		d.Close()
		d.accepting.Wait()
		d.closeAll()
		d.running.Wait()
	})
	d.accepting.Go(func() {
		for near, err := d.Accept(); err == nil; near, err = d.Accept() {
			far, err := net.Dial("tcp", to)
			if err != nil {
				near.Close()
				return
			}
			d.mu.Lock()
			d.conns, d.far = append(d.conns, near, far), append(d.far, far)
			d.mu.Unlock()
			d.running.Go(func() { _, _ = io.Copy(near, far) })
			d.running.Go(func() { d.forward(near, far) })
		}
	})
	return d
}

func (d *detour) forward(near, far net.Conn) {
	buffer := make([]byte, 4<<10)
	for n, err := near.Read(buffer); err == nil; n, err = near.Read(buffer) {
		if !d.broken.Load() {
			_, _ = far.Write(buffer[:n])
		}
	}
	far.Close()
}

func (d *detour) closeAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, conn := range d.conns {
		conn.Close()
	}
}

func (d *detour) breakFar() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, conn := range d.far {
		conn.Close()
	}
}

// loseConfirmation opens a group at two nodes between which the dialer's confirmation is lost. A
// test that is held up for failAfter meanwhile finds the other node silent.
func loseConfirmation(t *testing.T, failAfter time.Duration) (d *detour, dialer, acceptor *Group, failed chan error) {
	w := newWorld(t, 2, failAfter)
	d = newDetour(t, w.peers[0].Addr)
	w.peers[0].Addr = d.Addr().String()
	first := w.open("first", GroupConfig{})
	meet(t, first)
	failed = make(chan error, 2)
	c := GroupConfig{Name: "g", Key: "secret", Members: w.peers, Failed: func(err error) { failed <- err }}
	dialer, err := w.nodes[1].Start(c)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the dialer's offer did not come", func() bool { return w.nodes[0].knows(": 1 waiting") })
	d.broken.Store(true)
	if acceptor, err = w.nodes[0].Start(c); err != nil {
		t.Fatal(err)
	}
	until(t, "the acceptor's answer did not come", func() bool { return w.nodes[1].knows("confirmed over") })
	return d, dialer, acceptor, failed
}

// knows reports whether a text is part of what a node knows of its links and groups.
func (n *Node) knows(text string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Contains(n.attach.String(), text)
}

// attachOver attaches the other member of a group over a link that it has dialed some time ago.
func (n *Node) attachOver(t *testing.T, g *Group, l *link, ago time.Duration) {
	t.Helper()
	n.mu.Lock()
	n.attach.FailAfter = n.cfg.FailAfter
	n.add(l)
	n.groups[g.token] = g
	n.met(func(a *attach.Node, out *attach.Effects) {
		a.Up(l.number, l.proof(), false, uptime()-ago, out)
		a.Open(g.described(), out)
	})
	n.mu.Unlock()
	c := relay.Control{Kind: relay.Attach, Channel: 2, Token: g.token, Word: g.digest}
	for range 2 { // the offer and the confirmation
		if err := n.hearOf(l, &c); err != nil {
			t.Fatal(err)
		}
		c.Index = 1
	}
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for ctx := testutil.Within(t); !is(); time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatal(what)
		}
	}
}

// channel is the one that the peer's frames carry.
func (m *membership) channel() uint32 {
	m.link.mu.Lock()
	defer m.link.mu.Unlock()
	for channel, o := range m.link.channels.members {
		if o == m {
			return channel
		}
	}
	return 0
}

// K4: a dialer whose confirmation is lost with the other side of its link gives the link up. It
// cannot know whether the acceptor waits for another one.
func TestK4AConfirmationThatIsLostEndsTheLink(t *testing.T) {
	t.Parallel()
	d, _, _, failed := loseConfirmation(t, 400*time.Millisecond)
	d.breakFar()
	var failure *Failure
	if err := receive(t, failed, "failure"); !errors.As(err, &failure) || failure.Node != 1 || failure.Code != FailureSilent {
		t.Error(err)
	}
}

// K4: an acceptor that gives a link up without the confirmation meets its dialer on another one. A
// dialer that stood still finds the answer and the end of the link together, and accuses no node.
func TestK4ADialerWhoseLinkEndsBeforeItIsConfirmedComesByAnother(t *testing.T) {
	d, dialer, acceptor, failed := loseConfirmation(t, time.Minute)
	d.broken.Store(false)
	d.closeAll()
	receive(t, dialer.complete, "member")
	receive(t, acceptor.complete, "member")
	if len(failed) > 0 {
		t.Error(<-failed)
	}
}

// K4: a dialer that offers a group again, over another link, has lost the one before. An acceptor
// that does not know of that end answers, unless it had the confirmation: then it counts the dialer
// as gone, or both would wait for ever.
func TestK4AnOfferOverAnotherLinkIsTheEndOfTheOneBefore(t *testing.T) {
	w := newWorld(t, 1, time.Minute)
	x := w.lone(0)
	first := visit(t, w.peers[0], 99)
	first.say(relay.Control{Kind: relay.Attach, Channel: 2, Token: x.token, Word: x.digest})
	first.hear(relay.Attach)
	visit(t, w.peers[0], 99).attach(x.Group)
	receive(t, x.complete, "member")
	visit(t, w.peers[0], 99).say(relay.Control{Kind: relay.Attach, Channel: 2, Token: x.token, Word: x.digest})
	var failure *Failure
	if err := receive(t, x.failed, "failure"); !errors.As(err, &failure) || failure.Node != 99 || failure.Code != FailureGone {
		t.Error(err)
	}
}

// K4: what a node reads late on a link that its dialer has replaced does not undo what it read on
// the later one.
func TestK4AnOfferOverAnEarlierLinkIsVoid(t *testing.T) {
	w := newWorld(t, 1, time.Minute)
	x := w.lone(0)
	earlier, later := visit(t, w.peers[0], 99), visit(t, w.peers[0], 99)
	offer := relay.Control{Kind: relay.Attach, Channel: 2, Token: x.token, Word: x.digest}
	later.say(offer)
	answer := later.hear(relay.Attach)
	earlier.say(offer)
	earlier.say(relay.Control{Kind: relay.Ping})
	earlier.hear(relay.Pong)
	offer.Index = uint64(answer.Channel)
	later.say(offer)
	receive(t, x.complete, "member")
}

// K4: what a node finds that stood still says nothing of its peers, until these had time to say
// that they gave it up.
func TestK4ANodeThatStoodStillHoldsTheEndOfALinkBack(t *testing.T) {
	n := &Node{cfg: Config{Self: Peer{ID: 1}, FailAfter: time.Hour}, groups: map[token]*Group{}}
	n.ctx, n.end = context.WithCancel(t.Context())
	lose := func(ago time.Duration) *Group {
		g, err := newGroup(n, GroupConfig{Name: ago.String(), Key: "secret", Members: []Peer{{ID: 1}, {ID: 99}}})
		if err != nil {
			t.Fatal(err)
		}
		l := newLink(n, 99, false, "session")
		n.attachOver(t, g, l, ago)
		n.lost(l)
		return g
	}
	var failure *Failure
	if err := lose(0).Err(); !errors.As(err, &failure) || failure.Code != FailureGone {
		t.Errorf("awake: %v", err)
	}
	g := lose(time.Hour)
	if err := g.Err(); err != nil {
		t.Errorf("it stood still: %v", err)
	}
	n.end()
	n.running.Wait()
	if err := g.Err(); !errors.As(err, &failure) || failure.Code != FailureGone {
		t.Errorf("in the end: %v", err)
	}
}

// K2: an answer that comes when its group was left is dropped: the acceptor says no more of it, so
// it would wait until the link ends, and enough of them would end the link.
func TestK2AnAnswerForAGroupThatWasLeftDoesNotWait(t *testing.T) {
	w := newWorld(t, 2, time.Minute)
	first := w.open("first", GroupConfig{})
	meet(t, first)
	n := w.nodes[1]
	c := GroupConfig{Name: "g", Key: "secret", Members: w.peers}
	if _, err := w.nodes[0].Start(c); err != nil {
		t.Fatal(err)
	}
	g, err := newGroup(n, c)
	if err != nil {
		t.Fatal(err)
	}
	n.mu.Lock() // the group is left before the answer comes
	n.groups[g.token] = g
	n.met(func(a *attach.Node, out *attach.Effects) {
		a.Open(g.described(), out)
		a.Close(g.token, nil, out)
		a.Watch(first[1].members[0].link.number, uptime(), uptime(), true, out)
	})
	delete(n.groups, g.token)
	n.mu.Unlock()
	until(t, "what was asked after the offer was not answered", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return !n.attach.Waits(first[1].members[0].link.number)
	})
	if !n.knows(": 0 waiting") {
		t.Error("an answer waits")
	}
}

// K4: how long a peer has been silent does not depend on the wall clock, which may be set
// meanwhile.
func TestK4SilenceIsMeasuredOnTheMonotonicClock(t *testing.T) {
	l := newLink(&Node{}, 2, true, "session")
	before := uptime()
	l.hearsPeer()
	if heard := l.lastHeard(); heard < before || heard > uptime() {
		t.Errorf("the peer was heard of at %v", heard)
	}
	if began == began.Round(0) { // which removes the reading of the monotonic clock
		t.Error("the time has no reading of the monotonic clock")
	}
}

// K4: an offer over a later link is the end of the one before. A node that stood still holds that
// end back as well, also if it has found the end already.
func TestK4ANodeThatStoodStillHoldsAnOfferOverALaterLinkBack(t *testing.T) {
	for _, found := range []bool{false, true} {
		n := &Node{cfg: Config{Self: Peer{ID: 1}, FailAfter: time.Hour}, groups: map[token]*Group{}}
		n.ctx, n.end = context.WithCancel(t.Context())
		g, err := newGroup(n, GroupConfig{Name: "g", Key: "secret", Members: []Peer{{ID: 1}, {ID: 99}}})
		if err != nil {
			t.Fatal(err)
		}
		first, second := newLink(n, 99, false, "first"), newLink(n, 99, false, "second")
		n.attachOver(t, g, first, time.Hour)
		n.adopt(second)
		if found {
			n.lost(first)
		}
		if err := n.hearOf(second, &relay.Control{Kind: relay.Attach, Channel: 2, Token: g.token, Word: g.digest}); err != nil {
			t.Fatal(err)
		}
		if err := g.Err(); err != nil {
			t.Errorf("it stood still, and has found the end of the link: %v: %v", found, err)
		}
		n.end()
		n.running.Wait()
		var failure *Failure
		if err := g.Err(); !errors.As(err, &failure) || failure.Code != FailureGone {
			t.Errorf("in the end: %v", err)
		}
	}
}

// K4: a peer that stands still, and so reads nothing either, has been silent: a write that it holds
// up does not make this node seem to have stood still itself.
func TestK4APeerThatReadsNothingIsSilent(t *testing.T) {
	t.Parallel()
	n := &Node{cfg: Config{Self: Peer{ID: 1}, FailAfter: 200 * time.Millisecond}, groups: map[token]*Group{}}
	n.ctx, n.end = context.WithCancel(t.Context())
	defer n.end()
	g, err := newGroup(n, GroupConfig{Name: "g", Key: "secret", Members: []Peer{{ID: 1}, {ID: 99}}})
	if err != nil {
		t.Fatal(err)
	}
	l := newLink(n, 99, false, "session")
	control, there := net.Pipe() // which has no room: each write waits for its reader
	blocks, other := net.Pipe()
	defer there.Close()
	defer other.Close()
	l.control, l.blocks = control, blocks
	n.attachOver(t, g, l, 0)
	l.enqueue(&relay.Control{Kind: relay.Ping})
	l.run()
	n.running.Wait()
	var failure *Failure
	if err := g.Err(); !errors.As(err, &failure) || failure.Code != FailureSilent {
		t.Error(err)
	}
}

// K4: an acceptor that had the confirmation counts a dialer whose link ends as gone, also if it is
// the only other member and has left the group by then: the dialer, which does not know of the
// confirmation, offers the group in vain, and must not wait for ever.
func TestK4ADialerThatNobodyAnswersAnyMoreEnds(t *testing.T) {
	t.Parallel()
	for _, leaves := range []bool{false, true} {
		d, dialer, acceptor, failed := loseConfirmation(t, 4*time.Second)
		m := acceptor.members[1]
		m.link.fail(io.EOF) // it had the confirmation, and answers nothing any more
		confirmation := relay.Control{Kind: relay.Attach, Channel: dialer.members[0].channel(), Index: uint64(m.channel()), Token: acceptor.token, Word: acceptor.digest}
		if err := acceptor.node.hearOf(m.link, &confirmation); err != nil {
			t.Fatal(err)
		}
		receive(t, acceptor.Done(), "end of the acceptor's group")
		if leaves {
			acceptor.Discard()
		}
		d.broken.Store(false)
		d.closeAll()
		receive(t, dialer.Done(), "end of the dialer's group")
		var failure *Failure
		if err := dialer.Err(); !errors.As(err, &failure) || failure.Code != FailureGone {
			t.Errorf("the acceptor leaves: %v: %v", leaves, err)
		}
		for range 2 {
			receive(t, failed, "failure")
		}
	}
}
