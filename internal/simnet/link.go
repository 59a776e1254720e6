package simnet

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/mutant"
)

// link implements fabric.Link for one end of a pair.
type link struct {
	net        *Net
	self, peer *node
	kind       Kind
	out, in    *way
	replica    []byte
	carried    Carried // by a Transport; nil: by ways
	arrived    bool    // waits to be taken in by its table
	up         bool    // the link is in its table
	closed     bool
	seeped     bool // something became visible within a step, and no Poll has said so
}

// Name implements fabric.Link.
func (l *link) Name() string { return "simnet" }

// Direct implements fabric.Link. A Seeping pair shows nothing that was not pushed.
func (l *link) Direct() bool { return l.kind == Shared }

// Replica implements fabric.Link. The table asks when it takes the link in. What the owner of a
// Seeping row stored before is in the shared memory already: it is seen at once or not at all.
func (l *link) Replica() []byte {
	if !l.up && l.kind == Seeping {
		l.out.storeAll()
	}
	l.up = true
	return l.replica
}

// Push implements fabric.Link.
func (l *link) Push(off, n int) {
	l.called(off, n)
	switch {
	case l.carried != nil:
		l.carried.Push(off, n)
	case l.kind == Framed:
		l.out.push(off, n)
	case l.kind == Seeping:
		l.out.storeRange(off, n)
	}
}

// PushLine implements fabric.Link.
func (l *link) PushLine(off int) {
	l.called(off, fabric.LineBytes)
	switch {
	case l.carried != nil:
		l.carried.PushLine(off)
	case l.kind == Framed:
		l.out.pushLine(off)
	case l.kind == Seeping:
		l.out.storeLine(off)
	}
	if l.kind != Framed {
		l.net.due(l.peer.id, l.net.now)
	}
}

// called is what every push begins with: it may be the node's last call, and shows it more of its
// peers' memory.
func (l *link) called(off, n int) {
	l.burn()
	if l.net.opts.OnPush != nil {
		l.net.opts.OnPush(l.self.id, l.peer.id, off, n)
	}
	if l.kind == Seeping && !l.closed {
		l.seep()
	}
}

// burn is a call of the fabric. It is none of a process that crashed earlier in its step (Z3).
func (l *link) burn() {
	if l.self.crashed {
		panic(Crashed{l.self.id})
	}
	l.net.burn(l.self)
}

// seep lets the node see more of what its peer stored, outside of Poll. The next Poll says so: a
// reader that looks then may have looked at that word before.
func (l *link) seep() {
	if l.in.seep(l.replica) {
		l.seeped = true
	}
}

// Flush implements fabric.Link.
func (l *link) Flush() (bool, error) {
	l.burn()
	switch {
	case l.carried != nil:
		return l.carried.Flush()
	case l.kind != Framed:
		return false, nil // it was visible when it was stored
	}
	return l.out.flush(), nil
}

// Poll implements fabric.Link.
func (l *link) Poll() (work bool, err error) {
	switch {
	case l.carried != nil:
		if work, err = l.carried.Poll(); work {
			l.self.polled++
		}
		return work, err
	case l.kind == Seeping:
		work = l.in.seep(l.replica) || l.seeped
		l.seeped = false
	case l.kind == Framed && l.in.path.cut:
		return false, nil
	case l.kind == Framed:
		work = l.in.arrive(l.replica)
	}
	if work {
		l.self.polled++
	}
	if l.in.ended && l.net.now >= l.in.endAt && l.in.head == len(l.in.flight) {
		return work, fmt.Errorf("%w: the process of node %d ended", fabric.ErrPeerGone, l.peer.id)
	}
	return work, nil
}

// Peek implements fabric.Peeker. What is stored in shared memory and was seen by any process is
// there for all of them: a Seeping pair shows it late to loads of the replica, and not to this one.
func (l *link) Peek(off int) (word uint64, there bool) {
	if l.kind == Framed || l.closed {
		return 0, false
	}
	there = !l.peer.crashed || mutant.Enabled && mutant.On(mutant.PeeksAtTheDead)
	return atomic.LoadUint64(fabric.Word(l.in.row, off)), there
}

// Freeze implements fabric.Link.
func (l *link) Freeze() []byte {
	if l.closed {
		return l.replica
	}
	switch {
	case l.carried != nil:
		return l.carried.Freeze()
	case l.kind == Shared:
		l.replica = l.net.stock.take(len(l.replica))
		copy(l.replica, l.in.row)
	case l.kind == Seeping:
		l.in.freeze(l.replica)
	}
	l.end()
	return l.replica
}

// Close implements fabric.Link. The replica may serve another link from now on.
func (l *link) Close() error {
	if l.carried != nil {
		return l.carried.Close()
	}
	l.end()
	if l.kind == Seeping {
		shows(l.replica, nil)
	}
	if l.replica != nil && l.kind != Shared {
		l.net.giveBack(l.replica)
	}
	if l.replica != nil {
		l.in.leave()
	}
	l.replica = nil
	return nil
}

// end closes this end; the peer hears of it behind what it was sent.
func (l *link) end() {
	if l.closed {
		return
	}
	l.closed = true
	l.self.links = slices.DeleteFunc(l.self.links, func(o *link) bool { return o == l })
	l.out.end()
}
