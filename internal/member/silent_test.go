package member_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/internal/viewchange"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// leaveBehind has node 4 crash, and stops the world at the moment at which node 1 has installed the
// view without it and node 2, which is behind, has not.
func leaveBehind(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, 4, 16)
	w.pass(2 * failAfter)
	w.crash(3)
	for range 100 {
		for i := range 3 {
			w.members[i].Step(w.now)
			if i == 0 && w.members[0].View().ID == 2 {
				w.agree(1, []order.NodeID{1, 2, 3, 4}, 1)
				w.now += tick
				return w
			}
		}
		w.now += tick
	}
	t.Fatal("the next view does not come")
	return nil
}

// B2: a member that is stopped before its first heartbeat in a view is not waited for any longer
// than others.
func TestAMemberThatIsStoppedBeforeItsFirstHeartbeatFailsAfterFailAfter(t *testing.T) {
	w := leaveBehind(t)
	w.paused[1] = true
	w.pass(failAfter - 2*heartbeat)
	w.agree(2, []order.NodeID{1, 2, 3}, 0, 2)
	w.pass(4 * heartbeat)
	w.agree(3, []order.NodeID{1, 3}, 0, 2)
	if err := w.downs[0][1].Err; !errors.Is(err, member.ErrSilent) && !errors.Is(err, viewchange.ErrAccused) {
		t.Errorf("%v", err)
	}
}

func TestAJoinerThatIsStoppedBeforeItsFirstHeartbeatFailsAfterFailAfter(t *testing.T) {
	w := newWorld(t, 2, 16)
	w.pass(2 * failAfter)
	w.members[0].Join([]views.Member{{ID: 3}})
	w.pass(10 * tick)
	w.agree(2, []order.NodeID{1, 2, 3}, 0, 1)
	w.pass(failAfter - 10*tick - 2*heartbeat)
	w.agree(2, []order.NodeID{1, 2, 3}, 0, 1)
	w.pass(4 * heartbeat)
	w.agree(3, []order.NodeID{1, 2}, 0, 1)
}

// A member that still beats in the view before lives, and does not know yet that this view is
// decided. It is waited for, though not for ever.
func TestAMemberThatBeatsInTheViewBeforeIsWaitedFor(t *testing.T) {
	w := leaveBehind(t)
	w.paused[1] = true
	old, everybody := w.members[1].Table(), []order.Rank{0, 1, 2, 3}
	beat := func() {
		word := fabric.Word(old.Row(1), fabric.LineBytes)
		atomic.StoreUint64(word, *word+1)
		old.PushLine(everybody, fabric.LineBytes)
		old.Flush()
		w.pass(heartbeat)
	}
	for range 2*failAfter/heartbeat - 2 {
		beat()
		w.agree(2, []order.NodeID{1, 2, 3}, 0, 2)
	}
	for range 4 {
		beat()
	}
	w.agree(3, []order.NodeID{1, 3}, 0, 2)
}

// A member that refuses connections with all others does not tell them that it suspects them. They
// go on without it.
func TestAMemberThatRefusesAllOthersEndsAlone(t *testing.T) {
	w := newWorld(t, 3, 16)
	w.pass(10 * tick)
	for i := range 2 {
		w.members[i].Table().Fail(2, fmt.Errorf("dialing: %w", fabric.ErrGivenUp))
	}
	w.pass(failAfter - 2*heartbeat)
	w.agree(1, []order.NodeID{1, 2, 3}, 0, 1)
	w.pass(4 * heartbeat)
	w.agree(2, []order.NodeID{1, 2}, 0, 1)
	if w.members[2].Err() == nil {
		t.Error("the member that refused goes on")
	}
}

// A heartbeat that comes over a connection is noticed as it arrives, so a member does not wake up
// to look for it.
func TestAMemberToWhomNothingArrivesSleepsUntilItsNextHeartbeat(t *testing.T) {
	w := newWorld(t, 3, 16)
	w.pass(2 * failAfter)
	var longest time.Duration
	for range 3 * heartbeat / tick {
		w.pass(tick)
		longest = max(longest, w.members[0].Deadline(w.now))
	}
	if longest < heartbeat/2 {
		t.Errorf("it would sleep for %v at most, with a heartbeat each %v", longest, heartbeat)
	}
	w.paused[1], w.paused[2] = true, true
	w.pass(failAfter - 2*heartbeat)
	w.unchanged("before the others are silent for long")
}

// B2: on a slow link a heartbeat waits for the bytes in flight before it.
func TestAMemberWhoseBytesArriveIsNotSilent(t *testing.T) {
	w := newWorld(t, 3, 16)
	w.pass(2 * failAfter)
	w.paused[1] = true
	table, everybody := w.members[1].Table(), []order.Rank{0, 1, 2}
	bytes := len(table.Row(1)) - fabric.LineBytes
	for range 3 * failAfter / heartbeat {
		table.Push(everybody, bytes, fabric.LineBytes)
		table.Flush()
		w.pass(heartbeat)
		w.unchanged("while bytes arrive")
	}
	w.pass(failAfter - 2*heartbeat)
	w.unchanged("before FailAfter")
	w.pass(4 * heartbeat)
	w.agree(2, []order.NodeID{1, 3}, 0, 2)
}
