package boltlog

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/squall-go/squall/internal/journal"
)

// An entry is stored as raft-boltdb stores a raft.Log that has an index and data, and nothing else:
// a map in MessagePack, with its keys in order. Versions that used raft-boltdb wrote these bytes.
//
//	{"AppendedAt": zero time, "Data": data, "Extensions": nil, "Index": index, "Term": 0, "Type": 0}
const (
	head  = "\x86\xaaAppendedAt\xaf\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xa4Data"
	inner = "\xaaExtensions\xc0\xa5Index"
	tail  = "\xa4Term\x00\xa4Type\x00"

	// The first byte of a length and of an index says how many bytes follow, in big endian. A length
	// up to shortMax is in the lower bits of short, an index up to 127 is its own byte.
	short, shortMax    = 0xA0, 31
	length16, length32 = 0xDA, 0xDB
	index8, index16    = 0xCC, 0xCD
	index32, index64   = 0xCE, 0xCF

	besideData = len(head) + 5 + len(inner) + 9 + len(tail) // is what an entry takes besides its data at most
)

func encode(dst []byte, l *journal.Entry) []byte {
	dst = append(appendLength(append(dst, head...), len(l.Data)), l.Data...)
	return append(appendIndex(append(dst, inner...), l.Index), tail...)
}

func appendLength(dst []byte, n int) []byte {
	switch {
	case n <= shortMax:
		return append(dst, short|byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, length16), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, length32), uint32(n))
}

func appendIndex(dst []byte, i uint64) []byte {
	switch {
	case i <= math.MaxInt8:
		return append(dst, byte(i))
	case i <= math.MaxUint8:
		return append(dst, index8, byte(i))
	case i <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, index16), uint16(i))
	case i <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, index32), uint32(i))
	}
	return binary.BigEndian.AppendUint64(append(dst, index64), i)
}

// decode returns the data of an entry as a part of its value: false unless each byte around the
// data is as encode writes it.
func decode(index uint64, value []byte) ([]byte, bool) {
	value, begins := bytes.CutPrefix(value, []byte(head))
	value, ends := bytes.CutSuffix(value, append(appendIndex([]byte(inner), index), tail...))
	if !begins || !ends || len(value) == 0 {
		return nil, false
	}
	width := 1
	switch value[0] {
	case length16:
		width = 3
	case length32:
		width = 5
	}
	if len(value) < width {
		return nil, false
	}
	data := value[width:]
	return data, bytes.Equal(value[:width], appendLength(nil, len(data)))
}
