package fabric

// Range is n bytes of a row at off.
type Range struct{ Off, N int }

// Pending is what was pushed to one peer and not forwarded yet, coalesced: a range that continues
// or repeats another one extends it, a line counts once. So its size is bounded by the row, however
// slow the peer is.
type Pending struct {
	Ranges []Range
	Lines  []int // offsets, in the order of their first push
	marked []uint64
}

// NewPending makes space for the lines of a control part.
func NewPending(controlBytes int) Pending {
	return Pending{marked: make([]uint64, (controlBytes/LineBytes+63)/64)}
}

// Push adds a range of bytes.
func (p *Pending) Push(off, n int) {
	for i := len(p.Ranges) - 1; i >= 0; i-- {
		if r := &p.Ranges[i]; off >= r.Off && off <= r.Off+r.N {
			r.N = max(r.N, off+n-r.Off)
			return
		}
	}
	p.Ranges = append(p.Ranges, Range{off, n})
}

// PushLine adds a control line.
func (p *Pending) PushLine(off int) {
	line := off / LineBytes
	if bit := uint64(1) << (line % 64); p.marked[line/64]&bit == 0 {
		p.marked[line/64] |= bit
		p.Lines = append(p.Lines, off)
	}
}

// Empty reports that nothing is pending.
func (p *Pending) Empty() bool { return len(p.Lines) == 0 && len(p.Ranges) == 0 }

// Taken says that the first n ranges were forwarded, and with the last of them all lines.
func (p *Pending) Taken(n int) {
	p.Ranges = append(p.Ranges[:0], p.Ranges[n:]...)
	if len(p.Ranges) > 0 {
		return
	}
	for _, off := range p.Lines {
		p.marked[off/LineBytes/64] = 0
	}
	p.Lines = p.Lines[:0]
}
