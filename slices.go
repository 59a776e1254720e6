package squall

import (
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/internal/member"
)

// CallbackSlow reports that a callback kept the loop from sending a heartbeat. The loop stops
// between two callbacks when a heartbeat must be sent, but it cannot interrupt one. A member whose
// callback takes as long as FailAfter is removed. With AsyncQueueBytes, callbacks do not run on the
// loop.
type CallbackSlow struct {
	Subgroup string
	Late     time.Duration // from the end of the time for callbacks to the end of the callback
}

func (e CallbackSlow) String() string {
	return fmt.Sprintf("a callback of subgroup %q delayed the heartbeat by %v; with AsyncQueueBytes, callbacks do not run on the loop", e.Subgroup, e.Late.Round(time.Millisecond))
}
func (CallbackSlow) level() slog.Level { return slog.LevelWarn }

// timeSlices ends the slices of the loop's callbacks (B13), and reports callbacks that run on.
type timeSlices struct {
	member.Slice
	timer *time.Timer
	began time.Time
	until atomic.Int64 // when the slice ends, since began. W: loop
	ended atomic.Int64 // when it did. W: timer

	report   func(CallbackSlow)
	most     time.Duration // a callback is reported that runs for so long after the end of a slice
	reported time.Duration // when one was reported last; not more often than once in FailAfter
	pause    time.Duration // that
}

func newSlices(c *Config) *timeSlices {
	s := &timeSlices{began: time.Now(), most: c.FailAfter / 10, pause: c.FailAfter, report: func(e CallbackSlow) { c.emit(e) }}
	s.until.Store(math.MaxInt64)
	s.timer = time.AfterFunc(math.MaxInt64, s.end)
	return s
}

// begin has the slice ended after some time. Loop.
func (s *timeSlices) begin(d time.Duration) {
	s.until.Store(int64(time.Since(s.began) + d))
	s.timer.Reset(d)
}

// end runs on the timer's goroutine. It may come late, when the next slice has begun.
func (s *timeSlices) end() {
	mark, now := s.Mark(), int64(time.Since(s.began))
	if now >= s.until.Load() {
		s.ended.Store(now)
		s.End(mark)
	}
}

// late returns how late the slice at present was ended. A timer is late if the process did not run,
// and not because of a callback. Loop.
func (s *timeSlices) late() time.Duration {
	at := int64(time.Since(s.began))
	if s.Over() {
		at = s.ended.Load()
	}
	return time.Duration(max(0, at-s.until.Load()))
}

// overran is called after a callback that ended after its slice. Loop.
func (s *timeSlices) overran(subgroup string) {
	now := time.Since(s.began)
	late := now - time.Duration(s.ended.Load())
	if late >= s.most && (s.reported == 0 || now-s.reported >= s.pause) {
		s.reported = now
		s.report(CallbackSlow{subgroup, late})
	}
}

// stop ends the timer, when the loop has ended.
func (s *timeSlices) stop() { s.timer.Stop() }

// pace bounds the runs of an application that takes many messages in one callback. A run in which a
// slice ends is followed by one of half its length, and each run after that is twice as long again.
type pace struct {
	slices *timeSlices
	name   string
	most   int // messages; 0: all
}

// bound returns how much of a run the application is given.
func (p *pace) bound(n int) int {
	if p.most > 0 {
		return min(n, p.most)
	}
	return n
}

// took notes that a callback with n messages ended.
func (p *pace) took(n int) {
	switch {
	case p.slices.Over():
		p.most = max(1, n/2)
		p.slices.overran(p.name)
	case p.most > maxPaced:
		p.most = 0
	case p.most > 0:
		p.most *= 2
	}
}

// maxPaced is more than the messages of any run that a slice cut.
const maxPaced = 1 << 20
