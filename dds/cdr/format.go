package cdr

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Format is a version of the encoding and a byte order: XCDR1, XCDR2, XCDR1|BigEndian or
// XCDR2|BigEndian.
type Format uint8

const (
	// XCDR1 is version 1 in little endian: the CDR of CORBA, which every DDS reads. Mutable types are
	// parameter lists.
	XCDR1 Format = 0
	// XCDR2 is version 2 in little endian. Nothing is aligned at more than 4 bytes.
	XCDR2 Format = 1
	// BigEndian selects the other byte order.
	BigEndian Format = 2
)

func (f Format) version2() bool  { return f&XCDR2 != 0 }
func (f Format) bigEndian() bool { return f&BigEndian != 0 }

func (f Format) String() string {
	s := "XCDR1"
	if f.version2() {
		s = "XCDR2"
	}
	if f.bigEndian() {
		s += " big endian"
	}
	return s
}

// Extensibility is what versions of a type may differ in.
type Extensibility uint8

const (
	// Final types have no other versions.
	Final Extensibility = iota
	// Appendable types may have more members at the end.
	Appendable
	// Mutable types may have other members, in another order: each is written with its id.
	Mutable
)

func (x Extensibility) String() string {
	switch x {
	case Final:
		return "final"
	case Appendable:
		return "appendable"
	case Mutable:
		return "mutable"
	default:
		return fmt.Sprintf("extensibility %d", uint8(x))
	}
}

// Errors are wrapped with the place and the values.
var (
	// ErrType is returned for a Go type that has no encoding.
	ErrType = errors.New("cdr: type cannot be encoded")
	// ErrValue is returned for a value that its type does not allow, such as a string beyond its
	// bound.
	ErrValue = errors.New("cdr: value cannot be encoded")
	// ErrMalformed is returned for bytes that are not an encoding of the type.
	ErrMalformed = errors.New("cdr: malformed")
	// ErrHash is returned for the hash of a key that may be larger than a hash.
	ErrHash = errors.New("cdr: no key can be read from a hash")
)

// headerBytes is the size of the encapsulation header: an identifier of the representation, and
// options, of which the lowest two bits tell how many bytes of padding follow the value.
const headerBytes = 4

// Representation returns the identifier that begins a payload of a type in a format.
func Representation(f Format, x Extensibility) uint16 {
	var id uint16
	switch {
	case !f.version2() && x == Mutable:
		id = 0x0002 // PL_CDR
	case !f.version2():
		id = 0x0000 // CDR
	case x == Final:
		id = 0x0006 // CDR2
	case x == Appendable:
		id = 0x0008 // D_CDR2
	default:
		id = 0x000a // PL_CDR2
	}
	if !f.bigEndian() {
		id++
	}
	return id
}

// formatOf is the inverse of Representation. A writer of a final type and its reader of the same
// type agree on its extensibility; an identifier that tells another one is refused by open.
func formatOf(id uint16) (f Format, x Extensibility, ok bool) {
	if id&1 == 0 {
		f |= BigEndian
	}
	switch id &^ 1 {
	case 0x0000:
		return f, Final, true
	case 0x0002:
		return f, Mutable, true
	case 0x0006:
		return f | XCDR2, Final, true
	case 0x0008:
		return f | XCDR2, Appendable, true
	case 0x000a:
		return f | XCDR2, Mutable, true
	}
	return 0, 0, false
}

// open returns the body of a payload, without header and padding, and its format.
func open(payload []byte, want Extensibility) (body []byte, f Format, err error) {
	if len(payload) < headerBytes {
		return nil, 0, fmt.Errorf("%w: %d bytes have no encapsulation header", ErrMalformed, len(payload))
	}
	id := binary.BigEndian.Uint16(payload)
	f, x, ok := formatOf(id)
	if !ok {
		return nil, 0, fmt.Errorf("%w: unknown representation %#04x", ErrMalformed, id)
	}
	if Representation(f, want) != Representation(f, x) {
		return nil, 0, fmt.Errorf("%w: representation %#04x for a type that is %v", ErrMalformed, id, want)
	}
	body = payload[headerBytes:]
	padding := int(payload[3] & 3)
	if padding > len(body) {
		return nil, 0, fmt.Errorf("%w: padding of %d bytes after %d", ErrMalformed, padding, len(body))
	}
	return body[:len(body)-padding], f, nil
}

// begin appends the encapsulation header; end pads what was appended after it.
func begin(dst []byte, f Format, x Extensibility) []byte {
	return append(binary.BigEndian.AppendUint16(dst, Representation(f, x)), 0, 0)
}

func end(dst []byte, start int) []byte {
	padding := -(len(dst) - start) & 3
	dst[start+3] = byte(padding)
	return append(dst, "\x00\x00\x00"[:padding]...)
}
