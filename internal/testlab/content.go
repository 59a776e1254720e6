package testlab

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/squall-go/squall"
)

// headerBytes is the least size of a message.
//
//	number of the message at its process  8 bytes
//	life of the process                   4
//	padding pattern                       4, and again to the end
const headerBytes = 16

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// fill writes a process's message number n.
func fill(data []byte, life int, n uint64) {
	binary.LittleEndian.PutUint64(data, n)
	binary.LittleEndian.PutUint32(data[8:], uint32(life))
	word := padding(life, n)
	rest := data[12:]
	for ; len(rest) >= 4; rest = rest[4:] {
		binary.LittleEndian.PutUint32(rest, word)
	}
	for i := range rest {
		rest[i] = byte(word)
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
	hash   uint64 // of everything: place, sender and content
}

// read takes a message apart. One that no process filled is an error.
func read(m squall.Message) (told, error) {
	if len(m.Data) < headerBytes {
		return told{}, fmt.Errorf("view %d, seq %d: a message of %d bytes from node %d", m.View, m.Seq, len(m.Data), m.Sender)
	}
	d := told{number: binary.LittleEndian.Uint64(m.Data), life: int(binary.LittleEndian.Uint32(m.Data[8:]))}
	word := padding(d.life, d.number)
	rest := m.Data[12:]
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
	d.hash = mix(uint64(crc32.Checksum(m.Data, castagnoli)) ^ mix(uint64(m.Seq)<<16^uint64(m.Sender)))
	return d, nil
}
