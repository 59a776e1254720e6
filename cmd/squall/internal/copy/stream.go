package copy

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/squall-go/squall/rdmc"
)

// readBytes is how much is read at a time: a block can leave as soon as it is read, while the next
// one is being read.
const readBytes = 1 << 20

var errChanged = errors.New("it changed while it was being read")

// stream reads all files once, hashes what it reads, and sends it. Files are read and not mapped:
// one that becomes shorter meanwhile is then an error, and no signal.
type stream struct {
	push *push
	free chan []byte // memory for pieces
	sums []digest    // by entry
	open *os.File    // the large file that is being read
	hash hash.Hash
}

// stream sends all pieces.
func (p *push) stream(ctx context.Context) error {
	s := stream{push: p, free: make(chan []byte, ahead), sums: make([]digest, len(p.src.entries)), hash: sha256.New()}
	for i := range s.sums {
		s.sums[i] = sha256.Sum256(nil)
	}
	for range ahead {
		s.free <- nil
	}
	for i := range p.pieces {
		if err := s.send(ctx, i); err != nil {
			return errors.Join(err, s.shut())
		}
	}
	// The memory comes back when everything has left.
	for range ahead {
		if _, err := s.memory(ctx, 0); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) shut() error {
	if s.open == nil {
		return nil
	}
	return s.open.Close()
}

// memory waits for a buffer that has left, and makes it large enough.
func (s *stream) memory(ctx context.Context, bytes int64) ([]byte, error) {
	select {
	case b := <-s.free:
		if int64(cap(b)) < bytes {
			b = make([]byte, bytes)
		}
		return b[:bytes], nil
	case <-s.push.group.Done():
		return nil, errBroken
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// send reads a piece while it leaves, when all receivers are near enough.
func (s *stream) send(ctx context.Context, i int) error {
	p := &s.push.pieces[i]
	if err := s.push.await(ctx, func(r *receiver) bool { return r.pieces >= i-ahead }); err != nil {
		return err
	}
	if p.last {
		all := joinDigests(s.push.src.entries, s.sums)
		s.push.digests = sha256.Sum256(all)
		_, err := s.start(i, all, -1)
		return err
	}
	data, err := s.memory(ctx, p.bytes)
	if err != nil {
		return err
	}
	sending, err := s.start(i, data, 0)
	if err != nil {
		return err
	}
	if err := s.fill(p, data, sending.Fill); err != nil {
		sending.Abort(err)
		return err
	}
	return nil
}

func (s *stream) start(i int, data []byte, filled int64) (*rdmc.Sending, error) {
	sent := func(error) { s.free <- data }
	if filled < 0 {
		sent = nil // that is no buffer of the pool
	}
	return s.push.group.Start(rdmc.Outgoing{Tag: uint64(i), Data: data, Filled: filled, Sent: sent})
}

// fill reads the files of a piece.
func (s *stream) fill(p *piece, data []byte, filled func(int64)) error {
	if p.large(s.push.src.entries) {
		return s.readLarge(p.parts[0], data, filled)
	}
	at := int64(0)
	for _, part := range p.parts {
		if err := s.readSmall(part.entry, data[at:][:part.bytes]); err != nil {
			return err
		}
		at += part.bytes
		filled(at)
	}
	return nil
}

func (s *stream) readSmall(i int, data []byte) error {
	f, err := os.Open(s.push.src.paths[i])
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.ReadFull(f, data); err != nil {
		return s.changed(i, err)
	}
	s.sums[i] = sha256.Sum256(data)
	return s.unchanged(i, f)
}

func (s *stream) readLarge(at part, data []byte, filled func(int64)) error {
	if at.offset == 0 {
		var err error
		if s.open, err = os.Open(s.push.src.paths[at.entry]); err != nil {
			return err
		}
	}
	for n := int64(0); n < at.bytes; {
		chunk := data[n:min(n+readBytes, at.bytes)]
		if _, err := io.ReadFull(s.open, chunk); err != nil {
			return s.changed(at.entry, err)
		}
		n += int64(len(chunk))
		filled(n)
		s.hash.Write(chunk) // while it leaves
	}
	if at.offset+at.bytes < s.push.src.entries[at.entry].Size {
		return nil
	}
	s.hash.Sum(s.sums[at.entry][:0])
	s.hash.Reset()
	err := errors.Join(s.unchanged(at.entry, s.open), s.open.Close())
	s.open = nil
	return err
}

// changed is what the early end of a file means.
func (s *stream) changed(i int, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%s: %w", s.push.src.paths[i], errChanged)
	}
	return err
}

// unchanged compares a file that was read with what its receivers were told about it.
func (s *stream) unchanged(i int, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if e := &s.push.src.entries[i]; info.Size() != e.Size || info.ModTime().UnixNano() != e.Time {
		return fmt.Errorf("%s: %w", s.push.src.paths[i], errChanged)
	}
	return nil
}
