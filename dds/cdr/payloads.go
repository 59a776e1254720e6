package cdr

import (
	"fmt"
	"reflect"
	"sync"
	"unsafe"
)

// Payloads reads the keys of payloads of a type that is known when the program runs.
type Payloads struct {
	plan   *plan
	keys   keys
	values sync.Pool
}

// NewPayloads compiles a struct type. The name is for a type that has none.
func NewPayloads(t reflect.Type, name string) (*Payloads, error) {
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%w: %v is no struct", ErrType, t)
	}
	p, err := compileAs(t, name, false)
	if err != nil {
		return nil, err
	}
	if p.kind == kindUnion {
		return nil, fmt.Errorf("%w: %v: a union is a member of a struct", ErrType, p.goes)
	}
	k, err := keysOf(p)
	if err != nil {
		return nil, err
	}
	return &Payloads{plan: p, keys: k, values: sync.Pool{New: func() any { return new(reflect.New(t)) }}}, nil
}

// TypeName is the name of the type in IDL, with its modules.
func (p *Payloads) TypeName() string { return p.plan.named }

// Keyed reports whether a member of the type belongs to the key.
func (p *Payloads) Keyed() bool { return p.keys.keyed() }

// with calls f with a value of the type that is zero, and is forgotten afterwards.
func (p *Payloads) with(f func(v unsafe.Pointer) error) error {
	v := p.values.Get().(*reflect.Value)
	defer p.values.Put(v)
	defer v.Elem().SetZero()
	return f(v.UnsafePointer())
}

// read decodes a value that is used while src is there: its strings and octets lie in src.
func read(p *plan, src []byte, to unsafe.Pointer, f Format) error {
	d := newDecoder(src, f)
	d.inPlace = true
	return d.whole(p, to)
}

// AppendInstance appends the key of a sample as KeyCodec.Append writes it. The whole payload is
// decoded: one that is malformed is an error.
func (p *Payloads) AppendInstance(dst, payload []byte) ([]byte, error) {
	body, f, err := open(payload, p.plan.extensibility)
	if err != nil {
		return dst, err
	}
	err = p.with(func(v unsafe.Pointer) error {
		if err := read(p.plan, body, v, f); err != nil || !p.keys.keyed() {
			return err
		}
		dst, err = p.keys.append(dst, v, XCDR2|BigEndian)
		return err
	})
	return dst, err
}

// AppendInstanceOfKey is like AppendInstance, for the payload of a dispose.
func (p *Payloads) AppendInstanceOfKey(dst, payload []byte) ([]byte, error) {
	body, f, err := open(payload, p.plan.extensibility)
	if err != nil {
		return dst, err
	}
	err = p.with(func(v unsafe.Pointer) error {
		if err := read(p.keys.plan, body, v, f); err != nil {
			return err
		}
		dst, err = p.keys.append(dst, v, XCDR2|BigEndian)
		return err
	})
	return dst, err
}

// AppendInstanceOfHash is like AppendInstance, for the hash of a key in RTPS. It returns ErrHash if
// a key of the type may be larger than a hash.
func (p *Payloads) AppendInstanceOfHash(dst []byte, hash [16]byte) ([]byte, error) {
	const f = XCDR1 | BigEndian
	if !p.keys.keyed() || p.keys.largest(f) > len(hash) {
		return dst, fmt.Errorf("%w: of %v", ErrHash, p.plan.goes)
	}
	err := p.with(func(v unsafe.Pointer) (err error) {
		d := newDecoder(hash[:], f)
		if !d.structure(p.keys.plan, v) {
			return d.err
		}
		for _, b := range hash[d.pos:] {
			if b != 0 {
				return fmt.Errorf("%w: a hash with more than a key", ErrMalformed)
			}
		}
		dst, err = p.keys.append(dst, v, XCDR2|BigEndian)
		return err
	})
	return dst, err
}

// AppendKey appends the payload of a dispose, from a key as KeyCodec.Append writes it.
func (p *Payloads) AppendKey(dst, instance []byte, f Format) ([]byte, error) {
	start := len(dst)
	out := dst
	err := p.with(func(v unsafe.Pointer) (err error) {
		if err = read(p.keys.plan, instance, v, XCDR2|BigEndian); err != nil {
			return err
		}
		out, err = p.keys.append(begin(out, f, p.plan.extensibility), v, f)
		return err
	})
	if err != nil {
		return dst, err
	}
	return end(out, start), nil
}
