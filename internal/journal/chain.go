package journal

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"

	"github.com/squall-go/squall/order"
)

// Head is the hash over all records up to a place of a log, each hashed together with the head
// before it. Zero is the head of no records.
type Head [sha256.Size]byte

// Seal stands in the header of a block of a signed log. A run of fragments has the seal of its
// record in each of its blocks.
//
//	0        32       64                 128
//	before   after    signature
//
// Because a head covers all that came before it, one signature vouches for everything in front of
// it, and what is dropped from the front of a log leaves the head of what was dropped behind: it is
// before of the first block that is kept.
type Seal struct {
	Before    Head                        // of everything before the block's first record
	After     Head                        // with the block's last one
	Signature [ed25519.SignatureSize]byte // of After; zeros, except in the last block of a group
}

// SealBytes is the length of a seal.
const SealBytes = 2*sha256.Size + ed25519.SignatureSize

// Signed reports whether the seal has a signature.
func (s *Seal) Signed() bool { return s.Signature != [ed25519.SignatureSize]byte{} }

// AppendTo encodes the seal.
func (s *Seal) AppendTo(b []byte) []byte {
	b = append(b, s.Before[:]...)
	b = append(b, s.After[:]...)
	return append(b, s.Signature[:]...)
}

// DecodeSeal reads a seal of SealBytes.
func DecodeSeal(b []byte) (s Seal) {
	_ = b[SealBytes-1]
	copy(s.Before[:], b)
	copy(s.After[:], b[sha256.Size:])
	copy(s.Signature[:], b[2*sha256.Size:])
	return s
}

// Extend is the head with one more record behind it. Every field stands at a fixed place and the
// data at the end, so no two records are hashed as the same bytes.
//
//	0      32       40     48    56     64       72
//	head   number   view   seq   time   sender   data
func (h Head) Extend(number uint64, r *Record) Head {
	var fixed [sha256.Size + 40]byte
	copy(fixed[:], h[:])
	for i, v := range [...]uint64{number, uint64(r.Version.View), uint64(r.Version.Seq), uint64(r.Time), uint64(r.Sender)} {
		binary.LittleEndian.PutUint64(fixed[sha256.Size+8*i:], v)
	}
	d := sha256.New()
	d.Write(fixed[:])
	d.Write(r.Data)
	d.Sum(h[:0])
	return h
}

// Origin is what a signature names besides the head, so that none fits another log, shard, member
// or cluster.
type Origin struct {
	Cluster string
	Node    order.NodeID
	Log     string
	Shard   int
}

const signedAs = "squall log head 1\x00"

// message is what is signed: the origin, how many records there are before and with the head, and
// the head.
func (o Origin) message(count uint64, h Head) []byte {
	b := []byte(signedAs)
	for _, text := range []string{o.Cluster, o.Log} {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
		b = append(b, text...)
	}
	for _, v := range []uint64{uint64(o.Node), uint64(o.Shard), count} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return append(b, h[:]...)
}

// Vouches reports whether a seal's signature says that these are the first count records of the
// log.
func (o Origin) Vouches(key ed25519.PublicKey, count uint64, s *Seal) bool {
	return len(key) == ed25519.PublicKeySize && ed25519.Verify(key, o.message(count, s.After), s.Signature[:])
}

// Chain makes the seals of a log that is written. It stands behind the last record that was added.
type Chain struct {
	origin Origin
	key    ed25519.PrivateKey
	head   Head
}

// NewChain goes on behind a head: that of the last block, or zeros for a log that has none or was
// not signed so far.
func NewChain(o Origin, key ed25519.PrivateKey, behind Head) *Chain {
	return &Chain{origin: o, key: key, head: behind}
}

// Head is that of the last record that was added.
func (c *Chain) Head() Head { return c.head }

// Reset goes on behind another head: something was cut, or another log was installed.
func (c *Chain) Reset(behind Head) { c.head = behind }

// Add extends the head by a record.
func (c *Chain) Add(number uint64, r *Record) { c.head = c.head.Extend(number, r) }

// Seal is that of a block that began behind a head and ends here, count records from the beginning
// of the log. The last block of a group is signed: one signature covers the group, as one fsync
// does.
func (c *Chain) Seal(before Head, count uint64, sign bool) Seal {
	s := Seal{Before: before, After: c.head}
	if sign {
		copy(s.Signature[:], ed25519.Sign(c.key, c.origin.message(count, c.head)))
	}
	return s
}
