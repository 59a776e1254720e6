package logwire

import (
	"context"
	"errors"
	"slices"

	"github.com/squall-go/squall/internal/catchup"
	"github.com/squall-go/squall/internal/wait"

	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/persist"
)

// maxTries is how often a stream that broke is asked for again without a record that came.
const maxTries = 5

// resumingStream is a stream of records, over as many connections as it takes: each goes on behind
// the last record that came.
//
// A process that reads what is there gives up after some of them, since other members may have the
// same. One that follows has no other member to ask, and waits for this one, which may be about to
// be started again.
type resumingStream struct {
	c      *Client
	ctx    context.Context
	q      request
	bounds bounds
	pause  wait.Backoff
	tries  int  // in a row that brought nothing
	lost   bool // the process that follows was told that the member is gone
}

// run yields the records. An error is the last thing.
func (s *resumingStream) run(yield func(persist.Record, error) bool) {
	for {
		gained := false
		goesOn, err := s.attempt(func(r persist.Record) bool {
			gained = true
			return yield(r, nil)
		})
		if err == nil {
			return
		}
		if !goesOn {
			yield(persist.Record{}, err)
			return
		}
		s.lose(err)
		if gained {
			s.tries = 0
			s.pause.Reset()
		}
		s.tries++
		if !s.follows() && s.tries >= maxTries || s.pause.Wait(s.ctx) != nil {
			yield(persist.Record{}, wire.Because(s.ctx, err))
			return
		}
	}
}

// attempt streams over one connection, and moves on what is asked for.
func (s *resumingStream) attempt(yield func(persist.Record) bool) (goesOn bool, err error) {
	x, err := s.c.dial(s.ctx)
	if err != nil {
		return s.ctx.Err() == nil && (s.retryable(err) || s.bounds.begun && errors.Is(err, errNobody)), err
	}
	defer x.close()
	x.heard = s.found
	q := s.q
	q.From, q.Since = pointer(s.bounds.from), s.bounds.since
	for r, err := range x.records(q, s.bounds) {
		if err != nil {
			return s.ctx.Err() == nil && s.retryable(err), err
		}
		s.bounds.begun, s.bounds.from, s.bounds.since = true, catchup.After(r.Version), max(s.bounds.since, r.Time+1)
		if !yield(r) {
			return false, nil
		}
	}
	return false, nil
}

func (s *resumingStream) follows() bool { return s.q.Do == doTail }

// retryable reports whether another connection may go on where one ended. Errors that a member
// gives while it is restarted (closing, no log yet, busy) are transient for a process that follows
// it.
func (s *resumingStream) retryable(err error) bool {
	if errors.Is(err, errBroken) {
		s.bounds.begun = s.bounds.begun || s.follows() // the member was there
		return true
	}
	return s.follows() && s.bounds.begun && slices.ContainsFunc(transient, func(e error) bool { return errors.Is(err, e) })
}

// transient are the errors of a member that may be there as before in a while.
var transient = []error{ErrBusy, ErrNoLog, persist.ErrClosed, errRefused}

// lose tells a process that follows, once, that the member is gone.
func (s *resumingStream) lose(err error) {
	if !s.follows() || s.lost {
		return
	}
	s.lost = true
	if s.c.Lost != nil {
		s.c.Lost(err)
	}
}

// found notes that the member has begun to answer.
func (s *resumingStream) found() {
	s.bounds.begun = s.bounds.begun || s.follows()
	if !s.lost {
		return
	}
	s.lost = false
	if s.c.Back != nil {
		s.c.Back()
	}
}
