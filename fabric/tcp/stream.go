package tcp

import (
	"io"
	"net"
	"sync"
	"time"

	"github.com/squall-go/squall/fabric"
)

const (
	streamBytes = 256 << 10              // per direction, between the loop and the goroutines
	lastWords   = 250 * time.Millisecond // for what was flushed just before Close: a peer that reads takes it at once
)

// stream gives a blocking connection (TLS, or a platform without polling) the face of a socket that never waits.
//
// One goroutine reads into in while it is empty, one writes out while it is not. The loop takes from in and fills out.
type stream struct {
	conn   net.Conn
	parker *fabric.Parker
	done   sync.WaitGroup

	mu     sync.Mutex
	moved  sync.Cond // in was emptied, out was filled, or closed
	in     []byte    // read, not taken yet
	out    []byte    // filled, not written yet
	outMem []byte
	inErr  error
	outErr error
	closed bool
}

func newStream(conn net.Conn, parker *fabric.Parker) *stream {
	s := &stream{conn: conn, parker: parker, outMem: make([]byte, 0, streamBytes)}
	s.moved.L = &s.mu
	s.done.Add(2)
	go s.reader()
	go s.writer()
	return s
}

func (s *stream) wake() {
	if s.parker != nil {
		s.parker.Wake()
	}
}

func (s *stream) reader() {
	defer s.done.Done()
	buf := make([]byte, streamBytes)
	for {
		n, err := s.conn.Read(buf)
		s.mu.Lock()
		s.in, s.inErr = buf[:n], err
		s.mu.Unlock()
		s.wake()
		s.mu.Lock()
		for len(s.in) > 0 && !s.closed {
			s.moved.Wait()
		}
		closed := s.closed
		s.mu.Unlock()
		if err != nil || closed {
			return
		}
	}
}

func (s *stream) writer() {
	defer s.done.Done()
	for {
		s.mu.Lock()
		for len(s.out) == 0 && !s.closed {
			s.moved.Wait()
		}
		out := s.out
		s.mu.Unlock()
		if len(out) == 0 {
			return
		}
		_, err := s.conn.Write(out)
		s.mu.Lock()
		s.out, s.outErr = nil, err
		s.mu.Unlock()
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
			return 0, s.inErr
		}
		s.moved.Broadcast()
	}
	return n, nil
}

func (s *stream) write(from [][]byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.outErr != nil:
		return 0, s.outErr
	case s.closed:
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

// finish waits until the peer's socket has what was flushed, as a socket without goroutines does by itself, but no longer
// than lastWords. Nothing can be written afterwards.
func (s *stream) finish() {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.moved.Broadcast()
	s.mu.Unlock()
	if closed {
		return
	}
	s.conn.SetWriteDeadline(time.Now().Add(lastWords))
	s.conn.SetReadDeadline(time.Unix(1, 0)) // long ago: the reader ends
	s.done.Wait()
	s.conn.Close()
}

func (s *stream) close(bool) error {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.moved.Broadcast()
	s.mu.Unlock()
	if closed {
		return nil
	}
	err := s.conn.Close()
	s.done.Wait()
	return err
}
