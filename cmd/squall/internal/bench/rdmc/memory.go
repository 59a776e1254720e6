package rdmc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"golang.org/x/sys/unix"
)

// buffers are memory outside the heap, so that the garbage collector's share of the memory stays
// that of the nodes. They are kept from run to run.
type buffers map[int][]byte

// get returns the buffer with a number, of a size, all of it touched.
func (b buffers) get(number, size int) ([]byte, error) {
	if have := b[number]; len(have) == size && have != nil {
		clear(have)
		return have, nil
	}
	if err := b.drop(number); err != nil {
		return nil, err
	}
	if size == 0 {
		return []byte{}, nil
	}
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("memory for %d bytes: %w", size, err)
	}
	for i := 0; i < size; i += os.Getpagesize() {
		memory[i] = 1
	}
	clear(memory)
	b[number] = memory
	return memory, nil
}

func (b buffers) drop(number int) error {
	have := b[number]
	delete(b, number)
	if len(have) == 0 {
		return nil
	}
	return unix.Munmap(have)
}

// word is what stands at the i-th 8 bytes of a message.
func word(seed, i uint64) uint64 { return (i+1)*0x9E3779B97F4A7C15 ^ seed<<32 }

// fill writes a message.
func fill(b []byte, seed uint64) {
	var last [8]byte
	for i := uint64(0); len(b) > 0; i++ {
		binary.LittleEndian.PutUint64(last[:], word(seed, i))
		b = b[copy(b, last[:]):]
	}
}

var errContent = errors.New("the message that arrived differs from the message that was sent")

// check compares every byte with what fill wrote.
func check(b []byte, seed uint64) error {
	i, whole := uint64(0), b
	for ; len(b) >= 8; i++ {
		if binary.LittleEndian.Uint64(b) != word(seed, i) {
			return fmt.Errorf("%w: byte %d of %d", errContent, len(whole)-len(b), len(whole))
		}
		b = b[8:]
	}
	var rest [8]byte
	binary.LittleEndian.PutUint64(rest[:], word(seed, i))
	if string(b) != string(rest[:len(b)]) {
		return fmt.Errorf("%w: its last bytes", errContent)
	}
	return nil
}

// forgetPeak gives unused memory back and has the kernel forget how much was in use before. It
// returns what is in use now, or 0 where the kernel does not say or forget.
func forgetPeak() int64 {
	debug.FreeOSMemory()
	if os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) != nil {
		return 0
	}
	return bench.MemoryStatus("VmRSS")
}
