package logwire

import (
	"fmt"
	"hash/crc32"
	"io"
)

// bytesOf are the bytes of a snapshot, each handed on when the checksum of its frame was found right. The last ones come only if the whole
// is right, too.
type bytesOf struct {
	s     *session
	rest  []byte
	count uint64
	sum   uint32
	err   error // the first one stays; io.EOF: everything was read, and is right
}

// Read implements io.Reader.
func (b *bytesOf) Read(p []byte) (int, error) {
	for len(b.rest) == 0 && b.err == nil {
		b.err = b.next()
	}
	if len(b.rest) == 0 {
		return 0, b.err
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (b *bytesOf) next() error {
	var e end
	k, bytes, err := b.s.frame(&e)
	switch {
	case err == io.EOF && (e.Count != b.count || e.Sum != b.sum):
		return fmt.Errorf("%w: a snapshot of %d bytes with checksum %08x, announced %d with %08x", ErrCorrupt, b.count, b.sum, e.Count, e.Sum)
	case err != nil:
		return err
	case k != kindBytes:
		return fmt.Errorf("%w: a frame of kind %d in a snapshot", ErrCorrupt, k)
	}
	b.count, b.sum, b.rest = b.count+uint64(len(bytes)), crc32.Update(b.sum, castagnoli, bytes), bytes
	return nil
}

// finish reads what was left, and reports what is wrong with the source, if anything is.
func (b *bytesOf) finish() error {
	for b.err == nil {
		b.rest = nil
		b.err = b.next()
	}
	if b.err == io.EOF {
		return nil
	}
	return b.err
}

// stream is a snapshot that ends its session when it is closed.
type stream struct {
	*bytesOf
	end func()
}

// Close implements io.Closer.
func (s *stream) Close() error {
	s.end()
	return nil
}
