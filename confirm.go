package squall

import (
	"context"
	"errors"
)

// ErrUnordered is returned by Subgroup.Confirm in an Unordered subgroup.
var ErrUnordered = errors.New("the subgroup is not ordered")

// Confirm waits until this process was given every message of its shard that any member had been
// given when the call began. What the application reads of its state after that is not older than
// anything that any member had shown, sent or answered by then: the read is linearizable. Nothing
// is sent but two counters, by which a quorum of the view confirms that the view was still in force
// when the call began; one such round serves all calls that wait for the next one. If this process
// shares memory with a quorum, and its application was given everything that it has received, a
// look at the rows of that quorum confirms the same, and Confirm returns at once.
//
// If the view ends meanwhile, the next one confirms. Confirm fails with the reason of a halt, with
// ErrLeftShard if this process leaves the shard while it waits, with ErrNotSender or
// ErrNotProvisioned if the process is in no shard, and with ErrUnordered. In a callback it returns
// ErrInCallback where it would wait for that; use ConfirmFunc there.
func (s *Subgroup) Confirm(ctx context.Context) error {
	if err := s.confirmable(); err != nil {
		return err
	}
	if err := s.upcallWaits(); err != nil {
		return err
	}
	return s.outbox.Confirm(ctx)
}

// TryConfirm reports whether a look at the rows that this process shares shows at once what Confirm
// waits for. If so, what the application reads of its state after that is as after Confirm; if not,
// nothing follows, and Confirm finds out. It never waits and asks no member; it works in callbacks,
// too.
func (s *Subgroup) TryConfirm() bool { return s.decl.Mode != Unordered && s.outbox.TryConfirm() }

// ConfirmFunc is like Confirm, but does not wait, and has f called with the result, once. F must
// not wait: it is called before ConfirmFunc returns, on the goroutine that runs the subgroup's
// callbacks, or on the group's loop.
func (s *Subgroup) ConfirmFunc(f func(error)) {
	if err := s.confirmable(); err != nil {
		f(err)
		return
	}
	s.outbox.ConfirmFunc(func(err error) { s.group.upcalls.run(func() { f(err) }) })
}

func (s *Subgroup) confirmable() error {
	if s.decl.Mode == Unordered {
		return ErrUnordered
	}
	return nil
}

// upcallWaits returns ErrInCallback if the caller is in an upcall after which only this subgroup's
// application is given what is delivered: one that runs on the loop or, if the application is not
// called there, any other one.
func (s *Subgroup) upcallWaits() error {
	restored := s.Restored()
	select {
	case <-restored:
		if !s.queued {
			return s.group.upcalls.waits()
		}
	default:
	}
	return s.group.upcalls.ends()
}
