package simnet

import (
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/order"
)

// Kind is how a pair of nodes is connected.
type Kind uint8

const (
	// Framed pairs exchange frames over a socket, like internal/tcp.
	Framed Kind = iota
	// Shared pairs see each other's row itself, like internal/shm when no two nodes run at the same
	// time.
	Shared
	// Seeping pairs see each other's writes one by one, like internal/shm on another core.
	Seeping
)

func (k Kind) String() string { return [...]string{"framed", "shared", "seeping"}[k] }

// Delay is how long a frame travels: Base plus up to Jitter, and one time in TailEvery up to Tail
// more.
type Delay struct {
	Base, Jitter, Tail time.Duration
	TailEvery          int // 0: never
}

// Max is the longest that a frame travels, in virtual time.
func (d Delay) Max() time.Duration {
	if d.TailEvery == 0 {
		return d.Base + d.Jitter
	}
	return d.Base + d.Jitter + d.Tail
}

// Options is the character of a network. The zero value delivers at the next Poll and has no
// limits.
type Options struct {
	Kind        func(a, b order.NodeID) Kind      // symmetric; nil: all pairs are Framed
	Delay       func(from, to order.NodeID) Delay // nil: none
	SocketBytes int                               // what a way holds in flight before its socket is full; 0: no limit
	PieceBytes  int                               // ranges travel in pieces of at most so many bytes, each with a delay of its own; 0: whole
	FrameRanges int                               // ranges in a frame at most; the lines go with the last. 0: no limit
	// NoticeAfter bounds how long after a crash, or after a link was closed, the peers hear of it.
	NoticeAfter time.Duration
	// StoreOrder is the order in which owners store the words of a line between two pushes of it;
	// Seeping pairs show the words in it. The zero value means the order in the line.
	StoreOrder [fabric.WordsPerLine]int
	// OnPush, if not nil, is told of every push: a range of bytes, or a line.
	OnPush func(from, to order.NodeID, off, n int)
	// OnDue, if not nil, is told when something is there for a node to look at, now or later: what a
	// socket or a bell would wake it for. See Due.
	OnDue func(id order.NodeID, at time.Duration)
	// Loads says that the loads of a step call BeforeLoad: the rows of Seeping pairs change between
	// any two of them. Such a network has to be closed.
	Loads bool
	// Wrap, if not nil, may stand before a link.
	Wrap func(self, peer order.NodeID, l fabric.Link) fabric.Link
	// Transport, if not nil, makes the links of Framed pairs.
	Transport Transport
	// MayBreak, if not nil, is asked before a link of the transport breaks by itself.
	MayBreak func(a, b order.NodeID) bool
	// Bug makes the network break one of the fabric's promises, so that tests can show which check
	// notices.
	Bug Bug
}

// Bug is a deliberate fault of the network.
type Bug uint8

const (
	NoBug       Bug = iota
	LinesFirst      // a frame's lines travel before its bytes (F2)
	Overtaking      // frames of a pair overtake each other (F2)
	StaleLines      // a line arrives once more, later, as it was (F2)
	LostRanges      // what a full socket does not take of a frame is forgotten (F2)
	LostLines       // a frame that waited for its socket loses its lines
	FlippedByte     // a byte changes on its way
	StrayBytes      // a range arrives 8 bytes off its place
	EarlyLines      // a frame that leaves ranges behind takes the lines with it all the same (F2)
)

// Stats counts what a network did, for tests that want to know which of its branches were reached.
type Stats struct {
	Frames, Pieces, Lines int
	SocketFull            int // frames that a full socket held up
	HalfFrames            int // polls that took in bytes of a frame and not its lines
	Coalesced             int // pushes that met another one of the same place, not flushed yet
	Tails                 int // delays from the long tail
	TornLines             int // looks at a Seeping pair that ended between two words of a line
	LostInFlight          int // pieces that went down with their host
	LoadsBetween          int // loads of a step before which something may have become visible
	Unseen                int // writes that no frozen row shows, as it was frozen before
}
