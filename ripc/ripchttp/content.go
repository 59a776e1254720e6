package ripchttp

import (
	"errors"
	"io"
	"os"

	"github.com/squall-go/squall/ripc"
)

// Content is a Buffer as what [http.ServeContent] takes. To a client of this host the memory of the
// buffer itself is shown; to all others it is copied. It must not be used after the buffer was
// released.
type Content struct {
	buffer *ripc.Buffer
	at     int64
}

// NewContent returns the content of a buffer, from its beginning.
func NewContent(b *ripc.Buffer) *Content { return &Content{buffer: b} }

// Read implements io.Reader.
func (c *Content) Read(p []byte) (int, error) {
	all := c.buffer.Bytes()
	if c.at >= int64(len(all)) {
		return 0, io.EOF
	}
	n := copy(p, all[c.at:])
	c.at += int64(n)
	return n, nil
}

// Seek implements io.Seeker.
func (c *Content) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += c.at
	case io.SeekEnd:
		offset += int64(len(c.buffer.Bytes()))
	}
	if offset < 0 {
		return 0, errors.Join(os.ErrInvalid, errors.New("a position before the beginning"))
	}
	c.at = offset
	return offset, nil
}

// maxLongBody is the largest body of a response that is not a stream.
const maxLongBody = 1 << 30
