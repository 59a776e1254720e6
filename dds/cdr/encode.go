package cdr

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"slices"
	"strings"
	"unsafe"
)

// nativeLittle tells whether numbers lie in memory as little endian has them on the wire.
var nativeLittle = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// encoder writes one value behind buf[:n]. All of buf up to its length may be written to: what
// grows is n, a number, and the slice changes only when memory is full. The first error stays.
type encoder struct {
	buf      []byte
	n        int
	origin   int // where alignment counts from
	maxAlign int
	big, v2  bool
	depth    int
	err      error
}

func newEncoder(dst []byte, f Format) encoder {
	e := encoder{buf: dst[:cap(dst)], n: len(dst), origin: len(dst), maxAlign: 8, big: f.bigEndian(), v2: f.version2()}
	if e.v2 {
		e.maxAlign = 4
	}
	return e
}

func (e *encoder) fail(format string, args ...any) {
	if e.err == nil {
		e.err = fmt.Errorf("%w: "+format, append([]any{ErrValue}, args...)...)
	}
}

// take returns where n aligned bytes go. Padding before them is zero.
func (e *encoder) take(n, align int) (at int) {
	pad := -(e.n - e.origin) & (min(align, e.maxAlign) - 1)
	at = e.n + pad
	if n > len(e.buf)-at {
		e.grow(pad + n)
	}
	for i := e.n; i < at; i++ {
		e.buf[i] = 0
	}
	e.n = at + n
	return at
}

func (e *encoder) grow(n int) {
	buf := slices.Grow(e.buf[:e.n], n)
	e.buf = buf[:cap(buf)]
}

func (e *encoder) put8(v byte) {
	if e.n == len(e.buf) {
		e.grow(1)
	}
	e.buf[e.n] = v
	e.n++
}

func (e *encoder) put16(v uint16) {
	if e.big {
		v = bits.ReverseBytes16(v)
	}
	binary.LittleEndian.PutUint16(e.buf[e.take(2, 2):], v)
}

func (e *encoder) put32(v uint32) {
	if e.big {
		v = bits.ReverseBytes32(v)
	}
	at := e.take(4, 4)
	binary.LittleEndian.PutUint32(e.buf[at:], v)
}

func (e *encoder) put64(v uint64) {
	if e.big {
		v = bits.ReverseBytes64(v)
	}
	at := e.take(8, 8)
	binary.LittleEndian.PutUint64(e.buf[at:], v)
}

// count writes the length of a string or a collection.
func (e *encoder) count(n, bound int) {
	if n > math.MaxInt32 || bound > 0 && n > bound {
		e.fail("%d elements or bytes, more than the bound of %d", n, cmp.Or(bound, math.MaxInt32))
	}
	e.put32(uint32(n))
}

// room leaves place for a size that is known later, and fill writes it: the bytes since then.
func (e *encoder) room() int {
	e.put32(0)
	return e.n
}

func (e *encoder) fill(from int) {
	n := e.n - from
	if n > math.MaxInt32 {
		e.fail("%d bytes", n)
	}
	if e.big {
		binary.BigEndian.PutUint32(e.buf[from-4:], uint32(n))
	} else {
		binary.LittleEndian.PutUint32(e.buf[from-4:], uint32(n))
	}
}

func (e *encoder) value(p *plan, at unsafe.Pointer) {
	switch p.kind {
	case kindBool, kind8:
		e.put8(*(*byte)(at))
	case kind16:
		e.put16(*(*uint16)(at))
	case kind32:
		e.put32(*(*uint32)(at))
	case kind64:
		e.put64(*(*uint64)(at))
	case kindString:
		e.text(p, *(*string)(at))
	case kindStruct:
		e.structure(p, at)
	default:
		e.compound(p, at)
	}
}

func (e *encoder) text(p *plan, s string) {
	if p.bound > 0 && len(s) > p.bound {
		e.fail("a string of %d bytes, more than the bound of %d", len(s), p.bound)
	}
	if strings.IndexByte(s, 0) >= 0 {
		e.fail("a string with a zero byte: %.40q", s)
	}
	e.count(len(s)+1, 0)
	at := e.take(len(s)+1, 1)
	copy(e.buf[at:], s)
	e.buf[at+len(s)] = 0
}

// compound writes what XCDR2 may delimit.
func (e *encoder) compound(p *plan, at unsafe.Pointer) {
	from := 0
	if e.v2 && p.delimited() {
		from = e.room()
	}
	switch p.kind {
	case kindSequence:
		s := (*slice)(at)
		e.count(s.len, p.bound)
		e.elements(p.elem, s.data, s.len)
	case kindArray:
		e.elements(p.elem, at, p.count)
	case kindMap:
		e.mapping(p, at)
	case kindUnion:
		e.union(p, at)
	}
	if from > 0 {
		e.fill(from)
	}
}

func (e *encoder) elements(p *plan, data unsafe.Pointer, n int) {
	if n == 0 {
		return
	}
	if w := p.width(); w > 0 {
		if w == 1 || e.big != nativeLittle {
			at := e.take(n*w, w)
			copy(e.buf[at:], unsafe.Slice((*byte)(data), n*w))
			return
		}
	}
	for i := range n {
		e.value(p, unsafe.Add(data, uintptr(i)*p.size))
		if e.err != nil {
			return
		}
	}
}

func (e *encoder) enter(p *plan) bool {
	e.depth++
	if e.depth > maxDepth {
		e.fail("%v is nested more than %d deep", p.goes, maxDepth)
	}
	return e.err == nil
}

func (e *encoder) structure(p *plan, at unsafe.Pointer) {
	if !e.enter(p) {
		return
	}
	from := 0
	if e.v2 && p.extensibility != Final {
		from = e.room()
	}
	for i := 0; i < len(p.members); i++ {
		m := &p.members[i]
		field := unsafe.Add(at, m.offset)
		if m.run > 0 {
			e.numbers(p.members[i:i+m.run], at)
			i += m.run - 1
			continue
		}
		if p.extensibility != Mutable && !m.optional {
			e.value(m.plan, field)
			continue
		}
		e.marked(p, m, field)
	}
	switch {
	case from > 0:
		e.fill(from)
	case !e.v2 && p.extensibility == Mutable:
		e.take(0, 4)
		e.put16(parameterEnd)
		e.put16(0)
	}
	e.depth--
}

// marked writes a member that is optional, or one of a mutable structure, with what says that it is
// there.
func (e *encoder) marked(p *plan, m *member, field unsafe.Pointer) {
	if m.optional {
		field = *(*unsafe.Pointer)(field)
	}
	switch {
	case p.extensibility == Mutable && field == nil:
	case p.extensibility == Mutable && e.v2:
		e.identified(m, field)
	case (p.extensibility == Mutable || m.optional) && !e.v2:
		e.parameter(m, field)
	case m.optional && field == nil:
		e.put8(0)
	default:
		e.put8(1)
		e.value(m.plan, field)
	}
}

// numbers writes members that follow each other and are numbers. Most members are, so this is what
// the speed depends on: room is looked for once.
func (e *encoder) numbers(members []member, at unsafe.Pointer) {
	const most = 16 // bytes of a number and of the padding before it, or of zeros that are written for it
	if most*len(members) > len(e.buf)-e.n {
		e.grow(most * len(members))
	}
	buf, n, big := e.buf, e.n-e.origin, e.big // n counts from the origin
	buf = buf[e.origin:]
	for i := range members {
		m := &members[i]
		field := unsafe.Add(at, m.offset)
		switch m.kind {
		case kind16:
			v := *(*uint16)(field)
			if big {
				v = bits.ReverseBytes16(v)
			}
			buf[n] = 0
			n = (n + 1) &^ 1
			binary.LittleEndian.PutUint16(buf[n:], v)
			n += 2
		case kind32:
			v := *(*uint32)(field)
			if big {
				v = bits.ReverseBytes32(v)
			}
			binary.LittleEndian.PutUint32(buf[n:], 0)
			n = (n + 3) &^ 3
			binary.LittleEndian.PutUint32(buf[n:], v)
			n += 4
		case kind64:
			v := *(*uint64)(field)
			if big {
				v = bits.ReverseBytes64(v)
			}
			binary.LittleEndian.PutUint64(buf[n:], 0)
			n = (n + e.maxAlign - 1) &^ (e.maxAlign - 1)
			binary.LittleEndian.PutUint64(buf[n:], v)
			n += 8
		default:
			buf[n] = *(*byte)(field)
			n++
		}
	}
	e.n = e.origin + n
}

// identified writes a member of a mutable type in XCDR2.
func (e *encoder) identified(m *member, at unsafe.Pointer) {
	code := m.plan.lengthCode()
	header := m.id | code<<28
	if m.must || m.key {
		header |= 1 << 31
	}
	e.put32(header)
	if code != lengthNext {
		e.value(m.plan, at)
		return
	}
	from := e.room()
	e.value(m.plan, at)
	e.fill(from)
}

// Parameters of XCDR1: an id with flags and a length, of 16 bits each. Ids and lengths that need
// more are in a word each after an extended header. Alignment counts from the beginning of the
// member.
const (
	parameterExtended   = 0x3f01
	parameterEnd        = 0x3f02
	parameterIgnored    = 0x3f03
	parameterIDs        = 0x3f00 // ids below it fit a short header
	parameterMust       = 0x4000
	parameterMask       = 0x3fff
	extendedBytes       = 8
	extendedMust        = 1 << 30
	extendedMask        = 1<<28 - 1
	parameterShortBytes = math.MaxUint16
)

// parameter writes a member of a mutable type, or an optional one, in XCDR1; at is nil for an
// optional member that is absent.
func (e *encoder) parameter(m *member, at unsafe.Pointer) {
	must := m.must || m.key
	start := e.take(0, 4)
	long := m.id >= parameterIDs
	if long {
		e.extended(m.id, must, 0)
	} else {
		e.short(m.id, must, 0)
	}
	if at == nil {
		return
	}
	origin := e.origin
	from := e.n
	e.origin = from
	e.value(m.plan, at)
	e.origin = origin
	n := e.n - from
	if n > math.MaxInt32 {
		e.fail("%d bytes in %s", n, m.field)
		return
	}
	if !long && n > parameterShortBytes { // the content moves behind a longer header; its alignment is its own
		e.take(extendedBytes, 1)
		copy(e.buf[from+extendedBytes:e.n], e.buf[from:from+n])
		from, long = from+extendedBytes, true
	}
	e.n = start
	if long {
		e.extended(m.id, must, uint32(n))
	} else {
		e.short(m.id, must, uint16(n))
	}
	e.n = from + n
}

func (e *encoder) short(id uint32, must bool, n uint16) {
	header := uint16(id)
	if must {
		header |= parameterMust
	}
	e.put16(header)
	e.put16(n)
}

func (e *encoder) extended(id uint32, must bool, n uint32) {
	e.put16(parameterExtended | parameterMust)
	e.put16(extendedBytes)
	if must {
		id |= extendedMust
	}
	e.put32(id)
	e.put32(n)
}

func (e *encoder) union(p *plan, at unsafe.Pointer) {
	if !e.enter(p) {
		return
	}
	d := &p.members[0]
	e.value(d.plan, unsafe.Add(at, d.offset))
	if m := p.selected(d.plan.number(unsafe.Add(at, d.offset))); m != nil {
		e.value(m.plan, unsafe.Add(at, m.offset))
	}
	e.depth--
}

// mapping writes the entries in the order of their keys, so that equal maps have equal bytes. It is
// the one part that uses reflection and allocates: a map has no other way in.
func (e *encoder) mapping(p *plan, at unsafe.Pointer) {
	m := reflect.NewAt(p.goes, at).Elem()
	e.count(m.Len(), p.bound)
	keys := m.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int {
		switch {
		case a.Kind() == reflect.String:
			return cmp.Compare(a.String(), b.String())
		case a.CanInt():
			return cmp.Compare(a.Int(), b.Int())
		default:
			return cmp.Compare(a.Uint(), b.Uint())
		}
	})
	key, value := reflect.New(p.key.goes), reflect.New(p.elem.goes)
	for _, k := range keys {
		key.Elem().Set(k)
		value.Elem().Set(m.MapIndex(k))
		e.value(p.key, key.UnsafePointer())
		e.value(p.elem, value.UnsafePointer())
	}
}
