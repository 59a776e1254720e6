package mcap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"slices"
)

var le = binary.LittleEndian

// ChunkBytes is the size from which on a chunk is written without a Flush.
const ChunkBytes = 1 << 20

// Writer writes a file.
type Writer struct {
	to     io.Writer
	offset uint64
	sum    uint32 // of the section
	err    error  // of an earlier write
	buffer []byte

	schemas  []Schema
	channels []Channel
	counts   []uint64 // messages of channels
	metadata []placed
	chunks   []chunkIndex

	chunk       []byte // records of the open one
	start, end  uint64 // times of its messages
	messages    int    // in it
	index       [][]entry
	first, last uint64 // times of all messages
	total       uint64
}

// placed is the place of a metadata record, for the index in the summary.
type placed struct {
	name       string
	at, length uint64
}

type entry struct{ time, offset uint64 }

// chunkIndex is what the summary has of a chunk.
type chunkIndex struct {
	start, end, at, length, size uint64
	indexes                      []place
	indexBytes                   uint64
}

type place struct {
	channel uint16
	at      uint64
}

// NewWriter begins a file.
func NewWriter(to io.Writer, h Header) (*Writer, error) {
	w := &Writer{to: to}
	w.write([]byte(magic))
	w.record(opHeader, func(b []byte) []byte { return text(text(b, h.Profile), h.Library) })
	return w, w.err
}

// write writes bytes of a section.
func (w *Writer) write(b []byte) {
	if w.err != nil {
		return
	}
	n, err := w.to.Write(b)
	w.offset += uint64(n)
	w.sum = crc32.Update(w.sum, crc32.IEEETable, b[:n])
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	w.err = err
}

// record writes one record.
func (w *Writer) record(kind byte, body func([]byte) []byte) {
	w.buffer = record(w.buffer[:0], kind, body)
	w.write(w.buffer)
}

func record(b []byte, kind byte, body func([]byte) []byte) []byte {
	at := len(b)
	b = body(append(b, kind, 0, 0, 0, 0, 0, 0, 0, 0))
	le.PutUint64(b[at+1:], uint64(len(b)-at-headBytes))
	return b
}

func text[T string | []byte](b []byte, s T) []byte {
	return append(le.AppendUint32(b, uint32(len(s))), s...)
}

func texts(b []byte, m map[string]string) []byte {
	at := len(b)
	b = le.AppendUint32(b, 0)
	for _, k := range slices.Sorted(maps.Keys(m)) {
		b = text(text(b, k), m[k])
	}
	le.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

func (s *Schema) append(b []byte) []byte {
	return text(text(text(le.AppendUint16(b, s.ID), s.Name), s.Encoding), s.Data)
}

func (c *Channel) append(b []byte) []byte {
	b = le.AppendUint16(le.AppendUint16(b, c.ID), c.Schema)
	return texts(text(text(b, c.Topic), c.Encoding), c.Metadata)
}

// Metadata writes a set of texts. It begins a new chunk.
func (w *Writer) Metadata(m Metadata) error {
	if err := w.Flush(); err != nil {
		return err
	}
	at := w.offset
	w.record(opMetadata, func(b []byte) []byte { return texts(text(b, m.Name), m.Values) })
	w.metadata = append(w.metadata, placed{m.Name, at, w.offset - at})
	return w.err
}

// Schema adds a schema and returns its id.
func (w *Writer) Schema(s Schema) (uint16, error) {
	if len(w.schemas) == most {
		return 0, fmt.Errorf("a file has at most %d schemas", most)
	}
	s.ID = uint16(len(w.schemas) + 1)
	w.schemas = append(w.schemas, s)
	w.chunk = record(w.chunk, opSchema, s.append)
	return s.ID, w.err
}

// Channel adds a channel and returns its id.
func (w *Writer) Channel(c Channel) (uint16, error) {
	if len(w.channels) == most {
		return 0, fmt.Errorf("a file has at most %d channels", most)
	}
	if int(c.Schema) > len(w.schemas) {
		return 0, fmt.Errorf("there is no schema %d", c.Schema)
	}
	c.ID = uint16(len(w.channels) + 1)
	w.channels, w.counts, w.index = append(w.channels, c), append(w.counts, 0), append(w.index, nil)
	w.chunk = record(w.chunk, opChannel, c.append)
	return c.ID, w.err
}

// Message adds a message to the open chunk, which is written if it is large enough.
func (w *Writer) Message(m *Message) error {
	if m.Channel == 0 || int(m.Channel) > len(w.channels) {
		return fmt.Errorf("there is no channel %d", m.Channel)
	}
	i := m.Channel - 1
	w.index[i] = append(w.index[i], entry{m.Logged, uint64(len(w.chunk))})
	w.counts[i]++
	w.chunk = append(w.chunk, opMessage)
	w.chunk = le.AppendUint64(w.chunk, uint64(2+4+8+8+len(m.Data)))
	w.chunk = le.AppendUint32(le.AppendUint16(w.chunk, m.Channel), m.Sequence)
	w.chunk = append(le.AppendUint64(le.AppendUint64(w.chunk, m.Logged), m.Published), m.Data...)
	if w.messages == 0 {
		w.start, w.end = m.Logged, m.Logged
	}
	if w.total == 0 {
		w.first, w.last = m.Logged, m.Logged
	}
	w.start, w.end, w.first, w.last = min(w.start, m.Logged), max(w.end, m.Logged), min(w.first, m.Logged), max(w.last, m.Logged)
	w.messages++
	w.total++
	if len(w.chunk) >= ChunkBytes {
		return w.Flush()
	}
	return w.err
}

// Offset is the number of bytes that were written.
func (w *Writer) Offset() uint64 { return w.offset }

// Flush writes the open chunk.
func (w *Writer) Flush() error {
	if len(w.chunk) == 0 || w.err != nil {
		return w.err
	}
	x := chunkIndex{at: w.offset, size: uint64(len(w.chunk))}
	if w.messages > 0 {
		x.start, x.end = w.start, w.end
	}
	w.buffer = append(w.buffer[:0], opChunk)
	w.buffer = le.AppendUint64(w.buffer, uint64(chunkBytes+len(w.chunk)))
	w.buffer = le.AppendUint64(le.AppendUint64(w.buffer, x.start), x.end)
	w.buffer = le.AppendUint32(le.AppendUint64(w.buffer, x.size), crc32.ChecksumIEEE(w.chunk))
	w.buffer = le.AppendUint64(text(w.buffer, ""), x.size)
	w.write(w.buffer)
	w.write(w.chunk)
	x.length = w.offset - x.at
	w.writeIndexes(&x)
	w.chunks = append(w.chunks, x)
	w.chunk, w.messages = w.chunk[:0], 0
	if cap(w.chunk) > 4*ChunkBytes { // of a large message
		w.chunk = nil
	}
	return w.err
}

// writeIndexes writes where the messages of each channel are in a chunk.
func (w *Writer) writeIndexes(x *chunkIndex) {
	start := w.offset
	for i, all := range w.index {
		if len(all) == 0 {
			continue
		}
		x.indexes = append(x.indexes, place{uint16(i + 1), w.offset})
		w.record(opMessageIndex, func(b []byte) []byte {
			b = le.AppendUint32(le.AppendUint16(b, uint16(i+1)), uint32(16*len(all)))
			for _, e := range all {
				b = le.AppendUint64(le.AppendUint64(b, e.time), e.offset)
			}
			return b
		})
		w.index[i] = all[:0]
	}
	x.indexBytes = w.offset - start
}

// Close writes what is left, and the summary. The caller closes the file.
func (w *Writer) Close() error {
	if err := w.Flush(); err != nil {
		return err
	}
	sum := w.sum
	w.record(opDataEnd, func(b []byte) []byte { return le.AppendUint32(b, sum) })
	w.sum = 0
	summary := w.offset
	offsets := w.writeSummary()
	footer := record(nil, opFooter, func(b []byte) []byte {
		return le.AppendUint32(le.AppendUint64(le.AppendUint64(b, summary), offsets), 0)
	})
	le.PutUint32(footer[len(footer)-4:], crc32.Update(w.sum, crc32.IEEETable, footer[:len(footer)-4]))
	w.write(append(footer, magic...))
	err := w.err
	if err == nil {
		w.err = errors.New("the file was closed")
	}
	return err
}

// writeSummary writes the groups of the summary, and returns where their offsets begin.
func (w *Writer) writeSummary() uint64 {
	var places [][]byte
	grouped := func(kind byte, n int, body func(i int, b []byte) []byte) {
		at := w.offset
		for i := range n {
			w.record(kind, func(b []byte) []byte { return body(i, b) })
		}
		if n > 0 {
			places = append(places, le.AppendUint64(le.AppendUint64([]byte{kind}, at), w.offset-at))
		}
	}
	grouped(opSchema, len(w.schemas), func(i int, b []byte) []byte { return w.schemas[i].append(b) })
	grouped(opChannel, len(w.channels), func(i int, b []byte) []byte { return w.channels[i].append(b) })
	grouped(opStatistics, 1, func(_ int, b []byte) []byte { return w.statistics(b) })
	grouped(opChunkIndex, len(w.chunks), func(i int, b []byte) []byte { return w.chunks[i].append(b) })
	grouped(opMetadataIndex, len(w.metadata), func(i int, b []byte) []byte {
		m := w.metadata[i]
		return text(le.AppendUint64(le.AppendUint64(b, m.at), m.length), m.name)
	})
	offsets := w.offset
	for _, p := range places {
		w.record(opSummaryOffset, func(b []byte) []byte { return append(b, p...) })
	}
	return offsets
}

func (w *Writer) statistics(b []byte) []byte {
	b = le.AppendUint64(b, w.total)
	b = le.AppendUint32(le.AppendUint16(b, uint16(len(w.schemas))), uint32(len(w.channels)))
	b = le.AppendUint32(le.AppendUint32(b, 0), uint32(len(w.metadata))) // no attachments
	b = le.AppendUint32(b, uint32(len(w.chunks)))
	b = le.AppendUint64(le.AppendUint64(b, w.first), w.last)
	b = le.AppendUint32(b, uint32(10*len(w.counts)))
	for i, n := range w.counts {
		b = le.AppendUint64(le.AppendUint16(b, uint16(i+1)), n)
	}
	return b
}

func (x *chunkIndex) append(b []byte) []byte {
	b = le.AppendUint64(le.AppendUint64(b, x.start), x.end)
	b = le.AppendUint64(le.AppendUint64(b, x.at), x.length)
	b = le.AppendUint32(b, uint32(10*len(x.indexes)))
	for _, p := range x.indexes {
		b = le.AppendUint64(le.AppendUint16(b, p.channel), p.at)
	}
	b = text(le.AppendUint64(b, x.indexBytes), "")
	return le.AppendUint64(le.AppendUint64(b, x.size), x.size)
}
