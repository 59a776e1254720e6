package join

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/trust"
	"github.com/squall-go/squall/views"
)

// errBusy says that as many conversations are going on as a process will have.
var errBusy = errors.New("too many requests at a time")

// limiter takes requests from the port, a bounded number at a time, each within a bounded time. A
// connection that has not proved its identity makes room for a newer one; the address with most
// such connections gives way first.
type limiter struct {
	emitter
	self     views.Member
	identity *trust.Identity
	shared   []byte // Config.Shared
	port     *port.Port
	silence  time.Duration
	most     int
	callers  *wire.Callers // that asked here
	dialed   *wire.Callers // that this process asks
}

func newLimiter(c Config, conversations int) *limiter {
	return &limiter{
		emitter: emitter{listener: c.OnEvent}, self: c.Self, identity: c.Identity, shared: c.Shared, port: c.Port, silence: c.silence, most: conversations,
		callers: wire.NewCallers(conversations, max(conversations/2, leastNew), maxOfAddress), dialed: wire.NewCallers(0, 0, 0),
	}
}

// maxOfAddress is how many connections one address may have at a time: twice what a group takes of
// which all members join from one host.
const maxOfAddress = 2 * views.MaxMembers

// leastNew is how many connections may be without a request at least, however few the first member
// waits for: several processes may ask from one host.
const leastNew = 16

// handler reads the request of each connection and lets converse have the rest; it closes the
// connection afterwards. If there are too many that have proved whose they are, it is closed
// without an answer, which its joiner takes for a reason to ask again.
func (d *limiter) handler(converse func(*conversation, Request)) func(net.Conn) {
	return func(conn net.Conn) {
		defer conn.Close()
		if _, ok := d.callers.Enter(conn); !ok {
			if !d.callers.Closing() {
				d.reject(conn, fmt.Errorf("%w: %d", errBusy, d.most))
			}
			return
		}
		defer d.callers.Leave(conn)
		talk := speak(conn, d.silence)
		q, err := d.challenge(talk)
		if (err != nil || q.Verb != Inquire) && !d.callers.Settle(conn) { // it had to make room
			err = fmt.Errorf("%w: %d", errBusy, d.most)
		}
		if err != nil {
			if !d.callers.Closing() {
				d.reject(conn, err)
			}
			return
		}
		converse(talk, q)
	}
}

// close ends everything that is read, and waits for it.
func (d *limiter) close() {
	d.callers.HangUp()
	d.dialed.HangUp()
}

// reject reports a connection that is closed without an answer, for silence, garbage or being one
// too many. The port counts and its owner bounds what is told: strangers decide how often that
// happens.
func (d *limiter) reject(conn net.Conn, err error) {
	r := port.NewRejection(port.KindControl, conn.RemoteAddr().String(), err)
	if errors.Is(err, errBusy) {
		r.Reason = port.TooMany
	}
	d.port.Reject(r)
}
