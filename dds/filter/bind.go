package filter

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/squall-go/squall/dds/cdr"
)

// ErrType is returned for an expression that does not suit the type of the samples, or its
// parameters.
var ErrType = errors.New("filter: type error")

// Bind makes a function of an expression, for samples of type T, which is a struct. A parameter is
// the text of a value, like 5 or 'RED'; where a string is expected, quotation marks are optional.
func Bind[T any](e *Expression, parameters ...string) (func(*T) bool, error) {
	b := binder{of: reflect.TypeFor[T](), parameters: parameters}
	if b.of.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%w: %v is no struct", ErrType, b.of)
	}
	f, err := b.bind(e.root)
	if err != nil {
		return nil, err
	}
	return func(v *T) bool { return f(reflect.ValueOf(v).Elem()) }, nil
}

type binder struct {
	of         reflect.Type
	parameters []string
}

type condition = func(reflect.Value) bool

func (b *binder) bind(n node) (condition, error) {
	switch n := n.(type) {
	case both:
		return b.pair(n.a, n.b, func(x, y condition) condition { return func(v reflect.Value) bool { return x(v) && y(v) } })
	case either:
		return b.pair(n.a, n.b, func(x, y condition) condition { return func(v reflect.Value) bool { return x(v) || y(v) } })
	case negated:
		f, err := b.bind(n.of)
		return func(v reflect.Value) bool { return !f(v) }, err
	case compare:
		return b.compare(n)
	case between:
		return b.between(n)
	}
	return nil, fmt.Errorf("%w: %v", ErrType, n)
}

func (b *binder) pair(left, right node, join func(x, y condition) condition) (condition, error) {
	x, err := b.bind(left)
	if err != nil {
		return nil, err
	}
	y, err := b.bind(right)
	return join(x, y), err
}

// class is what can be compared with each other.
type class uint8

const (
	numbers class = iota
	texts
	truths
)

func (c class) String() string { return [...]string{"a number", "a text", "TRUE or FALSE"}[c] }

// scalar is the value of an operand.
type scalar struct {
	kind   operandKind // text, integer, decimal or truth
	signed int64
	large  uint64
	float  float64
	text   string
	truth  bool
}

// side is one operand that is bound.
type side struct {
	class class
	enum  []cdr.Literal // constants, of a member that has some
	char  bool          // a member that is a char in IDL
	path  [][]int       // of a member: fields, with a pointer to follow behind each but the last
	fixed scalar        // of a value
}

// get returns the operand's value in a sample; ok is false for an optional member that is not
// there.
func (s *side) get(v reflect.Value) (x scalar, ok bool) {
	if s.path == nil {
		return s.fixed, true
	}
	for _, fields := range s.path {
		for v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return x, false
			}
			v = v.Elem()
		}
		for _, i := range fields {
			v = v.Field(i)
		}
	}
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return x, false
		}
		v = v.Elem()
	}
	switch {
	case v.CanInt():
		return scalar{kind: integer, signed: v.Int()}, true
	case v.CanUint():
		if n := v.Uint(); n > math.MaxInt64 {
			return scalar{kind: integer, large: n}, true
		}
		return scalar{kind: integer, signed: int64(v.Uint())}, true
	case v.CanFloat():
		return scalar{kind: decimal, float: v.Float()}, true
	case v.Kind() == reflect.Bool:
		return scalar{kind: truth, truth: v.Bool()}, true
	}
	return scalar{kind: text, text: v.String()}, true
}

// side binds an operand. Other is the member on the other side, if that is known already: a
// constant of an enum, and a text without quotation marks, follow from it.
func (b *binder) side(o operand, other *side) (s *side, err error) {
	switch o.kind {
	case member:
		return b.member(o.text)
	case parameter:
		if o.number >= len(b.parameters) {
			return nil, fmt.Errorf("%w: there are %d parameters, and no %%%d", ErrType, len(b.parameters), o.number)
		}
		given := b.parameters[o.number]
		if o, err = literal(given); err != nil {
			if other == nil || other.class != texts && other.enum == nil && !other.char {
				return nil, fmt.Errorf("%w: parameter %q is no value", ErrType, given)
			}
			o = operand{kind: text, text: given}
		}
	}
	s = &side{fixed: scalar{o.kind, o.signed, o.large, o.float, o.text, o.truth}}
	switch o.kind {
	case text:
		return s, s.bindText(o.text, other)
	case truth:
		s.class = truths
	}
	return s, nil
}

// bindText makes a text what the other side is: a text, a character, or a constant of an enum.
func (s *side) bindText(text string, other *side) error {
	s.class = texts
	switch {
	case other == nil:
	case other.char && len(text) == 1:
		s.class, s.fixed = numbers, scalar{kind: integer, signed: int64(text[0])}
	case other.char:
		return fmt.Errorf("%w: %q is not one character of one byte", ErrType, text)
	case other.enum != nil:
		i := slices.IndexFunc(other.enum, func(l cdr.Literal) bool { return l.Name == text })
		if i < 0 {
			return fmt.Errorf("%w: %q is none of the constants", ErrType, text)
		}
		s.class, s.fixed = numbers, scalar{kind: integer, signed: other.enum[i].Value}
	}
	return nil
}

// literal is the value of a parameter's text.
func literal(s string) (operand, error) {
	p := &parser{in: s}
	if err := p.next(); err != nil {
		return operand{}, err
	}
	o := p.token
	if err := p.next(); err != nil {
		return operand{}, err
	}
	if o.kind != value || p.token.kind != end || o.operand.kind == parameter {
		return operand{}, p.wrong("a value")
	}
	return o.operand, nil
}

// member finds a member by its name.
func (b *binder) member(name string) (*side, error) {
	s, t := &side{}, b.of
	var fields []int
	parts := strings.Split(name, ".")
	for i, part := range parts {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
			s.path, fields = append(s.path, fields), nil
		}
		index, ok := field(t, part)
		if !ok {
			return nil, fmt.Errorf("%w: %v has no member %s", ErrType, b.of, strings.Join(parts[:i+1], "."))
		}
		fields = append(fields, index)
		f := t.Field(index)
		t, s.char = f.Type, f.Type.Kind() == reflect.Uint8 && slices.Contains(strings.Split(f.Tag.Get("dds"), ","), "char")
	}
	s.path = append(s.path, fields)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if e, ok := reflect.Zero(t).Interface().(cdr.Enum); ok {
		s.enum = e.EnumLiterals()
	}
	switch v := reflect.Zero(t); {
	case v.CanInt(), v.CanUint(), v.CanFloat():
	case v.Kind() == reflect.Bool:
		s.class = truths
	case v.Kind() == reflect.String:
		s.class = texts
	default:
		return nil, fmt.Errorf("%w: member %s is of type %v, which has no order", ErrType, name, t)
	}
	return s, nil
}

// field finds a field by the name in its tag, by its own, or by its own in other letters.
func field(t reflect.Type, name string) (index int, ok bool) {
	if t.Kind() != reflect.Struct {
		return 0, false
	}
	found := -1
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() || f.Tag.Get("dds") == "-" {
			continue
		}
		tagged := ""
		for o := range strings.SplitSeq(f.Tag.Get("dds"), ",") {
			if n, is := strings.CutPrefix(o, "name="); is {
				tagged = n
			}
		}
		if cmp.Or(tagged, f.Name) == name {
			return i, true
		}
		if tagged == "" && found < 0 && strings.EqualFold(f.Name, name) {
			found = i
		}
	}
	return found, found >= 0
}

// sides binds two operands, the member among them first.
func (b *binder) sides(left, right operand) (x, y *side, err error) {
	if left.kind != member {
		y, x, err = b.sides(right, left)
		return x, y, err
	}
	if x, err = b.side(left, nil); err != nil {
		return nil, nil, err
	}
	y, err = b.side(right, x)
	return x, y, err
}

func (b *binder) compare(n compare) (condition, error) {
	x, y, err := b.sides(n.left, n.right)
	if err != nil {
		return nil, err
	}
	switch {
	case x.class != y.class:
		return nil, fmt.Errorf("%w: %v compares %v and %v", ErrType, n, x.class, y.class)
	case n.relation == like && x.class != texts:
		return nil, fmt.Errorf("%w: %v: %v is like no pattern", ErrType, n, x.class)
	case x.class == truths && n.relation != equal && n.relation != unequal:
		return nil, fmt.Errorf("%w: %v: TRUE and FALSE have no order", ErrType, n)
	}
	if n.relation == like {
		return alike(x, y)
	}
	return func(v reflect.Value) bool {
		a, ok := x.get(v)
		c, there := y.get(v)
		return ok && there && holds(n.relation, &a, &c)
	}, nil
}

// alike is LIKE. A pattern that is a member is compiled with each sample; nothing is like a pattern
// that Bind would refuse.
func alike(x, y *side) (condition, error) {
	if y.path != nil {
		return func(v reflect.Value) bool {
			a, ok := x.get(v)
			c, there := y.get(v)
			if !ok || !there {
				return false
			}
			p, err := newPattern(c.text)
			return err == nil && p.matches(a.text)
		}, nil
	}
	p, err := newPattern(y.fixed.text)
	return func(v reflect.Value) bool {
		a, ok := x.get(v)
		return ok && p.matches(a.text)
	}, err
}

func (b *binder) between(n between) (condition, error) {
	x, low, err := b.sides(n.of, n.low)
	if err != nil {
		return nil, err
	}
	high, err := b.side(n.high, x)
	if err != nil {
		return nil, err
	}
	if x.class == truths || x.class != low.class || x.class != high.class {
		return nil, fmt.Errorf("%w: %v compares %v, %v and %v", ErrType, n, x.class, low.class, high.class)
	}
	return func(v reflect.Value) bool {
		a, ok := x.get(v)
		return ok && (holds(atLeast, &a, &low.fixed) && holds(atMost, &a, &high.fixed)) != n.outside
	}, nil
}

// holds reports whether two values of one class are in a relation. A float that is no number is
// unequal to everything.
func holds(r relation, a, b *scalar) bool {
	if a.kind == decimal && math.IsNaN(a.float) || b.kind == decimal && math.IsNaN(b.float) {
		return r == unequal
	}
	n := order(a, b)
	switch r {
	case equal:
		return n == 0
	case unequal:
		return n != 0
	case less:
		return n < 0
	case atMost:
		return n <= 0
	case greater:
		return n > 0
	}
	return n >= 0
}

func order(a, b *scalar) int {
	switch {
	case a.kind == text:
		return strings.Compare(a.text, b.text)
	case a.kind == truth:
		if a.truth == b.truth {
			return 0
		}
		return 1
	case a.kind == decimal && b.kind == decimal:
		return cmp.Compare(a.float, b.float)
	case a.kind == decimal:
		return -b.toFloat(a.float)
	case b.kind == decimal:
		return a.toFloat(b.float)
	case a.large != b.large:
		return cmp.Compare(a.large, b.large)
	}
	return cmp.Compare(a.signed, b.signed)
}

// toFloat compares an integer with a float exactly: not all integers are floats.
func (s *scalar) toFloat(f float64) int {
	whole := math.Floor(f)
	n := 0
	switch {
	case whole >= 1<<64:
		return -1
	case s.large > 0 && whole < 1<<63:
		return 1
	case s.large > 0:
		n = cmp.Compare(s.large, uint64(whole))
	case whole >= 1<<63:
		return -1
	case whole < -1<<63:
		return 1
	default:
		n = cmp.Compare(s.signed, int64(whole))
	}
	if n == 0 && whole < f {
		return -1
	}
	return n
}
