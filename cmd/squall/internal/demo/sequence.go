package demo

import (
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/testlab"
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
	count  atomic.Uint64  // R: any goroutine. Only grows.
	mine   uint64         // own messages
	digest testlab.Digest // of the loaded phase
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
		id: id, total: total, epoch: time.Now(), digest: testlab.NewDigest(), loaded: newHistogram(),
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
			s.digest.Add(m)
		}
		if m.Sender == s.id {
			s.took(now-s.sent[s.mine%timesKept], count)
		}
		if count == s.total {
			s.end = now
			s.count.Store(count)
			close(s.all)
		}
	}
	s.count.Store(count)
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
