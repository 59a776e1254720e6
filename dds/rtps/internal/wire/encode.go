package wire

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// This version of the protocol, and a vendor that no product has: peers then use no extension of a
// vendor.
var version = []byte{'R', 'T', 'P', 'S', 2, 1, 0, 0}

// Appender puts a message together. A message is Bytes, until Reset.
type Appender struct {
	buf []byte
}

// Reset begins a message of a participant.
func (a *Appender) Reset(from Prefix) {
	a.buf = append(append(a.buf[:0], version...), from[:]...)
}

// Bytes is the message. It is valid until Reset.
func (a *Appender) Bytes() []byte { return a.buf }

// Len is the size of the message so far.
func (a *Appender) Len() int { return len(a.buf) }

// Empty reports whether the message has no submessage.
func (a *Appender) Empty() bool { return len(a.buf) <= HeaderBytes }

// begin appends the header of a submessage; end sets its length.
func (a *Appender) begin(k Kind, flags byte) int {
	a.buf = append(a.buf, byte(k), flags|1, 0, 0)
	return len(a.buf)
}

// end pads a submessage to a multiple of four bytes. A submessage that is longer than its length
// field can say is the last one of its message, with the length 0.
func (a *Appender) end(at int) {
	for len(a.buf)&3 != 0 {
		a.buf = append(a.buf, 0)
	}
	if n := len(a.buf) - at; n <= math.MaxUint16 {
		binary.LittleEndian.PutUint16(a.buf[at-2:], uint16(n))
	}
}

func (a *Appender) u16(v uint16) { a.buf = binary.LittleEndian.AppendUint16(a.buf, v) }
func (a *Appender) u32(v uint32) { a.buf = binary.LittleEndian.AppendUint32(a.buf, v) }

func (a *Appender) number(v int64) {
	a.u32(uint32(v >> 32))
	a.u32(uint32(v))
}

func (a *Appender) ids(reader, writer EntityID) {
	a.buf = append(append(a.buf, reader[:]...), writer[:]...)
}

// InfoTime appends the source time of what follows, in nanoseconds since the Unix epoch.
func (a *Appender) InfoTime(at int64) {
	m := a.begin(KindInfoTime, 0)
	s, f := timeParts(at)
	a.u32(s)
	a.u32(f)
	a.end(m)
}

// timeParts is the inverse of TimeOf.
func timeParts(at int64) (seconds, fraction uint32) {
	if at < 0 {
		return 0, 0
	}
	s, ns := uint64(at)/1e9, uint64(at)%1e9
	hi, lo := bits.Mul64(ns, 1<<32)
	f, _ := bits.Div64(hi, lo, 1e9)
	if s > math.MaxUint32 {
		s = math.MaxUint32
	}
	return uint32(s), uint32(f)
}

// Target appends the participant that what follows is for.
func (a *Appender) Target(p Prefix) {
	m := a.begin(KindInfoTarget, 0)
	a.buf = append(a.buf, p[:]...)
	a.end(m)
}

// DataOverhead is at most what a DATA and a DATA_FRAG add to their payload: headers, a change of an
// instance, padding.
const DataOverhead = subheaderBytes + 32 + statusBytes + 4

// Data appends a sample. Status is what it does to its instance beside being written; the payload
// is then the serialized key.
func (a *Appender) Data(reader, writer EntityID, sequence int64, status Status, payload []byte) {
	flags := byte(4)
	if status != 0 {
		flags = 2 | 8
	}
	m := a.begin(KindData, flags)
	a.u16(0)
	a.u16(16) // from here to the inline QoS
	a.ids(reader, writer)
	a.number(sequence)
	a.status(status)
	a.buf = append(a.buf, payload...)
	a.end(m)
}

// DataFrag appends a fragment of a sample, by its number from 1.
func (a *Appender) DataFrag(reader, writer EntityID, sequence int64, status Status, payload []byte, number, fragmentBytes int) {
	flags := byte(0)
	if status != 0 {
		flags = 2 | 4
	}
	m := a.begin(KindDataFrag, flags)
	a.u16(0)
	a.u16(28)
	a.ids(reader, writer)
	a.number(sequence)
	a.u32(uint32(number))
	a.u16(1)
	a.u16(uint16(fragmentBytes))
	a.u32(uint32(len(payload)))
	a.status(status)
	from := (number - 1) * fragmentBytes
	a.buf = append(a.buf, payload[from:min(from+fragmentBytes, len(payload))]...)
	a.end(m)
}

// Heartbeat appends a HEARTBEAT.
func (a *Appender) Heartbeat(h Heartbeat) {
	var flags byte
	if h.Final {
		flags = 2
	}
	m := a.begin(KindHeartbeat, flags)
	a.ids(h.Reader, h.Writer)
	a.number(h.First)
	a.number(h.Last)
	a.u32(h.Count)
	a.end(m)
}

func (a *Appender) words(n *Numbers) {
	a.u32(uint32(n.N))
	for i := range (n.N + 31) / 32 {
		a.u32(n.Bits[i])
	}
}

// AckNack appends an ACKNACK.
func (a *Appender) AckNack(k AckNack) {
	var flags byte
	if k.Final {
		flags = 2
	}
	m := a.begin(KindAckNack, flags)
	a.ids(k.Reader, k.Writer)
	a.number(k.Missing.Base)
	a.words(&k.Missing)
	a.u32(k.Count)
	a.end(m)
}

// Gap appends a GAP of the samples from one on and below another one.
func (a *Appender) Gap(reader, writer EntityID, from, to int64) {
	m := a.begin(KindGap, 0)
	a.ids(reader, writer)
	a.number(from)
	a.number(to)
	a.u32(0)
	a.end(m)
}

// NackFrag appends a NACK_FRAG.
func (a *Appender) NackFrag(n NackFrag) {
	m := a.begin(KindNackFrag, 0)
	a.ids(n.Reader, n.Writer)
	a.number(n.Sequence)
	a.u32(uint32(n.Missing.Base))
	a.words(&n.Missing)
	a.u32(n.Count)
	a.end(m)
}
