package cdr_test

import (
	"encoding/binary"
	"errors"
	"runtime"
	"testing"

	"github.com/squall-go/squall/dds/cdr"
)

type block struct {
	Bytes [4096]uint8
	_     struct{} `dds:"appendable"`
}

type slot struct{ Block *block }

type blocks struct{ All []block }

type slots struct{ All []slot }

type table struct{ All map[uint32]block }

// header is that of XCDR2 in little endian.
var header = []byte{0, 7, 0, 0}

// sparse is a payload with n elements that have so many bytes, all of them zero but a number at the
// beginning.
func sparse(n int, element func(dst []byte, i int) []byte) []byte {
	var all []byte
	for i := range n {
		all = element(all, i)
	}
	b := binary.LittleEndian.AppendUint32(header[:4:4], uint32(4+len(all)))
	b = binary.LittleEndian.AppendUint32(b, uint32(n))
	return append(b, all...)
}

// emptyBlock is a block whose writer knew no member: its size of 0.
func emptyBlock(dst []byte, _ int) []byte { return append(dst, 0, 0, 0, 0) }

func presentBlock(dst []byte, _ int) []byte { return append(dst, 1, 0, 0, 0, 0, 0, 0, 0) }

func entryBlock(dst []byte, i int) []byte {
	return append(binary.LittleEndian.AppendUint32(dst, uint32(i)), 0, 0, 0, 0)
}

// allocated is how much memory f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// within checks the bound for payloads of a type: the largest number of elements whose memory is
// within it is decoded, and one more is refused before it is allocated.
func within[T any](t *testing.T, element func([]byte, int) []byte, memory int) {
	t.Helper()
	c := codec[T](t)
	fits := func(n int) bool { return n*memory <= cdr.MemoryOfAll+cdr.MemoryPerByte*(len(sparse(n, element))-4) }
	most := 1
	for fits(most + 1) {
		most++
	}
	for _, n := range []int{most, most + 1, 50 * most} {
		payload := sparse(n, element)
		bound := uint64(cdr.MemoryOfAll + cdr.MemoryPerByte*len(payload))
		var v T
		var err error
		used := allocated(func() { err = c.Decode(payload, &v) })
		if refused := errors.Is(err, cdr.ErrMalformed); refused != (n > most) {
			t.Errorf("%T: %d elements of %d: %v", v, n, most, err)
		}
		if used > bound+bound/2 { // of pages and of maps
			t.Errorf("%T: %d elements, %d bytes, allocate %d bytes, with a bound of %d", v, n, len(payload), used, bound)
		}
	}
}

func TestMemoryOfAValueIsBoundedByItsPayload(t *testing.T) {
	within[blocks](t, emptyBlock, 4096)
	within[slots](t, presentBlock, 4096+8)
	within[table](t, entryBlock, 2*(4096+4))
}

func TestLargeValuesAreWithinTheBound(t *testing.T) {
	v := blocks{All: make([]block, 1000)}
	for i := range v.All {
		v.All[i].Bytes[i] = 1
	}
	for _, f := range formats {
		var back blocks
		reread(t, v, &back, f)
		if len(back.All) != 1000 || back.All[999] != v.All[999] {
			t.Errorf("%v: %d blocks", f, len(back.All))
		}
	}
}

func TestAKeyTwiceIsRefused(t *testing.T) {
	type numbers struct{ All map[uint32]uint32 }
	entries := func(second byte) []byte {
		return append(header[:4:4], 2, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, second, 0, 0, 0, 6, 0, 0, 0)
	}
	var v numbers
	if err := codec[numbers](t).Decode(entries(2), &v); err != nil || len(v.All) != 2 {
		t.Errorf("two keys: %v, %v", v, err)
	}
	if err := codec[numbers](t).Decode(entries(1), &v); !errors.Is(err, cdr.ErrMalformed) {
		t.Errorf("one key twice: %v, %v", v, err)
	}
}
