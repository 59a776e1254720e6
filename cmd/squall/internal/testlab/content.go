package testlab

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/crc"
)

// HeaderBytes is the least size of a message.
//
//	number of the message at its process  8 bytes
//	life of the process                   4
//	padding pattern                       4, and again to the end, or a line of the load's text
const HeaderBytes = 16

// mostLives bounds what the header of a message may say.
const mostLives = 1 << 16

// content is what the messages of a load carry: the lines of a text in turn, or a pattern that
// depends on the process and the number of the message.
type content struct {
	lines [][]byte // nil: the pattern
	bytes int      // of each message; 0: lines have their own lengths
	bare  bool     // there are no headers, and no pattern
}

// pattern is the content of loads without lines.
var pattern content

func (l *Load) content() content { return content{l.Lines, l.Bytes, l.Timed} }

// Message is a process's message number n.
func (l *Load) Message(life int, n uint64) []byte {
	data := make([]byte, l.content().size(n))
	l.content().fill(data, life, n)
	return data
}

// size is that of message number n of any process.
func (c content) size(n uint64) int {
	header := HeaderBytes
	if c.bare {
		header = 0
	}
	if c.bytes == 0 && len(c.lines) > 0 {
		return header + len(c.line(n))
	}
	return max(header, c.bytes)
}

func (c content) line(n uint64) []byte { return c.lines[n%uint64(len(c.lines))] }

// fill writes a process's message number n.
func (c content) fill(data []byte, life int, n uint64) {
	if c.bare {
		if len(c.lines) > 0 {
			pad(data, c.line(n))
		}
		return
	}
	binary.LittleEndian.PutUint64(data, n)
	binary.LittleEndian.PutUint32(data[8:], uint32(life))
	word, rest := padding(life, n), data[12:]
	if len(c.lines) > 0 {
		pad(data[HeaderBytes:], c.line(n))
		rest = data[12:HeaderBytes]
	}
	for ; len(rest) >= 4; rest = rest[4:] {
		binary.LittleEndian.PutUint32(rest, word)
	}
	for i := range rest {
		rest[i] = byte(word)
	}
}

// pad writes a line into what is left of a message, cut or padded with blanks.
func pad(message, line []byte) {
	for i := copy(message, line); i < len(message); i++ {
		message[i] = ' '
	}
}

// padding is different for each message, so that bytes of another one are found.
func padding(life int, n uint64) uint32 {
	return uint32(mix(n<<8 ^ uint64(life)))
}

// mix spreads a word over all bits (the finalizer of a 64-bit hash).
func mix(x uint64) uint64 {
	x = (x ^ x>>31) * 0x7fb5d329728ea185
	x = (x ^ x>>27) * 0x81dadef4bc2dd44d
	return x ^ x>>33
}

// told is a message as it was delivered.
type told struct {
	life   int
	number uint64
}

// read takes a message apart. One that no process filled is an error.
func (c content) read(m squall.Message) (told, error) {
	if len(m.Data) < HeaderBytes {
		return told{}, fmt.Errorf("view %d, seq %d: a message of %d bytes from node %d", m.View, m.Seq, len(m.Data), m.Sender)
	}
	d := told{number: binary.LittleEndian.Uint64(m.Data), life: int(binary.LittleEndian.Uint32(m.Data[8:]))}
	if d.life >= mostLives {
		return d, fmt.Errorf("view %d, seq %d: a message of node %d says that it is from process %d", m.View, m.Seq, m.Sender, d.life)
	}
	word, rest := padding(d.life, d.number), m.Data[12:]
	if len(c.lines) > 0 {
		rest = m.Data[12:HeaderBytes]
		if !c.isLine(m.Data[HeaderBytes:], d.number) {
			return d, fmt.Errorf("view %d, seq %d: message %d of process %d (node %d) is not the line that was sent", m.View, m.Seq, d.number, d.life, m.Sender)
		}
	}
	for ; len(rest) >= 4; rest = rest[4:] {
		if binary.LittleEndian.Uint32(rest) != word {
			return d, fmt.Errorf("view %d, seq %d: message %d of process %d (node %d) differs %d bytes before its end",
				m.View, m.Seq, d.number, d.life, m.Sender, len(rest))
		}
	}
	for _, b := range rest {
		if b != byte(word) {
			return d, fmt.Errorf("view %d, seq %d: message %d of process %d (node %d) differs at its end", m.View, m.Seq, d.number, d.life, m.Sender)
		}
	}
	return d, nil
}

// isLine reports whether a text is the line of message number n, as pad writes it.
func (c content) isLine(text []byte, n uint64) bool {
	line := c.line(n)
	if c.bytes == 0 {
		return bytes.Equal(text, line)
	}
	k := min(len(text), len(line))
	return HeaderBytes+len(text) == max(HeaderBytes, c.bytes) && bytes.Equal(text[:k], line[:k]) && len(bytes.TrimLeft(text[k:], " ")) == 0
}

// hashOf is the hash of a message: of its place, its sender and its bytes.
func hashOf(m squall.Message) uint64 {
	return mix(uint64(crc.Of(m.Data)) ^ mix(uint64(m.Seq)<<16^uint64(m.Sender)))
}
