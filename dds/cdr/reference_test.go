package cdr

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
)

// shape is a type of IDL, as the reference encoder has it: nothing of it comes from the compiler.
type shape struct {
	goes       reflect.Type
	name       string // of a struct or a union
	form       byte   // n number, s string, q sequence, a array, m map, t struct, u union
	enumerated bool   // a number that is an enum or a bitmask
	key, elem  *shape
	bound      int
	ext        Extensibility
	parts      []part
}

// part is a member. Of a version of a type, old is its place in the earlier one, or -1.
type part struct {
	shape               *shape
	id                  uint32
	key, must, optional bool
	cases               []int64
	other               bool
	old                 int
}

type (
	enum8  int8
	enum16 uint16
	enum32 int32
	mask8  uint8
	mask16 uint16
	mask64 uint64
)

func (enum8) EnumLiterals() []Literal  { return []Literal{{"A", 0}} }
func (enum16) EnumLiterals() []Literal { return []Literal{{"A", 0}} }
func (enum32) EnumLiterals() []Literal { return []Literal{{"A", 0}} }
func (mask8) BitmaskFlags() []Literal  { return []Literal{{"A", 7}} }
func (mask16) BitmaskFlags() []Literal { return []Literal{{"A", 15}} }
func (mask64) BitmaskFlags() []Literal { return []Literal{{"A", 63}} }

var numbers = []reflect.Type{
	reflect.TypeFor[bool](), reflect.TypeFor[int8](), reflect.TypeFor[uint8](), reflect.TypeFor[int16](), reflect.TypeFor[uint16](),
	reflect.TypeFor[int32](), reflect.TypeFor[uint32](), reflect.TypeFor[int64](), reflect.TypeFor[uint64](), reflect.TypeFor[float32](),
	reflect.TypeFor[float64](), reflect.TypeFor[enum8](), reflect.TypeFor[enum16](), reflect.TypeFor[enum32](),
	reflect.TypeFor[mask8](), reflect.TypeFor[mask16](), reflect.TypeFor[mask64](),
}

func number(t reflect.Type) *shape {
	return &shape{goes: t, form: 'n', enumerated: strings.Contains(t.String(), "cdr.")}
}

func (c *trial) shapeOf(depth int) *shape {
	n := c.rng.IntN(12)
	if depth > 3 {
		n = c.rng.IntN(6)
	}
	switch n {
	case 4, 5:
		return &shape{goes: reflect.TypeFor[string](), form: 's'}
	case 6, 7:
		elem := c.shapeOf(depth + 1)
		return &shape{goes: reflect.SliceOf(elem.goes), form: 'q', elem: elem}
	case 8:
		elem := c.shapeOf(depth + 1)
		for c.rng.IntN(3) == 0 {
			elem = &shape{goes: reflect.ArrayOf(1+c.rng.IntN(2), elem.goes), form: 'a', elem: elem}
		}
		n := 1 + c.rng.IntN(3)
		if elem.form == 'n' {
			n = pick(c.rng, n, 17)
		}
		return &shape{goes: reflect.ArrayOf(n, elem.goes), form: 'a', elem: elem}
	case 9:
		key, elem := &shape{goes: reflect.TypeFor[string](), form: 's'}, c.shapeOf(depth+1)
		if c.rng.IntN(2) == 0 {
			key = number(pick(c.rng, reflect.TypeFor[uint32](), reflect.TypeFor[int16](), reflect.TypeFor[int64](), reflect.TypeFor[enum8]()))
		}
		return &shape{goes: reflect.MapOf(key.goes, elem.goes), form: 'm', key: key, elem: elem}
	case 10, 11:
		return c.structure(depth + 1)
	}
	return number(pick(c.rng, numbers...))
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

// structure draws a struct, and within others a union as well.
func (c *trial) structure(depth int) *shape {
	s := &shape{form: 't', name: fmt.Sprintf("M::T%d", c.rng.IntN(1000)), ext: Extensibility(c.rng.IntN(3))}
	if depth > 0 && c.rng.IntN(4) == 0 {
		s.form, s.ext = 'u', s.ext%2
		s.parts = []part{{shape: number(pick(c.rng, reflect.TypeFor[bool](), reflect.TypeFor[uint8](), reflect.TypeFor[int16](),
			reflect.TypeFor[int64](), reflect.TypeFor[enum32]()))}}
		for i := range 1 + c.rng.IntN(3) {
			p := part{shape: c.shapeOf(depth + 1), id: uint32(i + 1), cases: []int64{int64(2 * i), int64(2*i + 1)}[:1+c.rng.IntN(2)]}
			if i == 1 && c.rng.IntN(2) == 0 {
				p.other = true
			}
			s.parts = append(s.parts, p)
		}
		return s.build(nil)
	}
	auto := map[int]bool{}
	used := map[uint32]bool{}
	for i := range 1 + c.rng.IntN(6) {
		p := part{shape: c.shapeOf(depth + 1)}
		if i > 0 {
			p.id = s.parts[i-1].id + 1
		}
		if auto[i] = c.rng.IntN(2) == 0 && !used[p.id] && p.id <= maxID; !auto[i] {
			for p.id = pick(c.rng, 0x3eff, 0x3f00, 0x3f02, 1<<28-1, c.rng.Uint32N(100)); used[p.id]; {
				p.id = c.rng.Uint32N(100)
			}
		}
		used[p.id] = true
		p.key = c.rng.IntN(3) == 0 && p.shape.keyable()
		p.must = s.ext == Mutable && c.rng.IntN(4) == 0
		p.optional = !p.key && c.rng.IntN(4) == 0
		if f := p.shape.form; (f == 's' || f == 'q' || f == 'm') && c.rng.IntN(3) == 0 {
			bounded := *p.shape
			bounded.bound = 1 + c.rng.IntN(5)
			p.shape = &bounded
		}
		s.parts = append(s.parts, p)
	}
	return s.build(auto)
}

// build makes the Go type. Members whose ids follow from those before them may have none.
func (s *shape) build(auto map[int]bool) *shape {
	var fields []reflect.StructField
	for i, p := range s.parts {
		var tag []string
		if s.form == 't' && !auto[i] {
			tag = append(tag, fmt.Sprintf("id=%#x", p.id))
		}
		for name, is := range map[string]bool{"key": p.key, "must": p.must, "optional": p.optional && p.id%2 == 0, "default": p.other} {
			if is {
				tag = append(tag, name)
			}
		}
		if len(p.cases) > 0 {
			tag = append(tag, "case="+strings.ReplaceAll(strings.Trim(fmt.Sprint(p.cases), "[]"), " ", "|"))
		}
		if p.shape.bound > 0 {
			tag = append(tag, fmt.Sprintf("bound=%d", p.shape.bound))
		}
		slices.Sort(tag)
		f := reflect.StructField{Name: fmt.Sprintf("F%d", i), Type: p.shape.goes, Tag: reflect.StructTag(`dds:"` + strings.Join(tag, ",") + `"`)}
		if p.optional {
			f.Type = reflect.PointerTo(f.Type)
		}
		fields = append(fields, f)
	}
	options := "name=" + s.name + "," + s.ext.String()
	if s.form == 'u' {
		options += ",union"
	}
	fields = append(fields, reflect.StructField{Name: "_", PkgPath: "cdr", Type: reflect.TypeFor[struct{}](), Tag: reflect.StructTag(`dds:"` + options + `"`)})
	s.goes = reflect.StructOf(fields)
	return s
}

// innermost is the element of an array of any dimensions.
func (s *shape) innermost() *shape {
	for s.form == 'a' {
		s = s.elem
	}
	return s
}

func (s *shape) primitive() bool { return s.form == 'n' && !s.enumerated }

// strict tells of a type whose values have one encoding, but for padding and empty strings.
func (s *shape) strict(f Format) bool {
	for _, p := range s.parts {
		if !p.shape.strict(f) || p.optional && !f.version2() { // a parameter may say that it must be understood
			return false
		}
	}
	return s.form != 'm' && s.form != 'u' && s.ext == Final && (s.elem == nil || s.elem.strict(f))
}

func (s *shape) keyable() bool {
	switch in := s.innermost(); in.form {
	case 'n', 's':
		return true
	case 't':
		if s.form == 'a' {
			return false
		}
		for _, p := range s.keyParts(false) {
			if p.optional || !p.shape.keyable() {
				return false
			}
		}
		return true
	}
	return false
}

// keyParts are the key members, and all members of a nested struct without any, in the order of
// their ids.
func (s *shape) keyParts(top bool) []part {
	var keys []part
	some := slices.ContainsFunc(s.parts, func(p part) bool { return p.key })
	for i, p := range s.parts {
		if p.old = i; p.key || !some && !top {
			keys = append(keys, p)
		}
	}
	slices.SortFunc(keys, func(a, b part) int { return cmp.Compare(a.id, b.id) })
	return keys
}

// keyShape is the key as a final struct, whose members are at the places of those of s.
func (s *shape) keyShape(top bool) *shape {
	k := *s
	k.ext, k.parts = Final, s.keyParts(top)
	for i := range k.parts {
		if k.parts[i].shape.form == 't' {
			k.parts[i].shape = k.parts[i].shape.keyShape(false)
		}
	}
	k.form = 'k'
	return &k
}

// fullest is a value whose strings have all bytes that they may have, and whether there is one.
func (s *shape) fullest() (v reflect.Value, bounded bool) {
	v, bounded = reflect.New(s.goes), true
	var fill func(s *shape, v reflect.Value)
	fill = func(s *shape, v reflect.Value) {
		switch s.form {
		case 's':
			bounded = bounded && s.bound > 0
			v.SetString(strings.Repeat("x", s.bound))
		case 'a':
			for i := range v.Len() {
				fill(s.elem, v.Index(i))
			}
		case 'k':
			for _, p := range s.parts {
				fill(p.shape, v.Field(p.old))
			}
		}
	}
	fill(s, v.Elem())
	return v, bounded
}

// selected is the member of a union that its discriminator selects, or 0.
func (s *shape) selected(v reflect.Value) int {
	other, d := 0, integer(v.Field(0))
	for i, p := range s.parts {
		if slices.Contains(p.cases, d) {
			return i
		}
		if p.other {
			other = i
		}
	}
	return other
}

func integer(v reflect.Value) int64 {
	switch {
	case v.Kind() == reflect.Bool && v.Bool():
		return 1
	case v.Kind() == reflect.Bool:
		return 0
	case v.CanInt():
		return v.Int()
	}
	return int64(v.Uint())
}

// evolve makes another version of a type: an appendable struct ends earlier or goes on, a mutable
// one has other members in another order. XCDR1 does not tell where an appendable struct ends,
// unless it is the whole value.
func (c *trial) evolve(s *shape, v2, whole bool) *shape {
	n := *s
	n.parts = nil
	switch {
	case s.form == 'n' || s.form == 's':
		return s
	case s.form == 'q':
		n.elem = c.evolve(s.elem, v2, false)
		n.goes = reflect.SliceOf(n.elem.goes)
		return &n
	case s.form == 'a':
		n.elem = c.evolve(s.elem, v2, false)
		n.goes = reflect.ArrayOf(s.goes.Len(), n.elem.goes)
		return &n
	case s.form == 'm':
		n.elem = c.evolve(s.elem, v2, false)
		n.goes = reflect.MapOf(s.key.goes, n.elem.goes)
		return &n
	}
	for i, p := range s.parts {
		p.shape = c.evolve(p.shape, v2, false)
		p.key, p.must, p.old = false, false, i
		n.parts = append(n.parts, p)
	}
	added := func() {
		n.parts = append(n.parts, part{shape: c.shapeOf(3), id: 1000 + c.rng.Uint32N(1000)<<4 + uint32(len(n.parts)), old: -1})
	}
	switch {
	case s.form == 'u':
	case s.ext == Appendable && (v2 || whole):
		if c.rng.IntN(2) == 0 {
			n.parts = n.parts[:1+c.rng.IntN(len(n.parts))]
		} else {
			added()
		}
	case s.ext == Mutable:
		c.rng.Shuffle(len(n.parts), func(i, j int) { n.parts[i], n.parts[j] = n.parts[j], n.parts[i] })
		if c.rng.IntN(2) == 0 {
			n.parts = n.parts[:1+c.rng.IntN(len(n.parts))]
		}
		if c.rng.IntN(2) == 0 {
			added()
			last := len(n.parts) - 1
			n.parts[0], n.parts[last] = n.parts[last], n.parts[0]
		}
	}
	return n.build(nil)
}

// project is what a reader with the type to makes of v. It reports false if v has a member that the
// reader must understand and does not know.
func project(from, to *shape, v, w reflect.Value) (understood bool) {
	understood = true
	switch from.form {
	case 'q':
		if v.Len() > 0 {
			w.Set(reflect.MakeSlice(w.Type(), v.Len(), v.Len()))
		}
		fallthrough
	case 'a':
		for i := range v.Len() {
			understood = project(from.elem, to.elem, v.Index(i), w.Index(i)) && understood
		}
	case 'm':
		w.Set(reflect.MakeMap(w.Type()))
		for _, k := range v.MapKeys() {
			value := reflect.New(w.Type().Elem()).Elem()
			understood = project(from.elem, to.elem, v.MapIndex(k), value) && understood
			w.SetMapIndex(k, value)
		}
	case 't', 'u':
		known := map[int]bool{}
		for i, p := range to.parts {
			if p.old < 0 || from.form == 'u' && i > 0 && i != from.selected(v) {
				continue
			}
			known[p.old] = true
			a, b := v.Field(p.old), w.Field(i)
			if p.optional {
				if a.IsNil() {
					continue
				}
				b.Set(reflect.New(b.Type().Elem()))
				a, b = a.Elem(), b.Elem()
			}
			understood = project(from.parts[p.old].shape, p.shape, a, b) && understood
		}
		for i, p := range from.parts {
			if from.ext == Mutable && !known[i] && (p.must || p.key) && (!p.optional || !v.Field(i).IsNil()) {
				understood = false
			}
		}
	default:
		w.Set(v)
	}
	return understood
}

// encoding writes values as DDS-XTypes 1.3, 7.4, says, in the most direct way. With free, it takes
// whatever choice the specification leaves to a writer, and puts more into the delimiter with the
// number extra than the type has: refused is whether a reader must refuse that.
type encoding struct {
	b       []byte
	pads    map[int]bool
	v2, big bool
	free    *rand.Rand
	extra   int
	refused bool
}

func (r *encoding) padding(i int) bool { return r.pads[i] }

func (r *encoding) align(n int) {
	if r.v2 {
		n = min(n, 4)
	}
	for len(r.b)%n > 0 {
		if r.pads == nil {
			r.pads = map[int]bool{}
		}
		r.pads[len(r.b)] = true
		r.b = append(r.b, 0)
	}
}

func (r *encoding) put(width int, x uint64) {
	r.align(width)
	for i := range width {
		shift := 8 * i
		if r.big {
			shift = 8 * (width - 1 - i)
		}
		r.b = append(r.b, byte(x>>shift))
	}
}

func (r *encoding) word(at int, x int) {
	if r.big {
		binary.BigEndian.PutUint32(r.b[at:], uint32(x))
	} else {
		binary.LittleEndian.PutUint32(r.b[at:], uint32(x))
	}
}

func (r *encoding) chance() bool { return r.free != nil && r.free.IntN(3) == 0 }

// here counts the places where more can be than the type has.
func (r *encoding) here() bool {
	r.extra--
	return r.free != nil && r.extra == 0
}

// delimited writes the size of what f writes before it, in version 2.
func (r *encoding) delimited(s *shape, is bool, f func()) {
	if !r.v2 || !is {
		f()
		return
	}
	r.put(4, 0)
	from := len(r.b)
	f()
	switch {
	case !r.here():
	case s.form == 'q' || s.form == 'a' || s.form == 'm':
		r.b, r.refused = append(r.b, 0, 0, 0, 0), true
	case s.ext == Mutable:
		header := uint64(0x0fedcba)
		if r.free.IntN(2) == 0 {
			header, r.refused = header|1<<31, true
		}
		r.put(4, header|2<<28)
		r.put(4, 1)
	default:
		r.b = append(r.b, 1, 2, 3, 4, 5)
	}
	r.word(from-4, len(r.b)-from)
}

func (r *encoding) value(s *shape, v reflect.Value) {
	switch s.form {
	case 'n':
		x := uint64(0)
		switch width := int(s.goes.Size()); {
		case v.CanFloat() && width == 4:
			x = uint64(math.Float32bits(float32(v.Float())))
		case v.CanFloat():
			x = math.Float64bits(v.Float())
		default:
			x = uint64(integer(v))
		}
		r.put(int(s.goes.Size()), x)
	case 's':
		if v.Len() == 0 && r.chance() {
			r.put(4, 0)
			return
		}
		r.put(4, uint64(v.Len()+1))
		r.b = append(append(r.b, v.String()...), 0)
	case 'q':
		r.delimited(s, !s.elem.primitive(), func() {
			r.put(4, uint64(v.Len()))
			r.each(s.elem, v)
		})
	case 'a':
		r.delimited(s, !s.innermost().primitive(), func() { r.flat(s, v) })
	case 'm':
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int {
			if a.Kind() == reflect.String {
				return cmp.Compare(a.String(), b.String())
			}
			return cmp.Compare(integer(a), integer(b))
		})
		if r.free != nil {
			r.free.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		}
		r.delimited(s, !s.elem.primitive() || !s.key.primitive(), func() {
			r.put(4, uint64(len(keys)))
			for _, k := range keys {
				r.value(s.key, k)
				r.value(s.elem, v.MapIndex(k))
			}
		})
	case 'u':
		r.delimited(s, s.ext != Final, func() {
			r.value(s.parts[0].shape, v.Field(0))
			if i := s.selected(v); i > 0 {
				r.value(s.parts[i].shape, v.Field(i))
			}
		})
	case 'k':
		for _, p := range s.parts {
			r.value(p.shape, v.Field(p.old))
		}
	case 't':
		r.delimited(s, s.ext != Final, func() { r.members(s, v) })
	}
}

func (r *encoding) each(s *shape, v reflect.Value) {
	for i := range v.Len() {
		r.value(s, v.Index(i))
	}
}

// flat writes the elements of all dimensions.
func (r *encoding) flat(s *shape, v reflect.Value) {
	if s.elem.form != 'a' {
		r.each(s.elem, v)
		return
	}
	for i := range v.Len() {
		r.flat(s.elem, v.Index(i))
	}
}

func (r *encoding) members(s *shape, v reflect.Value) {
	order := make([]int, len(s.parts))
	for i := range order {
		order[i] = i
	}
	if s.ext == Mutable && r.free != nil {
		order = r.free.Perm(len(order))
	}
	for _, i := range order {
		p, f := s.parts[i], v.Field(i)
		absent := p.optional && f.IsNil()
		if p.optional && !absent {
			f = f.Elem()
		}
		switch {
		case s.ext == Mutable && absent:
		case s.ext == Mutable && r.v2:
			r.identified(p, f)
		case s.ext == Mutable || p.optional && !r.v2:
			r.parameter(p.id, p.must || p.key, func(sub *encoding) {
				if !absent {
					sub.value(p.shape, f)
				}
			})
		case p.optional && absent:
			r.put(1, 0)
		default:
			if p.optional {
				r.put(1, 1)
			}
			r.value(p.shape, f)
		}
	}
	if s.ext == Mutable && !r.v2 {
		if r.here() {
			if must := r.free.IntN(2) == 0; r.free.IntN(2) == 0 {
				r.parameter(0x0fedcba, must, func(sub *encoding) { sub.put(8, 1) })
				r.refused = must
			} else {
				r.align(4)
				r.put(2, 0x3f03) // to be ignored
				r.put(2, 3)
				r.b = append(r.b, 1, 2, 3)
			}
		}
		r.align(4)
		r.put(2, 0x3f02)
		r.put(2, 0)
	}
}

// identified writes a member of a mutable struct in version 2: its id, and how long it is, by one
// of the ways to say so.
func (r *encoding) identified(p part, v reflect.Value) {
	header := uint64(p.id)
	if p.must || p.key {
		header |= 1 << 31
	}
	code := 4
	s := p.shape
	switch {
	case r.chance():
	case s.form == 'n':
		code = map[uintptr]int{1: 0, 2: 1, 4: 2, 8: 3}[s.goes.Size()]
	case s.form == 's', s.form == 'q' && !s.elem.primitive(), s.form == 'm' && !(s.elem.primitive() && s.key.primitive()):
		code = 5
	case s.form == 'q':
		code = map[uintptr]int{1: 5, 2: 4, 4: 6, 8: 7}[s.elem.goes.Size()]
	}
	r.put(4, header|uint64(code)<<28)
	if code != 4 {
		r.value(s, v)
		return
	}
	r.put(4, 0)
	from := len(r.b)
	r.value(s, v)
	r.word(from-4, len(r.b)-from)
}

// parameter writes a member in version 1: its alignment begins with it.
func (r *encoding) parameter(id uint32, must bool, f func(sub *encoding)) {
	sub := &encoding{big: r.big, free: r.free, extra: r.extra}
	f(sub)
	r.align(4)
	if id < 0x3f00 && len(sub.b) < 1<<16 && !r.chance() {
		if must {
			id |= 0x4000
		}
		r.put(2, uint64(id))
		r.put(2, uint64(len(sub.b)))
	} else {
		r.put(2, 0x7f01)
		r.put(2, 8)
		if must {
			id |= 1 << 30
		}
		r.put(4, uint64(id))
		r.put(4, uint64(len(sub.b)))
	}
	for i := range sub.pads {
		if r.pads == nil {
			r.pads = map[int]bool{}
		}
		r.pads[len(r.b)+i] = true
	}
	r.b = append(r.b, sub.b...)
	r.extra, r.refused = sub.extra, r.refused || sub.refused
}
