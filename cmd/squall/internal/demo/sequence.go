package demo

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/squall-go/squall"
)

// timesKept is more than can be on the way, so that no time is overwritten that is still to be
// read.
const timesKept = 2 * squall.DefaultWindow

// sequence takes what a member delivers. The first total messages are the loaded phase; each one of
// this member's behind them is a probe.
type sequence struct {
	id    squall.NodeID
	total uint64
	epoch time.Time // times are counted from here

	// W: loop.
	count  atomic.Uint64 // R: anybody. Only grows.
	bytes  uint64
	mine   uint64 // own messages
	digest hash.Hash
	buffer []byte // on its way into digest
	loaded *hdrhistogram.Histogram
	end    time.Duration
	all    chan struct{} // closed when total is delivered; what is above may be read then
	probed chan time.Duration

	// W: the sender, before the message that it belongs to is committed. R: loop.
	sent  [timesKept]time.Duration
	asked uint64 // own messages
}

func newSequence(id squall.NodeID, total uint64) *sequence {
	return &sequence{
		id: id, total: total, epoch: time.Now(), digest: sha256.New(), loaded: newHistogram(),
		all: make(chan struct{}), probed: make(chan time.Duration, 1),
	}
}

// sending notes the time of the next own message.
func (s *sequence) sending() {
	s.sent[s.asked%timesKept] = time.Since(s.epoch)
	s.asked++
}

// deliver is the upcall.
func (s *sequence) deliver(run []squall.Message) {
	now, count := time.Since(s.epoch), s.count.Load()
	for _, m := range run {
		if count++; count <= s.total {
			s.add(m)
		}
		if m.Sender == s.id {
			s.took(now-s.sent[s.mine%timesKept], count)
		}
		if count == s.total {
			s.flush()
			s.end = now
			s.count.Store(count)
			close(s.all)
		}
	}
	s.count.Store(count)
}

// add puts a message into the digest: its sender, its length and its bytes.
func (s *sequence) add(m squall.Message) {
	s.bytes += uint64(len(m.Data))
	s.buffer = binary.LittleEndian.AppendUint64(s.buffer, uint64(m.Sender))
	s.buffer = binary.LittleEndian.AppendUint64(s.buffer, uint64(len(m.Data)))
	if s.buffer = append(s.buffer, m.Data...); len(s.buffer) >= 16<<10 {
		s.flush()
	}
}

func (s *sequence) flush() {
	s.digest.Write(s.buffer)
	s.buffer = s.buffer[:0]
}

// took accounts for an own message.
func (s *sequence) took(d time.Duration, count uint64) {
	s.mine++
	if count <= s.total {
		s.loaded.RecordValue(int64(d))
		return
	}
	s.probed <- d
}

// sum is the digest, in hexadecimal. The loaded phase is over.
func (s *sequence) sum() string { return hex.EncodeToString(s.digest.Sum(nil)) }
