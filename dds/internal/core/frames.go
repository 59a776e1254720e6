package core

import (
	"fmt"
	"io"
	"net"
	"time"

	"github.com/squall-go/squall/dds/internal/remote"
)

// Frames reads frames from a connection.
type Frames struct {
	Conn    net.Conn
	Timeout time.Duration // 0: none
	Limit   int           // of a body; 0: remote.MaxBody
	buffer  []byte
	have    int // bytes in it
	used    int
}

// Next returns the next frame. Its body is valid until the next call.
func (f *Frames) Next() (remote.Kind, []byte, error) {
	if err := f.fill(remote.HeadBytes); err != nil {
		return 0, nil, err
	}
	kind, n, err := remote.ParseHead(f.buffer[f.used:])
	if err == nil && f.Limit > 0 && n > f.Limit {
		err = fmt.Errorf("%w: a body of %d bytes, of %d at most", remote.ErrMalformed, n, f.Limit)
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
func (f *Frames) fill(n int) error {
	for f.have-f.used < n {
		if f.used > 0 {
			f.have = copy(f.buffer, f.buffer[f.used:f.have])
			f.used = 0
		}
		if f.have == len(f.buffer) {
			more := max(firstRead, min(n, 2*len(f.buffer))-len(f.buffer))
			if most := f.Limit + remote.HeadBytes - len(f.buffer); f.Limit > 0 {
				more = min(more, most)
			}
			f.buffer = append(f.buffer, make([]byte, more)...)
		}
		if f.Timeout > 0 {
			if err := f.Conn.SetReadDeadline(time.Now().Add(f.Timeout)); err != nil {
				return err
			}
		}
		k, err := f.Conn.Read(f.buffer[f.have:])
		f.have += k
		if err != nil && (k == 0 || err != io.EOF) {
			return err
		}
	}
	return nil
}

// Heartbeat is how often a relay and a client tell each other that they are there.
const Heartbeat = 250 * time.Millisecond

// Service is the id of the service at relays that are found by their addresses.
func Service(cluster, space string) string { return "squall topics\x00" + cluster + "\x00" + space }

// Here is the id by which processes of one host find a relay with an address.
func Here(addr string) string { return "squall relay\x00" + addr }
