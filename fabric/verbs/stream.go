//go:build linux

package verbs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/verbs/device"
	"github.com/squall-go/squall/internal/mutant"
	"golang.org/x/sys/unix"
)

// Name implements fabric.Streams.
func (t *Transport) Name() string { return "verbs" }

// Stream implements fabric.Streams.
func (t *Transport) Stream(ctx context.Context, conn net.Conn) (fabric.Stream, error) {
	c, err := newSlots(t.device)
	c.remote, err = meet(ctx, conn, c.pair, c.setup, err)
	var s *Stream
	if err == nil {
		s, err = begin(c, conn)
	} else if errors.Is(err, fabric.ErrRefused) {
		err = errors.Join(err, conn.SetDeadline(time.Time{}))
	}
	if err != nil {
		return nil, errors.Join(err, c.release())
	}
	return s, nil
}

// Stream is a connection over a queue pair: slots, with goroutines that wait for them. One takes in
// what completes, one waits for the end of the connection over which the pair was set up, which is
// that of the peer's process. One goroutine at a time reads, one writes.
//
// Life of a stream: connected → read and written → closing: the last note, and what was written
// before it, get a moment to arrive → the pair is closed → nobody copies any more → released.
type Stream struct {
	conn   net.Conn
	events *os.File // the queue's
	done   chan struct{}

	mu      sync.Mutex
	moved   sync.Cond // something completed, or ended
	core    *slots
	users   int // that copy
	err     error
	gone    bool // the peer hung up
	closing bool
	late    bool // closing took its time
	closed  error

	readBy, writeBy time.Time // deadlines; zero: none
}

func begin(c *slots, conn net.Conn) (*Stream, error) {
	fd, err := unix.FcntlInt(uintptr(c.queue.Descriptor()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("completion channel: %w", err)
	}
	s := &Stream{conn: conn, events: os.NewFile(uintptr(fd), "RDMA completions"), done: make(chan struct{}), core: c}
	s.moved.L = &s.mu
	raw, err := s.events.SyscallConn()
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err == nil {
		err = s.events.SetReadDeadline(time.Time{}) // it can be waited for
	}
	if err != nil {
		return nil, errors.Join(err, s.events.Close())
	}
	go s.watch()
	go s.run(func() (drained bool) {
		raw.Read(func(uintptr) bool {
			drained = c.queue.Drain()
			return drained
		})
		return drained
	})
	return s, nil
}

// Read implements io.Reader.
func (s *Stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(p) > 0 {
		if passed(s.readBy) && !s.closing {
			return 0, os.ErrDeadlineExceeded
		}
		if from := s.core.peek(); len(from) > 0 && !s.closing {
			n := s.copy(p, from)
			s.fail(s.core.consume(n))
			return n, nil
		}
		switch {
		case s.closing:
			return 0, net.ErrClosed
		case s.core.last:
			return 0, io.EOF
		case s.err != nil:
			return 0, s.err
		}
		s.moved.Wait()
	}
	return 0, nil
}

// Write implements io.Writer.
func (s *Stream) Write(p []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n < len(p) {
		switch {
		case s.closing:
			return n, net.ErrClosed
		case s.err != nil:
			return n, s.err
		case passed(s.writeBy) || mutant.Enabled && mutant.On(mutant.DeadlineBoth) && passed(s.readBy):
			return n, os.ErrDeadlineExceeded
		}
		into := s.core.slot()
		if into == nil {
			s.moved.Wait()
			continue
		}
		k := s.copy(into, p[n:])
		if s.closing {
			continue
		}
		s.fail(s.core.send(k))
		n += k
	}
	return n, nil
}

// SetReadDeadline is that of net.Conn.
func (s *Stream) SetReadDeadline(at time.Time) error { return s.limit(&s.readBy, at) }

// SetWriteDeadline is that of net.Conn.
func (s *Stream) SetWriteDeadline(at time.Time) error { return s.limit(&s.writeBy, at) }

// limit sets a deadline. When it passes, blocked readers and writers are woken.
func (s *Stream) limit(deadline *time.Time, at time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if mutant.Enabled && mutant.On(mutant.DeadlineKept) && !deadline.IsZero() {
		return nil
	}
	*deadline = at
	if mutant.Enabled && mutant.On(mutant.DeadlineMute) {
		return nil
	}
	if !at.IsZero() {
		time.AfterFunc(time.Until(at), func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.moved.Broadcast()
		})
	}
	return nil
}

func passed(deadline time.Time) bool { return !deadline.IsZero() && !time.Now().Before(deadline) }

// copy copies without the lock.
func (s *Stream) copy(to, from []byte) (n int) {
	s.users++
	s.mu.Unlock()
	n = copy(to, from)
	s.mu.Lock()
	if s.users--; s.closing {
		s.moved.Broadcast()
	}
	return n
}

// fail ends the stream. The first reason stays. The lock is held.
func (s *Stream) fail(err error) {
	if err != nil && s.err == nil {
		s.err = err
		s.moved.Broadcast()
		s.wake()
	}
}

// wake has run look again.
func (s *Stream) wake() { s.events.SetReadDeadline(time.Unix(1, 0)) }

// run takes in what completes until the stream is closed, and releases it.
func (s *Stream) run(await func() bool) {
	defer close(s.done)
	s.mu.Lock()
	defer s.mu.Unlock()
	for armed := false; !s.isOver(); {
		work := false
		if s.err == nil {
			var err error
			work, err = s.core.poll()
			s.fail(err)
		}
		switch {
		case work:
			s.moved.Broadcast()
			s.mu.Unlock() // others want it, too
		case !armed && s.err == nil:
			armed = true
			if err := s.core.queue.Arm(); err != nil { // and poll once more (QP7)
				s.fail(fmt.Errorf("%w: %w", device.ErrFailed, err))
			}
			continue
		default:
			s.mu.Unlock()
			if await() {
				armed = false
			}
		}
		s.mu.Lock()
		s.events.SetReadDeadline(time.Time{})
	}
	for s.users > 0 {
		s.moved.Wait()
	}
	s.closed = errors.Join(s.events.Close(), s.core.release())
	s.conn.Close() // now the peer need not wait for more
}

// isOver reports whether nothing more is awaited. The lock is held.
func (s *Stream) isOver() bool {
	return s.closing && (s.err != nil || s.late || s.gone || s.core.quiet())
}

// watch waits for the end of the peer's process. What it sent before gets a moment.
func (s *Stream) watch() {
	var b [1]byte
	s.conn.Read(b[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	s.wake()
	if !s.core.last {
		s.mu.Unlock()
		select {
		case <-s.done:
		case <-time.After(lingerTime):
		}
		s.mu.Lock()
	}
	if !s.core.last {
		s.fail(fmt.Errorf("%w: its connection ended: %w", fabric.ErrPeerGone, io.ErrUnexpectedEOF))
	} else {
		s.fail(fmt.Errorf("%w: it closed the stream", fabric.ErrPeerGone))
	}
}

// Close ends the stream. What was written before gets a moment to arrive.
func (s *Stream) Close() error {
	s.mu.Lock()
	if !s.closing {
		s.closing, s.core.ending = true, true
		if s.err == nil {
			s.fail(s.core.report())
		}
		time.AfterFunc(lastWords, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.late = true
			s.wake()
		})
		s.moved.Broadcast()
		s.wake()
	}
	s.mu.Unlock()
	<-s.done
	return s.closed
}
