package restart

import (
	"context"
	"net"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/views"
)

// way is the connection to an address: a queue, and a goroutine that dials and writes. What cannot be said in time is lost: the core says
// again what matters.
type way struct {
	addr    string
	out     chan Message  // closed at the end
	flushed chan struct{} // closed when nothing more will be written
}

// waitingMessages is how many messages wait for a connection. A peer that cannot be reached at the moment needs no more than the last few.
const waitingMessages = 16

func (r *runner) send(s Send) {
	w := r.ways[s.To]
	if w == nil {
		w = &way{addr: s.To, out: make(chan Message, waitingMessages), flushed: make(chan struct{})}
		r.ways[s.To] = w
		r.tasks.Go(func() { r.carry(w) })
	}
	select {
	case w.out <- s.Message:
	default:
	}
}

// carry writes what is queued, over one connection after the other.
func (r *runner) carry(w *way) {
	defer close(w.flushed)
	var conn net.Conn
	defer func() {
		if conn != nil {
			conn.Close() // the reader sees it
		}
	}()
	for {
		select {
		case m, more := <-w.out:
			if !more {
				return
			}
			if conn == nil {
				conn = r.dial(w.addr)
			}
			if conn != nil && write(conn, m, r.cfg.Silence) != nil {
				conn.Close()
				conn = nil
			}
		case <-r.ctx.Done():
			return
		}
	}
}

// dial connects to an address and has what comes back read.
func (r *runner) dial(addr string) net.Conn {
	ctx, cancel := context.WithTimeout(r.ctx, r.cfg.Silence)
	defer cancel()
	conn, err := port.Dial(ctx, addr, port.KindRestart, r.cfg.TLS)
	if err != nil {
		return nil // nobody is there yet; the core asks again
	}
	if _, ok := r.callers.Enter(conn, maxCallers); !ok {
		conn.Close()
		return nil
	}
	r.tasks.Go(func() { r.read(conn, 0) }) // who restarts too answers over a connection of its own
	return conn
}

func write(conn net.Conn, m Message, within time.Duration) error {
	if err := conn.SetWriteDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	return port.WriteMessage(conn, m)
}

// serve takes a connection that somebody else dialed.
func (r *runner) serve(conn net.Conn) {
	if _, ok := r.callers.Enter(conn, maxCallers); !ok {
		conn.Close()
		return
	}
	r.read(conn, patience*r.cfg.Silence)
}

// patience is how many times Silence a connection may be silent before it is closed.
const patience = 4

// read hands the core what is heard, until the connection ends or nothing is heard for a while; 0: however long.
func (r *runner) read(conn net.Conn, within time.Duration) {
	defer r.callers.Leave(conn)
	defer conn.Close()
	for r.ctx.Err() == nil {
		if within > 0 && conn.SetReadDeadline(time.Now().Add(within)) != nil {
			return
		}
		var m Message
		if err := port.ReadMessage(conn, &m); err != nil {
			return
		}
		r.input(func(now time.Duration) Effects { return r.core.Hear(now, m) })
	}
}

// maxCallers bounds the connections that somebody reads from.
const maxCallers = 8 * views.MaxMembers
