package messages

import (
	"encoding/binary"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
)

// Every stampEvery-th message has the time of sending behind its index.
const (
	stampBytes = 2 * bench.IndexBytes
	stampEvery = 32
)

// epoch makes the times of sending small and free of jumps. They mean something in their own
// process only.
var epoch = time.Now()

// fill writes every byte of a message.
func fill(b []byte, index uint64) {
	bench.Fill(b, index)
	if index%stampEvery == 0 && len(b) >= stampBytes {
		binary.LittleEndian.PutUint64(b[bench.IndexBytes:], uint64(time.Since(epoch)))
	}
}

// indexOf is a message's index; ok is false if the message is too short to carry it.
func indexOf(b []byte) (index uint64, ok bool) {
	if len(b) < bench.IndexBytes {
		return 0, false
	}
	return binary.LittleEndian.Uint64(b), true
}

// latencyOf is the time since an own message was sent, if it carries it.
func latencyOf(b []byte) (d time.Duration, ok bool) {
	if len(b) < stampBytes || binary.LittleEndian.Uint64(b)%stampEvery != 0 {
		return 0, false
	}
	return time.Since(epoch) - time.Duration(binary.LittleEndian.Uint64(b[bench.IndexBytes:])), true
}
