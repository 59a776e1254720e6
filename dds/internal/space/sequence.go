package space

import "slices"

// blockLen is how many elements of a sequence lie in one piece of memory.
const blockLen = 256

// sequence is a queue whose elements do not move once there are more than blockLen of them: what it
// costs to add one, and to take a view, does not depend on how many there are. The zero value is an
// empty sequence.
type sequence[T any] struct {
	full   [][]T // blocks of blockLen elements
	last   []T   // fewer than that, or as many
	from   int   // elements of the first block that were dropped
	shared int   // elements in the memory of the blocks, from the first block's beginning on, that a view has, too
	free   []T   // a block to be used again
}

func (q *sequence[T]) len() int { return len(q.full)*blockLen + len(q.last) - q.from }

// at returns element i. The address is good until an element is added or dropped.
func (q *sequence[T]) at(i int) *T {
	i += q.from
	if b := i / blockLen; b < len(q.full) {
		return &q.full[b][i%blockLen]
	}
	return &q.last[i-len(q.full)*blockLen]
}

// each yields the elements.
func (q *sequence[T]) each(yield func(*T) bool) {
	from := q.from
	for _, block := range q.full {
		for i := from; i < blockLen; i++ {
			if !yield(&block[i]) {
				return
			}
		}
		from = 0
	}
	for i := from; i < len(q.last); i++ {
		if !yield(&q.last[i]) {
			return
		}
	}
}

// push adds an element.
func (q *sequence[T]) push(v T) {
	if len(q.last) == blockLen {
		q.full, q.last, q.free = append(q.full, q.last), q.free, nil
		if q.last == nil {
			q.last = make([]T, 0, blockLen)
		}
	}
	q.last = append(q.last, v)
}

// drop removes the first n elements.
func (q *sequence[T]) drop(n int) {
	for i := max(0, q.shared-q.from); i < n; i++ {
		*q.at(i) = *new(T)
	}
	q.from += n
	for len(q.full) > 0 && q.from >= blockLen {
		if q.shared > 0 {
			q.full = slices.Clone(q.full[1:])
		} else {
			q.free = q.full[0][:0]
			q.full[0] = nil
			q.full = q.full[1:]
		}
		q.from -= blockLen
		q.shared = max(0, q.shared-blockLen)
	}
	if len(q.full) > 0 || q.from < len(q.last)-q.from {
		return
	}
	// What is left in the only block is less than what was dropped of it.
	rest := q.last[q.from:]
	if q.shared > 0 {
		q.last = slices.Clone(rest)
	} else {
		n := copy(q.last, rest)
		clear(q.last[n:])
		q.last = q.last[:n]
	}
	q.from, q.shared = 0, 0
}

// remove removes the elements for which out, which gets their places, returns true. The elements
// behind the first one that it removes are copied.
func (q *sequence[T]) remove(out func(i int, v *T) bool) (n int) {
	first := 0
	for first < q.len() && out(first, q.at(first)) {
		first++
	}
	q.drop(first)
	var rest sequence[T]
	at := 0
	for v := range q.each {
		switch {
		case out(first+at, v):
			if n == 0 { // the elements before stay
				for i := range at {
					rest.push(*q.at(i))
				}
			}
			n++
		case n > 0:
			rest.push(*v)
		}
		at++
	}
	if n > 0 {
		*q = rest
	}
	return first + n
}

// view returns the sequence as it is, to be read only: what is added and dropped later does not
// change it. Elements must not be changed in their place any more, unless the sequence was replaced
// by a clone.
func (q *sequence[T]) view() sequence[T] {
	q.shared = len(q.full)*blockLen + len(q.last)
	return sequence[T]{full: q.full[:len(q.full):len(q.full)], last: q.last[:len(q.last):len(q.last)], from: q.from}
}

// clone returns a sequence that shares no memory with q.
func (q *sequence[T]) clone() (c sequence[T]) {
	for v := range q.each {
		c.push(*v)
	}
	return c
}

// chunks is memory for data of samples that come together and go together: pieces of memory that
// many of them lie in. The zero value has none.
type chunks struct {
	chunk []byte // the end of it is free
}

// A chunk is twice as large as the one before, within limits. Data of more than a quarter of the
// largest chunk have memory of their own.
const (
	minChunkBytes = 1 << 10
	chunkBytes    = 64 << 10
)

// keep copies the data of a sample.
func (c *chunks) keep(data []byte) []byte {
	if len(data) > chunkBytes/4 {
		return slices.Clone(data)
	}
	if cap(c.chunk)-len(c.chunk) < len(data) {
		size := min(max(2*cap(c.chunk), minChunkBytes), chunkBytes)
		c.chunk = make([]byte, 0, max(size, len(data)))
	}
	from := len(c.chunk)
	c.chunk = append(c.chunk, data...)
	return c.chunk[from:len(c.chunk):len(c.chunk)]
}
