package stream

// buffer is a queue of bytes. It takes no memory while it is empty, but for a little that it keeps.
type buffer struct {
	ring  []byte // its length is a power of two
	first int
	count int
}

const (
	leastBytes = 512
	keepBytes  = 16 << 10
)

func (b *buffer) len() int { return b.count }

func (b *buffer) write(p []byte) {
	if b.count+len(p) > len(b.ring) {
		b.grow(b.count + len(p))
	}
	at := (b.first + b.count) & (len(b.ring) - 1)
	n := copy(b.ring[at:], p)
	copy(b.ring, p[n:])
	b.count += len(p)
}

func (b *buffer) grow(n int) {
	size := max(leastBytes, 2*len(b.ring))
	for size < n {
		size *= 2
	}
	ring := make([]byte, size)
	k := copy(ring, b.ring[b.first:min(len(b.ring), b.first+b.count)])
	copy(ring[k:], b.ring[:b.count-k])
	b.ring, b.first = ring, 0
}

func (b *buffer) read(p []byte) int {
	k := min(len(p), b.count)
	if k == 0 {
		return 0
	}
	n := copy(p[:k], b.ring[b.first:])
	copy(p[n:k], b.ring)
	b.first = (b.first + k) & (len(b.ring) - 1)
	if b.count -= k; b.count == 0 {
		if b.first = 0; len(b.ring) > keepBytes {
			b.ring = nil
		}
	}
	return k
}

// drop forgets all bytes.
func (b *buffer) drop() { *b = buffer{} }
