package simnet

import (
	"sync"

	"github.com/squall-go/squall/fabric"
)

// stock is memory for the rows of one network at a time. A run opens hundreds of tables, and a
// campaign makes thousands of runs: as garbage, their rows would be most of what there is to
// collect.
type stock struct {
	chunks [][]byte
	chunk  int // the one at hand
	used   int // bytes of it
}

const (
	chunkBytes = 1 << 20
	maxChunks  = 16 // that are kept for the next network
)

var stocks = sync.Pool{New: func() any { return &stock{} }}

// take returns n bytes of zeros, aligned to a line.
func (s *stock) take(n int) []byte {
	if n > chunkBytes {
		return memory(n)
	}
	size := (n + fabric.LineBytes - 1) / fabric.LineBytes * fabric.LineBytes
	if s.chunk < len(s.chunks) && s.used+size > chunkBytes {
		s.chunk, s.used = s.chunk+1, 0
	}
	if s.chunk == len(s.chunks) {
		s.chunks = append(s.chunks, memory(chunkBytes))
	}
	mem := s.chunks[s.chunk][s.used:][:n:n]
	s.used += size
	clear(mem)
	return mem
}

// giveBack lets another network use the memory.
func (s *stock) giveBack() {
	s.chunks = s.chunks[:min(len(s.chunks), maxChunks)]
	s.chunk, s.used = 0, 0
	stocks.Put(s)
}
