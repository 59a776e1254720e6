package journal

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/squall-go/squall/internal/crc"
	"github.com/squall-go/squall/order"
)

// A block is one entry of the store: many records of one view, or a part of a large one, or none,
// to mark where a log begins.
//
//	header   128 bytes
//	seal     128 bytes, if the log is signed
//	records  each 24 bytes and its data
//	senders  8 bytes each; a record names its sender by its place here
//
// The header comes first and is filled in last, so that records are written once, where they stay.
// docs/formats.md has the fields.
const (
	// MaxBlockBytes is the size of a block at most. A record that does not fit in is a run of
	// fragments.
	MaxBlockBytes = 4 << 20

	headerBytes = 128
	sumAt       = headerBytes - 4
	recordBytes = 24
	senderBytes = 8

	format     = 1
	magic      = 0x424c5153 // "SQLB"
	flagSealed = 1

	maxSenders = math.MaxUint16 // in one block
)

// Kind says what a block holds.
type Kind uint8

// The kinds of blocks.
const (
	Records  Kind = 1 // whole records
	Fragment Kind = 2 // a part of one record
	Mark     Kind = 3 // nothing: what was before this place is not in the log
)

// Header says what is in a block.
type Header struct {
	Index      uint64 // of the entry in the store
	Kind       Kind
	First      uint64 // number of the first record; of a mark, the number that the next record will have
	Count      uint32 // records; 1 for each fragment
	View       order.ViewID
	FirstSeq   order.Seq
	LastSeq    order.Seq
	FirstTime  order.Time
	LastTime   order.Time
	Part       uint32        // of a fragment: which one
	Parts      uint32        // and of how many; otherwise 0
	Total      uint64        // bytes of the data of a record in fragments
	Offset     uint64        // bytes of all blocks before this one, over the life of the log
	Before     order.Version // of the record before the first one; zero: there was none, or it is not known
	BeforeTime order.Time
	Sealed     bool
	Seal       Seal // if Sealed
}

// FirstVersion is that of the first record.
func (h *Header) FirstVersion() order.Version { return order.Version{View: h.View, Seq: h.FirstSeq} }

// LastVersion is that of the last record; of a mark, that of the record before it.
func (h *Header) LastVersion() order.Version { return order.Version{View: h.View, Seq: h.LastSeq} }

// end is where the log ends behind this block, which is so long.
func (h *Header) end(length int) End {
	e := End{Block: h.Index, Bytes: h.Offset + uint64(length), Records: h.First + uint64(h.Count), Version: h.LastVersion(), Time: h.LastTime}
	if h.Sealed {
		e.Head = h.Seal.After
	}
	return e
}

// bodyAt is where the records begin.
func bodyAt(sealed bool) int {
	if sealed {
		return headerBytes + SealBytes
	}
	return headerBytes
}

// encodeHeader fills in the header of a block whose body is complete, and appends the senders. buf
// has room for the header at its start.
func encodeHeader(buf []byte, h *Header, senders []order.NodeID) []byte {
	at := bodyAt(h.Sealed)
	body := len(buf) - at
	for _, s := range senders {
		buf = binary.LittleEndian.AppendUint64(buf, uint64(s))
	}
	le := binary.LittleEndian
	le.PutUint32(buf[0:], magic)
	buf[4], buf[5] = format, byte(h.Kind)
	le.PutUint16(buf[6:], 0)
	if h.Sealed {
		le.PutUint16(buf[6:], flagSealed)
		h.Seal.AppendTo(buf[headerBytes:headerBytes])
	}
	for i, v := range [...]uint64{
		h.Index, h.First, uint64(h.View), uint64(h.FirstSeq), uint64(h.FirstTime), uint64(h.LastSeq), uint64(h.LastTime), h.Total,
		h.Offset, uint64(h.Before.View), uint64(h.Before.Seq), uint64(h.BeforeTime),
	} {
		le.PutUint64(buf[8+8*i:], v)
	}
	for i, v := range [...]uint32{h.Count, h.Part, h.Parts, uint32(len(senders)), uint32(body)} {
		le.PutUint32(buf[104+4*i:], v)
	}
	le.PutUint32(buf[sumAt:], headerSum(buf, at, body))
	return buf
}

// headerSum covers the header, the seal and the senders: all but the records, which have sums of
// their own.
func headerSum(b []byte, at, body int) uint32 {
	sum := crc.Add(0, b[:sumAt])
	sum = crc.Add(sum, b[headerBytes:at])
	return crc.Add(sum, b[at+body:])
}

// decodeHeader reads the header of a block and finds its records and its senders.
func decodeHeader(b []byte) (h Header, body, senders []byte, err error) {
	le := binary.LittleEndian
	if len(b) < headerBytes || le.Uint32(b) != magic {
		return h, nil, nil, errBlock("this is no block")
	}
	if b[4] > format {
		return h, nil, nil, fmt.Errorf("%w: block format %d, this program knows %d", ErrNewerFormat, b[4], format)
	}
	flags := le.Uint16(b[6:])
	h.Kind, h.Sealed = Kind(b[5]), flags&flagSealed != 0
	at, bodyBytes, senderCount := bodyAt(h.Sealed), uint64(le.Uint32(b[120:])), uint64(le.Uint32(b[116:]))
	if b[4] != format || flags&^flagSealed != 0 || uint64(len(b)) != uint64(at)+bodyBytes+senderCount*senderBytes {
		return h, nil, nil, errBlock("its header and its length differ")
	}
	if le.Uint32(b[sumAt:]) != headerSum(b, at, int(bodyBytes)) {
		return h, nil, nil, errBlock("the checksum of its header is wrong")
	}
	h.Index, h.First, h.View = le.Uint64(b[8:]), le.Uint64(b[16:]), order.ViewID(le.Uint64(b[24:]))
	h.FirstSeq, h.FirstTime = order.Seq(le.Uint64(b[32:])), order.Time(le.Uint64(b[40:]))
	h.LastSeq, h.LastTime = order.Seq(le.Uint64(b[48:])), order.Time(le.Uint64(b[56:]))
	h.Total, h.Offset, h.BeforeTime = le.Uint64(b[64:]), le.Uint64(b[72:]), order.Time(le.Uint64(b[96:]))
	h.Before = order.Version{View: order.ViewID(le.Uint64(b[80:])), Seq: order.Seq(le.Uint64(b[88:]))}
	h.Count, h.Part, h.Parts = le.Uint32(b[104:]), le.Uint32(b[108:]), le.Uint32(b[112:])
	if h.Sealed {
		h.Seal = DecodeSeal(b[headerBytes:])
	}
	body, senders = b[at:at+int(bodyBytes)], b[at+int(bodyBytes):]
	return h, body, senders, h.plausible(bodyBytes)
}

// plausible looks for what no writer writes. A checksum is right for a hostile header, too.
func (h *Header) plausible(bodyBytes uint64) error {
	count, ok := uint64(h.Count), false
	switch h.Kind {
	case Records:
		ok = count > 0 && count*recordBytes <= bodyBytes && h.Parts == 0
	case Fragment:
		ok = count == 1 && h.Part < h.Parts && bodyBytes >= recordBytes && h.Total >= bodyBytes-recordBytes
	case Mark:
		ok = count == 0 && bodyBytes == 0
	}
	if !ok || h.First+count < h.First || h.Offset+MaxBlockBytes < h.Offset || h.FirstSeq > h.LastSeq || h.FirstTime > h.LastTime {
		return errBlock("its header makes no sense")
	}
	return nil
}

type blockError string

func errBlock(what string) error   { return blockError(what) }
func (e blockError) Error() string { return string(e) }

// putRecord encodes the fixed part of a record, without its checksum.
func putRecord(b []byte, length int, delta uint32, sender int, t order.Time) {
	_ = b[recordBytes-1]
	le := binary.LittleEndian
	le.PutUint32(b[4:], uint32(length))
	le.PutUint32(b[8:], delta)
	le.PutUint32(b[12:], uint32(sender))
	le.PutUint64(b[16:], uint64(t))
}

// stamp puts the checksums in front of all records of a body.
func stamp(body []byte) {
	for len(body) > 0 {
		n := recordBytes + int(binary.LittleEndian.Uint32(body[4:]))
		binary.LittleEndian.PutUint32(body, crc.Of(body[4:n]))
		body = body[n:]
	}
}

// page is a block that was read: its records were checked, and can be found by their place.
type page struct {
	Header
	body    []byte
	senders []byte
	at      []uint32 // where the good records before the first bad one begin
	length  int      // of the block
	fault   string   // what is wrong with the record behind them; empty: nothing
}

// decode reads a block and checks all of it. An error says that nothing of it can be used.
func decode(b []byte) (*page, error) {
	h, body, senders, err := decodeHeader(b)
	if err != nil {
		return nil, err
	}
	p := &page{Header: h, body: body, senders: senders, length: len(b), at: make([]uint32, 0, h.Count)}
	p.check()
	return p, nil
}

// check finds the records, and stops at the first that is not as it was written.
func (p *page) check() {
	at := 0
	for uint32(len(p.at)) < p.Count && p.fault == "" {
		var n int
		if n, p.fault = p.look(at); p.fault == "" {
			p.at = append(p.at, uint32(at))
			at += n
		}
	}
	if p.fault == "" && at != len(p.body) {
		p.fault = "there is more in the block than its records"
	}
	if last := len(p.at) - 1; p.fault == "" && last >= 0 && p.ends() != nil {
		p.fault, p.at = p.ends().Error(), p.at[:last]
	}
}

// look checks the record at a place and says how long it is.
func (p *page) look(at int) (n int, fault string) {
	b := p.body[at:]
	if len(b) < recordBytes {
		return 0, "the block ends within a record"
	}
	n = recordBytes + int(binary.LittleEndian.Uint32(b[4:]))
	if n > len(b) {
		return 0, "its length goes beyond the block"
	}
	if crc.Of(b[4:n]) != binary.LittleEndian.Uint32(b) {
		return 0, "its checksum is wrong"
	}
	if int(binary.LittleEndian.Uint32(b[12:])) >= len(p.senders)/senderBytes {
		return 0, "its sender is not in the block's table"
	}
	return n, p.follows(at)
}

// follows checks that a record's place and time are greater than those of the record before.
func (p *page) follows(at int) string {
	delta, t := p.delta(at), p.time(at)
	if k := len(p.at); k > 0 {
		if before := int(p.at[k-1]); delta <= p.delta(before) || t <= p.time(before) {
			return "its version or its time does not grow"
		}
		return ""
	}
	if delta != 0 || t != p.FirstTime {
		return "it differs from the first record of the header"
	}
	return ""
}

func (p *page) ends() error {
	if k := len(p.at) - 1; p.version(k) != p.LastVersion() || p.time(int(p.at[k])) != p.LastTime {
		return errBlock("it differs from the last record of the header")
	}
	return nil
}

func (p *page) delta(at int) uint32    { return binary.LittleEndian.Uint32(p.body[at+8:]) }
func (p *page) dataBytes(at int) int   { return int(binary.LittleEndian.Uint32(p.body[at+4:])) }
func (p *page) sender(at int) int      { return int(binary.LittleEndian.Uint32(p.body[at+12:])) }
func (p *page) time(at int) order.Time { return order.Time(binary.LittleEndian.Uint64(p.body[at+16:])) }

// version is that of record k of the page.
func (p *page) version(k int) order.Version {
	return order.Version{View: p.View, Seq: p.FirstSeq + order.Seq(p.delta(int(p.at[k])))}
}

// record is record k of the page. Its data is a part of the block.
func (p *page) record(k int) Record {
	at := int(p.at[k])
	data := at + recordBytes
	end := data + p.dataBytes(at)
	sender := binary.LittleEndian.Uint64(p.senders[senderBytes*p.sender(at):])
	return Record{
		Version: p.version(k), Time: p.time(at), Sender: order.NodeID(sender), Number: p.First + uint64(k),
		Data: p.body[data:end:end],
	}
}
