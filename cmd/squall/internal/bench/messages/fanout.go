package messages

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
)

// batchBytes is how much a process writes at a time; a larger message is written alone.
const batchBytes = 64 << 10

const prefixBytes = 4 // a message's length

// fanout is one process of the limit over TCP: plain connections between all pairs, one for each
// direction.
type fanout struct {
	job
	listener  net.Listener
	out       []net.Conn
	delivered counts // by node, from 0

	ended atomic.Bool
	bench.Failing
}

func newFanout(j job) *fanout {
	return &fanout{job: j, delivered: make(counts, j.Spec.Nodes), Failing: bench.NewFailing()}
}

func (f *fanout) Listen(context.Context) (addr string, err error) {
	if f.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return "", err
	}
	return f.listener.Addr().String(), nil
}

// Connect dials all other nodes; the first byte on each connection is the number of the dialing
// node. It returns when all other nodes have dialed this one, too.
func (f *fanout) Connect(ctx context.Context, addrs []string) error {
	for i, addr := range addrs {
		if i == f.Node-1 {
			continue
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		if _, err := conn.Write([]byte{byte(f.Node - 1)}); err != nil {
			return err
		}
		f.out = append(f.out, conn)
	}
	defer f.listener.Close()
	for range f.out {
		conn, err := f.listener.Accept()
		if err != nil {
			return err
		}
		var from [1]byte
		if _, err := io.ReadFull(conn, from[:]); err != nil {
			return err
		}
		go func() {
			if err := f.receive(conn, &f.delivered[from[0]]); !errors.Is(err, io.EOF) {
				f.Fail(fmt.Errorf("receive from member %d: %w", from[0]+1, err))
			}
		}()
	}
	return nil
}

// receive counts messages until the other side closes.
func (f *fanout) receive(conn net.Conn, count *atomic.Uint64) error {
	in := bufio.NewReaderSize(conn, max(4*batchBytes, 2*(prefixBytes+f.Spec.SizeBytes)))
	if f.Spec.Kind == Batched {
		return receiveBatches(in, count)
	}
	var prefix [prefixBytes]byte
	buf := make([]byte, f.Spec.SizeBytes)
	for {
		if _, err := io.ReadFull(in, prefix[:]); err != nil {
			return err
		}
		if _, err := io.ReadFull(in, buf[:binary.LittleEndian.Uint32(prefix[:])]); err != nil {
			return err
		}
		count.Add(1)
	}
}

// receiveBatches counts messages where they were received, everything that is there in one go.
func receiveBatches(in *bufio.Reader, count *atomic.Uint64) error {
	need := prefixBytes
	for {
		if _, err := in.Peek(need); err != nil {
			return err
		}
		here, _ := in.Peek(in.Buffered())
		n, taken := whole(here)
		need = prefixBytes
		if n == 0 {
			need += int(binary.LittleEndian.Uint32(here))
			continue
		}
		in.Discard(taken)
		count.Add(n)
	}
}

// whole counts the whole messages in b and their bytes.
func whole(b []byte) (n uint64, taken int) {
	for len(b)-taken >= prefixBytes {
		size := prefixBytes + int(binary.LittleEndian.Uint32(b[taken:]))
		if len(b)-taken < size {
			break
		}
		taken += size
		n++
	}
	return n, taken
}

func (f *fanout) run(ctx context.Context, from, to time.Time) (Sample, error) {
	var sending sync.WaitGroup
	if f.Spec.sends(f.Node) {
		sending.Go(func() {
			if err := f.send(); err != nil {
				f.Fail(fmt.Errorf("send: %w", err))
			}
		})
	}
	s, err := observe(ctx, f, from, to)
	f.ended.Store(true)
	sending.Wait()
	return s, err
}

// send writes messages to all other members until the run is over.
func (f *fanout) send() error {
	if f.Spec.Kind == Batched {
		return f.sendBatches()
	}
	var outs []*bufio.Writer
	for _, conn := range f.out {
		outs = append(outs, bufio.NewWriterSize(conn, batchBytes))
	}
	message := make([]byte, prefixBytes+f.Spec.SizeBytes)
	binary.LittleEndian.PutUint32(message, uint32(f.Spec.SizeBytes))
	for index := uint64(0); !f.ended.Load(); index++ {
		fill(message[prefixBytes:], index)
		for _, out := range outs {
			if _, err := out.Write(message); err != nil {
				return err
			}
		}
		f.delivered[f.Node-1].Add(1)
	}
	for _, out := range outs {
		if err := out.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// sendBatches fills a batch once and writes it to all other members.
func (f *fanout) sendBatches() error {
	size := prefixBytes + f.Spec.SizeBytes
	batch := make([]byte, max(1, batchBytes/size)*size)
	for index := uint64(0); !f.ended.Load(); {
		n := uint64(0)
		for off := 0; off < len(batch); off += size {
			binary.LittleEndian.PutUint32(batch[off:], uint32(f.Spec.SizeBytes))
			fill(batch[off+prefixBytes:off+size], index)
			index++
			n++
		}
		for _, conn := range f.out {
			if _, err := conn.Write(batch); err != nil {
				return err
			}
		}
		f.delivered[f.Node-1].Add(n)
	}
	return nil
}

// snapshot implements counters.
func (f *fanout) snapshot() Sample { return f.delivered.snapshot() }

func (f *fanout) state() (s State, err error) {
	if err := f.Failure(); err != nil {
		return s, err
	}
	return State{Sent: f.delivered[f.Node-1].Load(), Delivered: f.delivered.sum()}, nil
}

func (f *fanout) end() bench.Latency { return bench.Latency{} }
func (f *fanout) Close() error       { return nil }
