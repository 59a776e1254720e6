package bench

import (
	"encoding/binary"
	"time"
)

// A message begins with its index among those of its sender and subgroup, then, in every stampEvery-th, the time of sending.
const (
	indexBytes = 8
	stampBytes = 16
	stampEvery = 32
)

// pattern is what messages are filled with. It stays in the first cache, so that filling costs what writing costs.
var pattern = func() (p [4 << 10]byte) {
	for i := range p {
		p[i] = byte(i*7 + 1)
	}
	return p
}()

// epoch makes the times of sending small and free of jumps. They mean something in their own process only.
var epoch = time.Now()

// fill writes every byte of a message.
func fill(b []byte, index uint64) {
	for done := 0; done < len(b); {
		done += copy(b[done:], pattern[:])
	}
	if len(b) >= indexBytes {
		binary.LittleEndian.PutUint64(b, index)
	}
	if index%stampEvery == 0 && len(b) >= stampBytes {
		binary.LittleEndian.PutUint64(b[8:], uint64(time.Since(epoch)))
	}
}

// read reads one byte of each cache line. The sum is for the caller to keep, or the compiler would leave it out.
func read(b []byte) (sum uint64) {
	for i := 0; i < len(b); i += 64 {
		sum += uint64(b[i])
	}
	return sum
}

// indexOf is a message's index; ok is false if the message is too short to carry it.
func indexOf(b []byte) (index uint64, ok bool) {
	if len(b) < indexBytes {
		return 0, false
	}
	return binary.LittleEndian.Uint64(b), true
}

// latencyOf is the time since an own message was sent, if it carries it.
func latencyOf(b []byte) (d time.Duration, ok bool) {
	if len(b) < stampBytes || binary.LittleEndian.Uint64(b)%stampEvery != 0 {
		return 0, false
	}
	return time.Since(epoch) - time.Duration(binary.LittleEndian.Uint64(b[8:])), true
}
