// Package progress bounds the patience with readers of the application.
package progress

import "io"

// MaxEmptyReads is how many times in a row a reader may return neither bytes nor an error.
const MaxEmptyReads = 100

// Reader returns a reader of the same bytes that fails with io.ErrNoProgress after MaxEmptyReads
// reads in a row without bytes or an error. io.ReadFull would call such a reader for ever.
func Reader(r io.Reader) io.Reader { return &reader{from: r} }

type reader struct {
	from  io.Reader
	empty int // reads in a row that returned nothing
}

// Read implements io.Reader.
func (r *reader) Read(b []byte) (int, error) {
	n, err := r.from.Read(b)
	if n > 0 || err != nil || len(b) == 0 {
		r.empty = 0
		return n, err
	}
	if r.empty++; r.empty == MaxEmptyReads {
		return 0, io.ErrNoProgress
	}
	return 0, nil
}
