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
	"unsafe"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
)

// batchBytes is how much a process writes at a time; a larger message is written alone.
const batchBytes = 64 << 10

const prefixBytes = 4 // a message's length

// fanout is one process of the limit over TCP: plain connections between all pairs, one for each
// direction.
type fanout struct {
	process
	listener net.Listener
	out      []net.Conn
	tally    *tally

	ended atomic.Bool
	bench.Failing
}

func newFanout(j process) *fanout {
	return &fanout{process: j, tally: newLimitTally(j.Spec.Spec, j.Node), Failing: bench.NewFailing()}
}

func (f *fanout) Listen(context.Context) (addr string, err error) {
	if f.listener, err = net.Listen("tcp", f.Host+":0"); err != nil {
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
			if err := f.receive(conn, int(from[0])+1); !errors.Is(err, io.EOF) {
				f.Fail(fmt.Errorf("receive from member %d: %w", from[0]+1, err))
			}
		}()
	}
	return nil
}

// receive delivers a sender's messages until the other side closes.
func (f *fanout) receive(conn net.Conn, sender int) error {
	in, part := bufio.NewReaderSize(conn, max(4*batchBytes, 2*(prefixBytes+f.Spec.SizeBytes))), f.tally.parts[sender-1]
	if f.Spec.Kind == Batched {
		return receiveBatches(in, part, sender)
	}
	var prefix [prefixBytes]byte
	buf := make([]byte, f.Spec.SizeBytes)
	for n := uint64(1); ; n++ {
		if _, err := io.ReadFull(in, prefix[:]); err != nil {
			return err
		}
		message := buf[:binary.LittleEndian.Uint32(prefix[:])]
		if _, err := io.ReadFull(in, message); err != nil {
			return err
		}
		if part.take(sender, message); in.Buffered() < prefixBytes+f.Spec.SizeBytes { // no other one is here
			part.publish(sender, n)
			n = 0
		}
	}
}

// receiveBatches delivers messages where they were received, everything that is there in one go.
func receiveBatches(in *bufio.Reader, part *partTally, sender int) error {
	need := prefixBytes
	for {
		if _, err := in.Peek(need); err != nil {
			return err
		}
		here, _ := in.Peek(in.Buffered())
		n, rest := uint64(0), here
		for message, size := first(rest); size > 0; message, size = first(rest) {
			part.take(sender, message)
			rest = rest[size:]
			n++
		}
		need = prefixBytes
		if n == 0 {
			need += int(binary.LittleEndian.Uint32(here))
			continue
		}
		in.Discard(len(here) - len(rest))
		part.publish(sender, n)
	}
}

// first is the first message in b, and its size with the prefix: 0 if it is not whole.
func first(b []byte) (message []byte, size int) {
	if len(b) < prefixBytes {
		return nil, 0
	}
	size = prefixBytes + int(binary.LittleEndian.Uint32(b))
	if len(b) < size {
		return nil, 0
	}
	return b[prefixBytes:size], size
}

func (f *fanout) run(ctx context.Context, r bench.Request) (Sample, error) {
	var sending sync.WaitGroup
	if f.Spec.sends(f.Node) {
		sending.Go(func() {
			if err := f.send(); err != nil {
				f.Fail(fmt.Errorf("send: %w", err))
			}
		})
	}
	s, err := observe(ctx, r, f.Spec.Nodes, f.tally.bySender)
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
	part, n := f.tally.parts[f.Node-1], uint64(0)
	for index := uint64(0); !f.ended.Load(); index++ {
		fill(message[prefixBytes:], index)
		for _, out := range outs {
			if _, err := out.Write(message); err != nil {
				return err
			}
		}
		part.take(f.Node, message[prefixBytes:])
		if n++; int(n)*len(message) >= batchBytes {
			part.publish(f.Node, n)
			n = 0
		}
	}
	part.publish(f.Node, n)
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
	part, n := f.tally.parts[f.Node-1], uint64(len(batch)/size)
	for index := uint64(0); !f.ended.Load(); {
		for off := 0; off < len(batch); off += size {
			binary.LittleEndian.PutUint32(batch[off:], uint32(f.Spec.SizeBytes))
			fill(batch[off+prefixBytes:off+size], index)
			index++
		}
		for _, conn := range f.out {
			if _, err := conn.Write(batch); err != nil {
				return err
			}
		}
		for off := prefixBytes; off < len(batch); off += size {
			part.take(f.Node, batch[off:off+f.Spec.SizeBytes])
		}
		part.publish(f.Node, n)
	}
	return nil
}

func (f *fanout) state() (s State, err error) {
	if err := f.Failure(); err != nil {
		return s, err
	}
	s = f.tally.state()
	s.Sent = f.tally.delivered[f.Node].Load()
	return s, nil
}

func (f *fanout) end() bench.Latency { return bench.Latency{} }
func (f *fanout) Close() error       { return nil }

// lineBytes is the size of a cache line: every counter has its own.
const lineBytes = 64

// memoryMember is one process of the limit in shared memory. A single thread fills the next
// messages in its own ring, publishes their count, and reads every new message in all rings.
//
// Each process has a part of the segment:
//
//	line 0             published: messages that it wrote      W: this process. R: all.
//	lines 1 to nodes   got[s]: messages of s that it read     W: this process. R: s, which writes no further than all have read.
//	ring               slots of one size
type memoryMember struct {
	process
	bench.Failing
	memory  []byte
	slot    int // bytes
	slots   uint64
	part    int // bytes of a process's part
	ended   atomic.Bool
	stopped atomic.Bool
	tally   *tally
	sent    atomic.Uint64
	threads sync.WaitGroup
}

func newMemoryMember(j process) (*memoryMember, error) {
	m := &memoryMember{process: j, Failing: bench.NewFailing(), tally: newLimitTally(j.Spec.Spec, j.Node)}
	m.slot = slotBytes(j.Spec.Spec)
	m.slots = uint64(min(j.Spec.ringBytes()/m.slot, j.Spec.window()))
	m.part = partBytes(j.Spec.Spec)
	var err error
	m.memory, err = bench.MapSegment(j.Spec.Segment)
	return m, err
}

// slotBytes is the room of a message; they start on words, as a group's do.
func slotBytes(s Spec) int { return max(8, (s.SizeBytes+7)&^7) }

func partBytes(s Spec) int {
	ring := (s.ringBytes() + lineBytes - 1) &^ (lineBytes - 1)
	return (1+s.Nodes)*lineBytes + ring
}

func segmentBytes(s Spec) int { return s.Nodes * partBytes(s) }

// word is a counter in a process's part.
func (m *memoryMember) word(node, line int) *uint64 {
	return (*uint64)(unsafe.Pointer(&m.memory[node*m.part+line*lineBytes]))
}

func (m *memoryMember) message(node int, index uint64) []byte {
	off := node*m.part + (1+m.Spec.Nodes)*lineBytes + int(index%m.slots)*m.slot
	return m.memory[off : off+m.Spec.SizeBytes]
}

func (m *memoryMember) Listen(context.Context) (string, error) { return "", nil }
func (m *memoryMember) end() bench.Latency                     { return bench.Latency{} }

// Connect has the thread end with the process.
func (m *memoryMember) Connect(ctx context.Context, _ []string) error {
	context.AfterFunc(ctx, func() { m.stopped.Store(true) })
	return nil
}

func (m *memoryMember) Close() error {
	m.stopped.Store(true)
	m.threads.Wait()
	return nil
}

func (m *memoryMember) run(ctx context.Context, r bench.Request) (Sample, error) {
	m.threads.Go(m.loop)
	s, err := observe(ctx, r, m.Spec.Nodes, m.tally.bySender)
	m.ended.Store(true)
	return s, err
}

// memoryBurst bounds what a process writes before it looks at what the others wrote. Of 16 KiB to 1
// MiB this was the best, and giving the core away with nothing to do was better than sleeping for 5
// µs; spinning on fewer cores than processes costs nearly everything.
const memoryBurst = 64 << 10

// loop is the single thread. It goes on reading after it has ended writing, so that everything is
// read at last.
func (m *memoryMember) loop() {
	self, nodes := m.Node-1, m.Spec.Nodes
	published := m.word(self, 0)
	written, freed := uint64(0), uint64(0) // freed: every member has read up to here, when last looked
	got := make([]uint64, nodes)
	burst := uint64(max(1, memoryBurst/m.slot))
	for !m.stopped.Load() {
		worked := false
		if m.Spec.sends(m.Node) && !m.ended.Load() {
			if written-freed >= m.slots || m.slots-(written-freed) < burst {
				freed = m.freed(self)
			}
			n := min(burst, m.slots-(written-freed))
			for k := range n {
				fill(m.message(self, written+k), written+k)
			}
			if n > 0 {
				written += n
				atomic.StoreUint64(published, written)
				m.sent.Store(written)
				worked = true
			}
		}
		for s := range nodes {
			to := atomic.LoadUint64(m.word(s, 0))
			if to == got[s] {
				continue
			}
			part := m.tally.parts[s]
			for k := got[s]; k < to; k++ {
				part.take(s+1, m.message(s, k))
			}
			part.publish(s+1, to-got[s])
			got[s] = to
			atomic.StoreUint64(m.word(self, 1+s), to)
			worked = true
		}
		if !worked {
			yieldCore() // another process may be waiting for it
		}
	}
}

// freed returns how far all other members have read this process's messages.
func (m *memoryMember) freed(self int) uint64 {
	least := ^uint64(0)
	for reader := range m.Spec.Nodes {
		least = min(least, atomic.LoadUint64(m.word(reader, 1+self)))
	}
	return least
}

func (m *memoryMember) state() (State, error) {
	s := m.tally.state()
	s.Sent = m.sent.Load()
	return s, nil
}
