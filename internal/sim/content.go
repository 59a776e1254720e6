package sim

import (
	"encoding/binary"

	"github.com/squall-go/squall/order"
)

// stream is the part of a message's content that all messages of one process in one declaration
// share.
func stream(decl int, sender order.NodeID, incarnation uint64) uint64 {
	return scramble(uint64(decl)<<32 ^ incarnation<<40 ^ uint64(sender)*0x9e3779b97f4a7c15)
}

func scramble(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// fill writes the content of a message: a first word that tells its number and length, and words
// made of these.
func fill(data []byte, key uint64, number int) {
	first := key ^ (uint64(len(data))<<32 | uint64(number))
	word := first
	for len(data) >= 8 {
		binary.LittleEndian.PutUint64(data, word)
		data = data[8:]
		word = word*0xd1342543de82ef95 + first | 1
	}
	for i := range data {
		data[i] = byte(word >> (8 * i))
	}
}

// filled reports whether data is what fill writes.
func filled(data []byte, key uint64, number int) bool {
	first := key ^ (uint64(len(data))<<32 | uint64(number))
	word := first
	for len(data) >= 8 {
		if binary.LittleEndian.Uint64(data) != word {
			return false
		}
		data = data[8:]
		word = word*0xd1342543de82ef95 + first | 1
	}
	for i := range data {
		if data[i] != byte(word>>(8*i)) {
			return false
		}
	}
	return true
}

// inContent is what an application sends, behind the word that tells the message's number and
// length.
func inContent(data []byte, key uint64, number int) []byte {
	n := sentBytes + len(data)
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, n), key^(uint64(n)<<32|uint64(number)))
	return append(b, data...)
}

// numberOf is the number that a content of at least 8 bytes tells, or false if it tells another
// length.
func numberOf(data []byte, key uint64) (number int, ok bool) {
	first := binary.LittleEndian.Uint64(data) ^ key
	return int(uint32(first)), first>>32 == uint64(len(data))
}
