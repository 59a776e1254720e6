package stream

import (
	"encoding/binary"
	"fmt"

	"github.com/squall-go/squall/fabric"
)

// Kind says what a frame is.
type Kind uint8

// Kinds of frames.
const (
	Open Kind = 1 + iota
	Credit
	Data
	End
	Reset
	kinds
)

func (k Kind) String() string {
	names := [kinds]string{"none", "open", "credit", "data", "end", "reset"}
	if k >= kinds {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return names[k]
}

const (
	kindBits   = 3
	answerBit  = 1 << kindBits
	numberBits = 60
)

// LimitBytes is the length of an open and of a credit frame.
const LimitBytes = 8

// ID is the id of a frame of a stream.
func ID(k Kind, answer bool, number uint64) uint64 {
	id := number<<(64-numberBits) | uint64(k)
	if answer {
		id |= answerBit
	}
	return id
}

// IsAnswer reports whether the sender of a frame is not the side that opened the stream.
func IsAnswer(id uint64) bool { return id&answerBit != 0 }

// Number is the number of the stream of a frame.
func Number(id uint64) uint64 { return id >> (64 - numberBits) }

func parse(id uint64) (k Kind, number uint64) {
	return Kind(id & (answerBit - 1)), Number(id)
}

// PutLimit writes the bytes of an open or a credit frame.
func PutLimit(to *[LimitBytes]byte, limit uint64) { binary.LittleEndian.PutUint64(to[:], limit) }

func parseLimit(data []byte) (uint64, error) {
	if len(data) != LimitBytes {
		return 0, fmt.Errorf("%w: a limit of %d bytes", fabric.ErrViolation, len(data))
	}
	limit := binary.LittleEndian.Uint64(data)
	if limit > maxLimit {
		return 0, fmt.Errorf("%w: RS4: a limit of %d bytes", fabric.ErrViolation, limit)
	}
	return limit, nil
}

// maxLimit is the length of the longest stream: no process reaches it, and positions do not
// overflow below it.
const maxLimit = 1 << 62
