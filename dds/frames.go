package dds

import (
	"fmt"
	"io"
	"net"
	"time"

	"github.com/squall-go/squall/dds/internal/remote"
)

// frames reads frames from a connection.
type frames struct {
	conn    net.Conn
	timeout time.Duration // 0: none
	limit   int           // of a body; 0: MaxBody
	buffer  []byte
	have    int // bytes in it
	used    int
}

// next returns the next frame. Its body is valid until the next call.
func (f *frames) next() (remote.Kind, []byte, error) {
	if err := f.fill(remote.HeadBytes); err != nil {
		return 0, nil, err
	}
	kind, n, err := remote.ParseHead(f.buffer[f.used:])
	if err == nil && f.limit > 0 && n > f.limit {
		err = fmt.Errorf("%w: a body of %d bytes, of %d at most", remote.ErrMalformed, n, f.limit)
	}
	if err == nil {
		err = f.fill(remote.HeadBytes + n)
	}
	if err != nil {
		return 0, nil, err
	}
	body := f.buffer[f.used+remote.HeadBytes : f.used+remote.HeadBytes+n]
	f.used += remote.HeadBytes + n
	return kind, body, nil
}

// firstRead is how much memory is taken for a frame before its bytes have come.
const firstRead = 64 << 10

// fill reads until n bytes are there.
func (f *frames) fill(n int) error {
	for f.have-f.used < n {
		if f.used > 0 {
			f.have = copy(f.buffer, f.buffer[f.used:f.have])
			f.used = 0
		}
		if f.have == len(f.buffer) {
			more := max(firstRead, min(n, 2*len(f.buffer))-len(f.buffer))
			if most := f.limit + remote.HeadBytes - len(f.buffer); f.limit > 0 {
				more = min(more, most)
			}
			f.buffer = append(f.buffer, make([]byte, more)...)
		}
		if f.timeout > 0 {
			if err := f.conn.SetReadDeadline(time.Now().Add(f.timeout)); err != nil {
				return err
			}
		}
		k, err := f.conn.Read(f.buffer[f.have:])
		f.have += k
		if err != nil && (k == 0 || err != io.EOF) {
			return err
		}
	}
	return nil
}
