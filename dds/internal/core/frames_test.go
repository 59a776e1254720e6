package core

import (
	"bytes"
	"encoding/binary"
	"net"
	"testing"

	"github.com/squall-go/squall/dds/internal/remote"
)

func TestAFrameTakesNoMoreMemoryThanItMayHave(t *testing.T) {
	const limit = 4 << 10
	b := append(binary.LittleEndian.AppendUint32(nil, limit), make([]byte, limit)...)
	f := Frames{Conn: &endless{r: bytes.NewReader(b)}, Limit: limit}
	_, _, _ = f.Next()
	if len(f.buffer) > limit+remote.HeadBytes {
		t.Errorf("%d bytes of memory for a frame of %d", len(f.buffer), limit)
	}
}

// endless is a connection that ends with its reader.
type endless struct {
	net.Conn
	r *bytes.Reader
}

func (c *endless) Read(b []byte) (int, error) { return c.r.Read(b) }
