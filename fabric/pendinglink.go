package fabric

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/order"
)

// Connecting brings up the links of one table, in goroutines of its own if it needs any, and hands
// each over with Table.Arrive: once, as a link or as the reason why there will be none.
type Connecting interface {
	// Cancel ends the attempts to reach a peer, without waiting.
	Cancel(r order.Rank)
	// Close ends all attempts and returns when none is left.
	Close()
}

// OpenTable makes a table without any link. The links that connecting makes take their places
// at the next Poll; until then pushes are kept and rows are zeros (F6). release is that of
// NewTable. OpenTable calls no method of connecting.
func OpenTable(spec *Spec, own []byte, connecting Connecting, release func() error) (*Table, error) {
	t := &Table{self: spec.Self, links: make([]Link, len(spec.Peers)), rows: make([][]byte, len(spec.Peers)),
		frozen: make([]bool, len(spec.Peers)), heard: make([]bool, len(spec.Peers)), parker: spec.Parker, release: release,
		own: own, peekers: make([]atomic.Pointer[Peeker], len(spec.Peers))}
	t.dock = &handoff{connecting: connecting, spec: spec, wanted: make([]bool, len(spec.Peers)), bell: wait.NewBell()}
	for i, p := range spec.Peers {
		r := order.Rank(i)
		if r == t.self {
			t.rows[r] = own
			continue
		}
		row, err := zeroRow(p.Shape.RowBytes)
		if err != nil {
			return nil, err
		}
		t.links[r] = &pendingLink{rank: r, connecting: connecting, row: row, pending: NewPending(spec.Peers[t.self].Shape.ControlBytes)}
		t.rows[r], t.dock.wanted[r] = row, true
		t.peers = append(t.peers, r)
		t.pending++
	}
	return t, nil
}

// pendingLink takes the place of a link that is not up yet. Its row is shared zeros, and pushes
// wait in it, coalesced, until the link is up.
type pendingLink struct {
	rank       order.Rank
	connecting Connecting
	row        []byte
	pending    Pending
}

func (c *pendingLink) Name() string         { return "pending" }
func (c *pendingLink) Direct() bool         { return false }
func (c *pendingLink) Replica() []byte      { return c.row }
func (c *pendingLink) Push(off, n int)      { c.pending.Push(off, n) }
func (c *pendingLink) PushLine(off int)     { c.pending.PushLine(off) }
func (c *pendingLink) Poll() (bool, error)  { return false, nil }
func (c *pendingLink) Flush() (bool, error) { return false, nil }
func (c *pendingLink) Close() error         { return nil } // the table closes connecting

func (c *pendingLink) Freeze() []byte {
	c.connecting.Cancel(c.rank)
	return c.row
}

// replay pushes to the link what was pushed before it was there: bytes before the lines that cover
// them (F2, F6).
func (c *pendingLink) replay(l Link) {
	for _, r := range c.pending.Ranges {
		l.Push(r.Off, r.N)
	}
	for _, off := range c.pending.Lines {
		l.PushLine(off)
	}
}

// connected is a link that came up, or the reason why there will be none.
type connected struct {
	rank order.Rank
	link Link
	err  error
}

// handoff holds the links that came up until the loop takes them.
//
//	word  written by                           read by  meaning
//	news  any goroutine (→1), loop (→0)        loop     a link waits; stored under mu
type handoff struct {
	connecting Connecting
	spec       *Spec
	bell       wait.Bell // rung for Await
	news       atomic.Bool

	mu      sync.Mutex
	waiting []connected
	wanted  []bool // by rank: no link arrived yet, and none was cancelled
}

// Arrive takes a link, or the reason why there will be none, and wakes the loop. A link that
// is not wanted any more, because its row was frozen or the table closed, is closed. Any goroutine
// may call it.
func (t *Table) Arrive(r order.Rank, l Link, err error) {
	if t.dock.add(connected{r, l, err}) {
		if t.parker != nil {
			t.parker.Wake()
		}
		return
	}
	if l != nil {
		l.Close()
	}
}

// Wants reports whether a link to a peer is still to arrive. Any goroutine may call it.
func (t *Table) Wants(r order.Rank) bool {
	t.dock.mu.Lock()
	defer t.dock.mu.Unlock()
	return t.dock.wanted[r]
}

// add queues a link for the loop, if it is wanted, and rings.
func (d *handoff) add(a connected) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.wanted[a.rank] {
		return false
	}
	d.wanted[a.rank] = false
	d.waiting = append(d.waiting, a)
	d.news.Store(true)
	d.bell.Ring()
	return true
}

// next takes out the link that has waited longest.
func (d *handoff) next() (a connected, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.waiting) == 0 {
		d.news.Store(false)
		return a, false
	}
	a = d.waiting[0]
	d.waiting = d.waiting[1:]
	return a, true
}

// cancel takes out the link of a rank, if it waits, and wants none from now on.
func (d *handoff) cancel(r order.Rank) (a connected, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted[r] = false
	i := slices.IndexFunc(d.waiting, func(a connected) bool { return a.rank == r })
	if i < 0 {
		return a, false
	}
	a = d.waiting[i]
	d.waiting = slices.Delete(d.waiting, i, i+1)
	return a, true
}

// adoptLinks puts the links that came up since the last call in their places and returns their
// number. It costs one load if there are none.
func (t *Table) adoptLinks() (work int) {
	if !t.dock.news.Load() {
		return 0
	}
	for {
		a, ok := t.dock.next()
		if !ok {
			return work
		}
		work++
		if a.err != nil {
			t.Fail(a.rank, a.err)
			continue
		}
		t.link(a)
	}
}

// link puts a link that came up in its place.
func (t *Table) link(a connected) {
	c := t.links[a.rank].(*pendingLink)
	t.links[a.rank] = a.link
	t.pending--
	row := a.link.Replica()
	c.replay(a.link)
	t.move(a.rank, row)
	t.showTo(a.rank, a.link)
}

// adoptOrCancel decides about the pending link of a row that is about to be frozen: a link that is
// up already takes its place and is frozen like any other; otherwise it is cancelled. Nothing is
// flushed: a row may be frozen in the middle of a step, when words are stored whose bytes were not
// pushed yet.
func (t *Table) adoptOrCancel(r order.Rank) {
	if _, ok := t.links[r].(*pendingLink); !ok {
		return
	}
	if a, ok := t.dock.cancel(r); ok && a.link != nil {
		t.link(a)
		return
	}
	t.pending--
}

// closeHandoff ends all attempts to connect and closes the links that wait.
func (t *Table) closeHandoff() {
	if t.dock == nil {
		return
	}
	t.dock.connecting.Close() // first: a caller must not be told meanwhile that the link was cancelled
	for _, r := range t.peers {
		if a, ok := t.dock.cancel(r); ok && a.link != nil {
			a.link.Close()
		}
	}
	t.pending = 0
}

// Linked reports whether the link to a peer is up.
func (t *Table) Linked(r order.Rank) bool {
	if r == t.self || t.frozen[r] {
		return false
	}
	_, waits := t.links[r].(*pendingLink)
	return !waits
}

// Await waits until every link is up, or one failed permanently, or ctx ends. It is for callers
// that want to know before the loop runs; afterwards the loop finds out by itself.
func (t *Table) Await(ctx context.Context) error {
	for {
		if t.pending > 0 {
			t.adoptLinks()
		}
		if len(t.failures) > 0 {
			var errs []error
			for _, f := range t.failures {
				errs = append(errs, f.Err)
			}
			return errors.Join(errs...)
		}
		if t.pending == 0 {
			return nil
		}
		select {
		case <-t.dock.bell:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the rows of %v: %w", t.awaited(), context.Cause(ctx))
		}
	}
}

// awaited lists the nodes whose links are pending.
func (t *Table) awaited() (ids []order.NodeID) {
	for _, r := range t.peers {
		if !t.frozen[r] && !t.Linked(r) {
			ids = append(ids, t.dock.spec.Peers[r].ID)
		}
	}
	return ids
}
