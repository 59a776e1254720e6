package logwire

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/squall-go/squall/persist"
)

// maxTries is how often a stream that broke is asked for again without a record that came.
const maxTries = 5

// course is a stream of records, over as many connections as it takes: each goes on behind the last record that came.
//
// Whoever reads what is there gives up after some of them, since others may have the same. Whoever follows has nobody else to ask, and waits for
// the member, which may be about to be started again.
type course struct {
	c     *Client
	ctx   context.Context
	q     request
	may   asked
	times Times

	tries int           // connections since the last record
	pause time.Duration // before the next one
	lost  bool          // whoever follows was told that the member is gone
}

// run yields the records. An error is the last thing.
func (s *course) run(yield func(persist.Record, error) bool) {
	for {
		goesOn, err := s.attempt(func(r persist.Record) bool {
			s.tries, s.pause = 0, s.times.Pause
			return yield(r, nil)
		})
		s.tries++
		switch {
		case err == nil:
			return
		case !goesOn:
			yield(persist.Record{}, err)
			return
		}
		s.lose(err)
		if !s.follows() && s.tries >= maxTries || !rest(s.ctx, s.pause) {
			yield(persist.Record{}, because(s.ctx, err))
			return
		}
		s.pause = min(2*s.pause, s.times.Longest)
	}
}

// attempt streams over one connection, and moves on what is asked for.
func (s *course) attempt(yield func(persist.Record) bool) (goesOn bool, err error) {
	x, err := s.c.dial(s.ctx)
	if err != nil {
		return s.ctx.Err() == nil && s.may.begun, err
	}
	defer x.close()
	x.heard = s.found
	q := s.q
	q.From, q.Since = pointer(s.may.from), s.may.since
	for r, err := range x.records(q, s.may) {
		if err != nil {
			return s.ctx.Err() == nil && s.passes(err), err
		}
		s.may.begun, s.may.from, s.may.since = true, After(r.Version), max(s.may.since, r.Time+1)
		if !yield(r) {
			return false, nil
		}
	}
	return false, nil
}

func (s *course) follows() bool { return s.q.Do == doTail }

// passes reports whether another connection may go on where one ended. A member that ends refuses, one that is being started has no logs at
// first, and then too many may come back to it at once: a follower of it has only to wait.
func (s *course) passes(err error) bool {
	if errors.Is(err, errBroken) {
		s.may.begun = s.may.begun || s.follows() // the member was there
		return true
	}
	return s.follows() && s.may.begun && slices.ContainsFunc(passing, func(e error) bool { return errors.Is(err, e) })
}

// passing are the errors of a member that may be there as before in a while.
var passing = []error{ErrBusy, ErrNoLog, persist.ErrClosed, errRefused}

// lose tells a follower, once, that the member is gone.
func (s *course) lose(err error) {
	if !s.follows() || s.lost {
		return
	}
	s.lost = true
	if s.c.Lost != nil {
		s.c.Lost(err)
	}
}

// found notes that the member has begun to answer.
func (s *course) found() {
	s.may.begun = s.may.begun || s.follows()
	if !s.lost {
		return
	}
	s.lost = false
	if s.c.Back != nil {
		s.c.Back()
	}
}

// rest waits, and reports whether the context goes on.
func rest(ctx context.Context, pause time.Duration) bool {
	select {
	case <-time.After(pause):
		return true
	case <-ctx.Done():
		return false
	}
}
