package cdr

import (
	"crypto/md5"
	"fmt"
	"reflect"
	"sync"
	"unsafe"
)

// Codec encodes and decodes values of a struct type. It may be used by many goroutines.
type Codec[T any] struct{ codec codec }

// codec does what does not depend on the type: each T is compiled with a copy of the methods of
// Codec, so they are short.
type codec struct {
	plan *plan
	keys keys
}

// New compiles T, a struct. Its error says which field has no encoding, and why.
func New[T any]() (*Codec[T], error) {
	c := &Codec[T]{}
	if err := c.codec.compile(reflect.TypeFor[T]()); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *codec) compile(t reflect.Type) (err error) {
	if c.plan, err = compile(t, false); err != nil {
		return err
	}
	if c.plan.kind == kindUnion {
		return fmt.Errorf("%w: %v: a union is a member of a struct", ErrType, c.plan.goes)
	}
	c.keys, err = keysOf(c.plan)
	return err
}

// TypeName is the name of the type in IDL, with its modules.
func (c *Codec[T]) TypeName() string { return c.codec.plan.named }

// Extensibility is that of the type.
func (c *Codec[T]) Extensibility() Extensibility { return c.codec.plan.extensibility }

// Keyed reports whether a member of the type belongs to the key.
func (c *Codec[T]) Keyed() bool { return c.codec.keys.keyed() }

// Append appends a payload: the encapsulation header, the value, and padding to a multiple of four
// bytes. On an error dst is returned as it was.
func (c *Codec[T]) Append(dst []byte, v *T, f Format) ([]byte, error) {
	return c.codec.append(dst, unsafe.Pointer(v), f)
}

func (c *codec) append(dst []byte, v unsafe.Pointer, f Format) ([]byte, error) {
	out, err := c.appendBody(begin(dst, f, c.plan.extensibility), v, f)
	if err != nil {
		return dst, err
	}
	return end(out, len(dst)), nil
}

// AppendBody appends the value alone, for transports that tell the format in another way.
func (c *Codec[T]) AppendBody(dst []byte, v *T, f Format) ([]byte, error) {
	return c.codec.appendBody(dst, unsafe.Pointer(v), f)
}

func (c *codec) appendBody(dst []byte, v unsafe.Pointer, f Format) ([]byte, error) {
	e := newEncoder(dst, f)
	e.structure(c.plan, v)
	if e.err != nil {
		return dst, e.err
	}
	return e.buf[:e.n], nil
}

// Decode reads a payload, in the format that its header tells, into v. What v was before is
// overwritten; on an error v is the zero value. Nothing of v lies in src.
func (c *Codec[T]) Decode(src []byte, v *T) error {
	*v = *new(T)
	err := c.codec.decode(src, unsafe.Pointer(v))
	if err != nil {
		*v = *new(T)
	}
	return err
}

func (c *codec) decode(src []byte, v unsafe.Pointer) error {
	body, f, err := open(src, c.plan.extensibility)
	if err != nil {
		return err
	}
	return decode(c.plan, body, v, f)
}

// DecodeBody reads what AppendBody appended.
func (c *Codec[T]) DecodeBody(src []byte, v *T, f Format) error {
	*v = *new(T)
	err := decode(c.codec.plan, src, unsafe.Pointer(v), f)
	if err != nil {
		*v = *new(T)
	}
	return err
}

// decode reads a whole body. Up to three bytes behind it are padding of a writer that does not tell
// it; of an appendable type in XCDR1, whose size is not written, what is behind are members of a
// newer version.
func decode(p *plan, src []byte, to unsafe.Pointer, f Format) error {
	d := newDecoder(src, f)
	return d.whole(p, to)
}

func (d *decoder) whole(p *plan, to unsafe.Pointer) error {
	if !d.structure(p, to) {
		return d.err
	}
	if left := len(d.buf) - d.pos; left > 3 && (d.v2 || p.extensibility != Appendable) {
		return fmt.Errorf("%w: %d bytes after a value of %v", ErrMalformed, left, p.goes)
	}
	return nil
}

// AppendKey appends the payload of a dispose: header and key members. The key is a final type of
// the key members in the order of their ids, whatever the type is, as CycloneDDS writes it.
func (c *Codec[T]) AppendKey(dst []byte, v *T, f Format) ([]byte, error) {
	return c.codec.appendKey(dst, unsafe.Pointer(v), f)
}

func (c *codec) appendKey(dst []byte, v unsafe.Pointer, f Format) ([]byte, error) {
	out, err := c.keys.append(begin(dst, f, c.plan.extensibility), v, f)
	if err != nil {
		return dst, err
	}
	return end(out, len(dst)), nil
}

// DecodeKey reads the payload of a dispose into the key members of v; all others are zero.
func (c *Codec[T]) DecodeKey(src []byte, v *T) error {
	*v = *new(T)
	err := c.codec.decodeKey(src, unsafe.Pointer(v))
	if err != nil {
		*v = *new(T)
	}
	return err
}

func (c *codec) decodeKey(src []byte, v unsafe.Pointer) error {
	body, f, err := open(src, c.plan.extensibility)
	if err != nil {
		return err
	}
	return c.keys.decode(body, v, f)
}

// KeyHash is the identity of an instance in RTPS: the key members in big endian of the version of
// f, padded with zeros where no value of the type needs more than 16 bytes, and their MD5
// otherwise.
func (c *Codec[T]) KeyHash(v *T, f Format) (hash [16]byte, err error) {
	return c.codec.keyHash(unsafe.Pointer(v), f)
}

func (c *codec) keyHash(v unsafe.Pointer, f Format) (hash [16]byte, err error) {
	scratch := scratches.Get().(*[]byte)
	defer scratches.Put(scratch)
	b, err := c.keys.append((*scratch)[:0], v, f|BigEndian)
	*scratch = b
	switch {
	case err != nil:
		return hash, err
	case c.keys.largest(f) <= len(hash):
		copy(hash[:], b)
		return hash, nil
	}
	return md5.Sum(b), nil
}

// scratches are buffers of KeyHash.
var scratches = sync.Pool{New: func() any { return new([]byte) }}

// KeyCodec encodes and decodes the key members of a type whose other members need no encoding in
// CDR.
type KeyCodec[T any] struct{ keys keys }

// NewKeyCodec compiles the key members of T, a struct.
func NewKeyCodec[T any]() (*KeyCodec[T], error) {
	p, err := compile(reflect.TypeFor[T](), true)
	if err != nil {
		return nil, err
	}
	k, err := keysOf(p)
	return &KeyCodec[T]{k}, err
}

// Keyed reports whether T has key members.
func (k *KeyCodec[T]) Keyed() bool { return k.keys.keyed() }

// Append appends the key of v, in XCDR2 and big endian, without a header: equal keys have equal
// bytes.
func (k *KeyCodec[T]) Append(dst []byte, v *T) ([]byte, error) {
	return k.keys.append(dst, unsafe.Pointer(v), XCDR2|BigEndian)
}

// Decode reads what Append appended into the key members of v; all others are zero.
func (k *KeyCodec[T]) Decode(src []byte, v *T) error {
	*v = *new(T)
	err := k.keys.decode(src, unsafe.Pointer(v), XCDR2|BigEndian)
	if err != nil {
		*v = *new(T)
	}
	return err
}
