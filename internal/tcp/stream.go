package tcp

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/squall-go/squall/fabric"
)

const streamBytes = 256 << 10 // per direction, between the loop and the goroutines

// stream gives a blocking connection (TLS, or a platform without polling) the face of a socket that
// never waits.
//
// One goroutine reads into in while it is empty, one writes out while it is not. The loop takes
// from in and fills out. When it hangs up, the writer writes what it has and then the end
// (close_notify over TLS, which may take its time when the peer does not read), and the reader
// throws away what comes, until the peer's end.
type stream struct {
	conn    net.Conn
	parker  *fabric.Parker
	done    sync.WaitGroup
	written chan struct{} // closed when the writer is done

	mu     sync.Mutex
	moved  sync.Cond // in was emptied, out was filled, or hung up
	in     []byte    // read, not taken yet
	out    []byte    // filled, not written yet
	outMem []byte
	inErr  error
	outErr error
	ended  time.Time // when it hung up; zero while it did not
	closed bool
}

func newStream(conn net.Conn, parker *fabric.Parker) *stream {
	s := &stream{conn: conn, parker: parker, outMem: make([]byte, 0, streamBytes), written: make(chan struct{})}
	s.moved.L = &s.mu
	s.done.Go(s.reader)
	s.done.Go(s.writer)
	return s
}

func (s *stream) wake() {
	if s.parker != nil {
		s.parker.Wake()
	}
}

func (s *stream) reader() {
	buf := make([]byte, streamBytes)
	for {
		n, err := s.conn.Read(buf)
		s.mu.Lock()
		s.in, s.inErr = buf[:n], err
		s.mu.Unlock()
		s.wake()
		s.mu.Lock()
		for len(s.in) > 0 && s.ended.IsZero() {
			s.moved.Wait()
		}
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *stream) writer() {
	defer close(s.written)
	for {
		s.mu.Lock()
		for len(s.out) == 0 && s.ended.IsZero() {
			s.moved.Wait()
		}
		out := s.out
		s.mu.Unlock()
		if len(out) == 0 {
			if c, ok := s.conn.(interface{ CloseWrite() error }); ok {
				c.CloseWrite() // an error changes nothing now
			}
			return
		}
		_, err := s.conn.Write(out)
		s.mu.Lock()
		s.out, s.outErr = nil, err
		s.mu.Unlock()
		if err != nil {
			s.conn.SetReadDeadline(time.Now().Add(lastWords))
		}
		s.wake()
		if err != nil {
			return
		}
	}
}

func (s *stream) read(into [][]byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range into {
		k := copy(b, s.in)
		n, s.in = n+k, s.in[k:]
	}
	if len(s.in) == 0 {
		if n == 0 && s.inErr != nil {
			return 0, s.failure()
		}
		s.moved.Broadcast()
	}
	return n, nil
}

// failure is why the connection ended. A reader that ran out of time has no reason of its own. The
// caller holds mu.
func (s *stream) failure() error {
	if s.outErr != nil && errors.Is(s.inErr, os.ErrDeadlineExceeded) {
		return s.outErr
	}
	return s.inErr
}

func (s *stream) write(from [][]byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.outErr != nil && s.inErr != nil && len(s.in) == 0:
		return 0, s.failure()
	case s.outErr != nil:
		return 0, nil // the reader is not at the end yet
	case !s.ended.IsZero():
		return 0, io.ErrClosedPipe
	case len(s.out) > 0:
		return 0, nil // the writer still has the last one
	}
	mem := s.outMem[:0]
	for _, b := range from {
		k := min(len(b), cap(mem)-len(mem))
		mem = append(mem, b[:k]...)
	}
	s.out = mem
	s.moved.Broadcast()
	return len(mem), nil
}

func (s *stream) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended.IsZero() {
		s.ended = time.Now()
		s.moved.Broadcast()
	}
}

// close waits until the peer's socket has what was flushed, as a socket without goroutines does by
// itself, and then for the peer's end, each for no longer than a short time after hanging up. Then
// it ends the connection below TLS, so that nothing waits any more.
func (s *stream) close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	s.hangUp()
	select {
	case <-s.written:
	case <-time.After(time.Until(s.ended.Add(lastWords))):
	}
	s.conn.SetReadDeadline(s.ended.Add(lingerTime))
	raw := s.conn
	if c, ok := raw.(*tls.Conn); ok {
		raw = c.NetConn()
	}
	read := make(chan struct{})
	go func() {
		s.done.Wait()
		close(read)
	}()
	select {
	case <-read:
	case <-time.After(time.Until(s.ended.Add(lastWords))):
	}
	err := raw.Close()
	<-read
	return err
}
