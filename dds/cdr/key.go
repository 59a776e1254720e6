package cdr

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"unsafe"
)

// keys is the plan of a type's key: a final struct of the key members, sorted by id.
type keys struct {
	plan     *plan
	largest1 int // bytes of the largest key in XCDR1 and in XCDR2
	largest2 int
}

func keysOf(p *plan) (keys, error) {
	k, err := keyPlan(p, true, 0)
	if err != nil {
		return keys{}, err
	}
	k.measure()
	return keys{k, largest(k, 0, 8), largest(k, 0, 4)}, nil
}

func (k keys) keyed() bool { return len(k.plan.members) > 0 }

func (k keys) largest(f Format) int {
	if f.version2() {
		return k.largest2
	}
	return k.largest1
}

func (k keys) append(dst []byte, v unsafe.Pointer, f Format) ([]byte, error) {
	e := newEncoder(dst, f)
	e.structure(k.plan, v)
	if e.err != nil {
		return dst, e.err
	}
	return e.buf[:e.n], nil
}

func (k keys) decode(src []byte, v unsafe.Pointer, f Format) error {
	return decode(k.plan, src, v, f)
}

// keyPlan selects the key members of a struct. Of a member that is a struct, its own key members
// are the key, and all members if it has none.
func keyPlan(p *plan, top bool, depth int) (*plan, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("%w: %v: the key is recursive", ErrType, p.goes)
	}
	k := *p
	k.extensibility, k.members, k.fewest = Final, nil, 0
	some := slices.ContainsFunc(p.members, func(m member) bool { return m.key })
	for _, m := range p.members {
		if !m.key && (top || some) {
			continue
		}
		elem := m.plan
		if elem.kind == kindArray {
			elem = elem.elem
		}
		switch simple := elem.width() > 0 || elem.kind == kindString; {
		case m.optional || !simple && m.plan.kind != kindStruct:
			return nil, fmt.Errorf("%w: %v: %s: keys are numbers, strings, arrays of them, and structs", ErrType, p.goes, m.field)
		case m.plan.kind == kindStruct:
			var err error
			if m.plan, err = keyPlan(m.plan, false, depth+1); err != nil {
				return nil, err
			}
		}
		k.members = append(k.members, m)
	}
	slices.SortStableFunc(k.members, func(a, b member) int { return cmp.Compare(a.id, b.id) })
	k.runs()
	return &k, nil
}

// largest returns where the largest key ends that begins at pos. Padding depends on what precedes,
// which is less for a smaller key and never moves the end of a later one back.
func largest(p *plan, pos, maxAlign int) int {
	number := func(w int) { pos += -pos&(min(w, maxAlign)-1) + w }
	switch {
	case p.kind == kindStruct:
		for i := range p.members {
			if pos = largest(p.members[i].plan, pos, maxAlign); pos == math.MaxInt {
				return pos
			}
		}
		return pos
	case p.kind == kindArray:
		if maxAlign == 4 && p.delimited() {
			number(4)
		}
		for range min(p.count, 17) { // more are larger than a hash in any case
			if pos = largest(p.elem, pos, maxAlign); pos == math.MaxInt {
				return pos
			}
		}
		return pos
	case p.kind == kindString && p.bound == 0:
		return math.MaxInt
	case p.kind == kindString:
		number(4)
		return pos + p.bound + 1
	}
	number(p.width())
	return pos
}
