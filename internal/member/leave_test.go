package member_test

import (
	"errors"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/internal/viewchange"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// left checks that members halted because they left.
func (w *world) left(places ...int) {
	w.t.Helper()
	for _, i := range places {
		if err := w.members[i].Err(); err != member.ErrClosed {
			w.t.Errorf("node %d, which left: %v", i+1, err)
		}
	}
}

// nobodyMissed checks that no member was taken for failed.
func (w *world) nobodyMissed() {
	w.t.Helper()
	for i, downs := range w.downs {
		if len(downs) > 0 {
			w.t.Errorf("node %d misses %v", i+1, downs)
		}
	}
}

func TestAMemberThatLeavesIsNoFailureAndItsMessagesAreDelivered(t *testing.T) {
	for leaver := range 3 { // the leader too
		w := newWorld(t, 3, 16)
		w.pass(time.Second)
		for range 10 {
			if err := w.send(leaver); err != nil {
				t.Fatal(err)
			}
		}
		w.pass(tick)
		w.members[leaver].Leave()
		w.pass(5 * tick)
		w.left(leaver)
		w.crash(leaver)
		w.pass(2 * failAfter)
		w.nobodyMissed()
		var nodes []order.NodeID
		var stay []int
		for i := range 3 {
			if i != leaver {
				nodes, stay = append(nodes, order.NodeID(i+1)), append(stay, i)
			}
		}
		w.agree(2, nodes, stay...)
		w.delivered(10, 0, 1, 2)
		if w.retired != 2 {
			t.Errorf("%d tables of a view that is over were given back, not 2", w.retired)
		}
	}
}

// All that leave in time for the same proposal go together; the last one ends the group. None of
// them looks like a failure, although each ends its connections as soon as it is out.
func TestAllLeaveAtOnce(t *testing.T) {
	w := newWorld(t, 5, 16)
	w.pass(time.Second)
	for _, m := range w.members {
		m.Leave()
	}
	for range 50 {
		w.pass(tick)
		for i, m := range w.members {
			if m.Err() != nil && !w.paused[i] {
				w.crash(i)
			}
		}
	}
	w.left(0, 1, 2, 3, 4)
	w.nobodyMissed()
}

func TestWhatASurvivorSentIsDeliveredOnceAcrossTheView(t *testing.T) {
	w := newWorld(t, 3, 16)
	w.pass(time.Second)
	sent := int64(0)
	for k := range 200 {
		for i := range 2 {
			if w.send(i) == nil {
				sent++
			}
		}
		if k == 100 {
			w.crash(2)
		}
		w.pass(tick)
	}
	w.pass(time.Second)
	w.agree(2, []order.NodeID{1, 2}, 0, 1)
	w.delivered(sent, 0, 1)
}

// A message that an ended view delivers is undelivered until this member's application has accepted
// it: a member that leaves waits for that.
func TestWhatIsLeftOfAViewIsUndeliveredUntilItsSenderHasIt(t *testing.T) {
	w := newWorld(t, 3, 16)
	w.pass(time.Second)
	w.apps[0].full = true
	for range 3 {
		if err := w.send(0); err != nil {
			t.Fatal(err)
		}
	}
	w.pass(tick)
	w.crash(2)
	w.pass(time.Second)
	w.agree(2, []order.NodeID{1, 2}, 0, 1)
	w.delivered(0, 0)
	w.delivered(3, 1)
	if n := w.outbox(0).Undelivered(); n != 3 {
		t.Errorf("%d messages are undelivered, not 3", n)
	}
	w.apps[0].full = false
	w.pass(tick)
	w.delivered(3, 0)
	if n := w.outbox(0).Undelivered(); n != 0 {
		t.Errorf("%d messages are undelivered, not 0", n)
	}
}

// A process that is ready comes in with the next view, behind the others.
func TestAJoinerBeginsWithTheViewThatHasIt(t *testing.T) {
	w := newWorld(t, 2, 16)
	w.pass(time.Second)
	for _, m := range w.members {
		m.Join([]views.Member{{ID: 3}})
	}
	for range 100 {
		if len(w.views[0]) > 0 && len(w.members) == 2 {
			w.enter(w.views[0][0])
		}
		w.pass(tick)
	}
	w.agree(2, []order.NodeID{1, 2, 3}, 0, 1, 2)
	for i := range 3 {
		if err := w.send(i); err != nil {
			t.Errorf("node %d: %v", i+1, err)
		}
	}
	w.pass(time.Second)
	w.delivered(3, 0, 1, 2)
	w.nobodyMissed()
}

// A reported member is removed, whichever it is, and a report about a node that is no member is
// ignored.
func TestAReportedMemberIsEvicted(t *testing.T) {
	w := newWorld(t, 3, 16)
	w.pass(time.Second)
	w.members[1].Report(9, member.ErrReported)
	w.pass(time.Second)
	w.unchanged("after a stranger was reported")
	w.members[1].Report(1, member.ErrReported)
	w.pass(5 * tick)
	w.agree(2, []order.NodeID{2, 3}, 1, 2)
	if err := w.members[0].Err(); !errors.Is(err, viewchange.ErrEvicted) {
		t.Errorf("the reported one: %v", err)
	}
	if len(w.downs[1]) != 1 || !errors.Is(w.downs[1][0].Err, member.ErrReported) {
		t.Errorf("%v", w.downs[1])
	}
}

func TestAMutedMemberIsNoSender(t *testing.T) {
	w := newWorld(t, 2, 16)
	w.pass(time.Second)
	w.members[1].Mute(1)
	w.pass(5 * tick)
	w.agree(2, []order.NodeID{1, 2}, 0, 1)
	if err := w.send(1); !errors.Is(err, member.ErrNotSender) {
		t.Errorf("a mute member: %v", err)
	}
	w.members[1].Mute(0)
	w.pass(5 * tick)
	w.agree(3, []order.NodeID{1, 2}, 0, 1)
	if err := w.send(1); err != nil {
		t.Errorf("no longer mute: %v", err)
	}
}

// What was claimed before is delivered first: only then the others hear that the member sends no
// more, for in the next view it cannot.
func TestAMutedMemberSendsFirstWhatItHasClaimed(t *testing.T) {
	w := newWorld(t, 2, 16)
	w.pass(time.Second)
	c, err := w.outbox(1).TryClaim(1)
	if err != nil {
		t.Fatal(err)
	}
	w.members[1].Mute(1)
	w.pass(time.Second)
	w.unchanged("with an open claim")
	if err := w.outbox(1).Commit(c); err != nil {
		t.Fatal(err)
	}
	w.pass(3 * time.Second) // until it is known that every member has it
	w.delivered(1, 0, 1)
	w.agree(2, []order.NodeID{1, 2}, 0, 1)
	if sg := w.members[0].View().Subgroups[0]; len(sg.Senders) != 1 {
		t.Errorf("senders are %v", sg.Senders)
	}
}

// A process that takes the place of one that failed is another member: what was held against that
// one does not count against it.
func TestANewProcessIsNotSuspectedForTheOneBefore(t *testing.T) {
	w := newWorld(t, 3, 16)
	w.pass(time.Second)
	w.members[0].Join([]views.Member{{ID: 3, Incarnation: 7}})
	w.crash(2)
	for range 100 {
		if w.pass(tick); w.members[0].View().ID > 1 {
			break
		}
	}
	w.agree(2, []order.NodeID{1, 2, 3}, 0)
	w.pass(10 * tick)
	w.agree(2, []order.NodeID{1, 2, 3}, 0, 1)
	if len(w.downs[0]) != 1 || w.downs[0][0].Member.Incarnation != 0 {
		t.Errorf("suspected: %v", w.downs[0])
	}
}
