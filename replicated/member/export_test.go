package member

import (
	"context"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated/internal/machine"
)

func (c *common) at() (time uint64, v squall.Version) {
	o := c.object
	o.mu.RLock()
	defer o.mu.RUnlock()
	view, seq := o.machine.At()
	return o.machine.Time(), squall.Version{View: squall.ViewID(view), Seq: squall.Seq(seq)}
}

// Applied returns the version of the last record that this copy has applied.
func (c *common) Applied() squall.Version {
	_, v := c.at()
	return v
}

// Pass lets the time of the object pass, with a record that does nothing else, and returns Applied
// when this copy has applied it.
func (c *common) Pass(ctx context.Context, d time.Duration) (squall.Version, error) {
	from, _ := c.at()
	until := from + uint64(d)
	if err := c.object.sub.Send(ctx, machine.AppendTouch(nil, machine.Header{Time: until}, nil)); err != nil {
		return squall.Version{}, err
	}
	for {
		if now, v := c.at(); now >= until || ctx.Err() != nil {
			return v, ctx.Err()
		}
		time.Sleep(time.Millisecond) // polls
	}
}

// Waiting returns how many requests wait until their clients have less in progress.
func (s *Server) Waiting() (n int) {
	s.answers.mu.Lock()
	defer s.answers.mu.Unlock()
	for _, p := range s.answers.parties {
		n += len(p.waiting)
	}
	return n
}

// Working returns how many requests have a goroutine each.
func (s *Server) Working() int {
	s.answers.mu.Lock()
	defer s.answers.mu.Unlock()
	return s.answers.working
}

// WorkingBounds returns how many requests may have a goroutine each, in all and of one party, and
// LimitWorking sets it, before there are requests.
func (s *Server) WorkingBounds() (all, each int) {
	return s.answers.mostWorking, s.answers.mostWorkingEach
}

func (s *Server) LimitWorking(all, each int) {
	s.answers.mostWorking, s.answers.mostWorkingEach = all, each
}
