package wire

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Kind is the kind of a submessage.
type Kind uint8

// The kinds.
const (
	KindPad           Kind = 0x01
	KindAckNack       Kind = 0x06
	KindHeartbeat     Kind = 0x07
	KindGap           Kind = 0x08
	KindInfoTime      Kind = 0x09
	KindInfoSource    Kind = 0x0c
	KindInfoReplyIP4  Kind = 0x0d
	KindInfoTarget    Kind = 0x0e
	KindInfoReply     Kind = 0x0f
	KindNackFrag      Kind = 0x12
	KindHeartbeatFrag Kind = 0x13
	KindData          Kind = 0x15
	KindDataFrag      Kind = 0x16
)

// Sizes of the parts of a message.
const (
	HeaderBytes    = 20
	subheaderBytes = 4
	maxBits        = 256 // of a set of numbers
)

// Version is what the header of a message says: the protocol and the vendor.
type Version struct{ Major, Minor, Vendor0, Vendor1 byte }

// Submessage is one part of a message. Its body lies in the message.
type Submessage struct {
	Kind  Kind
	Flags byte
	Body  []byte
	Order binary.ByteOrder
}

// Decoder takes a message apart.
type Decoder struct {
	Source  Prefix
	Version Version
	rest    []byte
}

// NewDecoder reads the header of a message.
func NewDecoder(message []byte) (d Decoder, err error) {
	if len(message) < HeaderBytes || string(message[:4]) != "RTPS" {
		return d, fmt.Errorf("%w: no header in %d bytes", ErrMalformed, len(message))
	}
	d.Version = Version{message[4], message[5], message[6], message[7]}
	if d.Version.Major != 2 {
		return d, fmt.Errorf("%w: version %d.%d", ErrMalformed, d.Version.Major, d.Version.Minor)
	}
	copy(d.Source[:], message[8:])
	d.rest = message[HeaderBytes:]
	return d, nil
}

// Next returns the next submessage, and false behind the last one.
func (d *Decoder) Next() (s Submessage, ok bool, err error) {
	if len(d.rest) == 0 {
		return s, false, nil
	}
	if len(d.rest) < subheaderBytes {
		return s, false, fmt.Errorf("%w: %d bytes after the last submessage", ErrMalformed, len(d.rest))
	}
	s.Kind, s.Flags, s.Order = Kind(d.rest[0]), d.rest[1], order(d.rest[1])
	n := int(s.Order.Uint16(d.rest[2:]))
	body := d.rest[subheaderBytes:]
	if n == 0 && s.Kind != KindPad && s.Kind != KindInfoTime { // the last submessage goes to the end
		n = len(body)
	}
	if n > len(body) {
		return s, false, fmt.Errorf("%w: a submessage %#02x of %d bytes in %d", ErrMalformed, s.Kind, n, len(body))
	}
	s.Body, d.rest = body[:n:n], body[n:]
	return s, true, nil
}

func order(flags byte) binary.ByteOrder {
	if flags&1 != 0 {
		return binary.LittleEndian
	}
	return binary.BigEndian
}

func (s *Submessage) short(need int) error {
	if len(s.Body) < need {
		return fmt.Errorf("%w: a submessage %#02x of %d bytes, which needs %d", ErrMalformed, s.Kind, len(s.Body), need)
	}
	return nil
}

func (s *Submessage) entity(at int) EntityID { return EntityID(s.Body[at : at+4]) }

func (s *Submessage) number(at int) int64 {
	return int64(int32(s.Order.Uint32(s.Body[at:])))<<32 | int64(s.Order.Uint32(s.Body[at+4:]))
}

// InfoTime is the source time of the samples that follow, in nanoseconds since the Unix epoch;
// there is none if ok is false.
func (s *Submessage) InfoTime() (at int64, ok bool, err error) {
	if s.Flags&2 != 0 {
		return 0, false, nil
	}
	if err := s.short(8); err != nil {
		return 0, false, err
	}
	seconds, fraction := s.Order.Uint32(s.Body), s.Order.Uint32(s.Body[4:])
	if seconds == math.MaxUint32 && fraction == math.MaxUint32 { // TIME_INVALID
		return 0, false, nil
	}
	return TimeOf(seconds, fraction), true, nil
}

// TimeOf returns the nanoseconds of seconds and 2^-32 parts of a second, to the nearest one.
func TimeOf(seconds, fraction uint32) int64 {
	return int64(seconds)*1e9 + int64((uint64(fraction)*1e9+1<<31)>>32)
}

// Target is the participant that the submessages which follow are for; zero is all.
func (s *Submessage) Target() (p Prefix, err error) {
	if err := s.short(len(p)); err != nil {
		return p, err
	}
	return Prefix(s.Body[:len(p)]), nil
}

// InfoSource is the participant that the submessages which follow come from.
func (s *Submessage) InfoSource() (p Prefix, err error) {
	if err := s.short(8 + len(p)); err != nil {
		return p, err
	}
	return Prefix(s.Body[8:20]), nil
}

// Data is a sample, or a fragment of one.
type Data struct {
	Reader, Writer EntityID
	Sequence       int64
	Inline         Parameters // inline QoS
	Payload        []byte
	IsKey          bool // the payload is a serialized key
	HasPayload     bool

	// Of a DATA_FRAG: the number of the first fragment in the payload (from 1), the number of
	// fragments in it, the size of a fragment, and the size of the whole sample, both in bytes.
	Fragment      uint32
	Fragments     int
	FragmentBytes int
	SampleBytes   int
}

// Data reads a DATA.
func (s *Submessage) Data() (d Data, err error) {
	const fixed = 20
	if err := s.short(fixed); err != nil {
		return d, err
	}
	hasData, isKey := s.Flags&4 != 0, s.Flags&8 != 0
	if hasData && isKey {
		return d, fmt.Errorf("%w: a sample that is a key", ErrMalformed)
	}
	d.HasPayload, d.IsKey = hasData || isKey, isKey
	if err := s.head(&d); err != nil {
		return d, err
	}
	rest, err := s.inline(&d, fixed)
	if err != nil {
		return d, err
	}
	if d.HasPayload {
		d.Payload = rest
	}
	return d, nil
}

// head reads what DATA and DATA_FRAG begin with.
func (s *Submessage) head(d *Data) error {
	d.Reader, d.Writer, d.Sequence = s.entity(4), s.entity(8), s.number(12)
	if d.Sequence < 1 || d.Sequence == math.MaxInt64 { // none would come behind that one
		return fmt.Errorf("%w: a sample with the number %d", ErrMalformed, d.Sequence)
	}
	return nil
}

// inline returns the bytes behind the inline QoS, which begin where the header says, behind the
// fixed part.
func (s *Submessage) inline(d *Data, fixed int) ([]byte, error) {
	at := 4 + int(s.Order.Uint16(s.Body[2:]))
	if at < fixed || at > len(s.Body) {
		return nil, fmt.Errorf("%w: inline QoS at %d in a submessage of %d bytes", ErrMalformed, at, len(s.Body))
	}
	rest := s.Body[at:]
	if s.Flags&2 == 0 {
		return rest, nil
	}
	d.Inline = Parameters{rest: rest, order: s.Order}
	p := d.Inline
	for {
		_, _, ok, err := p.Next()
		if err != nil {
			return nil, err
		}
		if !ok {
			return p.rest, nil
		}
	}
}

// DataFrag reads a DATA_FRAG.
func (s *Submessage) DataFrag() (d Data, err error) {
	const fixed = 32
	if err := s.short(fixed); err != nil {
		return d, err
	}
	d.HasPayload, d.IsKey = true, s.Flags&4 != 0
	if err := s.head(&d); err != nil {
		return d, err
	}
	d.Fragment, d.Fragments = s.Order.Uint32(s.Body[20:]), int(s.Order.Uint16(s.Body[24:]))
	d.FragmentBytes = int(s.Order.Uint16(s.Body[26:]))
	size := s.Order.Uint32(s.Body[28:])
	if d.Fragment == 0 || d.Fragments == 0 || d.FragmentBytes == 0 || size == 0 || size > math.MaxInt32 {
		return d, fmt.Errorf("%w: %d fragments from %d, of %d bytes each of %d", ErrMalformed, d.Fragments, d.Fragment, d.FragmentBytes, size)
	}
	d.SampleBytes = int(size)
	if d.Payload, err = s.inline(&d, fixed); err != nil {
		return d, err
	}
	from := uint64(d.Fragment-1) * uint64(d.FragmentBytes)
	to := min(from+uint64(d.Fragments)*uint64(d.FragmentBytes), uint64(size))
	if from >= uint64(size) || to-from > uint64(len(d.Payload)) {
		return d, fmt.Errorf("%w: fragment %d of %d bytes each in a sample of %d, with %d", ErrMalformed, d.Fragment, d.FragmentBytes, size, len(d.Payload))
	}
	d.Payload = d.Payload[:to-from]
	return d, nil
}

// Heartbeat says which samples a writer has.
type Heartbeat struct {
	Reader, Writer EntityID
	First, Last    int64
	Count          uint32
	Final          bool // no answer is asked for
	Liveliness     bool // an application asserts that it is alive
}

// Heartbeat reads a HEARTBEAT.
func (s *Submessage) Heartbeat() (h Heartbeat, err error) {
	if err := s.short(28); err != nil {
		return h, err
	}
	h = Heartbeat{s.entity(0), s.entity(4), s.number(8), s.number(16), s.Order.Uint32(s.Body[24:]), s.Flags&2 != 0, s.Flags&4 != 0}
	if h.First < 1 || h.Last < h.First-1 {
		return h, fmt.Errorf("%w: a heartbeat of samples %d to %d", ErrMalformed, h.First, h.Last)
	}
	return h, nil
}

// Numbers is a set of numbers: those from Base on for which the bits are set, the highest bit of
// each word first.
type Numbers struct {
	Base int64
	N    int // bits
	Bits [maxBits / 32]uint32
}

// Has reports whether a number is in the set.
func (n *Numbers) Has(i int64) bool {
	at := i - n.Base
	return at >= 0 && at < int64(n.N) && n.Bits[at/32]&(1<<(31-at%32)) != 0
}

// Add adds a number, and returns false if it is too far from the base.
func (n *Numbers) Add(i int64) bool {
	at := i - n.Base
	if at < 0 || at >= maxBits {
		return false
	}
	n.Bits[at/32] |= 1 << (31 - at%32)
	n.N = max(n.N, int(at)+1)
	return true
}

// numbers reads a set at an offset, whose base has a size, and returns where it ends.
func (s *Submessage) numbers(at, baseBytes int) (n Numbers, end int, err error) {
	if err := s.short(at + baseBytes + 4); err != nil {
		return n, 0, err
	}
	if baseBytes == 8 {
		n.Base = s.number(at)
	} else {
		n.Base = int64(s.Order.Uint32(s.Body[at:]))
	}
	bits := s.Order.Uint32(s.Body[at+baseBytes:])
	at += baseBytes + 4
	if n.Base < 0 || n.Base > math.MaxInt64-maxBits || bits > maxBits {
		return n, 0, fmt.Errorf("%w: a set of %d numbers from %d", ErrMalformed, bits, n.Base)
	}
	n.N = int(bits)
	words := (n.N + 31) / 32
	if err := s.short(at + 4*words); err != nil {
		return n, 0, err
	}
	for i := range words {
		n.Bits[i] = s.Order.Uint32(s.Body[at+4*i:])
	}
	return n, at + 4*words, nil
}

// AckNack says which samples a reader has: all below the base, and not those in the set.
type AckNack struct {
	Reader, Writer EntityID
	Missing        Numbers
	Count          uint32
	Final          bool // no heartbeat is asked for
}

// AckNack reads an ACKNACK.
func (s *Submessage) AckNack() (a AckNack, err error) {
	if err := s.short(8); err != nil {
		return a, err
	}
	a.Reader, a.Writer, a.Final = s.entity(0), s.entity(4), s.Flags&2 != 0
	var at int
	if a.Missing, at, err = s.numbers(8, 8); err != nil {
		return a, err
	}
	if err := s.short(at + 4); err != nil {
		return a, err
	}
	a.Count = s.Order.Uint32(s.Body[at:])
	return a, nil
}

// Gap says which samples a writer will never send: those from Start on and below the base of the
// set, and those in the set.
type Gap struct {
	Reader, Writer EntityID
	Start          int64
	Numbers        Numbers
}

// Gap reads a GAP.
func (s *Submessage) Gap() (g Gap, err error) {
	if err := s.short(16); err != nil {
		return g, err
	}
	g.Reader, g.Writer, g.Start = s.entity(0), s.entity(4), s.number(8)
	if g.Numbers, _, err = s.numbers(16, 8); err != nil {
		return g, err
	}
	if g.Start < 1 || g.Numbers.Base < g.Start {
		return g, fmt.Errorf("%w: a gap from %d to %d", ErrMalformed, g.Start, g.Numbers.Base)
	}
	return g, nil
}

// NackFrag says which fragments of a sample a reader lacks.
type NackFrag struct {
	Reader, Writer EntityID
	Sequence       int64
	Missing        Numbers
	Count          uint32
}

// NackFrag reads a NACK_FRAG.
func (s *Submessage) NackFrag() (n NackFrag, err error) {
	if err := s.short(16); err != nil {
		return n, err
	}
	n.Reader, n.Writer, n.Sequence = s.entity(0), s.entity(4), s.number(8)
	var at int
	if n.Missing, at, err = s.numbers(16, 4); err != nil {
		return n, err
	}
	if err := s.short(at + 4); err != nil {
		return n, err
	}
	n.Count = s.Order.Uint32(s.Body[at:])
	if n.Sequence < 1 || n.Missing.Base < 1 {
		return n, fmt.Errorf("%w: fragments from %d of sample %d", ErrMalformed, n.Missing.Base, n.Sequence)
	}
	return n, nil
}

// HeartbeatFrag says how many fragments of a sample a writer has sent.
type HeartbeatFrag struct {
	Reader, Writer EntityID
	Sequence       int64
	Last           uint32
	Count          uint32
}

// HeartbeatFrag reads a HEARTBEAT_FRAG.
func (s *Submessage) HeartbeatFrag() (h HeartbeatFrag, err error) {
	if err := s.short(24); err != nil {
		return h, err
	}
	h = HeartbeatFrag{s.entity(0), s.entity(4), s.number(8), s.Order.Uint32(s.Body[16:]), s.Order.Uint32(s.Body[20:])}
	if h.Sequence < 1 || h.Last < 1 {
		return h, fmt.Errorf("%w: %d fragments of sample %d", ErrMalformed, h.Last, h.Sequence)
	}
	return h, nil
}
