package rdmc

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/relay"
	"github.com/squall-go/squall/internal/samehost"
)

// Memory is memory to send from, see Node.Alloc. Its life: allocated → released by its user, and
// not held for a message → idle → allocated again.
type Memory struct{ m *samehost.Memory }

// Bytes is the memory. What is in it at first is anything.
func (m *Memory) Bytes() []byte { return m.m.Bytes() }

// Shared reports whether other processes can see it.
func (m *Memory) Shared() bool { return m.m.Shared() }

// Release gives the memory back. Messages that lie in it may still be in flight; the memory is used
// again only when they are not.
func (m *Memory) Release() { m.m.Release() }

// ErrInUse is what Sent receives, at the end of a group, of a message that a receiver still looks
// at.
var ErrInUse = relay.ErrInView

// Alloc gives memory for messages. Where all members of a group are processes of one host, what
// lies in it is not sent, but read, or looked at, where it is; elsewhere it is as good as any other
// memory. What is in it at first is anything. A message may take any part of it, and several
// messages may lie in it.
//
// Release gives it back, once. That may be before its messages are everywhere: it is used again
// only when no member needs it any more. Making fresh memory takes longer than copying it, so
// programs that send again and again should release and allocate again, or keep one.
func (n *Node) Alloc(size int) (*Memory, error) {
	m, err := n.space.Alloc(size)
	switch {
	case errors.Is(err, samehost.ErrClosed):
		return nil, ErrClosed
	case err != nil:
		return nil, fmt.Errorf("rdmc: %w", err)
	}
	return &Memory{m}, nil
}

// allocFor gives memory for a message of this group: only if the members that have attached see it
// is it worth its making.
func (g *Group) allocFor(size int) (*Memory, error) {
	if g.isSeen() {
		return g.node.Alloc(size)
	}
	return &Memory{samehost.OnHeap(size)}, nil
}

// isSeen reports whether all others see this node's memory.
func (g *Group) isSeen() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for place, m := range g.members {
		if place != g.self && !(m != nil && g.relay.IsAttached(place) && m.link.sight.seen) {
			return false
		}
	}
	return len(g.members) > 1
}

// Release says that Data is not looked at any more, if it is a view; otherwise it does nothing. It
// may be called once or several times, in Completed or later, also when the group is over.
func (m *Message) Release() {
	if m.release != nil {
		m.release()
	}
}

// completed tells the application of a message that is here whole, or in view.
func (g *Group) completed(in Incoming, inView bool) {
	m := Message{Incoming: in, Data: g.take(in.Index)}
	view := g.takeView(in.Index)
	switch {
	case inView:
		m.Data, m.InPlace = view.Bytes(), true
		m.release = sync.OnceFunc(func() {
			view.Close() // before the root may write there again
			g.do(func(r *relay.Relay, out *relay.Effects) { r.Released(in.Index, out) })
		})
	case view != nil:
		view.Close()
	}
	if g.cfg.Completed != nil {
		g.cfg.Completed(m)
	} else {
		m.Release()
	}
	g.do(func(r *relay.Relay, out *relay.Effects) { r.Heard(in.Index, out) })
}

// takeView takes what is in view of a message; nil if nothing is.
func (g *Group) takeView(index uint64) *samehost.View {
	g.mu.Lock()
	defer g.mu.Unlock()
	v := g.views[index]
	delete(g.views, index)
	return v
}

// closeViews closes the views of messages that will not be complete.
func (g *Group) closeViews() {
	for index, v := range g.views {
		delete(g.views, index)
		v.Close()
	}
}

// seesRoot prepares for messages in memory of the root. The group's lock is held.
func (g *Group) seesRoot(owner string) {
	g.relay.Sees(0)
	g.node.running.Go(func() { g.fetch(owner) })
}

// fetch is the goroutine that looks where messages lie, and copies them.
func (g *Group) fetch(owner string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for !g.relay.Over() {
		f, ok := g.relay.NextFetch()
		if !ok {
			g.conds.toFetch.Wait()
			continue
		}
		view, into := g.views[f.Index], g.buffers[f.Index]
		g.mu.Unlock()
		var err error
		if f.Length == 0 {
			view, err = g.look(owner, &f)
		} else {
			copy(into[f.Offset:][:f.Length], view.Bytes()[f.Offset:])
		}
		g.mu.Lock()
		if err == nil {
			g.views[f.Index] = view
		}
		g.relay.Fetched(&f, err, &g.effects)
		g.apply()
	}
}

// look brings a message into view.
func (g *Group) look(owner string, f *relay.Fetch) (*samehost.View, error) {
	p, err := samehost.ParsePlace(f.Where)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(g.node.ctx, g.node.cfg.FailAfter)
	defer cancel()
	v, err := g.node.views.Open(ctx, owner, p, f.Size)
	if errors.Is(err, samehost.ErrGone) {
		err = fmt.Errorf("%w: %w", relay.ErrRootGone, err)
	}
	return v, err
}

// start begins to send, with a claim on the memory that the data lies in, if others can see that.
// The group's lock is held.
func (s *Sending) start(r *relay.Relay, out *relay.Effects) (err error) {
	o := &s.out
	if s.claimed {
		s.started, err = r.Offer(s.size, o.Tag, o.Filled, s.place.String(), out)
	} else {
		s.started, err = r.Start(s.size, o.Tag, o.Filled, out)
	}
	return err
}

// settle notes that Sent, or Everywhere, is told now, and forgets the message after both.
func (g *Group) settle(c *relay.Call) *Sending {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.sendings[c.Number]
	if s.told++; s.told == 2 {
		delete(g.sendings, c.Number)
	}
	g.conds.toFill.Broadcast()
	return s
}

// sent tells that memory is free.
func (g *Group) sent(c *relay.Call) {
	s := g.settle(c)
	if s.claimed {
		s.hold.Drop(c.Seen)
	}
	if s.out.Sent != nil {
		s.out.Sent(c.Err)
	}
}

// sight is what two nodes see of each other.
type sight struct {
	owner string // the name of the peer's socket for segments; "": this node sees nothing of it
	seen  bool   // the peer sees this node's memory
}

// probe finds out whether this node sees a peer that says that it is on a host, and has a socket.
func (n *Node) probe(host, owner string) (string, error) {
	switch {
	case n.space.Name() == "" || host != samehost.Host() || owner == "":
		return "", nil
	case len(owner) > maxSessionBytes:
		return "", fmt.Errorf("%w: a socket with a name of %d bytes", relay.ErrMalformed, len(owner))
	}
	ctx, cancel := context.WithTimeout(n.ctx, probeTime)
	defer cancel()
	if samehost.Reach(ctx, owner) != nil {
		return "", nil // then blocks travel, which works everywhere
	}
	return owner, nil
}

// share makes the node's memory for others, and its view of theirs.
func (n *Node) share() {
	reject := func(remote string, err error) {
		r := port.NewRejection(port.KindBlocks, remote, err)
		if errors.Is(err, samehost.ErrMalformed) {
			r.Reason = port.Garbage
		}
		n.cfg.Port.Reject(r)
	}
	if n.cfg.NotShared {
		reject = nil
	}
	n.space, n.views = samehost.NewSpace(reject), samehost.NewViews()
	if self := &n.cfg.Self; self.Host == "" {
		self.Host = samehost.Host()
	}
	if self := &n.cfg.Self; self.SHM == "" {
		self.SHM = n.space.Name()
	}
}

// view is what this node says of its memory.
func (n *Node) view() view {
	if n.space.Name() == "" {
		return view{}
	}
	return view{Host: samehost.Host(), SHM: n.space.Name()}
}
