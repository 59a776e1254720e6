package copy

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"

	"github.com/squall-go/squall/rdmc"
)

const (
	// messageBytes is the size of the messages that carry the archive, but for the last one: large
	// enough for a pipeline of blocks, small enough that a few of them fit in the memory of any
	// machine.
	messageBytes = 32 << 20
	// ahead is how many messages are in the memory of the pusher, and of each receiver.
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

// sender cuts the archive into messages, hashes them, and sends them to a group.
type sender struct {
	ctx   context.Context
	group *rdmc.Group
	sent  func(bytes int) // all receivers have them
	free  chan []byte     // buffers of messages that are everywhere; nil ones are not made yet
	buf   []byte
	hash  hash.Hash
}

func newSender(ctx context.Context, group *rdmc.Group, sent func(bytes int)) *sender {
	w := &sender{ctx: ctx, group: group, sent: sent, free: make(chan []byte, ahead), hash: sha256.New()}
	for range ahead {
		w.free <- nil
	}
	return w
}

func (w *sender) Write(b []byte) (n int, err error) {
	for n < len(b) {
		if w.buf == nil {
			select {
			case w.buf = <-w.free:
			case <-w.ctx.Done():
				return n, context.Cause(w.ctx)
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

// flush sends what was written.
func (w *sender) flush() error {
	message := w.buf
	if w.buf = nil; len(message) == 0 {
		return nil
	}
	_, err := w.group.Start(rdmc.Outgoing{Data: message, Filled: -1, Everywhere: func(err error) {
		if err == nil {
			w.sent(len(message))
		}
		w.free <- message
	}})
	if err == nil {
		w.hash.Write(message) // while it leaves
	}
	return err
}

// archive is what a receiver reads from the messages of a group, and hashes.
type archive struct {
	ctx   context.Context
	read  func(bytes int64) // are done with
	free  chan []byte       // buffers; a message that comes waits for one
	queue chan []byte       // messages that are here, in order

	buf, rest []byte // the message that is being read, and what is left of it
	bytes     int64
	hash      hash.Hash
}

func newArchive(ctx context.Context, read func(bytes int64)) *archive {
	a := &archive{ctx: ctx, read: read, free: make(chan []byte, ahead), queue: make(chan []byte, ahead), hash: sha256.New()}
	for range ahead {
		a.free <- nil
	}
	return a
}

// incoming gives a message its memory. No message comes while one waits here: so a receiver slows
// down the pusher.
func (a *archive) incoming(m rdmc.Incoming) (b []byte, err error) {
	if m.Size < 1 || m.Size > messageBytes {
		return nil, fmt.Errorf("%w: message %d of %d bytes", errArchive, m.Index, m.Size)
	}
	select {
	case b = <-a.free:
	case <-a.ctx.Done():
		return nil, context.Cause(a.ctx)
	}
	if int64(cap(b)) < m.Size {
		b = make([]byte, m.Size)
	}
	return b[:m.Size], nil
}

// completed takes a message that is here. There is always space: incoming admits no more.
func (a *archive) completed(m rdmc.Message) { a.queue <- m.Data }

func (a *archive) Read(b []byte) (int, error) {
	if len(a.rest) == 0 {
		select {
		case a.buf = <-a.queue:
		case <-a.ctx.Done():
			return 0, context.Cause(a.ctx)
		}
		a.rest = a.buf
		a.hash.Write(a.buf)
	}
	n := copy(b, a.rest)
	if a.rest = a.rest[n:]; len(a.rest) == 0 {
		a.bytes += int64(len(a.buf))
		a.read(a.bytes)
		a.free <- a.buf
	}
	return n, nil
}

// verify compares what was read with what the pusher sent (C5). With a token, no process in between
// could change both.
func (a *archive) verify(digest []byte) error {
	if sum := a.hash.Sum(nil); string(digest) != string(sum) || len(a.rest) > 0 || len(a.queue) > 0 {
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
