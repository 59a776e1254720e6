package space

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// The histories in the state that is handed to a new member come behind all the rest, sample by
// sample, in pieces of whole samples: each with its length, so that neither side needs memory for
// all of them at a time. Of a sample: flags, position, number of the writer, source time, with the
// flag for it when it expires, and length and bytes of the data. Numbers are varints. A history may
// have millions of samples.

const (
	keptDispose byte = 1 << iota
	keptExpires
)

// pieceBytes is about the size of a piece. A sample that is larger has one of its own.
const pieceBytes = 64 << 10

// historyWriter writes samples in pieces.
type historyWriter struct {
	w     io.Writer
	piece []byte
}

func (h *historyWriter) add(k *kept, number int) error {
	b := h.piece
	flags := byte(0)
	if k.dispose {
		flags |= keptDispose
	}
	if k.expires != math.MaxInt64 {
		flags |= keptExpires
	}
	b = append(b, flags)
	b = binary.AppendUvarint(b, k.position)
	b = binary.AppendUvarint(b, uint64(number))
	b = binary.AppendVarint(b, k.source)
	if flags&keptExpires != 0 {
		b = binary.AppendVarint(b, k.expires)
	}
	h.piece = append(binary.AppendUvarint(b, uint64(len(k.data))), k.data...)
	if len(h.piece) < pieceBytes {
		return nil
	}
	return h.flush()
}

func (h *historyWriter) flush() error {
	if len(h.piece) == 0 {
		return nil
	}
	err := writePiece(h.w, h.piece)
	h.piece = h.piece[:0]
	return err
}

func writePiece(w io.Writer, piece []byte) error {
	_, err := w.Write(binary.AppendUvarint(make([]byte, 0, binary.MaxVarintLen64), uint64(len(piece))))
	if err == nil {
		_, err = w.Write(piece)
	}
	return err
}

// historyReader is the inverse. The data of samples lie in the pieces.
type historyReader struct {
	r  *bufio.Reader
	at func(number int) *endpoint
	b  []byte // what is left of the piece
}

// readPiece reads a piece. A length that the bytes do not follow costs no memory.
func readPiece(r *bufio.Reader) ([]byte, error) {
	n, err := binary.ReadUvarint(r)
	if err == nil && n <= 2*pieceBytes {
		b := make([]byte, n)
		_, err = io.ReadFull(r, b)
		return b, err
	}
	var b bytes.Buffer
	if err == nil {
		_, err = io.CopyN(&b, r, int64(min(n, math.MaxInt64)))
	}
	return b.Bytes(), err
}

// cut is the error of a state that ends too early, or of the reader that it comes from.
func cut(err error) error {
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: a state that ends too early", ErrMalformed)
	}
	return err
}

// next reads a sample.
func (h *historyReader) next() (k kept, err error) {
	if len(h.b) == 0 {
		if h.b, err = readPiece(h.r); err != nil {
			return k, cut(err)
		}
	}
	b, bad := h.b, false
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
		return k, fmt.Errorf("%w: an empty piece of a history", ErrMalformed)
	}
	flags := b[0]
	b = b[1:]
	k = kept{position: u(), expires: math.MaxInt64, dispose: flags&keptDispose != 0}
	k.writer = h.at(int(min(u(), math.MaxInt32)))
	k.source = i()
	if flags&keptExpires != 0 {
		k.expires = i()
	}
	n := u()
	if bad || flags > keptDispose|keptExpires || n > uint64(len(b)) {
		return k, fmt.Errorf("%w: a sample of a history", ErrMalformed)
	}
	k.data, h.b = b[:n:n], b[n:]
	return k, nil
}

// end reports what follows the last sample.
func (h *historyReader) end() error {
	if _, err := h.r.Peek(1); len(h.b) > 0 || err == nil {
		return fmt.Errorf("%w: bytes after the last sample", ErrMalformed)
	} else if err != io.EOF {
		return err
	}
	return nil
}
