package demo

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"

	"github.com/squall-go/squall"
)

// flushBytes is how much is put into a digest at once.
const flushBytes = 16 << 10

// digest stands for messages in an order: a SHA-256 of their senders, their lengths and their bytes.
type digest struct {
	hash   hash.Hash
	buffer []byte // on its way into hash
	bytes  uint64 // of all messages
}

func newDigest() digest { return digest{hash: sha256.New()} }

func (d *digest) add(m squall.Message) {
	d.bytes += uint64(len(m.Data))
	d.buffer = binary.LittleEndian.AppendUint64(d.buffer, uint64(m.Sender))
	d.buffer = binary.LittleEndian.AppendUint64(d.buffer, uint64(len(m.Data)))
	if d.buffer = append(d.buffer, m.Data...); len(d.buffer) >= flushBytes {
		d.flush()
	}
}

func (d *digest) flush() {
	d.hash.Write(d.buffer)
	d.buffer = d.buffer[:0]
}

// sum is the digest so far, in hexadecimal.
func (d *digest) sum() string {
	d.flush()
	return hex.EncodeToString(d.hash.Sum(nil))
}
