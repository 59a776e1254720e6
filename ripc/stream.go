package ripc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/squall-go/squall/ripc/internal/pair"
	"github.com/squall-go/squall/ripc/internal/stream"
)

// ErrReset is returned if the other side of a stream gave it up. The error names that side and its
// reason.
var ErrReset = errors.New("stream reset")

// Addr is the address of one side of a stream: the id of its service.
type Addr ID

// Network is "ripc".
func (a Addr) Network() string { return "ripc" }

func (a Addr) String() string { return string(a) }

// Stream is a connection between two services: a [net.Conn] whose halves can be closed separately.
// Its bytes go through the memory or the socket of the two processes, and a stream that is not read
// delays no other stream. Its methods may be called from any goroutine. A stream that was
// accepted counts for its peer (Config.MaxBytesPerClient) until it is closed here, also if it was
// reset or the other process has ended: close every stream.
type Stream struct {
	e       *Endpoint
	service *Service
	remote  ID
	reading sync.Mutex // one Read at a time
	writing sync.Mutex // one Write at a time
	part    [1][]byte  // of a Write

	// Under the endpoint's mu.
	core        *stream.Stream
	table       *stream.Table
	peer        *peer
	out         *Remote // the service at the other side
	at          seats   // in the lists of its service and of out
	reader      *waiter
	writer      *waiter
	checks      checks
	readBefore  deadline
	writeBefore deadline
	closed      bool
	charged     bool  // its StreamBytes, to the account of the peer
	cause       error // why the other side is gone
}

// seats are places in lists of streams; -1 is none.
type seats struct{ remote, service int }

// checks are methods of a stream as functions, made once.
type checks struct{ canRead, canWrite, halts func() bool }

// deadline is the time until which something may wait.
type deadline struct {
	passed bool
	timer  *time.Timer
	turn   int // counts changes: a timer of an earlier one does nothing
}

func newStream(s *Service, core *stream.Stream, table *stream.Table) *Stream {
	c := &Stream{e: s.e, service: s, core: core, table: table, at: seats{remote: -1, service: -1}}
	c.checks = checks{c.readable, c.writable, c.halted}
	core.User = c
	return c
}

// attach puts a stream on the lists of streams that end together. The caller holds the mu, here and
// below.
func (c *Stream) attach(p *peer, out *Remote) {
	c.peer, c.out = p, out
	out.carries.add(c)
	c.service.streams.open.add(c)
}

// send sends a frame of a few bytes, which may wait for buffer space on the heap, if the other side
// is there.
func (c *Stream) send(k stream.Kind, data []byte) {
	if r := c.out.route.Load(); r != nil {
		r.peer.say(pair.Message, r.channel, c.core.ID(k), data)
	}
}

// accept tells the other side that it may write.
func (c *Stream) accept() {
	if c.core.Gone() {
		return
	}
	var b [stream.LimitBytes]byte
	stream.PutLimit(&b, c.core.Accept())
	c.send(stream.Credit, b[:])
	c.changed()
}

// grant tells the other side that it may write more, if enough was read.
func (c *Stream) grant() {
	if limit, news := c.core.Grant(); news {
		var b [stream.LimitBytes]byte
		stream.PutLimit(&b, limit)
		c.send(stream.Credit, b[:])
	}
}

// took wakes the goroutines that wait for what a frame brought.
func (c *Stream) took(what stream.Outcome) {
	if what == stream.Unread {
		c.send(stream.Reset, []byte("it is closed"))
	}
	if c.core.Gone() {
		c.out.carries.remove(c)
	}
	c.changed()
}

// changed wakes the goroutines that have what they wait for.
func (c *Stream) changed() {
	for _, w := range [...]*waiter{c.reader, c.writer} {
		if w != nil && w.reached() {
			c.e.rouse(w)
		}
	}
}

// lose resets the stream because the other side is gone.
func (c *Stream) lose(why error) {
	if c.cause == nil {
		c.cause = why
	}
	c.core.Lose("")
	if c.closed {
		c.table.Forget(c.core)
	}
	c.out.carries.remove(c)
	c.changed()
}

func (c *Stream) readable() bool { return c.closed || c.readBefore.passed || c.core.Readable() }

func (c *Stream) writable() bool {
	return c.halted() || c.out.route.Load() != nil && c.core.Sendable(1) > 0
}

// halted reports whether a Write does not go on.
func (c *Stream) halted() bool { return c.closed || c.writeBefore.passed || c.core.Broken() }

// Read reads what the other side wrote, and waits for it. At the end it returns io.EOF if the other
// side ended the stream, and an ErrReset or ErrPeerGone if it did not.
func (c *Stream) Read(b []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	c.e.lock()
	defer c.e.unlock()
	for {
		if c.closed || c.readBefore.passed {
			return 0, c.failed("read", c.stopped(&c.readBefore))
		}
		if n := c.core.Read(b); n > 0 || len(b) == 0 {
			c.grant()
			return n, nil
		}
		if c.core.AtEnd() {
			return 0, io.EOF
		}
		if err := c.lost(); err != nil {
			return 0, c.failed("read", err)
		}
		c.core.Expect(b)
		err := c.wait(&c.reader, c.checks.canRead)
		if n := c.core.Collect(); n > 0 {
			c.grant()
			return n, nil
		}
		if err != nil {
			return 0, c.failed("read", err)
		}
	}
}

// Write writes bytes, and waits until the other side has memory for them. It does not wait until
// they are read.
func (c *Stream) Write(b []byte) (written int, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.e.lock()
	defer c.e.unlock()
	for {
		if c.closed || c.writeBefore.passed {
			return written, c.failed("write", c.stopped(&c.writeBefore))
		}
		if err := c.lost(); err != nil {
			return written, c.failed("write", err)
		}
		if c.core.Broken() {
			return written, c.failed("write", io.ErrClosedPipe)
		}
		if written == len(b) {
			return written, nil
		}
		n, err := c.writeSome(b[written:])
		if err != nil {
			return written, c.failed("write", err)
		}
		written += n
	}
}

// writeSome writes a part of some bytes, or waits until that may be possible.
func (c *Stream) writeSome(b []byte) (int, error) {
	r := c.out.route.Load()
	n := c.core.Sendable(len(b))
	if n == 0 || r == nil {
		return 0, c.wait(&c.writer, c.checks.canWrite)
	}
	n = min(n, r.max)
	c.part[0] = b[:n]
	accepted, over, err := c.put(r)
	c.part[0] = nil
	switch {
	case accepted:
		c.core.Sent(n)
		return n, nil
	case over:
		c.lose(fmt.Errorf("%w: the connection", ErrClosed))
	}
	return 0, err
}

// put puts a part of what is written in the ring, and waits for buffer space if there is none. The
// part is not accepted, and the connection not over, if the stream was closed or lost meanwhile.
func (c *Stream) put(r *route) (accepted, over bool, err error) {
	p, id := r.peer, c.core.ID(stream.Data)
	status, over := p.putHeld(pair.Message, r.channel, id, c.part[:], nil)
	if status == pair.Accepted || over {
		return !over, over, nil
	}
	c.e.unlock()
	soon := p.send.roomSoon(pair.Message, r.channel, len(c.part[0]))
	c.e.lock()
	if soon || p.ended() {
		return false, false, nil
	}
	w := c.e.waiter()
	defer c.e.giveBack(w)
	w.goal, w.peer, w.route, w.halts, c.writer = goalRoom, p, r, c.checks.halts, w
	accepted, err = p.waitForRoom(context.Background(), w, r, pair.Message, id, c.part[:], nil)
	c.writer = nil
	return accepted, false, err
}

// wait waits for something about the stream.
func (c *Stream) wait(as **waiter, check func() bool) error {
	w := c.e.waiter()
	defer c.e.giveBack(w)
	w.goal, w.check = goalStream, check
	*as = w
	err := c.e.wait(context.Background(), w)
	*as = nil
	return err
}

// stopped is why nothing is waited for.
func (c *Stream) stopped(d *deadline) error {
	if c.closed {
		return net.ErrClosed
	}
	return os.ErrDeadlineExceeded
}

// lost is why the other side does not have the stream any more, or nil.
func (c *Stream) lost() error {
	why, was := c.core.WasReset()
	switch {
	case !was:
		return nil
	case c.cause != nil:
		return fmt.Errorf("%w: %s: %w", ErrPeerGone, c.remote, c.cause)
	}
	return fmt.Errorf("%w by %s: %s", ErrReset, c.remote, why)
}

func (c *Stream) failed(op string, err error) error {
	return &net.OpError{Op: op, Net: "ripc", Source: Addr(c.service.id), Addr: Addr(c.remote), Err: err}
}

// CloseWrite ends what is written: the other side reads io.EOF after it. Reading goes on.
func (c *Stream) CloseWrite() error {
	c.e.lock()
	defer c.e.unlock()
	if c.closed {
		return c.failed("close", net.ErrClosed)
	}
	if c.core.EndWriting() {
		c.send(stream.End, nil)
		c.changed()
	}
	return nil
}

// Close closes the stream. The other side reads what was written, and then io.EOF; if there are
// bytes that were not read here, or some come later, the stream is reset.
func (c *Stream) Close() error {
	c.e.lock()
	defer c.e.unlock()
	if c.closed {
		return c.failed("close", net.ErrClosed)
	}
	c.end("it was closed with bytes that were not read")
	return nil
}

// end closes the stream. why is for the other side, if it is not an orderly end.
func (c *Stream) end(why string) {
	c.closed = true
	switch c.table.Close(c.core) {
	case stream.End:
		c.send(stream.End, nil)
	case stream.Reset:
		c.send(stream.Reset, []byte(why))
	}
	if c.core.Gone() {
		c.out.carries.remove(c)
	}
	c.service.streams.open.remove(c)
	if c.charged {
		c.charged = false
		c.peer.refundStream()
	}
	c.readBefore.set(c, time.Time{})
	c.writeBefore.set(c, time.Time{})
	c.changed()
}

// LocalAddr is the id of the service here.
func (c *Stream) LocalAddr() net.Addr { return Addr(c.service.id) }

// RemoteAddr is the id of the service at the other side.
func (c *Stream) RemoteAddr() net.Addr { return Addr(c.remote) }

// SetDeadline sets both deadlines.
func (c *Stream) SetDeadline(t time.Time) error {
	return c.setDeadlines(t, &c.readBefore, &c.writeBefore)
}

// SetReadDeadline bounds how long Read waits, also one that waits already. The zero time removes
// the bound.
func (c *Stream) SetReadDeadline(t time.Time) error { return c.setDeadlines(t, &c.readBefore) }

// SetWriteDeadline bounds how long Write waits, also one that waits already. The zero time removes
// the bound.
func (c *Stream) SetWriteDeadline(t time.Time) error { return c.setDeadlines(t, &c.writeBefore) }

func (c *Stream) setDeadlines(t time.Time, which ...*deadline) error {
	c.e.lock()
	defer c.e.unlock()
	if c.closed {
		return c.failed("set", net.ErrClosed)
	}
	for _, d := range which {
		d.set(c, t)
	}
	c.changed()
	return nil
}

// set changes a deadline of a stream.
func (d *deadline) set(c *Stream, t time.Time) {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.turn++
	d.passed = false
	if t.IsZero() {
		return
	}
	left := time.Until(t)
	if left <= 0 {
		d.passed = true
		return
	}
	turn := d.turn
	d.timer = time.AfterFunc(left, func() {
		c.e.lock()
		defer c.e.unlock()
		if d.turn == turn {
			d.passed = true
			c.changed()
		}
	})
}
