package rdmc

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/internal/attach"
	"github.com/squall-go/squall/internal/relay"
	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/trust"
)

var (
	errStranger = errors.New("no member of the group")
	errCrowded  = attach.ErrCrowded
	errMuch     = errors.New("the peer does not read what it receives")
)

// maxOutboxBytes bounds the control frames that a peer has not read.
const maxOutboxBytes = 4 << 20

// link is what two nodes have in common: a connection for control frames, which are small and never
// behind a block, and one for blocks. All groups share it.
//
// Life of a link: dialed, or greeted by its dialer → both connections stand → groups attach and
// leave → broken, or not needed.
type link struct {
	node    *Node
	number  attach.Link  // under the node's lock; 0: the node does not have the link yet
	peer    order.NodeID // as it says; what makes it one is that it knows a group's token, and has the key of that node
	dialed  bool
	session string
	control net.Conn
	blocks  io.ReadWriteCloser // a connection, or a stream in its place, which is set under mu
	sight   sight              // set before the link is whole

	shown   shown
	over    chan struct{} // closed when control frames are not read any more
	stop    sync.Once
	traffic traffic
	block   blockWriter

	mu       sync.Mutex
	setup    setup
	queue    controlQueue
	known    bool  // a group was attached: it is no stranger
	err      error // why it ended
	channels channels
}

// shown is what the peer's process has proved to have. It is set with the first connection, and is
// the same on both.
type shown struct {
	proved      bool
	key         trust.PublicKey
	certificate trust.Digest // of TLS
	secure      bool         // there is TLS
}

// traffic tells a link that is in use from a silent one. It needs no lock.
type traffic struct {
	heard  atomic.Int64 // when the peer was last heard of, in ns since began
	moving atomic.Int32 // blocks, and runs of control frames, that are being read or written
}

// blockWriter writes one block at a time.
type blockWriter struct {
	mu      sync.Mutex
	scratch []byte // TLS: a header and its block, so that they travel in one record
}

// setup is how far the connections of a link are. The lock is not needed for paired.
type setup struct {
	whole   bool          // both connections stand
	streams bool          // the acceptor agreed to a stream
	paired  chan struct{} // closed when the acceptor has both connections
}

// controlQueue has the control frames that are to be written: at most maxOutboxBytes and one more
// frame. The lock is not needed for kick.
type controlQueue struct {
	kick    wait.Bell // rings for the writer
	frames  []byte
	goodbye bool // the link ends once they are written
}

// channels are given to groups: [1, given] so far, each number once.
type channels struct {
	given   uint32
	members map[uint32]*membership // by our own numbers
}

// carrier takes a block to a peer, whose group is told of it with expect and arrived. It returns
// when the block's memory is free, and the next one may leave. A group chooses one for each peer
// when they meet; a link is one.
type carrier interface {
	// writeBlock leaves out a block that is not wanted any more when its turn comes.
	writeBlock(h *relay.Header, block []byte, wanted func() bool)
}

// membership is a group's tie to one peer, as package attach decides.
type membership struct {
	group *Group
	place int
	link  *link
	way   carrier
}

func newLink(n *Node, peer order.NodeID, dialed bool, session string) *link {
	return &link{
		node: n, peer: peer, dialed: dialed, session: session, over: make(chan struct{}), setup: setup{paired: make(chan struct{})},
		queue: controlQueue{kick: wait.NewBell()}, channels: channels{members: map[uint32]*membership{}},
	}
}

// began is where times of links are counted from: the wall clock may be set meanwhile, and says
// nothing of how long a peer has been silent.
var began = time.Now()

func uptime() time.Duration { return time.Since(began) }

// hearsPeer notes that the peer has said something.
func (l *link) hearsPeer() { l.traffic.heard.Store(int64(uptime())) }

// lastHeard returns when the peer was last heard of.
func (l *link) lastHeard() time.Duration { return time.Duration(l.traffic.heard.Load()) }

// showed takes what the peer proves on one of the connections, and reports whether that is the same
// on both.
func (l *link) showed(conn net.Conn, key trust.PublicKey) bool {
	certificate, secure := trust.PeerCertificate(conn)
	now := shown{true, key, certificate, secure}
	if !l.shown.proved {
		l.shown = now
	}
	return l.shown == now
}

// run reads and writes until the link ends, and reports which side is to blame.
func (l *link) run() {
	l.hearsPeer()
	tune(l.blocks)
	var others sync.WaitGroup
	others.Go(l.writeControl)
	others.Go(l.watchPeer)
	others.Go(l.readBlocks)
	err := l.readControl()
	close(l.over)
	l.fail(err)
	others.Wait()
	l.node.lost(l)
	if l.mustReject() {
		l.node.reject(l.control, l.err)
	}
}

// mustReject reports whether the link ended because the peer broke the rules.
func (l *link) mustReject() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Is(l.err, relay.ErrMalformed) || errors.Is(l.err, errStranger) || errors.Is(l.err, errCrowded) || errors.Is(l.err, errMuch)
}

// fail ends the link. The first reason stays.
func (l *link) fail(err error) {
	l.mu.Lock()
	if l.err == nil {
		l.err = err
	}
	blocks := l.blocks
	l.mu.Unlock()
	l.stop.Do(func() {
		hangUp(l.control)
		if _, is := blocks.(net.Conn); is || blocks == nil {
			hangUp(blocks)
		} else {
			l.node.running.Go(func() { blocks.Close() }) // a stream's end takes a moment
		}
	})
}

// hangUp closes a connection without the good manners of TLS, which may wait.
func hangUp(conn io.Closer) {
	if conn == nil {
		return
	}
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secure.NetConn()
	}
	conn.Close()
}

// graceTime is how long control frames are still read after the connection for blocks broke. A peer
// that ends says why before it ends, and its reason must not lose the race against its end.
const graceTime = 250 * time.Millisecond

// blocksEnded ends the link once the control frames that were sent before are read.
func (l *link) blocksEnded(err error) {
	t := time.NewTimer(graceTime)
	defer t.Stop()
	select {
	case <-l.over:
	case <-t.C:
	}
	l.fail(err)
}

// enqueue sends a control frame at some later time. It never waits: a peer that reads nothing is
// cut off.
func (l *link) enqueue(c *relay.Control) {
	l.mu.Lock()
	full := len(l.queue.frames) > maxOutboxBytes
	if !full {
		l.queue.frames = c.Append(l.queue.frames)
	}
	l.mu.Unlock()
	if full {
		l.fail(errMuch)
	}
	l.queue.kick.Ring()
}

// sayGoodbye ends the link once everything is said.
func (l *link) sayGoodbye() {
	l.mu.Lock()
	whole := l.setup.whole
	l.queue.goodbye = true
	l.mu.Unlock()
	if !whole {
		l.fail(ErrClosed)
		return
	}
	l.queue.kick.Ring()
	l.node.running.Go(func() {
		t := time.NewTimer(2 * graceTime)
		defer t.Stop()
		select {
		case <-l.over:
		case <-t.C:
			l.fail(ErrClosed)
		}
	})
}

// member is the group's tie that a channel stands for; nil if it was given back. A number that was
// never given is a violation.
func (l *link) member(channel uint32) (*membership, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if channel == 0 || channel > l.channels.given {
		return nil, fmt.Errorf("%w: channel %d of %d", relay.ErrMalformed, channel, l.channels.given)
	}
	return l.channels.members[channel], nil
}

// enlisted are all groups on this link.
func (l *link) enlisted() (all []*membership) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.channels.members {
		all = append(all, m)
	}
	return all
}

func (l *link) isKnown() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known
}

// proof is what the peer has proved to be.
func (l *link) proof() attach.Proof {
	return attach.Proof{ID: l.peer, Key: l.shown.key, Certificate: l.shown.certificate, Secure: l.shown.secure}
}
