package cdr

import (
	"bytes"
	"crypto/md5"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
)

// Types and values of a seed. What the package writes is what the reference encoder of the file
// reference_test.go writes; every encoding that DDS-XTypes permits decodes to the value, also in a
// reader with another version of the type; bytes that were changed are refused or decode to a value
// that is the same when it is encoded again.
func TestTypesOfASeedKeepTheirValues(t *testing.T) {
	seed := testutil.Seed(t)
	for lap := range testutil.Seeds(100, 500) {
		c := &trial{T: t, seed: seed + uint64(lap)}
		c.rng = rand.New(rand.NewPCG(c.seed, 0))
		for c.shape == nil || c.shape.form == 'u' {
			c.shape = c.structure(0)
		}
		c.codec = compiledAs(t, c.shape)
		var err error
		if c.payloads, err = NewPayloads(c.shape.goes, ""); err != nil || c.payloads.TypeName() != c.shape.name {
			c.fatal("%v", err)
		}
		for range 3 {
			v := reflect.New(c.shape.goes)
			c.draw(c.shape, v.Elem(), 0, nil)
			for _, f := range []Format{XCDR1, XCDR2, XCDR1 | BigEndian, XCDR2 | BigEndian} {
				c.value(v, f)
				c.keys(v, f)
				c.versions(v, f)
				c.beyond(f)
			}
		}
	}
}

// trial is one type.
type trial struct {
	*testing.T
	seed     uint64
	rng      *rand.Rand
	shape    *shape
	codec    *Codec[struct{}]
	payloads *Payloads
}

func (c *trial) fatal(format string, args ...any) {
	c.Helper()
	c.Fatalf("seed %#x, %v: "+format, append([]any{c.seed, c.shape.goes}, args...)...)
}

// compiledAs is the codec of a type that is known when the test runs: values are behind pointers to
// nothing, so that what is zeroed on an error is the test's concern.
func compiledAs(t *testing.T, s *shape) *Codec[struct{}] {
	t.Helper()
	p, err := compile(s.goes, false)
	if err != nil {
		t.Fatalf("%v: %v", s.goes, err)
	}
	k, err := keysOf(p)
	if err != nil {
		t.Fatalf("%v: %v", s.goes, err)
	}
	return &Codec[struct{}]{codec{p, k}}
}

func opaque(v reflect.Value) *struct{} { return (*struct{})(v.UnsafePointer()) }

func reference(s *shape, v reflect.Value, f Format) *encoding {
	r := &encoding{v2: f.version2(), big: f.bigEndian()}
	r.value(s, v.Elem())
	return r
}

// value compares the encoding of a value with the reference's. It decodes that encoding, the other
// encodings that the specification allows, and encodings with changed bytes.
func (c *trial) value(v reflect.Value, f Format) {
	want := reference(c.shape, v, f)
	b, err := c.codec.Append([]byte("front"), opaque(v), f)
	if err != nil || !bytes.Equal(b[9:len(b)-int(b[8]&3)], want.b) || len(b)%4 != 1 {
		c.fatal("%v of %+v is\n%x and not\n%x (%v)", f, v.Elem(), b, want.b, err)
	}
	if err := c.codec.Decode(b[5:], opaque(reflect.New(c.shape.goes))); err != nil {
		c.fatal("%v", err)
	}
	back := reflect.New(c.shape.goes)
	d := newDecoder(want.b, f)
	if err := d.whole(c.codec.codec.plan, back.UnsafePointer()); err != nil || !reflect.DeepEqual(back.Interface(), v.Interface()) {
		c.fatal("%v of %+v decodes to %+v (%v)", f, v.Elem(), back.Elem(), err)
	}
	if m := memory(v.Elem()); d.spent != m {
		c.fatal("%v: %+v has %d bytes of memory, of which %d are counted", f, v.Elem(), m, d.spent)
	}
	for range 4 {
		free := &encoding{v2: want.v2, big: want.big, free: c.rng, extra: c.rng.IntN(8)}
		free.value(c.shape, v.Elem())
		back.Elem().SetZero()
		err := c.codec.DecodeBody(free.b, opaque(back), f)
		switch {
		case free.refused && !errors.Is(err, ErrMalformed):
			c.fatal("%v of %+v: %x with more than the type has: %v", f, v.Elem(), free.b, err)
		case !free.refused && (err != nil || !reflect.DeepEqual(back.Interface(), v.Interface())):
			c.fatal("%v of %+v: %x decodes to %+v (%v)", f, v.Elem(), free.b, back.Elem(), err)
		}
	}
	step := 1 + len(want.b)/32
	for at := c.rng.IntN(step); at < len(want.b); at += step {
		changed := slices.Clone(want.b)
		changed[at] ^= byte(1 << c.rng.IntN(8))
		c.hostile(changed, f)
		c.hostile(want.b[:at:at], f)
	}
	c.hostile(append(want.b[:len(want.b):len(want.b)], 0, 0, 0), f)
	if more := append(want.b[:len(want.b):len(want.b)], 0, 0, 0, 0); c.codec.DecodeBody(more, opaque(back), f) == nil && (f.version2() || c.shape.ext != Appendable) {
		c.fatal("%v: %x has bytes after the value", f, more)
	}
}

// hostile decodes bytes that are perhaps no value. A value of a type without any freedom has the
// bytes of the reference.
func (c *trial) hostile(b []byte, f Format) {
	back, again := reflect.New(c.shape.goes), reflect.New(c.shape.goes)
	switch err := c.codec.DecodeBody(b, opaque(back), f); {
	case err != nil && !errors.Is(err, ErrMalformed):
		c.fatal("%v: %x: %v", f, b, err)
	case err != nil:
		return
	}
	once := reference(c.shape, back, f)
	if c.shape.strict(f) && !hasEmpty(back.Elem()) {
		same := len(b) >= len(once.b) && len(b) <= len(once.b)+3
		for i := 0; same && i < len(once.b); i++ {
			same = b[i] == once.b[i] || once.padding(i)
		}
		if !same {
			c.fatal("%v: %x decodes to %+v, which is %x", f, b, back.Elem(), once.b)
		}
	}
	if err := c.codec.DecodeBody(once.b, opaque(again), f); err != nil {
		c.fatal("%v: %x decodes to %+v, and %x does not: %v", f, b, back.Elem(), once.b, err)
	}
	if twice, err := c.codec.AppendBody(nil, opaque(again), f); err != nil || !bytes.Equal(once.b, twice) {
		c.fatal("%v: %x, then %x, then %x (%v)", f, b, once.b, twice, err)
	}
}

// keys compares everything that is said of the key with a final struct of the key members.
func (c *trial) keys(v reflect.Value, f Format) {
	keyed := slices.ContainsFunc(c.shape.parts, func(p part) bool { return p.key })
	key := c.shape.keyShape(true)
	if c.codec.Keyed() != keyed || c.payloads.Keyed() != keyed {
		c.fatal("keyed: %v", c.codec.Keyed())
	}
	want := reference(key, v, f).b
	instance := reference(key, v, XCDR2|BigEndian).b
	dispose, err := c.codec.AppendKey(nil, opaque(v), f)
	if err != nil || !bytes.Equal(dispose[4:len(dispose)-int(dispose[3])], want) {
		c.fatal("%v: the key of %+v is %x (%v) and not %x", f, v.Elem(), dispose, err, want)
	}
	back := reflect.New(c.shape.goes)
	if err := c.codec.DecodeKey(dispose, opaque(back)); err != nil || !bytes.Equal(reference(key, back, f).b, want) {
		c.fatal("%v: the key of %+v is that of %+v (%v)", f, back.Elem(), v.Elem(), err)
	}
	largest, bounded := key.fullest()
	var hash [16]byte
	small := bounded && len(reference(key, largest, f).b) <= 16
	if wide := reference(key, v, f|BigEndian).b; small {
		copy(hash[:], wide)
	} else {
		hash = md5.Sum(wide)
	}
	if got, err := c.codec.KeyHash(opaque(v), f); err != nil || got != hash {
		c.fatal("%v: the hash of %+v is %x (%v) and not %x", f, v.Elem(), got, err, hash)
	}
	same := func(what string, got []byte, err error, want []byte) {
		c.Helper()
		if err != nil || string(got) != "front"+string(want) {
			c.fatal("%v: %s of %+v is %x (%v) and not %x", f, what, v.Elem(), got, err, want)
		}
	}
	front := []byte("front")
	payload, _ := c.codec.Append(nil, opaque(v), f)
	got, err := c.payloads.AppendInstance(front, payload)
	same("the instance", got, err, instance)
	got, err = c.payloads.AppendInstanceOfKey(front, dispose)
	same("the instance of a dispose", got, err, instance)
	got, err = c.payloads.AppendKey(front, instance, f)
	same("the dispose", got, err, dispose)
	if f.version2() || !keyed {
		return
	}
	got, err = c.payloads.AppendInstanceOfHash(front, hash)
	if !small {
		if !errors.Is(err, ErrHash) || string(got) != "front" {
			c.fatal("a key is read from a hash: %v", err)
		}
		return
	}
	same("the instance of the hash", got, err, instance)
	if n := len(reference(key, v, f).b); n < 16 {
		hash[n+c.rng.IntN(16-n)] = 1
		if _, err := c.payloads.AppendInstanceOfHash(front, hash); err == nil && !hasStrings(key.goes) {
			c.fatal("a hash with more than the key %x is read", want)
		}
	}
}

// versions decodes the value in a reader that has another version of the type.
func (c *trial) versions(v reflect.Value, f Format) {
	other := c.evolve(c.shape, f.version2(), true)
	b, err := c.codec.Append(nil, opaque(v), f)
	if err != nil {
		c.fatal("%v", err)
	}
	want, back := reflect.New(other.goes), reflect.New(other.goes)
	understood := project(c.shape, other, v.Elem(), want.Elem())
	err = compiledAs(c.T, other).Decode(b, opaque(back))
	switch {
	case !understood && !errors.Is(err, ErrMalformed):
		c.fatal("%v: %+v is read by %v: %v", f, v.Elem(), other.goes, err)
	case understood && (err != nil || !reflect.DeepEqual(back.Interface(), want.Interface())):
		c.fatal("%v: %+v, read by %v, is %+v (%v)", f, v.Elem(), other.goes, back.Elem(), err)
	}
}

// beyond draws a value with one part that the type forbids.
func (c *trial) beyond(f Format) {
	v, bad := reflect.New(c.shape.goes), new(bool)
	c.draw(c.shape, v.Elem(), 0, bad)
	if !*bad {
		return
	}
	if b, err := c.codec.Append([]byte("front"), opaque(v), f); !errors.Is(err, ErrValue) || string(b) != "front" {
		c.fatal("%v of %+v: %x, %v", f, v.Elem(), b, err)
	}
	if err := c.codec.DecodeBody(reference(c.shape, v, f).b, opaque(reflect.New(c.shape.goes)), f); !errors.Is(err, ErrMalformed) {
		c.fatal("%v of %+v is decoded: %v", f, v.Elem(), err)
	}
}

// memory is what the package says that it counts: elements that are no octets, twice the entries of
// maps, and optional members.
func memory(v reflect.Value) (n uint64) {
	switch v.Kind() {
	case reflect.Slice:
		if e := v.Type().Elem(); e.Kind() != reflect.Int8 && e.Kind() != reflect.Uint8 {
			n = uint64(v.Len()) * uint64(e.Size())
		}
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			n += memory(v.Index(i))
		}
	case reflect.Map:
		n = 2 * uint64(v.Len()) * uint64(v.Type().Key().Size()+v.Type().Elem().Size())
		for _, k := range v.MapKeys() {
			n += memory(v.MapIndex(k))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			n = uint64(v.Type().Elem().Size()) + memory(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			n += memory(v.Field(i))
		}
	}
	return n
}

// draw makes a value that survives a round trip: empty sequences are nil, maps are not, and of a
// union only the selected member is set. With bad, the first string or collection that can be is
// more than its type allows.
func (c *trial) draw(s *shape, v reflect.Value, depth int, bad *bool) {
	length := func() int {
		n := c.rng.IntN(4)
		if depth > 3 {
			n = 0
		}
		if s.bound > 0 && bad != nil && !*bad {
			*bad = true
			return s.bound + 1
		}
		if s.bound > 0 {
			n = min(n+c.rng.IntN(s.bound+1), s.bound)
		}
		return n
	}
	switch s.form {
	case 'n':
		c.number(v)
	case 's':
		text := strings.Repeat("ä", 40)[:length()]
		if s.bound == 0 && c.rng.IntN(400) == 0 { // about as long as a short header of XCDR1 counts
			text = strings.Repeat("x", 1<<16-8+c.rng.IntN(8))
		}
		if s.bound == 0 && bad != nil && !*bad {
			*bad, text = true, text+"\x00"[:1]+text
		}
		v.SetString(text)
	case 'q':
		if n := length(); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
		}
		fallthrough
	case 'a':
		for i := range v.Len() {
			c.draw(s.elem, v.Index(i), depth+1, bad)
		}
	case 'm':
		v.Set(reflect.MakeMap(v.Type()))
		for n := length(); v.Len() < n; {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			c.draw(s.key, key, depth, nil)
			if key.Kind() == reflect.String {
				key.SetString(fmt.Sprint(key.String(), c.rng.IntN(100)))
			}
			c.draw(s.elem, value, depth+1, nil)
			v.SetMapIndex(key, value)
		}
	case 't':
		for i, p := range s.parts {
			f := v.Field(i)
			if p.optional {
				if depth > 3 || c.rng.IntN(2) == 0 {
					continue
				}
				f.Set(reflect.New(f.Type().Elem()))
				f = f.Elem()
			}
			c.draw(p.shape, f, depth+1, bad)
		}
	case 'u':
		if s.parts[0].shape.goes.Kind() == reflect.Bool {
			v.Field(0).SetBool(c.rng.IntN(2) == 0)
		} else if d := int64(c.rng.IntN(8)); v.Field(0).CanInt() {
			v.Field(0).SetInt(d)
		} else {
			v.Field(0).SetUint(uint64(d))
		}
		if i := s.selected(v); i > 0 {
			c.draw(s.parts[i].shape, v.Field(i), depth+1, bad)
		}
	}
}

func (c *trial) number(v reflect.Value) {
	switch {
	case v.Kind() == reflect.Bool:
		v.SetBool(c.rng.IntN(2) == 0)
	case v.CanFloat():
		v.SetFloat(float64(c.rng.Int32()>>8) / 8)
	case v.CanInt():
		v.SetInt(int64(c.rng.Uint64()) >> (64 - v.Type().Bits()))
	default:
		v.SetUint(c.rng.Uint64() >> (64 - v.Type().Bits()))
	}
}

// hasEmpty tells of a string without bytes, which has two encodings.
func hasEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		return v.Len() == 0
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if hasEmpty(v.Index(i)) {
				return true
			}
		}
	case reflect.Pointer:
		return !v.IsNil() && hasEmpty(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if hasEmpty(v.Field(i)) {
				return true
			}
		}
	}
	return false
}

func hasStrings(t reflect.Type) bool { return strings.Contains(t.String(), "string") }
