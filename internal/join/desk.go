package join

import (
	"errors"
	"fmt"
	"math"
	"net"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/trust"
	"github.com/squall-go/squall/views"
)

// errBusy says that as many conversations are going on as a process will have.
var errBusy = errors.New("too many requests at a time")

// desk takes requests from the port, a bounded number at a time, each within a bounded time.
type desk struct {
	emitter
	self     views.Member
	identity *trust.Identity
	port     *port.Port
	slots    chan struct{}
	silence  time.Duration
	callers  port.Callers // that somebody reads from
}

func newDesk(c Config, conversations int) *desk {
	return &desk{
		emitter: emitter{listener: c.OnEvent}, self: c.Self, identity: c.Identity, port: c.Port, silence: c.silence,
		slots: make(chan struct{}, conversations),
	}
}

// handler reads the request of each connection and lets converse have the rest; it closes the connection afterwards. A
// connection beyond the bound is closed without an answer, which its joiner takes for a reason to ask again.
func (d *desk) handler(converse func(net.Conn, Request)) func(net.Conn) {
	return func(conn net.Conn) {
		defer conn.Close()
		if !d.enter(conn) {
			return
		}
		defer d.callers.Leave(conn)
		select {
		case d.slots <- struct{}{}:
			defer func() { <-d.slots }()
		default:
			d.reject(conn, fmt.Errorf("%w: %d", errBusy, cap(d.slots)))
			return
		}
		talk, q, err := d.challenge(conn)
		if err != nil {
			d.reject(conn, err)
			return
		}
		converse(talk, q)
	}
}

// enter notes a connection that is read from now on, so that close ends it. How many there may be is bounded elsewhere.
func (d *desk) enter(conn net.Conn) bool {
	_, ok := d.callers.Enter(conn, math.MaxInt)
	return ok
}

// close ends everything that is read, and waits for those that read.
func (d *desk) close() { d.callers.HangUp() }

// reject reports a connection that is closed without an answer, for silence, garbage or being one too many. The port counts
// and its owner bounds what is told: strangers decide how often that happens.
func (d *desk) reject(conn net.Conn, err error) {
	r := port.RejectedControl(conn.RemoteAddr().String(), err)
	if errors.Is(err, errBusy) {
		r.Reason = port.TooMany
	}
	d.port.Reject(r)
}

func (d *desk) readRequest(conn net.Conn) (q Request, err error) {
	if err := conn.SetReadDeadline(time.Now().Add(d.silence)); err != nil {
		return q, err
	}
	if err := port.ReadMessage(conn, &q); err != nil {
		return q, err
	}
	return q, conn.SetReadDeadline(time.Time{})
}
