package copy

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/squall-go/squall/rdmc"
)

const (
	// messageBytes is the size of the messages that carry the archive, but for the last one: large
	// enough for a pipeline of blocks, small enough that a few of them fit in the memory of any
	// machine.
	messageBytes = 32 << 20
	// ahead is how many messages the pusher may be ahead of what the slowest receiver has extracted.
	// It bounds the memory at both ends.
	ahead = 4
)

var (
	errArchive = errors.New("the pusher sends something else than it announced")
	errDigest  = errors.New("what arrived is not what was sent")
	errChanged = errors.New("it changed while it was being read")
)

// write writes what is in the files, in their order; the receivers know the entries. Files are read
// and not mapped: one that becomes shorter meanwhile is then an error, and no signal.
func (s *source) write(w io.Writer) error {
	for i := range s.entries {
		if s.entries[i].Kind == file {
			if err := s.writeFile(w, i); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *source) writeFile(w io.Writer, i int) error {
	e := &s.entries[i]
	f, err := os.Open(s.paths[i])
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.CopyN(w, f, e.Size)
	var info fs.FileInfo
	if err == nil {
		info, err = f.Stat()
	}
	if errors.Is(err, io.EOF) || err == nil && (info.Size() != e.Size || info.ModTime().UnixNano() != e.Time) {
		return fmt.Errorf("%s: %w", s.paths[i], errChanged)
	}
	return err
}

// messageWriter cuts the archive into messages, hashes them, and sends them.
type messageWriter struct {
	send func(message []byte, sent func(error)) error
	free chan []byte // buffers that have left; nil ones are not made yet
	wait func(free <-chan []byte) ([]byte, error)
	buf  []byte
	hash hash.Hash
}

func newMessageWriter(send func([]byte, func(error)) error, wait func(<-chan []byte) ([]byte, error)) *messageWriter {
	w := &messageWriter{send: send, wait: wait, free: make(chan []byte, ahead), hash: sha256.New()}
	for range ahead {
		w.free <- nil
	}
	return w
}

func (w *messageWriter) Write(b []byte) (n int, err error) {
	for n < len(b) {
		if w.buf == nil {
			if w.buf, err = w.wait(w.free); err != nil {
				return n, err
			}
			if w.buf == nil {
				w.buf = make([]byte, 0, messageBytes)
			}
			w.buf = w.buf[:0]
		}
		k := min(len(b)-n, messageBytes-len(w.buf))
		w.buf = append(w.buf, b[n:n+k]...)
		if n += k; len(w.buf) == messageBytes {
			if err := w.flush(); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

func (w *messageWriter) flush() error {
	message := w.buf
	w.buf = nil
	if err := w.send(message, func(error) { w.free <- message }); err != nil {
		return err
	}
	w.hash.Write(message) // while it leaves
	return nil
}

// end sends the rest, waits until all has left, and returns the digest of the archive.
func (w *messageWriter) end() ([]byte, error) {
	if len(w.buf) > 0 {
		if err := w.flush(); err != nil {
			return nil, err
		}
	}
	for range ahead {
		if _, err := w.wait(w.free); err != nil {
			return nil, err
		}
	}
	return w.hash.Sum(nil), nil
}

// messageReader reads the archive from the messages of a group, and hashes them. The pusher waits
// for the count that received is given, so there are never more than a few messages.
type messageReader struct {
	received func(messages int)
	queue    chan []byte // what arrived, in order; closed when nothing more will come

	rest []byte // of the message that is being read
	buf  []byte // that message
	hash hash.Hash

	mu           sync.Mutex
	coming, done int      // messages
	free         [][]byte // buffers of messages that were read
}

func newMessageReader(received func(int)) *messageReader {
	return &messageReader{received: received, queue: make(chan []byte, ahead+1), hash: sha256.New()}
}

// incoming gives a message its memory.
func (r *messageReader) incoming(m rdmc.Incoming) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.Size < 1 || m.Size > messageBytes || r.coming-r.done > ahead {
		return nil, fmt.Errorf("%w: message %d of %d bytes, %d ahead", errArchive, m.Index, m.Size, r.coming-r.done)
	}
	r.coming++
	if n := len(r.free) - 1; n >= 0 && int64(cap(r.free[n])) >= m.Size {
		b := r.free[n]
		r.free = r.free[:n]
		return b[:m.Size], nil
	}
	return make([]byte, m.Size), nil
}

// completed takes a message that is here. There is always space: incoming admits no more.
func (r *messageReader) completed(m rdmc.Message) { r.queue <- m.Data }

func (r *messageReader) Read(b []byte) (int, error) {
	if len(r.rest) == 0 {
		message, ok := <-r.queue
		if !ok {
			return 0, errGone
		}
		r.buf, r.rest = message, message
		r.hash.Write(message)
	}
	n := copy(b, r.rest)
	if r.rest = r.rest[n:]; len(r.rest) == 0 {
		r.mu.Lock()
		r.done++
		r.free = append(r.free, r.buf)
		done := r.done
		r.mu.Unlock()
		r.received(done)
	}
	return n, nil
}

// verify compares what was read with what the pusher sent (C5). With a token, no process in between
// could change both.
func (r *messageReader) verify(digest []byte) error {
	if sum := r.hash.Sum(nil); string(digest) != string(sum) || len(r.rest) > 0 || len(r.queue) > 0 {
		return fmt.Errorf("%w: the archive has SHA-256 %x, and had %x", errDigest, sum, digest)
	}
	return nil
}

// extract makes all entries in the stage, with what arrives.
func (s *stage) extract(r io.Reader) error {
	for i := range s.entries {
		if err := s.fill(i, r); err != nil {
			return fmt.Errorf("%s: %w", s.entries[i].Path, err)
		}
	}
	return nil
}
