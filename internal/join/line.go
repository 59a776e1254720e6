package join

import (
	"net"
	"time"

	"github.com/squall-go/squall/fabric/port"
)

// line is the way to the other side of a conversation: a queue that is filled under its owner's lock, and a goroutine that
// writes, so that whoever does not read delays nobody.
type line struct {
	conn net.Conn
	out  chan any      // closed behind the last message
	sent chan struct{} // closed when all of out was written
	beat time.Duration // how often still is said; 0: not by the line
	keep bool          // the connection has another use. W: the owner, before it closes out.
}

func newLine(conn net.Conn, messages int, beat time.Duration) *line {
	return &line{conn: conn, out: make(chan any, messages), sent: make(chan struct{}), beat: beat}
}

// write sends what is queued. A failed write closes the connection, and the reader reports it.
func (l *line) write() {
	defer close(l.sent)
	var due <-chan time.Time
	if l.beat > 0 {
		ticker := time.NewTicker(l.beat)
		defer ticker.Stop()
		due = ticker.C
	}
	for {
		var m any = Message{Verb: sayStill}
		select {
		case next, more := <-l.out:
			if !more {
				l.finish()
				return
			}
			m = next
		case <-due:
		}
		if err := write(l.conn, m); err != nil {
			l.conn.Close()
		}
	}
}

func (l *line) finish() {
	if !l.keep {
		hangUp(l.conn)
	}
}

// push queues a message. Who has not read so many gets no more.
func (l *line) push(m any) {
	select {
	case l.out <- m:
	default:
		l.conn.Close()
	}
}

// write sends one value within a bounded time.
func write(conn net.Conn, v any) error {
	if err := conn.SetWriteDeadline(time.Now().Add(DefaultSilence)); err != nil {
		return err
	}
	return port.WriteMessage(conn, sealed(conn, v))
}

// hangUp says that nothing more will be written and bounds what is still read. Closing at once would be wrong: a message of
// the peer that is still on its way would reset the connection, and our last one could be lost with it.
func hangUp(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // a connection that is broken already ends the reader just as well
	}
	_ = conn.SetReadDeadline(time.Now().Add(DefaultSilence))
}
