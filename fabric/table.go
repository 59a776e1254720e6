package fabric

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/squall-go/squall/order"
)

// LineBytes is the unit of control pushes: one cache line of eight words.
const LineBytes = 64

// WordsPerLine is the number of 8-byte words in a line.
const WordsPerLine = LineBytes / 8

// ErrViolation is what a peer did that the protocol forbids (F3). The error that wraps it says what
// and where.
var ErrViolation = errors.New("protocol violation")

// ErrPeerGone says that a peer's connection ended.
var ErrPeerGone = errors.New("connection lost")

// RowShape is the size of a row: its control part and the whole of it. Both are multiples of
// LineBytes.
type RowShape struct {
	ControlBytes int
	RowBytes     int
}

// Link is one pair of nodes: it brings my row there and the peer's row here. Errors of Poll and
// Flush are final: the table reports the peer as failed and closes the link.
type Link interface {
	// Replica is the memory in which the peer's row shows up. It stays the same until Freeze.
	Replica() []byte
	// Push marks n bytes of the own row at off to be brought to the peer.
	Push(off, n int)
	// PushLine marks the control line at off. Its words are copied when they are sent.
	PushLine(off int)
	// Poll takes in what has arrived, without waiting, and returns whether anything did.
	Poll() (work bool, err error)
	// Flush sends what was pushed as far as the peer takes it now; the rest stays marked. It
	// returns whether anything was sent. What the peer takes may be known only after a Poll.
	Flush() (work bool, err error)
	// Freeze stops the link permanently and returns the replica as it stays from now on (F4). It does
	// not wait; what was flushed goes ahead of the end.
	Freeze() []byte
	// Close releases the connection and the replica's memory.
	Close() error
	// Direct reports that the peer reads the own row itself: a push only wakes it.
	Direct() bool
	// Name is the transport's name: "shm", "tcp", "simnet".
	Name() string
}

// Peeker is implemented by a link whose two processes share the memory of the peer's row.
type Peeker interface {
	// Peek loads the control word at off from the memory in which the peer stores it, and reports
	// whether the peer's process was still there after that. Any goroutine may call it until Close.
	Peek(off int) (word uint64, there bool)
}

// hanger is a link that can end without waiting what its Close then waits for. A table does the
// first to all of its links before the second to any, so that it waits once and not for each.
type hanger interface{ HangUp() }

// Failure is a peer that failed, and why.
type Failure struct {
	Rank order.Rank
	Err  error
}

// Table is the memory of one view at one node: the own row, a replica of each other row, and the
// links between.
type Table struct {
	self     order.Rank
	rows     [][]byte
	links    []Link // by rank; nil at self
	peers    []order.Rank
	frozen   []bool
	heard    []bool // by rank: something has arrived since Heard looked
	failures []Failure
	parker   *Parker // nil where nothing sleeps (simnet)
	polls    uint
	release  func() error     // frees the own row
	onMove   func(order.Rank) // nil: no one asked
	pending  int              // links that are not up yet
	dock     *handoff         // nil if all links were up from the start

	own     []byte
	peekers []atomic.Pointer[Peeker] // by rank; nil: the link is not up, is frozen or shares no memory
	peeking sync.RWMutex             // held while a goroutine peeks
	closed  bool                     // needs peeking: there is no memory to peek at
}

// NewTable joins the own row and the links, which are up, indexed by rank and nil at self. release,
// if not nil, is called by Close when the links are closed and may free the own row.
func NewTable(self order.Rank, own []byte, links []Link, parker *Parker, release func() error) *Table {
	t := &Table{self: self, links: links, rows: make([][]byte, len(links)), frozen: make([]bool, len(links)), heard: make([]bool, len(links)), parker: parker, release: release,
		own: own, peekers: make([]atomic.Pointer[Peeker], len(links))}
	for r, l := range links {
		if order.Rank(r) == self {
			t.rows[r] = own
			continue
		}
		t.rows[r] = l.Replica()
		t.peers = append(t.peers, order.Rank(r))
		t.showTo(order.Rank(r), l)
	}
	return t
}

// showTo lets goroutines peek through a link, if that shares memory.
func (t *Table) showTo(r order.Rank, l Link) {
	if p, ok := l.(Peeker); ok {
		t.peekers[r].Store(&p)
	}
}

// Peek loads a control word of a row from the memory in which the row's owner stores it. It reports
// false if that cannot be done: the row is frozen, its owner shares no memory with this node, or
// the owner's process was not there any more after the load. Any goroutine may call it.
func (t *Table) Peek(r order.Rank, off int) (word uint64, there bool) {
	if !t.peeking.TryRLock() {
		return 0, false
	}
	defer t.peeking.RUnlock()
	if t.closed {
		return 0, false
	}
	if r == t.self {
		return atomic.LoadUint64(Word(t.own, off)), true
	}
	if p := t.peekers[r].Load(); p != nil {
		return (*p).Peek(off)
	}
	return 0, false
}

// Self is the rank of the node that holds this table.
func (t *Table) Self() order.Rank { return t.self }

// Ranks is the number of rows.
func (t *Table) Ranks() int { return len(t.rows) }

// Row is the memory of a row: writable if it is the own one. It becomes another one when the row's
// link comes up and when the row is frozen (OnMove).
func (t *Table) Row(r order.Rank) []byte { return t.rows[r] }

// OnMove sets what is called, on the loop, whenever a row's memory became another one: its link
// came up, or it was frozen.
func (t *Table) OnMove(f func(order.Rank)) { t.onMove = f }

// move makes a row's memory another one.
func (t *Table) move(r order.Rank, mem []byte) {
	t.rows[r] = mem
	if t.onMove != nil {
		t.onMove(r)
	}
}

// LinkName is the name of the transport to a peer, "pending" while it is not linked, or "self".
func (t *Table) LinkName(r order.Rank) string {
	if r == t.self {
		return "self"
	}
	return t.links[r].Name()
}

// Fallback says why the link to a peer is none of the transport that this process has; nil if it is
// one, or if the process has none.
func (t *Table) Fallback(r order.Rank) error {
	if l, is := t.links[r].(interface{ Fallback() error }); is {
		return l.Fallback()
	}
	return nil
}

// Direct reports that a peer and this node read each other's rows themselves: what the peer stores
// is seen without a Poll that says so.
func (t *Table) Direct(r order.Rank) bool { return r != t.self && t.links[r].Direct() }

// Push marks bytes of the own row for some peers. Ranks that are frozen, and self, are passed over.
func (t *Table) Push(to []order.Rank, off, n int) {
	for _, r := range to {
		if r != t.self && !t.frozen[r] {
			t.links[r].Push(off, n)
		}
	}
}

// PushLine marks a control line of the own row for some peers. Ranks that are frozen, and self, are
// passed over.
func (t *Table) PushLine(to []order.Rank, off int) {
	for _, r := range to {
		if r != t.self && !t.frozen[r] {
			t.links[r].PushLine(off)
		}
	}
}

// PushLineQuietly is PushLine for words that no peer needs to be woken for: peers that sleep see
// them when they look next.
func (t *Table) PushLineQuietly(to []order.Rank, off int) {
	for _, r := range to {
		if r != t.self && !t.frozen[r] && !t.links[r].Direct() {
			t.links[r].PushLine(off)
		}
	}
}

// Poll takes in what has arrived from all peers and returns from how many.
func (t *Table) Poll() (work int) {
	if t.parker != nil {
		t.look()
	}
	if t.pending > 0 {
		work = t.adoptLinks()
	}
	for _, r := range t.peers {
		if t.frozen[r] {
			continue
		}
		some, err := t.links[r].Poll()
		if some {
			work++
			t.heard[r] = true
		}
		if err != nil {
			t.Fail(r, err)
		}
	}
	return work
}

// Heard reports whether anything has arrived from a peer since the last call for it.
func (t *Table) Heard(r order.Rank) bool {
	heard := t.heard[r]
	t.heard[r] = false
	return heard
}

// look asks the parker for the sockets' readiness: at every poll if they are many, else now and
// then, because links then try their sockets themselves, and what only tells that a peer is gone
// can wait.
func (t *Table) look() {
	t.polls++
	if !t.parker.FewSockets() || t.polls%64 == 0 {
		t.parker.Look()
	}
}

// Flush sends what was pushed, and returns to how many peers something went.
func (t *Table) Flush() (work int) {
	for _, r := range t.peers {
		if t.frozen[r] {
			continue
		}
		some, err := t.links[r].Flush()
		if some {
			work++
		}
		if err != nil {
			t.links[r].Poll() // its last words may say why
			t.Fail(r, err)
		}
	}
	return work
}

// Fail freezes a row and reports its owner, once (F5). The layers above call it for faults that
// only they can see.
func (t *Table) Fail(r order.Rank, err error) {
	if t.frozen[r] || r == t.self {
		return
	}
	t.Freeze(r)
	t.failures = append(t.failures, Failure{r, err})
}

// Freeze ends the link to a peer, or the attempts to make one; its replica stays as it is (F4). It
// never waits. What was pushed before goes ahead of the end as far as the system takes it now.
func (t *Table) Freeze(r order.Rank) {
	if t.frozen[r] || r == t.self {
		return
	}
	if t.pending > 0 {
		t.adoptOrCancel(r)
	}
	t.frozen[r] = true
	t.peekers[r].Store(nil)
	t.move(r, t.links[r].Freeze())
}

// Frozen reports whether a row is frozen.
func (t *Table) Frozen(r order.Rank) bool { return t.frozen[r] }

// Failures returns the peers that failed since the last call. The slice is valid until the next
// one.
func (t *Table) Failures() []Failure {
	f := t.failures
	t.failures = t.failures[:0]
	return f
}

// KeepOwn makes Close leave the memory of the own row to the application, which still writes to it.
func (t *Table) KeepOwn() { t.release = nil }

// Close ends all links, pending ones too, and releases the memory. No row may be touched
// afterwards. It waits for connections that are still being made, and briefly for peers to read the
// last bytes sent to them; so a loop that must not stop lets another goroutine call Close, once it
// no longer uses the table.
func (t *Table) Close() error {
	var errs []error
	t.closeHandoff()
	for _, r := range t.peers {
		if l, ok := t.links[r].(hanger); ok {
			l.HangUp()
		}
	}
	t.peeking.Lock() // waits for goroutines that peek, which do not wait
	t.closed = true
	t.peeking.Unlock()
	for _, r := range t.peers {
		t.frozen[r] = true
		if err := t.links[r].Close(); err != nil {
			errs = append(errs, fmt.Errorf("link to rank %d: %w", r, err))
		}
	}
	t.rows = nil
	if t.dock != nil && t.dock.spec.Links != nil {
		errs = append(errs, t.dock.spec.Links.Close())
	}
	if t.release != nil {
		errs = append(errs, t.release())
	}
	return errors.Join(errs...)
}

// Word is the control word of a row at a byte offset, a multiple of 8. Its owner stores it
// atomically, all other members load it atomically.
func Word(row []byte, off int) *uint64 {
	return (*uint64)(unsafe.Pointer(unsafe.SliceData(row[off : off+8]))) // a slice: the check of its bounds reads nothing
}

// parkedOff is the place of the parked word.
const parkedOff = 0

// AnnounceParked tells peers on this host that the loop is about to sleep: peers that write from
// now on ring.
func (t *Table) AnnounceParked() { t.bumpParked(1) }

// RetractParked tells peers that the loop is awake.
func (t *Table) RetractParked() { t.bumpParked(0) }

func (t *Table) bumpParked(parity uint64) {
	if w := Word(t.rows[t.self], parkedOff); *w&1 != parity {
		atomic.StoreUint64(w, *w+1) // the loop is the only writer, so the plain load is its own value
	}
}

// Parked loads the parked word of a row: odd while its owner sleeps.
func Parked(row []byte) uint64 { return atomic.LoadUint64(Word(row, parkedOff)) }
