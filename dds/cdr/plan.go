package cdr

import (
	"math"
	"reflect"
	"unsafe"
)

// kind is how a value lies in memory and on the wire.
type kind uint8

const (
	kindBool kind = iota
	kind8
	kind16
	kind32
	kind64
	kindString
	kindSequence
	kindArray
	kindMap
	kindStruct
	kindUnion
)

// plan is a compiled type. It does not change after New.
type plan struct {
	kind  kind
	named string       // the name in IDL of a struct, union, enum or bitmask
	goes  reflect.Type // the Go type
	size  uintptr      // of the Go value

	signed, float, char bool      // of numbers, for IDL and discriminators
	literals            []Literal // of an enum or a bitmask
	bitmask             bool

	elem  *plan // of a sequence or array; the value of a map
	key   *plan // of a map
	count int   // of an array, all its dimensions together
	dims  []int // of an array
	bound int   // 0 is none

	extensibility Extensibility
	members       []member
	byID          []int // members sorted by id
	fewest        int   // the fewest bytes of a value on the wire, in either version
	measuring     bool  // fewest is being computed: the type is recursive
}

// member is one field of a struct, or the discriminator (the first) or a case of a union.
type member struct {
	name     string // in IDL
	field    string // in Go
	offset   uintptr
	plan     *plan // of an optional member: of what the pointer points to
	id       uint32
	key      bool
	must     bool
	optional bool
	kind     kind // of the plan
	run      int  // how many members from this one on are written as numbers, one after the other
	cases    []int64
	other    bool // the default case of a union
}

// width is the size of a number on the wire, and 0 for everything else.
func (p *plan) width() int {
	switch p.kind {
	case kindBool, kind8:
		return 1
	case kind16:
		return 2
	case kind32:
		return 4
	case kind64:
		return 8
	}
	return 0
}

// primitive reports whether a collection of the type is written without a delimiter. An enum and a
// bitmask are numbers but not primitive.
func (p *plan) primitive() bool { return p.width() > 0 && p.literals == nil }

// delimited reports whether XCDR2 writes the size of a value before it.
func (p *plan) delimited() bool {
	switch p.kind {
	case kindSequence, kindArray:
		return !p.elem.primitive()
	case kindMap:
		return !p.elem.primitive() || !p.key.primitive()
	case kindStruct, kindUnion:
		return p.extensibility != Final
	}
	return false
}

// Length codes of a member's header in XCDR2: how long the member is.
const (
	lengthNext  = 4 // the next word tells the bytes
	lengthBytes = 5 // the member begins with a word that counts its bytes
	lengthWords = 6 // … that counts its elements of four bytes
	lengthLongs = 7 // … that counts its elements of eight bytes
)

// lengthCode is the shortest one for a type.
func (p *plan) lengthCode() uint32 {
	switch w := p.width(); w {
	case 1:
		return 0
	case 2:
		return 1
	case 4:
		return 2
	case 8:
		return 3
	}
	switch p.kind {
	case kindString:
		return lengthBytes
	case kindSequence:
		switch {
		case p.delimited() || p.elem.width() == 1:
			return lengthBytes
		case p.elem.width() == 4:
			return lengthWords
		case p.elem.width() == 8:
			return lengthLongs
		}
	case kindMap:
		if p.delimited() {
			return lengthBytes
		}
	}
	return lengthNext
}

func (p *plan) measureMembers() (n int) {
	for i := range p.members {
		if m := &p.members[i]; m.optional {
			m.plan.measure()
			n++
		} else {
			n += m.plan.measure()
		}
	}
	switch p.extensibility {
	case Final:
		return n
	case Mutable:
		return 4
	}
	return min(n, 4)
}

// measure computes fewest, which bounds the count of a sequence by the bytes that remain. A
// recursive type contains itself in a sequence, a map or an optional member only, so its own size
// is never needed.
func (p *plan) measure() int {
	if p.fewest > 0 || p.measuring {
		return p.fewest
	}
	p.measuring = true
	n := 0
	switch p.kind {
	case kindString:
		n = 4
	case kindSequence, kindMap:
		n = 4
		p.elem.measure()
		if p.key != nil {
			p.key.measure()
		}
	case kindArray:
		n = product(p.count, p.elem.measure())
	case kindUnion:
		for i := range p.members {
			p.members[i].plan.measure()
		}
		n = p.members[0].plan.width()
	case kindStruct:
		n = p.measureMembers()
	default:
		n = p.width()
	}
	p.fewest = min(n, math.MaxInt32)
	p.measuring = false
	return p.fewest
}

func product(a, b int) int {
	if b > 0 && a > math.MaxInt32/b {
		return math.MaxInt32
	}
	return a * b
}

// runs finds the members that are written as numbers, without a header.
func (p *plan) runs() {
	for i := len(p.members) - 1; i >= 0 && p.extensibility != Mutable; i-- {
		m := &p.members[i]
		m.kind, m.run = m.plan.kind, 0
		if m.plan.width() == 0 || m.optional {
			continue
		}
		m.run = 1
		if i+1 < len(p.members) {
			m.run += p.members[i+1].run
		}
	}
}

// find returns the member with an id. Members mostly come in the order of their declaration, so the
// one after the last is tried first.
func (p *plan) find(id uint32, next int) (i int, ok bool) {
	if next < len(p.members) && p.members[next].id == id {
		return next, true
	}
	lo, hi := 0, len(p.byID)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if p.members[p.byID[mid]].id < id {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(p.byID) && p.members[p.byID[lo]].id == id {
		return p.byID[lo], true
	}
	return 0, false
}

// selected returns the member of a union for a value of the discriminator, and nil for a value that
// has none.
func (p *plan) selected(v int64) *member {
	var other *member
	for i := 1; i < len(p.members); i++ {
		m := &p.members[i]
		for _, c := range m.cases {
			if c == v {
				return m
			}
		}
		if m.other {
			other = m
		}
	}
	return other
}

// number reads a discriminator.
func (p *plan) number(at unsafe.Pointer) int64 {
	switch {
	case p.width() == 1 && p.signed:
		return int64(*(*int8)(at))
	case p.width() == 1:
		return int64(*(*uint8)(at))
	case p.width() == 2 && p.signed:
		return int64(*(*int16)(at))
	case p.width() == 2:
		return int64(*(*uint16)(at))
	case p.width() == 4 && p.signed:
		return int64(*(*int32)(at))
	case p.width() == 4:
		return int64(*(*uint32)(at))
	}
	return *(*int64)(at)
}

// maxDepth bounds how deep values are nested, of a pointer that leads to itself as of a hostile
// payload.
const maxDepth = 64

// slice is the memory of a []T.
type slice struct {
	data     unsafe.Pointer
	len, cap int
}
