package cdr

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Literal is a name and its value: of an enum, the number; of a bitmask, the position of the bit.
type Literal struct {
	Name  string
	Value int64
}

// Enum is implemented, with a method of the value, by an integer type of 8, 16 or 32 bits that is
// an enum.
type Enum interface{ EnumLiterals() []Literal }

// Bitmask is implemented, with a method of the value, by an unsigned integer type that is a
// bitmask.
type Bitmask interface{ BitmaskFlags() []Literal }

var (
	enumType    = reflect.TypeFor[Enum]()
	bitmaskType = reflect.TypeFor[Bitmask]()
)

// compiler turns types into plans. Structs are remembered, so that a recursive type ends.
type compiler struct {
	structs  map[reflect.Type]*plan
	name     string // of the outermost type, if it has none of its own
	keysOnly bool   // members outside of the key are left away, whatever their types are; reset inside a member
}

// compile returns the plan of a whole type.
func compile(t reflect.Type, keysOnly bool) (*plan, error) { return compileAs(t, "", keysOnly) }

// compileAs is compile for a type that may have no name.
func compileAs(t reflect.Type, name string, keysOnly bool) (*plan, error) {
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%w: %v is not a struct", ErrType, t)
	}
	c := &compiler{structs: map[reflect.Type]*plan{}, name: name, keysOnly: keysOnly}
	p, err := c.plan(t)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", t, err)
	}
	p.measure()
	return p, nil
}

func (c *compiler) plan(t reflect.Type) (*plan, error) {
	p := &plan{goes: t, size: t.Size()}
	switch t.Kind() {
	case reflect.Bool:
		p.kind = kindBool
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		p.signed = true
		p.kind = kindOf(t.Size())
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		p.kind = kindOf(t.Size())
	case reflect.Float32, reflect.Float64:
		p.float = true
		p.kind = kindOf(t.Size())
	case reflect.String:
		p.kind = kindString
	case reflect.Slice, reflect.Array:
		return c.collection(p, t)
	case reflect.Map:
		return c.mapping(p, t)
	case reflect.Struct:
		return c.structure(t)
	case reflect.Int, reflect.Uint:
		return nil, fmt.Errorf("%w: %v has no size of its own: use int32 or int64", ErrType, t)
	case reflect.Pointer:
		return nil, fmt.Errorf("%w: %v: a pointer is an optional member of a struct, and nothing else", ErrType, t)
	default:
		return nil, fmt.Errorf("%w: %v", ErrType, t)
	}
	return p, c.literals(p, t)
}

func kindOf(size uintptr) kind {
	switch size {
	case 1:
		return kind8
	case 2:
		return kind16
	case 4:
		return kind32
	default:
		return kind64
	}
}

// literals makes an enum or a bitmask of an integer with one of the two methods.
func (c *compiler) literals(p *plan, t reflect.Type) error {
	integer := p.width() > 0 && !p.float && p.kind != kindBool
	switch enum, mask := t.Implements(enumType), t.Implements(bitmaskType); {
	case enum && mask:
		return fmt.Errorf("%w: %v is both an enum and a bitmask", ErrType, t)
	case enum && (!integer || p.width() > 4):
		return fmt.Errorf("%w: %v: an enum is an integer of at most 32 bits", ErrType, t)
	case enum:
		p.literals = reflect.Zero(t).Interface().(Enum).EnumLiterals()
	case mask && (!integer || p.signed):
		return fmt.Errorf("%w: %v: a bitmask is an unsigned integer", ErrType, t)
	case mask:
		p.bitmask = true
		p.literals = reflect.Zero(t).Interface().(Bitmask).BitmaskFlags()
	default:
		return nil
	}
	p.named = t.Name()
	if len(p.literals) == 0 {
		return fmt.Errorf("%w: %v has no literals", ErrType, t)
	}
	for _, l := range p.literals {
		if p.bitmask && (l.Value < 0 || l.Value >= int64(8*p.width())) {
			return fmt.Errorf("%w: %v: bit %d of %s", ErrType, t, l.Value, l.Name)
		}
	}
	return nil
}

func (c *compiler) collection(p *plan, t reflect.Type) (*plan, error) {
	elem, err := c.plan(t.Elem())
	if err != nil {
		return nil, err
	}
	p.elem = elem
	if t.Kind() == reflect.Slice {
		p.kind = kindSequence
		return p, nil
	}
	p.kind, p.count, p.dims = kindArray, t.Len(), []int{t.Len()}
	if p.count == 0 {
		return nil, fmt.Errorf("%w: %v is empty", ErrType, t)
	}
	if elem.kind == kindArray { // [2][3]T is one array with two dimensions
		p.elem, p.count, p.dims = elem.elem, product(p.count, elem.count), append(p.dims, elem.dims...)
	}
	return p, nil
}

func (c *compiler) mapping(p *plan, t reflect.Type) (*plan, error) {
	var err error
	if p.key, err = c.plan(t.Key()); err != nil {
		return nil, err
	}
	if integer := p.key.width() > 0 && !p.key.float && p.key.kind != kindBool; !integer && p.key.kind != kindString {
		return nil, fmt.Errorf("%w: %v: keys of maps are integers or strings", ErrType, t)
	}
	if p.elem, err = c.plan(t.Elem()); err != nil {
		return nil, err
	}
	p.kind = kindMap
	return p, nil
}

func (c *compiler) structure(t reflect.Type) (*plan, error) {
	if p := c.structs[t]; p != nil {
		return p, nil
	}
	p := &plan{kind: kindStruct, goes: t, size: t.Size(), named: t.Name()}
	c.structs[t] = p
	if err := c.options(p, t); err != nil {
		return nil, err
	}
	keysOnly := c.keysOnly
	for f := range fields(t) {
		tag := f.Tag.Get("dds")
		if f.Name == "_" || tag == "-" || keysOnly && !slices.Contains(strings.Split(tag, ","), "key") {
			continue
		}
		c.keysOnly = false
		m, err := c.member(p, f, tag)
		c.keysOnly = keysOnly
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		p.members = append(p.members, m)
	}
	if err := p.check(keysOnly); err != nil {
		return nil, err
	}
	p.runs()
	return p, p.sortByID()
}

// options sets what blank fields of a structure say, and its name.
func (c *compiler) options(p *plan, t reflect.Type) error {
	if i := strings.IndexByte(p.named, '['); i >= 0 { // an instance of a generic type
		p.named = p.named[:i]
	}
	for f := range fields(t) {
		if f.Name != "_" {
			continue
		}
		if err := p.option(f.Tag.Get("dds")); err != nil {
			return err
		}
	}
	if p.named == "" {
		p.named, c.name = c.name, ""
	}
	if p.named == "" {
		return fmt.Errorf("%w: %v needs a name: a blank field with the tag `dds:\"name=…\"`", ErrType, t)
	}
	return nil
}

// sortByID returns an error if two members have one id.
func (p *plan) sortByID() error {
	for i := range p.members {
		p.byID = append(p.byID, i)
	}
	slices.SortFunc(p.byID, func(i, j int) int { return cmp.Compare(p.members[i].id, p.members[j].id) })
	for k := 1; k < len(p.byID); k++ {
		if a, b := p.members[p.byID[k-1]], p.members[p.byID[k]]; a.id == b.id {
			return fmt.Errorf("%w: %s and %s have the member id %d", ErrType, a.field, b.field, a.id)
		}
	}
	return nil
}

func fields(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if !yield(t.Field(i)) {
				return
			}
		}
	}
}

// option takes the tag of a blank field.
func (p *plan) option(tag string) error {
	for _, o := range options(tag) {
		switch name, value, _ := strings.Cut(o, "="); name {
		case "final":
			p.extensibility = Final
		case "appendable":
			p.extensibility = Appendable
		case "mutable":
			p.extensibility = Mutable
		case "union":
			p.kind = kindUnion
		case "name":
			p.named = value
		default:
			return fmt.Errorf("%w: unknown option %q of a type", ErrType, o)
		}
	}
	return nil
}

func options(tag string) []string {
	return slices.DeleteFunc(strings.Split(tag, ","), func(s string) bool { return s == "" })
}

// maxID is the largest member id: the four bits above it are flags and the length.
const maxID = 1<<28 - 1

func (c *compiler) member(p *plan, f reflect.StructField, tag string) (m member, err error) {
	if !f.IsExported() || f.Anonymous {
		return m, fmt.Errorf("%w: the field is embedded or not exported; the tag `dds:\"-\"` leaves it away", ErrType)
	}
	m = member{name: lowered(f.Name), field: f.Name, offset: f.Offset}
	if n := len(p.members); n > 0 {
		m.id = p.members[n-1].id + 1
	}
	t := f.Type
	if t.Kind() == reflect.Pointer {
		m.optional, t = true, t.Elem()
	}
	if m.plan, err = c.plan(t); err != nil {
		return m, err
	}
	for _, o := range options(tag) {
		if err := c.attribute(p, &m, o); err != nil {
			return m, err
		}
	}
	if m.id > maxID {
		return m, fmt.Errorf("%w: the member id %d is more than %d", ErrType, m.id, maxID)
	}
	return m, nil
}

// lowered is the name of a field as IDL has names: the capitals before the first small letter are
// one word.
func lowered(name string) string {
	n := 0
	for n < len(name) && 'A' <= name[n] && name[n] <= 'Z' {
		n++
	}
	if n > 1 && n < len(name) && 'a' <= name[n] && name[n] <= 'z' {
		n--
	}
	return strings.ToLower(name[:n]) + name[n:]
}

// attribute applies one item of a member's tag. What changes the plan changes a copy: other members
// share it.
func (c *compiler) attribute(p *plan, m *member, o string) (err error) {
	own := func() *plan {
		copied := *m.plan
		m.plan = &copied
		return m.plan
	}
	switch name, value, _ := strings.Cut(o, "="); name {
	case "name":
		m.name = value
	case "id":
		var id uint64
		id, err = strconv.ParseUint(value, 0, 32)
		m.id = uint32(id)
	case "key":
		m.key = true
	case "must":
		m.must = true
	case "optional":
		if !m.optional {
			return fmt.Errorf("%w: an optional member is a pointer", ErrType)
		}
	case "char":
		if m.plan.kind != kind8 || m.plan.signed || m.plan.literals != nil {
			return fmt.Errorf("%w: a char is an uint8", ErrType)
		}
		own().char = true
	case "bound":
		if k := m.plan.kind; k != kindString && k != kindSequence && k != kindMap {
			return fmt.Errorf("%w: a bound is for strings, sequences and maps", ErrType)
		}
		own().bound, err = strconv.Atoi(value)
		if err == nil && m.plan.bound <= 0 {
			err = fmt.Errorf("not positive")
		}
	case "switch":
		if p.kind != kindUnion || len(p.members) > 0 {
			return fmt.Errorf("%w: switch is for the first field of a union", ErrType)
		}
	case "default":
		m.other = true
	case "case":
		for _, s := range strings.Split(value, "|") {
			v, err := strconv.ParseInt(s, 0, 64)
			if err != nil {
				return fmt.Errorf("%w: case %q", ErrType, s)
			}
			m.cases = append(m.cases, v)
		}
	default:
		return fmt.Errorf("%w: unknown option %q", ErrType, o)
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %v", ErrType, o, err)
	}
	return nil
}

// check looks at the members together.
func (p *plan) check(keysOnly bool) error {
	if len(p.members) == 0 && !keysOnly {
		return fmt.Errorf("%w: %v has no members", ErrType, p.goes)
	}
	seen := map[int64]bool{}
	others := 0
	for i, m := range p.members {
		switch {
		case m.key && (m.optional || p.kind == kindUnion):
			return fmt.Errorf("%w: %s: optional members and those of unions cannot be keys", ErrType, m.field)
		case m.must && p.extensibility != Mutable:
			return fmt.Errorf("%w: %s: must is for members of mutable types: others are always understood", ErrType, m.field)
		case p.kind != kindUnion && (m.other || m.cases != nil):
			return fmt.Errorf("%w: %s: cases are for unions", ErrType, m.field)
		case p.kind == kindUnion && i > 0 && (m.optional || !m.other && m.cases == nil):
			return fmt.Errorf("%w: %s: a member of a union is a value with a case", ErrType, m.field)
		}
		for _, c := range m.cases {
			if seen[c] {
				return fmt.Errorf("%w: %s: case %d is there twice", ErrType, m.field, c)
			}
			seen[c] = true
		}
		if m.other {
			others++
		}
	}
	if p.kind == kindUnion {
		return p.checkUnion(others)
	}
	return nil
}

// checkUnion looks at a union, of which so many members are the default.
func (p *plan) checkUnion(others int) error {
	switch d := p.members[0]; {
	case p.extensibility == Mutable:
		return fmt.Errorf("%w: a union is final or appendable: implementations of mutable ones differ", ErrType)
	case d.optional || d.plan.width() == 0 || d.plan.float || d.plan.bitmask || d.cases != nil || d.other:
		return fmt.Errorf("%w: %s: a union begins with its discriminator, an integer, a bool or an enum", ErrType, d.field)
	case others > 1:
		return fmt.Errorf("%w: a union has one default", ErrType)
	}
	return nil
}
