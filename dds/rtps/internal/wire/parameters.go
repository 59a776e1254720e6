package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// ParameterID is the id of a parameter.
type ParameterID uint16

// The parameters that are understood.
const (
	pidPad                  ParameterID = 0x00
	pidSentinel             ParameterID = 0x01
	pidLease                ParameterID = 0x02
	pidSeparation           ParameterID = 0x04
	pidTopicName            ParameterID = 0x05
	pidStrength             ParameterID = 0x06
	pidTypeName             ParameterID = 0x07
	pidDomain               ParameterID = 0x0f
	pidProtocolVersion      ParameterID = 0x15
	pidVendor               ParameterID = 0x16
	pidReliability          ParameterID = 0x1a
	pidLiveliness           ParameterID = 0x1b
	pidDurability           ParameterID = 0x1d
	pidDurabilityService    ParameterID = 0x1e
	pidOwnership            ParameterID = 0x1f
	pidPresentation         ParameterID = 0x21
	pidDeadline             ParameterID = 0x23
	pidDestinationOrder     ParameterID = 0x25
	pidLatencyBudget        ParameterID = 0x27
	pidPartition            ParameterID = 0x29
	pidLifespan             ParameterID = 0x2b
	pidUserData             ParameterID = 0x2c
	pidGroupData            ParameterID = 0x2d
	pidTopicData            ParameterID = 0x2e
	pidUnicast              ParameterID = 0x2f
	pidMulticast            ParameterID = 0x30
	pidDefaultUnicast       ParameterID = 0x31
	pidMetatrafficUnicast   ParameterID = 0x32
	pidMetatrafficMulticast ParameterID = 0x33
	pidHistory              ParameterID = 0x40
	pidResourceLimits       ParameterID = 0x41
	pidExpectsInline        ParameterID = 0x43
	pidDefaultMulticast     ParameterID = 0x48
	pidParticipantGUID      ParameterID = 0x50
	pidBuiltinEndpoints     ParameterID = 0x58
	pidEndpointGUID         ParameterID = 0x5a
	pidEntityName           ParameterID = 0x62
	pidKeyHash              ParameterID = 0x70
	pidStatus               ParameterID = 0x71
	pidRepresentation       ParameterID = 0x73
	pidWay                  ParameterID = 0x8053 // of this vendor
	mustUnderstand          ParameterID = 0x4000
	vendorSpecific          ParameterID = 0x8000
	parameterHeadBytes                  = 4
	representationPL                    = 0x0002 // big endian; one more is little endian
	statusBytes                         = 12     // of the list with a status and the sentinel
)

// Parameters is a list of parameters.
type Parameters struct {
	rest  []byte
	order binary.ByteOrder
}

// Next returns the next parameter, and false at the end of the list. The value lies in the message.
func (p *Parameters) Next() (id ParameterID, value []byte, ok bool, err error) {
	for {
		if p.order == nil { // no list
			return 0, nil, false, nil
		}
		if len(p.rest) < parameterHeadBytes {
			return 0, nil, false, fmt.Errorf("%w: a list of parameters without an end", ErrMalformed)
		}
		id = ParameterID(p.order.Uint16(p.rest))
		n := int(p.order.Uint16(p.rest[2:]))
		rest := p.rest[parameterHeadBytes:]
		if id == pidSentinel {
			p.rest = rest
			return id, nil, false, nil
		}
		if n > len(rest) || n&3 != 0 {
			return 0, nil, false, fmt.Errorf("%w: a parameter %#04x of %d bytes in %d", ErrMalformed, uint16(id), n, len(rest))
		}
		value, p.rest = rest[:n:n], rest[n:]
		if id != pidPad {
			return id, value, true, nil
		}
	}
}

// Status is what a sample does to its instance.
type Status uint8

// The bits of a status; zero is a sample that is written.
const (
	Disposed     Status = 1
	Unregistered Status = 2
)

// Change returns what the inline QoS of a sample say: what it does to its instance, and the hash of
// its key if they have it.
func (d *Data) Change() (s Status, hash *[16]byte, err error) {
	p := d.Inline
	for {
		id, value, ok, err := p.Next()
		if err != nil || !ok {
			return s, hash, err
		}
		switch {
		case id == pidStatus && len(value) >= 4: // in big endian, always
			s = Status(value[3]) & (Disposed | Unregistered)
		case id == pidKeyHash && len(value) >= 16:
			hash = (*[16]byte)(value)
		}
	}
}

// status appends the inline QoS with a status, if there is one.
func (a *Appender) status(s Status) {
	if s != 0 {
		a.buf = append(a.buf, byte(pidStatus), 0, 4, 0, 0, 0, 0, byte(s), byte(pidSentinel), 0, 0, 0)
	}
}

// open returns the list in a payload of discovery.
func open(payload []byte) (p Parameters, err error) {
	if len(payload) < 4 {
		return p, fmt.Errorf("%w: %d bytes have no encapsulation", ErrMalformed, len(payload))
	}
	switch id := binary.BigEndian.Uint16(payload); id {
	case representationPL:
		p.order = binary.BigEndian
	case representationPL + 1:
		p.order = binary.LittleEndian
	default:
		return p, fmt.Errorf("%w: representation %#04x of discovery", ErrMalformed, id)
	}
	p.rest = payload[4:]
	return p, nil
}

// each calls f for each parameter that f may know. An unknown parameter that must be understood is
// an error.
func (p Parameters) each(f func(id ParameterID, v *value) (known bool)) error {
	for {
		id, b, ok, err := p.Next()
		if err != nil || !ok {
			return err
		}
		v := value{b: b, order: p.order}
		if known := id&vendorSpecific != 0 && id != pidWay || f(id&^mustUnderstand, &v); !known && id&mustUnderstand != 0 {
			return fmt.Errorf("%w: parameter %#04x must be understood", ErrMalformed, uint16(id))
		}
		if v.bad {
			return fmt.Errorf("%w: parameter %#04x of %d bytes", ErrMalformed, uint16(id), len(b))
		}
	}
}

// value reads the value of a parameter.
type value struct {
	b     []byte
	order binary.ByteOrder
	at    int
	bad   bool
}

func (v *value) take(n int) []byte {
	if n < 0 || n > len(v.b)-v.at {
		v.bad = true
		return nil
	}
	b := v.b[v.at : v.at+n : v.at+n]
	v.at += n
	return b
}

func (v *value) u8() uint8 {
	if b := v.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (v *value) u16() uint16 {
	if b := v.take(2); b != nil {
		return v.order.Uint16(b)
	}
	return 0
}

func (v *value) u32() uint32 {
	if b := v.take(4); b != nil {
		return v.order.Uint32(b)
	}
	return 0
}

// bytes reads a sequence of octets.
func (v *value) bytes() []byte {
	n := v.u32()
	if n > math.MaxInt32 {
		v.bad = true
		return nil
	}
	return append([]byte(nil), v.take(int(n))...)
}

// text reads a string, with the zero at its end.
func (v *value) text() string {
	n := v.u32()
	if n > math.MaxInt32 {
		v.bad = true
		return ""
	}
	b := v.take(int(n))
	if len(b) == 0 || b[len(b)-1] != 0 {
		v.bad = v.bad || len(b) > 0
		return ""
	}
	return string(b[:len(b)-1])
}

// texts reads a sequence of strings.
func (v *value) texts() (all []string) {
	n := v.u32()
	for range n {
		v.at = min((v.at+3)&^3, len(v.b))
		s := v.text()
		if v.bad {
			return nil
		}
		all = append(all, s)
	}
	return all
}

// Infinite is a duration without an end.
const Infinite time.Duration = math.MaxInt64

func (v *value) duration() time.Duration {
	s, f := int32(v.u32()), v.u32()
	switch {
	case s == math.MaxInt32:
		return Infinite
	case s < 0:
		v.bad = true
		return 0
	}
	return time.Duration(TimeOf(uint32(s), f))
}

func (v *value) locator() (l Locator, ok bool) {
	b := v.take(locatorBytes)
	if b == nil {
		return l, false
	}
	return locatorOf(b, v.order)
}

func (v *value) guid() (g GUID) {
	if b := v.take(16); b != nil {
		g = guidOf(b)
	}
	return g
}

// list puts a list of parameters together, in little endian.
type list struct{ buf []byte }

func newList(dst []byte) *list {
	return &list{append(dst, representationPL>>8, representationPL+1, 0, 0)}
}

func (l *list) add(id ParameterID, f func()) {
	l.buf = binary.LittleEndian.AppendUint16(l.buf, uint16(id))
	l.buf = append(l.buf, 0, 0)
	at := len(l.buf)
	f()
	for (len(l.buf)-at)&3 != 0 {
		l.buf = append(l.buf, 0)
	}
	binary.LittleEndian.PutUint16(l.buf[at-2:], uint16(len(l.buf)-at))
}

func (l *list) u32(v uint32) { l.buf = binary.LittleEndian.AppendUint32(l.buf, v) }

func (l *list) addU32(id ParameterID, v ...uint32) {
	l.add(id, func() {
		for _, x := range v {
			l.u32(x)
		}
	})
}

func (l *list) duration(d time.Duration) {
	if d == Infinite {
		l.u32(math.MaxInt32)
		l.u32(math.MaxUint32)
		return
	}
	s, f := timeParts(int64(d))
	l.u32(s)
	l.u32(f)
}

func (l *list) text(s string) {
	l.u32(uint32(len(s) + 1))
	l.buf = append(append(l.buf, s...), 0)
}

func (l *list) addText(id ParameterID, s string) { l.add(id, func() { l.text(s) }) }

func (l *list) addBytes(id ParameterID, b []byte) {
	l.add(id, func() {
		l.u32(uint32(len(b)))
		l.buf = append(l.buf, b...)
	})
}

func (l *list) addGUID(id ParameterID, g GUID) {
	b := g.Bytes()
	l.add(id, func() { l.buf = append(l.buf, b[:]...) })
}

func (l *list) addLocators(id ParameterID, all []Locator) {
	for _, o := range all {
		l.add(id, func() { l.buf = appendLocator(l.buf, o) })
	}
}

func (l *list) end() []byte {
	return append(l.buf, byte(pidSentinel), 0, 0, 0)
}
