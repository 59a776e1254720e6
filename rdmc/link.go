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

	// What the peer's process has proved to have: set with the first connection.
	proved      bool
	key         trust.PublicKey
	certificate trust.Digest // of TLS
	secure      bool         // there is TLS

	kick   wait.Bell     // rings for the writer
	paired chan struct{} // closed when the acceptor has both connections
	over   chan struct{} // closed when control frames are not read any more
	stop   sync.Once

	heard  atomic.Int64 // when the peer was last heard of, in ns since began
	moving atomic.Int32 // blocks, and runs of control frames, that are being read or written

	writing sync.Mutex // one block at a time
	scratch []byte     // TLS: a header and its block, so that they travel in one record

	mu       sync.Mutex
	whole    bool // both connections stand
	streams  bool // the acceptor agreed to a stream
	known    bool // a group was attached: it is no stranger
	outbox   []byte
	goodbye  bool
	err      error                  // why it ended
	given    uint32                 // channels [1, given] were given to groups
	channels map[uint32]*membership // by our own numbers, which are never used twice
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
		node: n, peer: peer, dialed: dialed, session: session, kick: wait.NewBell(), over: make(chan struct{}), paired: make(chan struct{}),
		channels: map[uint32]*membership{},
	}
}

// began is where times of links are counted from: the wall clock may be set meanwhile, and says
// nothing of how long a peer has been silent.
var began = time.Now()

func uptime() time.Duration { return time.Since(began) }

// hearsPeer notes that the peer has said something.
func (l *link) hearsPeer() { l.heard.Store(int64(uptime())) }

// lastHeard returns when the peer was last heard of.
func (l *link) lastHeard() time.Duration { return time.Duration(l.heard.Load()) }

// showed takes what the peer proves on one of the connections, and reports whether that is the same
// on both.
func (l *link) showed(conn net.Conn, key trust.PublicKey) bool {
	certificate, secure := trust.Shown(conn)
	if !l.proved {
		l.proved, l.key, l.certificate, l.secure = true, key, certificate, secure
	}
	return l.key == key && l.certificate == certificate && l.secure == secure
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
	full := len(l.outbox) > maxOutboxBytes
	if !full {
		l.outbox = c.Append(l.outbox)
	}
	l.mu.Unlock()
	if full {
		l.fail(errMuch)
	}
	l.kick.Ring()
}

// sayGoodbye ends the link once everything is said.
func (l *link) sayGoodbye() {
	l.mu.Lock()
	whole := l.whole
	l.goodbye = true
	l.mu.Unlock()
	if !whole {
		l.fail(ErrClosed)
		return
	}
	l.kick.Ring()
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
	if channel == 0 || channel > l.given {
		return nil, fmt.Errorf("%w: channel %d of %d", relay.ErrMalformed, channel, l.given)
	}
	return l.channels[channel], nil
}

// enlisted are all groups on this link.
func (l *link) enlisted() (all []*membership) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.channels {
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
	return attach.Proof{ID: l.peer, Key: l.key, Certificate: l.certificate, Secure: l.secure}
}
