package restart

import (
	"context"
	"net"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/views"
)

// session is the conversation with the process at an address: a queue, and a goroutine that dials
// and writes. What cannot be said in time is lost: the core says again what matters.
type session struct {
	addr    string
	out     chan Message  // closed at the end
	flushed chan struct{} // closed when nothing more will be written
}

// waitingMessages is how many messages wait for a connection. A peer that cannot be reached at the
// moment needs no more than the last few.
const waitingMessages = 16

// patience is how many times Silence a connection may be silent before it is closed. Pulses are
// sent as often in that time as hellos are.
const patience = 4

// maxCallers bounds the connections from others that are read, and maxNewCallers the number of them
// on which no valid message came yet.
const (
	maxCallers    = 8 * views.MaxMembers
	maxNewCallers = 4 * views.MaxMembers
)

func newCallers() *wire.Callers { return wire.NewCallers(maxCallers, maxNewCallers, 0) }

// talk begins a conversation over a connection.
func talk(c net.Conn, silence, stall time.Duration) *wire.Conn {
	return wire.New(c, wire.Times{Dial: stall, Silence: silence, Pulse: silence / patience, Stall: stall}, wire.MaxMessageBytes)
}

func (r *runner) send(s Send) {
	to := r.sessions[s.To]
	if to == nil {
		to = &session{addr: s.To, out: make(chan Message, waitingMessages), flushed: make(chan struct{})}
		r.sessions[s.To] = to
		r.tasks.Go(func() { r.carry(to) })
	}
	select {
	case to.out <- s.Message:
	default:
	}
}

// carry writes what is queued, over one connection after the other.
func (r *runner) carry(s *session) {
	defer close(s.flushed)
	var c *wire.Conn
	defer func() {
		if c != nil {
			c.Close() // the reader sees it
		}
	}()
	for {
		select {
		case m, more := <-s.out:
			if !more {
				return
			}
			if c == nil {
				c = r.dial(s.addr)
			}
			if c != nil && c.Say(m) != nil {
				c.Close()
				c = nil
			}
		case <-r.ctx.Done():
			return
		}
	}
}

// dial connects to an address and has what comes back read. Another process that restarts answers
// over a connection of its own, and only pulses here.
func (r *runner) dial(addr string) *wire.Conn {
	ctx, cancel := context.WithTimeout(r.ctx, r.cfg.Silence)
	defer cancel()
	c, err := port.Dial(ctx, addr, port.KindRestart, r.cfg.TLS)
	if err != nil {
		return nil // no process is there yet; the core asks again
	}
	if _, ok := r.dialed.Enter(c); !ok {
		c.Close()
		return nil
	}
	conversation := talk(c, patience*r.cfg.Silence, r.cfg.Silence)
	r.tasks.Go(func() {
		defer r.dialed.Leave(c)
		r.read(conversation, func() {})
	})
	return conversation
}

// serve takes a connection that another process dialed.
func (r *runner) serve(c net.Conn) {
	if _, ok := r.callers.Enter(c); !ok {
		c.Close()
		return
	}
	defer r.callers.Leave(c)
	r.read(talk(c, patience*r.cfg.Silence, r.cfg.Silence), func() { r.callers.Settle(c) })
}

// read hands the core what is heard, until the connection ends or is silent for too long.
func (r *runner) read(c *wire.Conn, settle func()) {
	defer c.Close()
	defer c.Pulses()()
	for r.ctx.Err() == nil {
		var m Message
		if err := c.Hear(&m); err != nil {
			return
		}
		if m.check() == nil {
			settle()
		}
		r.input(func(now time.Duration) Effects { return r.core.Hear(now, m) })
	}
}
