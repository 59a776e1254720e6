package tcp

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/squall-go/squall/fabric"
)

const (
	stageBytes = 64 << 10 // what is read at once when nothing is known about it
	directMin  = 2 << 10  // a range with more than this to come is read into its place
	maxReads   = 16       // per poll, so that one fast peer cannot keep the loop from the others
)

// receiver takes frames apart as their bytes arrive.
//
//	stage: [ used │ r … unread … w │ free ]
type receiver struct {
	replica []byte
	cfg     Config
	guard   func(fabric.Range) error // nil: every range of the row may be written
	stage   []byte
	r, w    int
	iov     [][]byte

	// The frame at hand: what is still to come of it.
	inFrame bool
	stale   bool // of an older view: consumed, not stored
	ranges  []fabric.Range
	lines   int
	tail    []byte                  // of its lines, what is here already, if that is not all
	store   [maxRanges]fabric.Range // ranges' memory
}

func (x *receiver) init(replica []byte, cfg Config) {
	x.replica, x.cfg = replica, cfg
	// The largest piece that must be together in the stage is a header with its ranges.
	x.stage = make([]byte, stageBytes)
}

// Poll implements fabric.Link.
func (l *Link) Poll() (work bool, err error) {
	if l.hungUp {
		return false, nil
	}
	for range maxReads {
		into, room := l.rx.room()
		n, err := l.sock.read(into)
		if err != nil {
			return work, fmt.Errorf("%w: %w", fabric.ErrPeerGone, err)
		}
		if n == 0 {
			break
		}
		work = true
		if err := l.rx.took(n); err != nil {
			return work, err
		}
		if n < room {
			break // the socket was emptied
		}
	}
	return work, nil
}

// room is where the next bytes go: the places of the ranges that are still to come, if they are
// worth it, then the stage.
func (x *receiver) room() (into [][]byte, total int) {
	x.iov = x.iov[:0]
	if x.r == x.w {
		x.r, x.w = 0, 0
		if x.inFrame && !x.stale && len(x.ranges) > 0 && x.toCome() >= directMin {
			for _, r := range x.ranges {
				x.iov = append(x.iov, x.replica[r.Off:r.Off+r.N])
				total += r.N
			}
		}
	} else if x.w > stageBytes/2 {
		x.w = copy(x.stage, x.stage[x.r:x.w])
		x.r = 0
	}
	x.iov = append(x.iov, x.stage[x.w:])
	return x.iov, total + len(x.stage) - x.w
}

// toCome is how many bytes of ranges are still to come.
func (x *receiver) toCome() (n int) {
	for _, r := range x.ranges {
		n += r.N
	}
	return n
}

// took accounts for n bytes read into the last room.
func (x *receiver) took(n int) error {
	if len(x.iov) > 1 {
		for n > 0 && len(x.ranges) > 0 {
			n -= x.placed(min(n, x.ranges[0].N))
		}
	}
	x.w += n
	return x.parse()
}

// placed notes that k bytes of the first range are in place.
func (x *receiver) placed(k int) int {
	r := &x.ranges[0]
	r.Off, r.N = r.Off+k, r.N-k
	if r.N == 0 {
		x.ranges = x.ranges[1:]
	}
	return k
}

// parse consumes the stage as far as it goes.
func (x *receiver) parse() error {
	for {
		if !x.inFrame {
			if ok, err := x.header(); !ok || err != nil {
				return err
			}
		}
		for len(x.ranges) > 0 && x.r < x.w {
			k := min(x.ranges[0].N, x.w-x.r)
			if !x.stale {
				copy(x.replica[x.ranges[0].Off:], x.stage[x.r:x.r+k])
			}
			x.r += x.placed(k)
		}
		if len(x.ranges) > 0 {
			return nil
		}
		if ok, err := x.takeLines(); !ok || err != nil {
			return err
		}
		x.inFrame = false
	}
}

// takeLines stores the lines of the frame at hand when all of them are here. They are what they
// were at one moment, each pushed once or often in any order; a reader of a part of them might see
// a word and not what was pushed before it (F2).
func (x *receiver) takeLines() (ok bool, err error) {
	total, here := x.lines*lineBytes, x.stage[x.r:x.w]
	if len(x.tail) == 0 && len(here) >= total {
		x.r += total
	} else {
		k := min(len(here), total-len(x.tail))
		x.tail = append(x.tail, here[:k]...)
		x.r += k
		if len(x.tail) < total {
			return false, nil
		}
		here, x.tail = x.tail, x.tail[:0]
	}
	for k := range x.lines {
		if err := x.line(here[k*lineBytes:]); err != nil {
			return false, err
		}
	}
	return true, nil
}

// header takes the next frame's header and ranges, if they are here, and checks them (FT1, FT3,
// FT4).
func (x *receiver) header() (ok bool, err error) {
	b := x.stage[x.r:x.w]
	if len(b) < headBytes {
		return false, nil
	}
	le := binary.LittleEndian
	ranges, lines, bytes, view := int(le.Uint16(b)), int(le.Uint16(b[2:])), uint64(le.Uint32(b[4:])), le.Uint64(b[8:])
	shape := x.cfg.PeerShape
	if ranges > maxRanges || lines*fabric.LineBytes > shape.ControlBytes || ranges+lines == 0 {
		return false, fmt.Errorf("%w: FT3: frame with %d ranges and %d lines for a row of %d lines", fabric.ErrViolation, ranges, lines, shape.ControlBytes/fabric.LineBytes)
	}
	if view > uint64(x.cfg.View) {
		return false, fmt.Errorf("%w: FT4: frame of view %d in view %d", fabric.ErrViolation, view, x.cfg.View)
	}
	if len(b) < headBytes+ranges*rangeBytes {
		return false, nil
	}
	x.stale, x.lines, x.ranges = view < uint64(x.cfg.View), lines, x.store[:0]
	sum := uint64(0)
	for k := range ranges {
		at := b[headBytes+k*rangeBytes:]
		off, n := uint64(le.Uint32(at)), uint64(le.Uint32(at[4:])) // an int of 32 bits may be too small
		sum += n
		if n == 0 || max(off+n, sum) > math.MaxInt || !x.stale && (off < uint64(shape.ControlBytes) || off+n > uint64(shape.RowBytes)) {
			return false, fmt.Errorf("%w: FT1: range of %d bytes at %d, the row's bytes are [%d, %d)", fabric.ErrViolation, n, off, shape.ControlBytes, shape.RowBytes)
		}
		r := fabric.Range{Off: int(off), N: int(n)}
		if x.guard != nil {
			if err := x.guard(r); err != nil {
				return false, err
			}
		}
		x.ranges = append(x.ranges, r)
	}
	if sum != bytes {
		return false, fmt.Errorf("%w: FT3: frame announces %d bytes, its ranges have %d", fabric.ErrViolation, bytes, sum)
	}
	x.r += headBytes + ranges*rangeBytes
	x.inFrame = true
	return true, nil
}

// line stores one control line, word by word (F1, FT2).
func (x *receiver) line(b []byte) error {
	le := binary.LittleEndian
	off := le.Uint64(b)
	if x.stale {
		return nil
	}
	if off%fabric.LineBytes != 0 || off >= uint64(x.cfg.PeerShape.ControlBytes) {
		return fmt.Errorf("%w: FT2: line at %d, the row's lines end at %d", fabric.ErrViolation, off, x.cfg.PeerShape.ControlBytes)
	}
	for w := 0; w < fabric.LineBytes; w += 8 {
		atomic.StoreUint64(fabric.Word(x.replica, int(off)+w), le.Uint64(b[8+w:]))
	}
	return nil
}
