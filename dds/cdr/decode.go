package cdr

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"unsafe"
)

// decoder reads one value of buf[pos:end]. Of errors the first stays, and every step returns false
// after it.
type decoder struct {
	buf      []byte
	pos, end int
	origin   int
	maxAlign int
	big, v2  bool
	depth    int
	inPlace  bool   // strings and octets of the value lie in buf
	spent    uint64 // memory for elements, entries and optional members, in bytes
	err      error
}

// Memory that a value may need, besides its strings and octets: MemoryPerByte for each byte of its
// encoding, and MemoryOfAll. The Go value of an element, an entry or an optional member can be much
// larger than its encoding, which ends early where its writer knows fewer members.
const (
	MemoryPerByte = 16
	MemoryOfAll   = 1 << 20
)

// spend counts memory for n values of a size before it is allocated.
func (d *decoder) spend(n int, size uintptr) bool {
	most := MemoryOfAll + MemoryPerByte*uint64(len(d.buf))
	if d.spent += uint64(n) * uint64(size); d.spent > most {
		return d.fail("%d bytes need more than %d bytes of memory", len(d.buf), most)
	}
	return true
}

func newDecoder(src []byte, f Format) decoder {
	d := decoder{buf: src, end: len(src), maxAlign: 8, big: f.bigEndian(), v2: f.version2()}
	if d.v2 {
		d.maxAlign = 4
	}
	return d
}

func (d *decoder) fail(format string, args ...any) bool {
	if d.err == nil {
		d.err = fmt.Errorf("%w at byte %d: "+format, append([]any{ErrMalformed, d.pos}, args...)...)
	}
	return false
}

// take moves over padding and n bytes, and returns where these begin.
func (d *decoder) take(n, align int) (at int, ok bool) {
	at = d.pos + -(d.pos-d.origin)&(min(align, d.maxAlign)-1)
	if n > d.end-at {
		return 0, d.fail("%d bytes wanted of %d", n, d.end-d.pos)
	}
	d.pos = at + n
	return at, true
}

func (d *decoder) get16() (v uint16, ok bool) {
	at, ok := d.take(2, 2)
	if !ok {
		return 0, false
	}
	if d.big {
		return binary.BigEndian.Uint16(d.buf[at:]), true
	}
	return binary.LittleEndian.Uint16(d.buf[at:]), true
}

func (d *decoder) get32() (v uint32, ok bool) {
	at, ok := d.take(4, 4)
	if !ok {
		return 0, false
	}
	if d.big {
		return binary.BigEndian.Uint32(d.buf[at:]), true
	}
	return binary.LittleEndian.Uint32(d.buf[at:]), true
}

func (d *decoder) get64() (v uint64, ok bool) {
	at, ok := d.take(8, 8)
	if !ok {
		return 0, false
	}
	if d.big {
		return binary.BigEndian.Uint64(d.buf[at:]), true
	}
	return binary.LittleEndian.Uint64(d.buf[at:]), true
}

// count reads a length, and refuses one whose elements, of at least fewest bytes each, are not
// there.
func (d *decoder) count(fewest, bound int) (n int, ok bool) {
	v, ok := d.get32()
	switch {
	case !ok:
		return 0, false
	case uint64(v)*uint64(max(fewest, 1)) > uint64(d.end-d.pos):
		return 0, d.fail("%d elements in %d bytes", v, d.end-d.pos)
	case bound > 0 && v > uint32(bound):
		return 0, d.fail("%d elements or bytes, more than the bound of %d", v, bound)
	}
	return int(v), true
}

// limit reads the size of a delimited value and makes its end the end; the former end is returned.
func (d *decoder) limit() (former int, ok bool) {
	n, ok := d.count(1, 0)
	if !ok {
		return 0, false
	}
	former, d.end = d.end, d.pos+n
	return former, true
}

func (d *decoder) value(p *plan, to unsafe.Pointer) (ok bool) {
	switch p.kind {
	case kindBool, kind8:
		at, ok := d.take(1, 1)
		if !ok {
			return false
		}
		if p.kind == kindBool && d.buf[at] > 1 {
			return d.fail("a boolean of %d", d.buf[at])
		}
		*(*byte)(to) = d.buf[at]
		return true
	case kind16:
		*(*uint16)(to), ok = d.get16()
	case kind32:
		*(*uint32)(to), ok = d.get32()
	case kind64:
		*(*uint64)(to), ok = d.get64()
	case kindString:
		*(*string)(to), ok = d.text(p)
	case kindStruct:
		return d.structure(p, to)
	default:
		return d.compound(p, to)
	}
	return ok
}

func (d *decoder) text(p *plan) (s string, ok bool) {
	n, ok := d.count(1, 0)
	if !ok || n == 0 { // some implementations write nothing for an empty string, not even its zero byte
		return "", ok
	}
	b := d.buf[d.pos : d.pos+n]
	switch {
	case bytes.IndexByte(b, 0) != n-1:
		return "", d.fail("a string of %d bytes without a zero byte at its end, or with another one", n)
	case p.bound > 0 && n-1 > p.bound:
		return "", d.fail("a string of %d bytes, more than the bound of %d", n-1, p.bound)
	}
	d.pos += n
	if d.inPlace {
		return unsafe.String(unsafe.SliceData(b), n-1), true
	}
	return string(b[:n-1]), true
}

func (d *decoder) compound(p *plan, to unsafe.Pointer) bool {
	former, delimited := d.end, d.v2 && p.delimited()
	if delimited {
		var ok bool
		if former, ok = d.limit(); !ok {
			return false
		}
	}
	ok := false
	switch p.kind {
	case kindSequence:
		ok = d.sequence(p, to)
	case kindArray:
		ok = d.elements(p.elem, to, p.count)
	case kindMap:
		ok = d.mapping(p, to)
	case kindUnion:
		ok = d.union(p, to)
	}
	if !ok {
		return false
	}
	if delimited {
		if d.pos != d.end && p.kind != kindUnion {
			return d.fail("%d bytes after the last element", d.end-d.pos)
		}
		d.pos, d.end = d.end, former
	}
	return true
}

func (d *decoder) sequence(p *plan, to unsafe.Pointer) bool {
	n, ok := d.count(p.elem.fewest, p.bound)
	if !ok || n == 0 {
		return ok
	}
	if p.elem.kind == kind8 && d.inPlace {
		*(*slice)(to) = slice{unsafe.Pointer(&d.buf[d.pos]), n, n}
		d.pos += n
		return true
	}
	if p.elem.kind == kind8 {
		b := make([]byte, n) // of the type []uint8 in every case: memory without pointers
		copy(b, d.buf[d.pos:])
		*(*slice)(to) = slice{unsafe.Pointer(unsafe.SliceData(b)), n, n}
		d.pos += n
		return true
	}
	if !d.spend(n, p.elem.size) {
		return false
	}
	data := reflect.MakeSlice(p.goes, n, n).UnsafePointer()
	*(*slice)(to) = slice{data, n, n}
	return d.elements(p.elem, data, n)
}

func (d *decoder) elements(p *plan, data unsafe.Pointer, n int) bool {
	if w := p.width(); w > 0 && p.kind != kindBool && (w == 1 || d.big != nativeLittle) {
		at, ok := d.take(n*w, w)
		if ok {
			copy(unsafe.Slice((*byte)(data), n*w), d.buf[at:])
		}
		return ok
	}
	for i := range n {
		if !d.value(p, unsafe.Add(data, uintptr(i)*p.size)) {
			return false
		}
	}
	return true
}

func (d *decoder) enter(p *plan) bool {
	d.depth++
	if d.depth > maxDepth {
		return d.fail("%v is nested more than %d deep", p.goes, maxDepth)
	}
	return true
}

func (d *decoder) structure(p *plan, to unsafe.Pointer) bool {
	if !d.enter(p) {
		return false
	}
	former, delimited := d.end, d.v2 && p.extensibility != Final
	if delimited {
		var ok bool
		if former, ok = d.limit(); !ok {
			return false
		}
	}
	ok := false
	switch {
	case p.extensibility == Mutable && d.v2:
		ok = d.identified(p, to)
	case p.extensibility == Mutable:
		ok = d.parameters(p, to)
	default:
		ok = d.members(p, to, delimited || p.extensibility == Appendable && d.depth == 1)
	}
	if !ok {
		return false
	}
	if delimited { // members that this version of the type does not know are behind the last one
		d.pos, d.end = d.end, former
	}
	d.depth--
	return true
}

// members reads what is in the order of declaration. An older writer may end early where the end is
// known.
func (d *decoder) members(p *plan, to unsafe.Pointer, open bool) bool {
	for i := range p.members {
		if open && d.pos == d.end {
			return true
		}
		m := &p.members[i]
		field := unsafe.Add(to, m.offset)
		switch {
		case !m.optional:
			if !d.value(m.plan, field) {
				return false
			}
		case !d.v2:
			if !d.optional(m, field) {
				return false
			}
		default:
			at, ok := d.take(1, 1)
			if !ok {
				return false
			}
			switch d.buf[at] {
			case 0:
			case 1:
				if !d.pointer(m, field) {
					return false
				}
			default:
				return d.fail("%s is optional, and its flag is %d", m.field, d.buf[at])
			}
		}
	}
	return true
}

// pointer reads the value of an optional member.
func (d *decoder) pointer(m *member, to unsafe.Pointer) bool {
	if !d.spend(1, m.plan.size) {
		return false
	}
	target := reflect.New(m.plan.goes).UnsafePointer()
	*(*unsafe.Pointer)(to) = target
	return d.value(m.plan, target)
}

// member reads a value that must fill its limit, and restores the end.
func (d *decoder) member(m *member, to unsafe.Pointer, n, former int) bool {
	end := d.pos + n
	d.end = end
	field := unsafe.Add(to, m.offset)
	ok := false
	if m.optional {
		ok = d.pointer(m, field)
	} else {
		ok = d.value(m.plan, field)
	}
	if !ok {
		return false
	}
	d.pos, d.end = end, former
	return true
}

// identified reads the members of a mutable type in XCDR2.
func (d *decoder) identified(p *plan, to unsafe.Pointer) bool {
	next := 0
	for d.pos < d.end {
		header, ok := d.get32()
		if !ok {
			return false
		}
		n, ok := d.memberLength(header >> 28 & 7)
		if !ok {
			return false
		}
		id := header & maxID
		i, known := p.find(id, next)
		switch {
		case known:
			if !d.member(&p.members[i], to, n, d.end) {
				return false
			}
			next = i + 1
		case header>>31 != 0:
			return d.fail("member %d must be understood, and is unknown", id)
		default:
			d.pos += n
		}
	}
	return true
}

// memberLength returns the bytes of a member, from here on. Codes from lengthBytes on count with
// the word that begins the member.
func (d *decoder) memberLength(code uint32) (n int, ok bool) {
	var want uint64
	if code < lengthNext {
		want = 1 << code
	} else {
		word, ok := d.get32()
		if !ok {
			return 0, false
		}
		want = uint64(word)
		if code != lengthNext {
			d.pos -= 4
			want = 4 + want*[]uint64{1, 4, 8}[code-lengthBytes]
		}
	}
	if want > uint64(d.end-d.pos) {
		return 0, d.fail("a member of %d bytes in %d", want, d.end-d.pos)
	}
	return int(want), true
}

// parameters reads the members of a mutable type in XCDR1.
func (d *decoder) parameters(p *plan, to unsafe.Pointer) bool {
	next := 0
	for {
		h, ok := d.header()
		if !ok || h.end {
			return ok
		}
		i, known := p.find(h.id, next)
		origin := d.origin
		d.origin = d.pos
		switch {
		case h.ignored:
			d.pos += h.bytes
		case known:
			if !d.member(&p.members[i], to, h.bytes, d.end) {
				return false
			}
			next = i + 1
		case h.must:
			return d.fail("member %d must be understood, and is unknown", h.id)
		default:
			d.pos += h.bytes
		}
		d.origin = origin
	}
}

// optional reads an optional member of a type that is not mutable, in XCDR1; one without bytes is
// absent.
func (d *decoder) optional(m *member, to unsafe.Pointer) bool {
	h, ok := d.header()
	switch {
	case !ok:
		return false
	case h.end || h.ignored || h.id != m.id:
		return d.fail("member %d where %s, %d, is expected", h.id, m.field, m.id)
	case h.bytes == 0:
		return true
	}
	origin, end, former := d.origin, d.pos+h.bytes, d.end
	d.origin, d.end = d.pos, end
	if !d.pointer(m, to) {
		return false
	}
	d.origin, d.pos, d.end = origin, end, former
	return true
}

// parameterHeader is what precedes a member in XCDR1.
type parameterHeader struct {
	id                 uint32
	bytes              int // of the member: at most what remains of the payload
	must, end, ignored bool
}

func (d *decoder) header() (h parameterHeader, ok bool) {
	if _, ok = d.take(0, 4); !ok {
		return h, false
	}
	flags, _ := d.get16()
	length, ok := d.get16()
	if !ok {
		return h, false
	}
	size := uint32(length)
	h = parameterHeader{id: uint32(flags & parameterMask), must: flags&parameterMust != 0}
	switch h.id {
	case parameterEnd:
		h.end = true
		return h, true
	case parameterIgnored:
		h.ignored = true
	case parameterExtended:
		if length != extendedBytes {
			return h, d.fail("an extended header of %d bytes", length)
		}
		word, _ := d.get32()
		if size, ok = d.get32(); !ok {
			return h, false
		}
		h.id, h.must = word&extendedMask, word&extendedMust != 0
	}
	if uint64(size) > uint64(d.end-d.pos) {
		return h, d.fail("a member of %d bytes in %d", size, d.end-d.pos)
	}
	h.bytes = int(size)
	return h, true
}

func (d *decoder) union(p *plan, to unsafe.Pointer) bool {
	if !d.enter(p) {
		return false
	}
	disc := &p.members[0]
	if !d.value(disc.plan, unsafe.Add(to, disc.offset)) {
		return false
	}
	if m := p.selected(disc.plan.number(unsafe.Add(to, disc.offset))); m != nil {
		if !d.value(m.plan, unsafe.Add(to, m.offset)) {
			return false
		}
	}
	d.depth--
	return true
}

// mapping reads entries. A key that is there twice is refused: the sender did not have a map.
func (d *decoder) mapping(p *plan, to unsafe.Pointer) bool {
	n, ok := d.count(p.key.fewest+p.elem.fewest, p.bound)
	if !ok || !d.spend(n, 2*(p.key.size+p.elem.size)) { // of the map, and of what is assigned to it
		return false
	}
	m := reflect.MakeMapWithSize(p.goes, n)
	for range n {
		key, value := reflect.New(p.key.goes), reflect.New(p.elem.goes)
		if !d.value(p.key, key.UnsafePointer()) || !d.value(p.elem, value.UnsafePointer()) {
			return false
		}
		if m.MapIndex(key.Elem()).IsValid() {
			return d.fail("a key is there twice")
		}
		m.SetMapIndex(key.Elem(), value.Elem())
	}
	reflect.NewAt(p.goes, to).Elem().Set(m)
	return true
}
