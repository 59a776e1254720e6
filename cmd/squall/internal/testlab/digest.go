package testlab

import (
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"encoding/hex"
	"hash"

	"github.com/squall-go/squall"
)

// flushBytes is how much is put into a digest at once.
const flushBytes = 16 << 10

// Digest stands for messages in an order: a SHA-256 of their senders, their lengths and their
// bytes.
type Digest struct {
	Bytes uint64 // of all messages

	hash   hash.Hash
	buffer []byte // on its way into hash
}

// NewDigest returns the digest of no message.
func NewDigest() Digest { return Digest{hash: sha256.New()} }

// Add adds the next message.
func (d *Digest) Add(m squall.Message) {
	d.Bytes += uint64(len(m.Data))
	d.buffer = binary.LittleEndian.AppendUint64(d.buffer, uint64(m.Sender))
	d.buffer = binary.LittleEndian.AppendUint64(d.buffer, uint64(len(m.Data)))
	if d.buffer = append(d.buffer, m.Data...); len(d.buffer) >= flushBytes {
		d.flush()
	}
}

func (d *Digest) flush() {
	d.hash.Write(d.buffer)
	d.buffer = d.buffer[:0]
}

// Sum is the digest so far, in hexadecimal.
func (d *Digest) Sum() string {
	d.flush()
	return hex.EncodeToString(d.hash.Sum(nil))
}

// save returns the digest so far in a form from which load goes on.
func (d *Digest) save() ([]byte, error) {
	d.flush()
	return d.hash.(encoding.BinaryMarshaler).MarshalBinary()
}

func (d *Digest) load(saved []byte, bytes uint64) error {
	*d = NewDigest()
	d.Bytes = bytes
	return d.hash.(encoding.BinaryUnmarshaler).UnmarshalBinary(saved)
}
