package join

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/squall-go/squall/fabric/port"
)

// errBusy says that as many conversations are going on as a process will have.
var errBusy = errors.New("too many requests at a time")

// desk takes requests from the port, a bounded number at a time, each within a bounded time.
type desk struct {
	emitter
	port    *port.Port
	slots   chan struct{}
	silence time.Duration
}

func newDesk(c Config) *desk {
	return &desk{
		emitter: emitter{listener: c.OnEvent}, port: c.Port, silence: c.silence,
		slots: make(chan struct{}, requestsPerMember*c.Expect),
	}
}

// handler reads the request of each connection and lets converse have the rest; it closes the connection afterwards. A
// connection beyond the bound is closed without an answer, which its joiner takes for a reason to ask again.
func (d *desk) handler(converse func(net.Conn, request)) func(net.Conn) {
	return func(conn net.Conn) {
		defer conn.Close()
		select {
		case d.slots <- struct{}{}:
			defer func() { <-d.slots }()
		default:
			d.reject(conn, fmt.Errorf("%w: %d", errBusy, cap(d.slots)))
			return
		}
		q, err := d.readRequest(conn)
		if err != nil {
			d.reject(conn, err)
			return
		}
		converse(conn, q)
	}
}

// reject reports a connection that is closed without an answer, for silence, garbage or being one too many. The port counts
// and its owner bounds what is told: strangers decide how often that happens.
func (d *desk) reject(conn net.Conn, err error) {
	r := port.RejectedControl(conn.RemoteAddr().String(), err)
	if errors.Is(err, errBusy) {
		r.Reason = port.TooMany
	}
	d.port.Reject(r)
}

func (d *desk) readRequest(conn net.Conn) (q request, err error) {
	if err := conn.SetReadDeadline(time.Now().Add(d.silence)); err != nil {
		return q, err
	}
	if err := port.ReadMessage(conn, &q); err != nil {
		return q, err
	}
	return q, conn.SetReadDeadline(time.Time{})
}

// write sends one value within a bounded time.
func write(conn net.Conn, v any) error {
	if err := conn.SetWriteDeadline(time.Now().Add(silence)); err != nil {
		return err
	}
	return port.WriteMessage(conn, v)
}

// hangUp says that nothing more will be written and bounds what is still read. Closing at once would be wrong: a message of
// the peer that is still on its way would reset the connection, and our last one could be lost with it.
func hangUp(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // a connection that is broken already ends the reader just as well
	}
	_ = conn.SetReadDeadline(time.Now().Add(silence))
}
