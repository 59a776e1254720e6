package smc

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/squall-go/squall/order"
)

// HeaderBytes is the size of a record's header. The bytes of a record end on a word.
const HeaderBytes = 8

// AreaBytes is the size of the area of a ring in a row, which takes a window of messages with so
// many bytes.
func AreaBytes(ringBytes, window int) int { return ringBytes + window*HeaderBytes }

// MaxMessage is the largest message a ring takes. With half of the ring, there is space for it in
// one piece whatever the position.
func MaxMessage(ringBytes int) int { return ringBytes / 2 }

// Kind is what a record is.
type Kind uint8

// Kinds of a record.
const (
	Small Kind = iota // a message
	Large             // the record of a large one
	Void              // an aborted claim: its index is a null
	pad               // no index: the next record is at the start of the area
)

// header is a record's first word.
type header uint64

const (
	lengthBits = 31
	kindBits   = 2
	gapShift   = lengthBits + kindBits
	exactBits  = 26 // of a gap, which has 5 bits for the power of two
)

func headerOf(n int, k Kind) header { return header(n) | header(k)<<lengthBits }

func (h header) length() uint64 { return uint64(h) & (1<<lengthBits - 1) }
func (h header) kind() Kind     { return Kind(h>>lengthBits) & (1<<kindBits - 1) }

// size is that of the record.
func (h header) size() uint64 { return sizeOf(h.length()) }

func sizeOf(length uint64) uint64 { return HeaderBytes + (length+7)&^7 }

// gap is how many nulls come before the record.
func (h header) gap() order.Index {
	g := h >> gapShift
	return order.Index(g&(1<<exactBits-1)) << (g >> exactBits)
}

// withGap adds a gap, which may become larger, to a header without one.
func (h header) withGap(n order.Index) header {
	shift := max(0, bits.Len64(uint64(n))-exactBits)
	g := (uint64(n) + 1<<shift - 1) >> shift
	if g == 1<<exactBits {
		g, shift = g>>1, shift+1
	}
	return h | header(g|uint64(shift)<<exactBits)<<gapShift
}

// load and store access the header of the record at an offset.
func load(area []byte, at uint64) header { return header(atomic.LoadUint64(wordAt(area, at))) }

func store(area []byte, at uint64, h header) { *wordAt(area, at) = uint64(h) }

func wordAt(area []byte, at uint64) *uint64 {
	_ = area[at+HeaderBytes-1]
	return (*uint64)(unsafe.Pointer(&area[at]))
}

// words is heap memory that starts on a word.
func words(n int) []byte {
	w := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), n)
}
