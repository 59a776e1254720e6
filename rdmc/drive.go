package rdmc

import (
	"fmt"

	"github.com/squall-go/squall/internal/background"
	"github.com/squall-go/squall/internal/crc"
	"github.com/squall-go/squall/internal/relay"
	"github.com/squall-go/squall/internal/samehost"
)

// do gives the relay an input, and applies its effects.
func (g *Group) do(input func(r *relay.Relay, out *relay.Effects)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	input(g.relay, &g.effects)
	g.apply()
}

// apply sends the frames, and wakes the goroutines that have something to do. Frames only go into
// outboxes, so no goroutine waits for a peer here.
func (g *Group) apply() {
	for i := range g.effects.Frames {
		f := &g.effects.Frames[i]
		if m := g.members[f.To]; m != nil { // else this node has left the group
			m.link.enqueue(&f.Control)
		}
	}
	g.calls = append(g.calls, g.effects.Calls...)
	if len(g.effects.Calls) > 0 || g.relay.Over() {
		g.conds.toCall.Broadcast()
	}
	g.effects.Reset()
	g.conds.toSend.Signal() // if no goroutine waits, this costs nothing
	g.conds.toFetch.Signal()
	g.conds.toFill.Broadcast()
}

// step takes a control frame, if its peer is attached.
func (g *Group) step(m *membership, c *relay.Control) (attached bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	attached = g.relay.Step(m.place, c, &g.effects)
	g.apply()
	return attached
}

// expect is where a block belongs, nil if nowhere, and whether its message comes from one node
// alone.
func (g *Group) expect(m *membership, h *relay.Header) (into []byte, alone bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	offset, v := g.relay.Expect(m.place, h, &g.effects)
	g.apply()
	if v != relay.Take {
		return nil, false
	}
	return g.buffers[h.Message][offset:][:h.Length:h.Length], g.relay.Sources(h.Message) == 1
}

// arrived takes the end of a block that was expected.
func (g *Group) arrived(m *membership, h *relay.Header, a relay.Arrival) {
	g.do(func(r *relay.Relay, out *relay.Effects) { r.Arrived(m.place, h, a, out) })
}

// busy reports whether the group waits for others.
func (g *Group) busy() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.relay.Busy()
}

// send is the goroutine that sends this node's blocks of the group, one at a time.
func (g *Group) send() {
	defer g.node.running.Done()
	g.mu.Lock()
	defer g.mu.Unlock()
	for gaveWay := !g.node.cfg.Background; !g.relay.Over(); {
		s, ok := g.relay.Next()
		if !ok {
			g.conds.toSend.Wait()
			continue
		}
		if !gaveWay {
			background.GiveWay()
			gaveWay = true
		}
		to, block := g.members[s.To], g.block(&s)
		g.mu.Unlock()
		if s.NeedSum {
			s.Header.Sum = crc.Of(block)
		}
		to.way.writeBlock(&s.Header, block, func() bool { return g.wants(&s) })
		g.mu.Lock()
		g.relay.BlockSent(&s, &g.effects)
		g.apply()
	}
}

// wants reports whether a block still has to leave.
func (g *Group) wants(s *relay.Send) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.relay.Wanted(s)
}

// block returns the bytes of a block that is to be sent.
func (g *Group) block(s *relay.Send) []byte {
	data, offset := g.buffers[s.Header.Message], s.Offset
	if g.self == 0 {
		o := g.sendings[s.Number]
		if data = o.out.Data; o.window != nil {
			data, offset = o.window, s.Offset%int64(len(o.window))
		}
	}
	return data[offset:][:s.Header.Length]
}

// call is the goroutine that tells the application, one thing after the other.
func (g *Group) call() {
	defer g.node.running.Done()
	defer close(g.done)
	g.mu.Lock()
	defer g.mu.Unlock()
	for {
		switch {
		case len(g.calls) > 0:
			c := g.calls[0]
			g.calls = g.calls[1:]
			g.mu.Unlock()
			g.tell(&c)
			g.mu.Lock()
		case g.relay.Over():
			g.closeViews()
			g.conds.toSend.Broadcast()
			g.conds.toFetch.Broadcast()
			return
		default:
			g.conds.toCall.Wait()
		}
	}
}

// tell makes one call.
func (g *Group) tell(c *relay.Call) {
	in := Incoming{Index: c.Index, Tag: c.Tag, Size: c.Size}
	c.Err = public(c.Err)
	switch c.Kind {
	case relay.MakeRoom:
		g.makeRoom(in)
	case relay.Completed:
		g.completed(in, c.InView)
	case relay.Aborted:
		if view := g.takeView(c.Index); view != nil {
			view.Close()
		}
		if g.take(c.Index); g.cfg.Aborted != nil {
			g.cfg.Aborted(in, c.Err)
		}
		g.do(func(r *relay.Relay, out *relay.Effects) { r.Heard(c.Index, out) })
	case relay.Withdrawn:
		if g.cfg.Aborted != nil {
			g.cfg.Aborted(in, c.Err)
		}
	case relay.Failed:
		if g.cfg.Failed != nil {
			g.cfg.Failed(c.Err)
		}
	case relay.Sent:
		g.sent(c)
	case relay.Everywhere:
		if f := g.settle(c).out.Everywhere; f != nil {
			f(c.Err)
		}
	}
}

// makeRoom asks the application for memory.
func (g *Group) makeRoom(in Incoming) {
	var data []byte
	var err error
	if g.cfg.Incoming != nil {
		data, err = g.cfg.Incoming(in)
	} else {
		data, err = samehost.Make(in.Size)
	}
	if err == nil && int64(len(data)) != in.Size {
		err = fmt.Errorf("the memory has %d bytes instead of %d", len(data), in.Size)
	}
	g.do(func(r *relay.Relay, out *relay.Effects) {
		if err == nil {
			g.buffers[in.Index] = data
		}
		r.Room(in.Index, err, out)
	})
}

// take gives the memory of a message back.
func (g *Group) take(index uint64) []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	data := g.buffers[index]
	delete(g.buffers, index)
	return data
}
