package space

import (
	"encoding/binary"
	"fmt"
	"math"
)

// A history in the state that is handed to a new member: the number of samples, and for each of them flags, position, number of the writer, source time, with the flag
// for it when it expires, and length and bytes of the data. Numbers are varints. A history may have millions of samples.

const (
	keptDispose byte = 1 << iota
	keptExpires
)

// leastKept is the size of the smallest sample.
const leastKept = 5

func appendHistory(b []byte, all []kept, number func(*endpoint) int) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	for i := range all {
		k := &all[i] // no copy: other fields may be written meanwhile
		flags := byte(0)
		if k.dispose {
			flags |= keptDispose
		}
		if k.expires != math.MaxInt64 {
			flags |= keptExpires
		}
		b = append(b, flags)
		b = binary.AppendUvarint(b, k.position)
		b = binary.AppendUvarint(b, uint64(number(k.writer)))
		b = binary.AppendVarint(b, k.source)
		if flags&keptExpires != 0 {
			b = binary.AppendVarint(b, k.expires)
		}
		b = append(binary.AppendUvarint(b, uint64(len(k.data))), k.data...)
	}
	return b
}

// historyBytes is about the size of what appendHistory appends, and not less than that of its data.
func historyBytes(all []kept) (n int) {
	for i := range all {
		n += len(all[i].data) + 24
	}
	return n
}

// parseHistory is the inverse; data lie in b.
func parseHistory(b []byte, at func(number int) *endpoint) ([]kept, error) {
	bad := false
	u := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			bad = true
			return 0
		}
		b = b[n:]
		return v
	}
	i := func() int64 {
		v, n := binary.Varint(b)
		if n <= 0 {
			bad = true
			return 0
		}
		b = b[n:]
		return v
	}
	if len(b) == 0 {
		return nil, nil
	}
	count := u()
	if bad || count > uint64(len(b)/leastKept) {
		return nil, fmt.Errorf("%w: a history of %d samples in %d bytes", ErrMalformed, count, len(b))
	}
	all := make([]kept, 0, count)
	for range count {
		if len(b) == 0 {
			bad = true
			break
		}
		flags := b[0]
		b = b[1:]
		k := kept{position: u(), expires: math.MaxInt64, dispose: flags&keptDispose != 0}
		k.writer = at(int(min(u(), math.MaxInt32)))
		k.source = i()
		if flags&keptExpires != 0 {
			k.expires = i()
		}
		n := u()
		if bad || flags > keptDispose|keptExpires || n > uint64(len(b)) {
			bad = true
			break
		}
		k.data, b = b[:n:n], b[n:]
		all = append(all, k)
	}
	if bad || len(b) > 0 {
		return nil, fmt.Errorf("%w: sample %d of a history of %d", ErrMalformed, len(all)+1, count)
	}
	return all, nil
}
