package wire

import (
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/squall-go/squall/internal/crc"
)

// Writer sends what is written to it as frames of Bytes. It is an io.Writer of one goroutine; its
// pulses are another's.
type Writer struct {
	conn *Conn

	mu    sync.Mutex
	frame []byte // what is gathered for the next one
	total uint64
	sum   uint32
}

// NewWriter makes a writer whose frames have at most so many bytes.
func (c *Conn) NewWriter(most int) *Writer { return &Writer{conn: c, frame: NewFrame(most)} }

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.conn.Broken(); err != nil {
		return 0, err
	}
	for len(p) > 0 {
		room := min(len(p), cap(w.frame)-len(w.frame))
		w.frame = append(w.frame, p[:room]...)
		p, n = p[room:], n+room
		if len(w.frame) < cap(w.frame) {
			continue
		}
		if err := w.flush(); err != nil {
			return n, err
		}
		runtime.Gosched() // the group's loop may wait for the core
	}
	return n, nil
}

// Pulses shows that this side lives, until stop: by the bytes that are gathered, so that they
// arrive however long the next ones take, or else by pulses.
func (w *Writer) Pulses() (stop func()) {
	return w.conn.repeat(func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.frame) > HeaderBytes {
			return w.flush()
		}
		return w.conn.pulse()
	})
}

// flush sends what is gathered. It needs mu.
func (w *Writer) flush() error {
	bytes := w.frame[HeaderBytes:]
	if len(bytes) == 0 {
		return nil
	}
	w.total += uint64(len(bytes))
	w.sum = crc.Add(w.sum, bytes)
	err := w.conn.Send(Bytes, w.frame)
	w.frame = w.frame[:HeaderBytes]
	return err
}

// Total is how many bytes were sent.
func (w *Writer) Total() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.total
}

// Finish sends what is gathered, and returns what the stream ends with.
func (w *Writer) Finish() (Ending, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.flush()
	return Ending{Count: w.total, Sum: w.sum}, err
}

// Close sends what is gathered, and the end.
func (w *Writer) Close() error {
	e, err := w.Finish()
	if err != nil {
		return err
	}
	return w.conn.SayAs(End, e)
}

// Reader gives the bytes of a stream, each frame when its checksum was found right; io.EOF only if
// the whole is right, too (CV5).
type Reader struct {
	next  func(*Ending) (Kind, []byte, error)
	rest  []byte
	total uint64
	sum   uint32
	err   error // the first one stays; io.EOF: everything was read, and is right
}

// NewReader reads a stream of frames from next, which is as Conn.Frame is.
func NewReader(next func(*Ending) (Kind, []byte, error)) *Reader { return &Reader{next: next} }

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 && r.err == nil {
		r.err = r.step()
	}
	if len(r.rest) == 0 {
		return 0, r.err
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *Reader) step() error {
	var e Ending
	k, bytes, err := r.next(&e)
	switch {
	case err == io.EOF && (e.Count != r.total || e.Sum != r.sum):
		return fmt.Errorf("%w: a stream of %d bytes with checksum %08x, announced %d with %08x", ErrCorrupt, r.total, r.sum, e.Count, e.Sum)
	case err != nil:
		return err
	case k != Bytes:
		return fmt.Errorf("%w: a frame of kind %d in a stream", ErrCorrupt, k)
	}
	runtime.Gosched() // as at the writer
	r.total, r.sum, r.rest = r.total+uint64(len(bytes)), crc.Add(r.sum, bytes), bytes
	return nil
}

// Total is how many bytes came.
func (r *Reader) Total() uint64 { return r.total }

// Err is what is wrong with the stream so far; nil: nothing.
func (r *Reader) Err() error {
	if r.err == io.EOF {
		return nil
	}
	return r.err
}

// Ended reports whether everything was read, and is right.
func (r *Reader) Ended() bool { return r.err == io.EOF }

// Finish reads what was left, and reports what is wrong with the stream, if anything is.
func (r *Reader) Finish() error {
	for r.err == nil {
		r.rest = nil
		r.err = r.step()
	}
	return r.Err()
}
