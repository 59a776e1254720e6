package fabric

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/squall-go/squall/order"
)

// Connecting brings up the links of one table, in goroutines of its own if it needs any, and hands each over with
// Table.Arrive: once, as a link or as the reason why there will be none.
type Connecting interface {
	// Cancel ends the attempts to reach a peer, without waiting.
	Cancel(r order.Rank)
	// Close ends all attempts and returns when none is left.
	Close()
}

// OpenTable makes a table of which no link is up yet. Those that connecting hands over take their places at the next Poll;
// until then pushes are kept and rows are zeros (F6). release is what NewTable's is. connecting is told nothing before the table
// is used.
func OpenTable(spec *Spec, own []byte, connecting Connecting, release func() error) (*Table, error) {
	t := &Table{self: spec.Self, links: make([]Link, len(spec.Peers)), rows: make([][]byte, len(spec.Peers)),
		frozen: make([]bool, len(spec.Peers)), parker: spec.Parker, release: release}
	t.dock = &dock{connecting: connecting, spec: spec, wanted: make([]bool, len(spec.Peers)), bell: make(chan struct{}, 1)}
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
		t.links[r] = &coming{rank: r, connecting: connecting, row: row, pending: NewPending(spec.Peers[t.self].Shape.ControlBytes)}
		t.rows[r], t.dock.wanted[r] = row, true
		t.peers = append(t.peers, r)
		t.coming++
	}
	return t, nil
}

// coming stands for a link that is not up yet. Its row is shared zeros, and what is pushed to it waits, coalesced, until the link
// is there.
type coming struct {
	rank       order.Rank
	connecting Connecting
	row        []byte
	pending    Pending
}

func (c *coming) Name() string         { return "coming" }
func (c *coming) Direct() bool         { return false }
func (c *coming) Replica() []byte      { return c.row }
func (c *coming) Push(off, n int)      { c.pending.Push(off, n) }
func (c *coming) PushLine(off int)     { c.pending.PushLine(off) }
func (c *coming) Poll() (bool, error)  { return false, nil }
func (c *coming) Flush() (bool, error) { return false, nil }
func (c *coming) Close() error         { return nil } // the table closes who connects

func (c *coming) Freeze() []byte {
	c.connecting.Cancel(c.rank)
	return c.row
}

// replay pushes to the link what was pushed before it was there: bytes before the lines that cover them (F2, F6).
func (c *coming) replay(l Link) {
	for _, r := range c.pending.Ranges {
		l.Push(r.Off, r.N)
	}
	for _, off := range c.pending.Lines {
		l.PushLine(off)
	}
}

// arrival is a link that came up, or why there is none.
type arrival struct {
	rank order.Rank
	link Link
	err  error
}

// dock is where links wait for the loop.
//
//	word  written by                           read by  meaning
//	news  whoever connects (→1), loop (→0)     loop     somebody waits; stored under mu
type dock struct {
	connecting Connecting
	spec       *Spec
	bell       chan struct{} // rung for Await
	news       atomic.Bool

	mu      sync.Mutex
	waiting []arrival
	wanted  []bool // by rank: nobody arrived there yet, nor was it given up
}

// Arrive hands over a link, or the reason why there will be none, and wakes the loop. A link that nobody wants any more, because
// its row was frozen or the table closed, is closed. Any goroutine may call it.
func (t *Table) Arrive(r order.Rank, l Link, err error) {
	if t.dock.add(arrival{r, l, err}) {
		if t.parker != nil {
			t.parker.Wake()
		}
		return
	}
	if l != nil {
		l.Close()
	}
}

// Wants reports whether a link to a peer is still to be handed over. Any goroutine may call it.
func (t *Table) Wants(r order.Rank) bool {
	t.dock.mu.Lock()
	defer t.dock.mu.Unlock()
	return t.dock.wanted[r]
}

// add lets an arrival wait, if it is wanted, and rings.
func (d *dock) add(a arrival) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.wanted[a.rank] {
		return false
	}
	d.wanted[a.rank] = false
	d.waiting = append(d.waiting, a)
	d.news.Store(true)
	select {
	case d.bell <- struct{}{}:
	default: // rung already
	}
	return true
}

// next takes out the arrival that has waited longest.
func (d *dock) next() (a arrival, ok bool) {
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

// giveUp takes out the arrival of a rank, if it waits, and wants none from now on.
func (d *dock) giveUp(r order.Rank) (a arrival, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted[r] = false
	i := slices.IndexFunc(d.waiting, func(a arrival) bool { return a.rank == r })
	if i < 0 {
		return a, false
	}
	a = d.waiting[i]
	d.waiting = slices.Delete(d.waiting, i, i+1)
	return a, true
}

// welcome takes in the links that came up since the last look, and returns how many arrived. While nothing does, it costs one load.
func (t *Table) welcome() (work int) {
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
func (t *Table) link(a arrival) {
	c := t.links[a.rank].(*coming)
	t.links[a.rank] = a.link
	t.coming--
	row := a.link.Replica()
	c.replay(a.link)
	t.move(a.rank, row)
}

// settle decides about a coming link of a row that is about to be frozen: one that is here already is taken in, to be frozen like
// any other; else it is given up. Nothing is flushed: a row may be frozen in the middle of a step, when words are stored whose
// bytes were not pushed yet.
func (t *Table) settle(r order.Rank) {
	if _, ok := t.links[r].(*coming); !ok {
		return
	}
	if a, ok := t.dock.giveUp(r); ok && a.link != nil {
		t.link(a)
		return
	}
	t.coming--
}

// closeDock ends whoever connects, and closes the links that wait.
func (t *Table) closeDock() {
	if t.dock == nil {
		return
	}
	t.dock.connecting.Close() // first: who calls meanwhile must not hear that it was given up
	for _, r := range t.peers {
		if a, ok := t.dock.giveUp(r); ok && a.link != nil {
			a.link.Close()
		}
	}
	t.coming = 0
}

// Linked reports whether the link to a peer is up.
func (t *Table) Linked(r order.Rank) bool {
	if r == t.self || t.frozen[r] {
		return false
	}
	_, waits := t.links[r].(*coming)
	return !waits
}

// Await waits until every link is up, or one failed for good, or ctx ends. It is for those who want to know before the loop runs;
// afterwards the loop finds out by itself.
func (t *Table) Await(ctx context.Context) error {
	for {
		if t.coming > 0 {
			t.welcome()
		}
		if len(t.failures) > 0 {
			var errs []error
			for _, f := range t.failures {
				errs = append(errs, f.Err)
			}
			return errors.Join(errs...)
		}
		if t.coming == 0 {
			return nil
		}
		select {
		case <-t.dock.bell:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the rows of %v: %w", t.awaited(), context.Cause(ctx))
		}
	}
}

// awaited lists the nodes whose links are coming.
func (t *Table) awaited() (ids []order.NodeID) {
	for _, r := range t.peers {
		if !t.frozen[r] && !t.Linked(r) {
			ids = append(ids, t.dock.spec.Peers[r].ID)
		}
	}
	return ids
}
