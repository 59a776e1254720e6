package ripc

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Body is what a long message carries: bytes, memory of this endpoint, what a reader gives, or a
// part of a file. The zero value is empty.
type Body struct {
	size   int64
	bytes  []byte
	buffer *Buffer
	reader io.Reader
	file   *os.File
	offset int64 // in the file
}

// NewBody returns a body that consists of b. The caller may reuse b when the call that sends the
// body returns. Within a host the bytes are copied into shared memory; the bytes of a Buffer are
// not.
func NewBody(b []byte) Body { return Body{size: int64(len(b)), bytes: b} }

// NewReaderBody returns a body of the next size bytes of r. A reader that ends before is an error,
// and the message is not sent.
func NewReaderBody(r io.Reader, size int64) Body { return Body{size: size, reader: r} }

// NewFileBody returns a body of bytes of a file. Over plain TCP the system sends them without a
// copy to this process. Within a host they are read into shared memory: the file itself, which its
// owner may cut at any time, is not shown to the peer. A file that is sent often is better read
// into a Buffer once.
func NewFileBody(f *os.File, offset, size int64) Body {
	return Body{size: size, file: f, offset: offset}
}

// Size is the number of bytes.
func (b Body) Size() int64 { return b.size }

// check reports a body that cannot be sent.
func (b *Body) check() error {
	switch {
	case b.size < 0 || b.offset < 0:
		return fmt.Errorf("%w: a body of %d bytes at %d", os.ErrInvalid, b.size, b.offset)
	case b.buffer != nil && b.buffer.refs.Load() <= 0:
		return fmt.Errorf("%w: the buffer was released", os.ErrInvalid)
	}
	return nil
}

// next returns the n bytes at an offset, each once and in order. What is not in memory is read into
// scratch, which is as large.
func (b *Body) next(offset int64, n int, scratch []byte) ([]byte, error) {
	switch {
	case b.reader != nil:
		_, err := io.ReadFull(b.reader, scratch[:n])
		return scratch[:n], whole(err)
	case b.file != nil:
		_, err := b.file.ReadAt(scratch[:n], b.offset+offset)
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return scratch[:n], err
	}
	return b.bytes[offset:][:n], nil
}

// inMemory reports whether next needs no scratch.
func (b *Body) inMemory() bool { return b.reader == nil && b.file == nil }

// isRepeatable reports whether the body can be sent again.
func (b *Body) isRepeatable() bool { return b.reader == nil }

// whole is the error of a source that must not end.
func whole(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// copy brings all of the body into memory.
func (b *Body) copy(into []byte) error {
	if b.inMemory() {
		copy(into, b.bytes)
		return nil
	}
	_, err := b.next(0, len(into), into)
	return err
}
