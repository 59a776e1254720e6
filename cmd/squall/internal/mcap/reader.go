package mcap

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
)

// Reader reads the records of a file in their order.
type Reader struct {
	from    io.ReaderAt
	size    int64
	closed  bool // the file has its end, so that nothing of it is missing
	offset  int64
	sum     uint32 // of the section
	chunk   []byte // what is left of the open one
	at      int64  // where the open one begins
	ended   bool   // the section of data
	buffer  []byte
	summary int64
	known   map[uint16]bool // channels
}

// NewReader begins to read a file of a size.
func NewReader(from io.ReaderAt, size int64) (*Reader, error) {
	r := &Reader{from: from, size: size, known: map[uint16]bool{}}
	head := make([]byte, min(size, int64(len(magic))))
	if err := r.read(head); err != nil {
		return nil, err
	}
	if string(head) != magic {
		if len(head) < len(magic) && bytes.HasPrefix([]byte(magic), head) {
			return nil, r.torn(0, "the file has %d bytes", size)
		}
		return nil, &Fault{0, "the file does not begin as an MCAP file of version 0 does", ErrUnsupported}
	}
	if end := int64(headBytes + footerBytes + len(magic)); size >= int64(len(magic))+end {
		tail := make([]byte, end)
		if _, err := from.ReadAt(tail, size-end); err != nil {
			return nil, err
		}
		r.closed = tail[0] == opFooter && le.Uint64(tail[1:]) == footerBytes && string(tail[end-int64(len(magic)):]) == magic
	}
	return r, nil
}

// read reads bytes of a section.
func (r *Reader) read(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if _, err := r.from.ReadAt(b, r.offset); err != nil {
		return err
	}
	r.offset += int64(len(b))
	r.sum = crc32.Update(r.sum, crc32.IEEETable, b)
	return nil
}

// torn is the fault of a file that ends too early. In a file whose end is there, the same bytes are
// damage.
func (r *Reader) torn(at int64, format string, args ...any) error {
	if r.closed {
		return damaged(at, "the length of a record is wrong")
	}
	return &Fault{at, fmt.Sprintf(format, args...), ErrTorn}
}

func damaged(at int64, format string, args ...any) error {
	return &Fault{at, fmt.Sprintf(format, args...), ErrDamaged}
}

// Next returns the next record: a *Header, *Schema, *Channel, *Message or *Metadata; at the end
// io.EOF. The data of a message are valid until the next call. Records of other kinds are checked,
// and left out.
func (r *Reader) Next() (any, error) {
	for {
		if len(r.chunk) > 0 {
			rec, err := r.inChunk()
			if rec != nil || err != nil {
				return rec, err
			}
			continue
		}
		rec, err := r.step()
		if rec != nil || err != nil {
			return rec, err
		}
	}
}

// step reads a record of the file.
func (r *Reader) step() (any, error) {
	at := r.offset
	left := r.size - at
	if r.ended && left == int64(len(magic)) && r.closed {
		return nil, io.EOF
	}
	before := r.sum
	kind, n, err := r.head(at, left)
	if err != nil {
		return nil, err
	}
	if uint64(cap(r.buffer)) < n {
		r.buffer = make([]byte, n)
	}
	body := r.buffer[:n]
	if kind == opFooter {
		return nil, r.footer(at, body, before)
	}
	if err := r.read(body); err != nil {
		return nil, err
	}
	switch {
	case r.ended:
		return nil, nil // the summary repeats what was there
	case kind == opChunk:
		return nil, r.begin(at, body)
	case kind == opDataEnd:
		return nil, r.end(at, body, before)
	}
	return r.parse(at, kind, body)
}

// head reads the kind and the length of a record, which lies in what is left of the file.
func (r *Reader) head(at, left int64) (kind byte, n uint64, err error) {
	switch {
	case left == 0:
		return 0, 0, r.torn(at, "it ends without a summary; everything before is whole")
	case left < headBytes:
		return 0, 0, r.torn(at, "it ends within the head of a record, of which it has %d bytes of %d", left, headBytes)
	}
	var head [headBytes]byte
	if err := r.read(head[:]); err != nil {
		return 0, 0, err
	}
	kind, n = head[0], le.Uint64(head[1:])
	if kind == 0 {
		return 0, 0, damaged(at, "a record has the kind 0")
	}
	if n > uint64(left-headBytes) {
		return 0, 0, r.cut(at, kind, n, left-headBytes)
	}
	return kind, n, nil
}

// cut is the fault of a record that is longer than what is left of the file.
func (r *Reader) cut(at int64, kind byte, n uint64, left int64) error {
	if kind == opChunk && left >= chunkBytes { // its length is there twice
		b := make([]byte, chunkBytes)
		if _, err := r.from.ReadAt(b, at+headBytes); err != nil {
			return err
		}
		if le.Uint32(b[28:]) == 0 && le.Uint64(b[32:])+chunkBytes != n {
			return damaged(at, "the length of a chunk is %d, and that of its records %d", n, le.Uint64(b[32:]))
		}
	}
	return r.torn(at, "it ends within a record (kind %#02x), of which it has %d bytes of %d", kind, left, n)
}

// begin opens a chunk.
func (r *Reader) begin(at int64, body []byte) error {
	p := parser{b: body}
	p.skip(16)
	size, sum, compression, records := p.u64(), p.u32(), p.text(), p.u64()
	switch {
	case p.failed:
		return damaged(at, "a chunk has %d bytes", len(body))
	case compression == "zstd" || compression == "lz4":
		return &Fault{at, fmt.Sprintf("a chunk is compressed, with %q", compression), ErrUnsupported}
	case compression != "":
		return damaged(at, "a chunk has the unknown compression %q", compression)
	case records != uint64(len(p.b)) || size != records:
		return damaged(at, "a chunk of %d bytes says that it has %d", len(p.b), records)
	case sum != 0 && crc32.ChecksumIEEE(p.b) != sum:
		return damaged(at, "the checksum of a chunk of %d bytes is wrong", len(p.b))
	}
	r.chunk, r.at = p.b, at // nothing else is read before it is empty
	return nil
}

// inChunk takes a record of the open chunk.
func (r *Reader) inChunk() (any, error) {
	if len(r.chunk) < headBytes {
		return nil, damaged(r.at, "a chunk ends within a record")
	}
	kind, n := r.chunk[0], le.Uint64(r.chunk[1:])
	if n > uint64(len(r.chunk)-headBytes) {
		return nil, damaged(r.at, "a chunk ends within a record of %d bytes", n)
	}
	body := r.chunk[headBytes : headBytes+n]
	r.chunk = r.chunk[headBytes+n:]
	return r.parse(r.at, kind, body)
}

// parse parses a record, and returns nil for one of a kind that says nothing here.
func (r *Reader) parse(at int64, kind byte, body []byte) (any, error) {
	p := parser{b: body}
	var rec any
	switch kind {
	case opHeader:
		rec = &Header{p.text(), p.text()}
	case opSchema:
		rec = &Schema{p.u16(), p.text(), p.text(), bytes.Clone(p.bytes())}
	case opChannel:
		c := &Channel{p.u16(), p.u16(), p.text(), p.text(), p.texts()}
		rec, r.known[c.ID] = c, true
	case opMessage:
		m := &Message{p.u16(), p.u32(), p.u64(), p.u64(), nil}
		m.Data = p.b
		if !p.failed && !r.known[m.Channel] {
			return nil, damaged(at, "a message is of channel %d, which there is not", m.Channel)
		}
		rec = m
	case opMetadata:
		rec = &Metadata{p.text(), p.texts()}
	default:
		return nil, nil
	}
	if p.failed {
		return nil, damaged(at, "a record (kind %#02x) is too short", kind)
	}
	return rec, nil
}

// end ends the section of data, with its checksum.
func (r *Reader) end(at int64, body []byte, sum uint32) error {
	p := parser{b: body}
	want := p.u32()
	if p.failed || want != 0 && want != sum {
		return damaged(at, "the checksum of all data is wrong")
	}
	r.ended, r.sum, r.summary = true, 0, r.offset
	return nil
}

// footer checks the last record, and what follows it.
func (r *Reader) footer(at int64, body []byte, sum uint32) error {
	if !r.ended {
		return damaged(at, "the file ends without the end of its data")
	}
	if err := r.read(body); err != nil {
		return err
	}
	p := parser{b: body}
	start := p.u64()
	p.skip(8)
	want := p.u32()
	if !p.failed && want != 0 {
		var head [headBytes + footerBytes - 4]byte
		if _, err := r.from.ReadAt(head[:], at); err != nil {
			return err
		}
		sum = crc32.Update(sum, crc32.IEEETable, head[:])
	}
	switch {
	case p.failed || len(p.b) > 0:
		return damaged(at, "the footer has %d bytes", len(body))
	case start != 0 && start != uint64(r.summary):
		return damaged(at, "the summary is at byte %d, and the footer says %d", r.summary, start)
	case want != 0 && want != sum:
		return damaged(at, "the checksum of the summary is wrong")
	case r.size-r.offset < int64(len(magic)):
		return r.torn(r.offset, "its last bytes are missing; everything before is whole")
	case !r.closed || r.size-r.offset > int64(len(magic)):
		return damaged(r.offset, "something else than the end follows the footer")
	}
	return nil
}

// parser takes numbers and texts off a record. After it has failed, all of them are empty.
type parser struct {
	b      []byte
	failed bool
}

func (p *parser) take(n uint64) []byte {
	if p.failed || n > uint64(len(p.b)) {
		p.failed, p.b = true, nil
		return nil
	}
	b := p.b[:n]
	p.b = p.b[n:]
	return b
}

func (p *parser) skip(n uint64) { p.take(n) }

func (p *parser) u16() uint16 {
	if b := p.take(2); b != nil {
		return le.Uint16(b)
	}
	return 0
}

func (p *parser) u32() uint32 {
	if b := p.take(4); b != nil {
		return le.Uint32(b)
	}
	return 0
}

func (p *parser) u64() uint64 {
	if b := p.take(8); b != nil {
		return le.Uint64(b)
	}
	return 0
}

func (p *parser) bytes() []byte { return p.take(uint64(p.u32())) }

func (p *parser) text() string { return string(p.bytes()) }

func (p *parser) texts() map[string]string {
	in := parser{b: p.bytes(), failed: p.failed}
	m := map[string]string{}
	for len(in.b) > 0 {
		k := in.text()
		m[k] = in.text()
	}
	p.failed = p.failed || in.failed
	return m
}
