package member_test

import (
	"errors"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/member"
)

// Whoever is closed after it halted because another one left, leaves too: a peer that is slow enough to hear of both at once
// must not take one of them for a failure.
func TestAMemberThatIsClosedAfterItHaltedIsNoFailure(t *testing.T) {
	w := newWorld(t, 3, 16)
	w.pass(time.Second)
	w.paused[0] = true // it hears of nothing until both are gone
	w.members[2].Leave()
	w.paused[2] = true
	w.ways.Tables[2].Close()
	w.pass(5 * tick)
	reason := w.members[1].Err()
	if !errors.Is(reason, member.ErrMemberLeft) {
		t.Fatalf("rank 1: %v", reason)
	}
	w.members[1].Leave()
	w.paused[1] = true
	w.ways.Tables[1].Close()
	if err := w.members[1].Err(); err != reason {
		t.Errorf("rank 1 halted because of %v, and later of %v", reason, err)
	}
	w.paused[0] = false
	w.pass(5 * tick)
	if err := w.members[0].Err(); !errors.Is(err, member.ErrMemberLeft) || errors.Is(err, member.ErrMemberFailed) {
		t.Errorf("rank 0: %v", err)
	}
}
