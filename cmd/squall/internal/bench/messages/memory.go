package messages

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
)

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
	job
	bench.Failing
	memory  []byte
	slot    int // bytes
	slots   uint64
	part    int // bytes of a process's part
	ended   atomic.Bool
	stopped atomic.Bool
	sum     uint64 // of what was read

	delivered counts // by node, from 0, for the other goroutines
	sent      atomic.Uint64
	threads   sync.WaitGroup
}

func newMemoryMember(j job) (*memoryMember, error) {
	m := &memoryMember{job: j, Failing: bench.NewFailing(), delivered: make(counts, j.Spec.Nodes)}
	m.slot = slotBytes(j.Spec)
	m.slots = uint64(min(j.Spec.ringBytes()/m.slot, j.Spec.window()))
	m.part = partBytes(j.Spec)
	var err error
	m.memory, err = bench.MapSegment(j.Segment, segmentBytes(j.Spec))
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

func (m *memoryMember) run(ctx context.Context, from, to time.Time) (Sample, error) {
	m.threads.Go(m.loop)
	s, err := observe(ctx, m, from, to)
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
			for k := got[s]; k < to; k++ {
				m.sum += bench.Touch(m.message(s, k))
			}
			got[s] = to
			atomic.StoreUint64(m.word(self, 1+s), to)
			m.delivered[s].Store(to)
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

// snapshot implements counters.
func (m *memoryMember) snapshot() Sample { return m.delivered.snapshot() }

func (m *memoryMember) state() (State, error) {
	return State{Sent: m.sent.Load(), Delivered: m.delivered.sum()}, nil
}
