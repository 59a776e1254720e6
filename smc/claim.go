package smc

import (
	"errors"
	"fmt"

	"github.com/squall-go/squall/internal/mutant"
)

// ErrClaimDone says that a claim was committed or aborted before.
var ErrClaimDone = errors.New("claim is committed or aborted already")

// ErrMoved says that a claim's ring is not in use any more: another one took it over, and finishes
// it (CommitMoved, AbortMoved).
var ErrMoved = errors.New("claim moved to another ring")

// Claim is space for one message. Its bytes are the claimer's until it commits or aborts. The zero
// value is no claim. It is four words and does not name its ring, because the compiler keeps no
// more than that in registers.
type Claim struct {
	number uint64 // from 1
	Bytes  []byte
}

// Number tells the claims of one application apart, whatever rings they are in: they are counted
// from 1, in the order in which they were made.
func (c Claim) Number() uint64 { return c.number }

// ClaimOf returns the claim with a number, which the caller knows of its Number and Bytes.
func ClaimOf(number uint64, room []byte) Claim { return Claim{number, room} }

// Commit hands a filled claim to the loop. It fails with ErrMoved if the claim was made in another
// ring. Any goroutine.
func (s *Sender) Commit(c Claim) error { return s.close(c.number, committed) }

// Abort gives a claim back. Its turn is a null, and its space is free when every member passed it.
// Any goroutine.
func (s *Sender) Abort(c Claim) error { return s.close(c.number, aborted) }

// close finishes a claim that was made here.
func (s *Sender) close(number, phase uint64) error {
	if number <= s.native {
		return elsewhere(number)
	}
	state := &s.slots[(number-1)&(s.window-1)].state
	was := state.Load()
	if mutant.Enabled {
		mutant.Pause()
	}
	if was>>2 >= number && !(mutant.Enabled && mutant.On(mutant.FinishedTwice)) || !state.CompareAndSwap(was, number<<2|phase) { // S5
		return refused(number, state.Load())
	}
	return nil
}

// elsewhere says why a claim cannot be finished in a ring where it was not made.
func elsewhere(number uint64) error {
	if number == 0 {
		return ErrClaimDone
	}
	return fmt.Errorf("claim %d: %w", number, ErrMoved)
}

// refused says why a claim cannot be finished in a slot whose state is this.
func refused(number, state uint64) error {
	if state == number<<2|moved {
		return fmt.Errorf("claim %d: %w", number, ErrMoved)
	}
	return fmt.Errorf("claim %d: %w", number, ErrClaimDone)
}
