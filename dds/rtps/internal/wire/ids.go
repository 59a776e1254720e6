package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// ErrMalformed is wrapped with the place and the values.
var ErrMalformed = errors.New("rtps: malformed")

// Prefix names a participant.
type Prefix [12]byte

// EntityID names an entity of a participant. Its last byte is its kind.
type EntityID [4]byte

// The entities of discovery and liveliness, and the entity that stands for all readers.
var (
	Unknown                  = EntityID{}
	ParticipantEntity        = EntityID{0, 0, 1, 0xc1}
	ParticipantWriter        = EntityID{0, 1, 0, 0xc2}
	ParticipantReader        = EntityID{0, 1, 0, 0xc7}
	PublicationsWriter       = EntityID{0, 0, 3, 0xc2}
	PublicationsReader       = EntityID{0, 0, 3, 0xc7}
	SubscriptionsWriter      = EntityID{0, 0, 4, 0xc2}
	SubscriptionsReader      = EntityID{0, 0, 4, 0xc7}
	LivelinessWriter         = EntityID{0, 2, 0, 0xc2}
	LivelinessReader         = EntityID{0, 2, 0, 0xc7}
	kindWriterKeyed     byte = 0x02
	kindWriterKeyless   byte = 0x03
	kindReaderKeyless   byte = 0x04
	kindReaderKeyed     byte = 0x07
)

// Writer and Reader return the id of an application's entity.
func Writer(number uint32, keyed bool) EntityID {
	if keyed {
		return entity(number, kindWriterKeyed)
	}
	return entity(number, kindWriterKeyless)
}

// Reader returns the id of an application's reader.
func Reader(number uint32, keyed bool) EntityID {
	if keyed {
		return entity(number, kindReaderKeyed)
	}
	return entity(number, kindReaderKeyless)
}

func entity(number uint32, kind byte) EntityID {
	return EntityID{byte(number >> 16), byte(number >> 8), byte(number), kind}
}

// IsWriter reports whether the entity is a writer.
func (e EntityID) IsWriter() bool {
	k := e[3] & 0x3f
	return k == kindWriterKeyed || k == kindWriterKeyless
}

// IsReader reports whether the entity is a reader.
func (e EntityID) IsReader() bool {
	k := e[3] & 0x3f
	return k == kindReaderKeyed || k == kindReaderKeyless
}

// Builtin reports whether the entity is one of discovery.
func (e EntityID) Builtin() bool { return e[3]&0xc0 == 0xc0 }

// Keyed reports whether the type of the entity has keys.
func (e EntityID) Keyed() bool { k := e[3] & 0x3f; return k == kindWriterKeyed || k == kindReaderKeyed }

// GUID names an entity anywhere.
type GUID struct {
	Prefix Prefix
	Entity EntityID
}

// Bytes is the GUID as it is on the wire.
func (g GUID) Bytes() (b [16]byte) {
	copy(b[:], g.Prefix[:])
	copy(b[12:], g.Entity[:])
	return b
}

func (g GUID) String() string { return fmt.Sprintf("%x.%x", g.Prefix[:], g.Entity[:]) }

// GUIDOf is the inverse of Bytes.
func GUIDOf(b [16]byte) GUID { return guidOf(b[:]) }

func guidOf(b []byte) (g GUID) {
	copy(g.Prefix[:], b)
	copy(g.Entity[:], b[12:])
	return g
}

// Locator is an address of a participant. Of all kinds only UDP over IPv4 is used; others are
// skipped.
type Locator = netip.AddrPort

// locatorBytes is the size of a locator: kind, port, address.
const (
	locatorBytes = 24
	locatorUDPv4 = 1
)

// locatorOf returns false for a locator of another kind.
func locatorOf(b []byte, o binary.ByteOrder) (l Locator, ok bool) {
	port := o.Uint32(b[4:])
	if int32(o.Uint32(b)) != locatorUDPv4 || port == 0 || port > 65535 {
		return l, false
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[20:24])), uint16(port)), true
}

func appendLocator(dst []byte, l Locator) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, locatorUDPv4)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(l.Port()))
	dst = append(dst, make([]byte, 12)...)
	a := l.Addr().Unmap().As4()
	return append(dst, a[:]...)
}
