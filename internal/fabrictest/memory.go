package fabrictest

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/order"
)

// Memory is a fabric within one process, of nothing but memory: what was pushed is on its way when
// it was flushed, and arrives when the peer polls. It is for tests of the layers above, which step
// their tables by hand, and hold up the way from one member to another with Hold.
type Memory struct {
	Tables []*fabric.Table
	ways   [][]*way // from, to
}

// NewMemory makes the tables of a view whose rows have these shapes.
func NewMemory(shapes ...fabric.RowShape) *Memory {
	n := len(shapes)
	m := &Memory{ways: make([][]*way, n)}
	rows := make([][]byte, n)
	for from := range n {
		rows[from] = heap(shapes[from].RowBytes)
		for range n {
			m.ways[from] = append(m.ways[from], &way{row: rows[from], flushed: fabric.NewPending(shapes[from].ControlBytes), lines: map[int][8]uint64{}})
		}
	}
	for self := range n {
		links := make([]fabric.Link, n)
		for peer := range n {
			if peer != self {
				links[peer] = &memoryLink{
					out: m.ways[self][peer], in: m.ways[peer][self],
					pushed: fabric.NewPending(shapes[self].ControlBytes), replica: heap(shapes[peer].RowBytes),
				}
			}
		}
		m.Tables = append(m.Tables, fabric.NewTable(order.Rank(self), rows[self], links, nil, nil))
	}
	return m
}

// Hold stops what one member pushes from arriving at another, or lets it pass again.
func (m *Memory) Hold(from, to order.Rank, on bool) {
	w := m.ways[from][to]
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = on
}

// heap is line-aligned memory that the race detector sees.
func heap(n int) []byte {
	mem := make([]byte, n+fabric.LineBytes)
	for uintptrOf(mem)%fabric.LineBytes != 0 {
		mem = mem[1:]
	}
	return mem[:n:n]
}

// way is what one node flushed for another and that has not arrived: the ranges, and the lines as
// they were then.
type way struct {
	row []byte // the sender's

	mu      sync.Mutex
	flushed fabric.Pending
	lines   map[int][8]uint64
	held    bool
	ended   bool
}

type memoryLink struct {
	out, in *way
	pushed  fabric.Pending
	replica []byte
}

// Direct implements fabric.Link.
func (l *memoryLink) Direct() bool { return false }

func (l *memoryLink) Name() string     { return "memory" }
func (l *memoryLink) Replica() []byte  { return l.replica }
func (l *memoryLink) Push(off, n int)  { l.pushed.Push(off, n) }
func (l *memoryLink) PushLine(off int) { l.pushed.PushLine(off) }

func (l *memoryLink) Flush() (work bool, err error) {
	if l.pushed.Empty() {
		return false, nil
	}
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	for _, r := range l.pushed.Ranges {
		l.out.flushed.Push(r.Off, r.N)
	}
	for _, off := range l.pushed.Lines {
		var words [8]uint64
		for w := range words {
			words[w] = atomic.LoadUint64(fabric.Word(l.out.row, off+8*w))
		}
		l.out.flushed.PushLine(off)
		l.out.lines[off] = words
	}
	l.pushed.Taken(len(l.pushed.Ranges))
	return true, nil
}

// Poll takes in everything that is on its way: the bytes first, then the lines.
func (l *memoryLink) Poll() (work bool, err error) {
	l.in.mu.Lock()
	defer l.in.mu.Unlock()
	if l.in.held {
		return false, nil
	}
	work = !l.in.flushed.Empty()
	for _, r := range l.in.flushed.Ranges {
		copy(l.replica[r.Off:r.Off+r.N], l.in.row[r.Off:])
	}
	for _, off := range slices.Clone(l.in.flushed.Lines) {
		for w, v := range l.in.lines[off] {
			atomic.StoreUint64(fabric.Word(l.replica, off+8*w), v)
		}
	}
	l.in.flushed.Taken(len(l.in.flushed.Ranges))
	if l.in.ended {
		return work, fmt.Errorf("%w: the other end was closed", fabric.ErrPeerGone)
	}
	return work, nil
}

func (l *memoryLink) Freeze() []byte {
	l.end()
	return l.replica
}

func (l *memoryLink) Close() error {
	l.end()
	return nil
}

// end is seen by the peer behind what it was sent.
func (l *memoryLink) end() {
	for _, w := range []*way{l.in, l.out} {
		w.mu.Lock()
		w.ended = true
		w.mu.Unlock()
	}
}
