package member_test

import (
	"errors"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/journal"
	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// testLog is a log whose records are on disk when the test says so.
type testLog struct {
	records []journal.Record
	durable int
	global  order.Version
	full    bool
}

func (l *testLog) Append(r *journal.Record) bool {
	if l.full {
		return false
	}
	if n := len(l.records); n > 0 {
		r.Time = max(r.Time, l.records[n-1].Time+1)
	}
	l.records = append(l.records, *r)
	return true
}

func (l *testLog) Appended() uint64 { return uint64(len(l.records)) }

func (l *testLog) Durable() (uint64, order.Version) {
	if l.durable == 0 {
		return 0, order.Version{}
	}
	return uint64(l.durable), l.records[l.durable-1].Version
}

func (l *testLog) SetGlobal(v order.Version) { l.global = v }

// sync has everything that some members appended on their disks.
func (w *world) sync(places ...int) {
	for _, i := range places {
		w.logs[i].durable = len(w.logs[i].records)
	}
}

// everywhere checks how far all disks are, as a member knows.
func (w *world) everywhere(i int, want order.Version) {
	w.t.Helper()
	if got := w.recorders[i].Frontier.At(member.Everywhere); got != want {
		w.t.Errorf("node %d: every disk has what comes before %v, want %v", i+1, got, want)
	}
}

// B8: nulls hold nothing up, and a disk that lacks one message holds up what is behind it.
func TestWhatEveryDiskHasIsWhatTheSlowestOneHas(t *testing.T) {
	w := newWorldOf(t, views.Persistent, 3, 16)
	w.pass(heartbeat)
	for range 2 {
		if err := w.send(1); err != nil {
			t.Fatal(err)
		}
	}
	w.pass(heartbeat)
	for i := range 3 {
		if n := len(w.logs[i].records); n != 2 {
			t.Fatalf("node %d has %d records", i+1, n)
		}
		w.everywhere(i, order.Version{View: 1})
	}
	w.sync(0, 1)
	w.logs[2].durable = 1
	w.pass(heartbeat)
	first := w.logs[0].records[0].Version
	for i := range 3 {
		w.everywhere(i, order.Version{View: 1, Seq: first.Seq + 1})
	}
	w.sync(2)
	w.pass(heartbeat)
	last := w.logs[0].records[1].Version
	for i := range 3 {
		if at := w.recorders[i].Frontier.At(member.Everywhere); !last.Before(at) {
			t.Errorf("node %d: every disk has what comes before %v, and all have %v", i+1, at, last)
		}
		if w.logs[i].global.Before(last) {
			t.Errorf("node %d: its log knows of %v only", i+1, w.logs[i].global)
		}
	}
}

// B8: what an old view delivered is on every disk when all members of the new one say that they are
// whole.
func TestWhatAnOldViewDeliveredIsAwaitedInTheNewOne(t *testing.T) {
	w := newWorldOf(t, views.Persistent, 3, 16)
	w.pass(heartbeat)
	if err := w.send(0); err != nil {
		t.Fatal(err)
	}
	w.pass(heartbeat)
	w.sync(0)
	w.crash(2)
	w.pass(failAfter)
	w.agree(2, []order.NodeID{1, 2}, 0, 1)
	w.everywhere(0, order.Version{View: 1})
	w.sync(1)
	w.pass(heartbeat)
	for i := range 2 {
		if at := w.recorders[i].Frontier.At(member.Everywhere); at.View != 2 {
			t.Errorf("node %d: all remaining members have it, and every disk has what comes before %v", i+1, at)
		}
	}
}

// B8: what a receiver keeps to itself is on no disk, however little of it the log knows.
func TestWhatTheRecorderDidNotGetIsNotPersisted(t *testing.T) {
	w := newWorldLike(&world{mode: views.Persistent, swallow: 1}, t, 2, 16)
	w.pass(heartbeat)
	for k := range 3 {
		if err := w.send(0); err != nil {
			t.Fatal(err)
		}
		w.pass(heartbeat)
		w.sync(0)
		w.pass(heartbeat)
		if n := len(w.logs[0].records); n != k+1 || len(w.logs[1].records) != 0 {
			t.Fatalf("%d and %d records", n, len(w.logs[1].records))
		}
		w.everywhere(0, order.Version{View: 1})
	}
}

// B8: a log that lacks what others have does not count, however much of this view is at its end.
func TestTheEndOfAPartialLogIsNotPersisted(t *testing.T) {
	w := newWorldOf(t, views.Persistent, 2, 16)
	w.pass(heartbeat)
	w.recorders[1].Lacks(1)
	if err := w.send(0); err != nil {
		t.Fatal(err)
	}
	w.pass(heartbeat)
	w.sync(0, 1)
	w.pass(heartbeat)
	if n := len(w.logs[1].records); n != 1 {
		t.Fatalf("%d records", n)
	}
	if at := w.recorders[0].Frontier.At(member.Everywhere); at.View != 0 && at.Seq > 0 {
		t.Errorf("every disk has what comes before %v, and one log lacks something", at)
	}
}

func TestWhoWaitsForTheDisksOfASubgroupThatIsNotProvisionedHearsOfAHalt(t *testing.T) {
	w := newWorldOf(t, views.Persistent, 3, 16)
	w.pass(heartbeat)
	w.least = 3
	w.crash(2)
	w.pass(10 * failAfter) // the view before is over everywhere
	w.agree(2, []order.NodeID{1, 2}, 0, 1)
	ended := make(chan error)
	go func() { ended <- w.recorders[0].Frontier.Wait(t.Context(), member.Everywhere, order.Version{View: 1}) }()
	w.members[0].Halt(member.ErrClosed)
	select {
	case err := <-ended:
		if !errors.Is(err, member.ErrClosed) {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Error("it waits still")
	}
}

// B9: a member that joins has no clock behind a time that was settled, however wrong its own is.
func TestATimeThatIsSettledStaysSettled(t *testing.T) {
	w := newWorldOf(t, views.Persistent, 2, 16)
	for k := range order.Time(30) {
		w.clocks[0], w.clocks[1] = 1000+10*k, 1000+10*k+3
		w.pass(heartbeat / 5)
	}
	settled := w.recorders[0].Frontier.Settled()
	if settled < 1100 || settled > w.clocks[1] {
		t.Fatalf("clocks are at %d and %d, settled is %d", w.clocks[0], w.clocks[1], settled)
	}
	joiner := views.Member{ID: 3}
	w.members[0].Join([]views.Member{joiner})
	for range 20 {
		if w.pass(tick); w.members[0].View().ID == 2 {
			break
		}
	}
	v := w.members[0].View()
	if v.Time < settled {
		t.Fatalf("view 2 begins at %d, and %d was settled", v.Time, settled)
	}
	w.enter(v)
	w.clocks[2] = 5
	w.recorders[2].Lacks(2)
	w.pass(heartbeat)
	for i := range w.members {
		settled = max(settled, w.recorders[i].Frontier.Settled())
	}
	if err := w.send(2); err != nil {
		t.Fatal(err)
	}
	w.pass(heartbeat)
	last := w.logs[0].records
	if len(last) != 1 || last[0].Time <= settled {
		t.Errorf("after %d was settled came %v", settled, last)
	}
	if now := w.members[2].Now(); now < v.Time {
		t.Errorf("the joiner's clock is at %d, its view began at %d", now, v.Time)
	}
}

// A time is not settled while a sender that has not told it may still be about to send.
func TestATimeIsNotSettledWhileASenderIsSilent(t *testing.T) {
	w := newWorldOf(t, views.Persistent, 2, 16)
	w.clocks[0], w.clocks[1] = 100, 100
	w.pass(2 * heartbeat)
	before := w.recorders[0].Frontier.Settled()
	w.paused[1] = true
	w.clocks[0], w.clocks[1] = 200, 200
	w.pass(failAfter / 2)
	if got := w.recorders[0].Frontier.Settled(); got != before || before != 99 {
		t.Errorf("settled went from %d to %d, and node 2 told nothing", before, got)
	}
	w.paused[1] = false
	w.pass(2 * heartbeat)
	if got := w.recorders[0].Frontier.Settled(); got != 199 {
		t.Errorf("settled is %d", got)
	}
}

// B9: a clock that stands still, as one that was set back does, gives a time that it told to what
// it sends then.
func TestAClockThatStandsStillSendsNothingAtASettledTime(t *testing.T) {
	w := newWorldOf(t, views.Persistent, 2, 16)
	w.clocks[0], w.clocks[1] = 1000, 1000
	w.pass(3 * heartbeat)
	w.clocks[0], w.clocks[1] = 10, 10
	settled := w.recorders[0].Frontier.Settled()
	if err := w.send(1); err != nil {
		t.Fatal(err)
	}
	w.pass(heartbeat)
	if got := w.logs[0].records; settled == 0 || len(got) != 1 || got[0].Time <= settled {
		t.Errorf("after %d was settled came %v", settled, got)
	}
}

// B9: a member that sends nothing may begin the next view, and its clock may lag.
func TestATimeIsNotSettledBeforeTheClockOfWhoMayProposeTheNextView(t *testing.T) {
	w := newWorldOf(t, views.Persistent, 3, 16)
	w.members[0].Mute(1)
	w.pass(failAfter)
	w.agree(2, []order.NodeID{1, 2, 3}, 0, 1, 2)
	w.clocks[0], w.clocks[1], w.clocks[2] = 10, 1000, 1000
	w.pass(3 * heartbeat)
	settled := w.recorders[1].Frontier.Settled()
	w.members[0].Join([]views.Member{{ID: 4}})
	for range 20 {
		if w.pass(tick); w.members[0].View().ID == 3 {
			break
		}
	}
	w.enter(w.members[0].View())
	w.recorders[3].Lacks(3)
	w.pass(heartbeat)
	if err := w.send(3); err != nil {
		t.Fatal(err)
	}
	w.pass(heartbeat)
	if got := w.logs[1].records; len(got) != 1 || got[0].Time <= settled {
		t.Errorf("after %d was settled came %v", settled, got)
	}
}

// B9: the next view begins with a time that its proposer read when it proposed. A time that it told
// afterwards in this view would be later, and a member that settles up to that time would take a
// part of the order for complete to which the next view still adds.
func TestWhoProposedTellsNoTimeAnyMore(t *testing.T) {
	w := newWorldOf(t, views.Persistent, 3, 16)
	w.clocks[0] = 1000
	w.pass(3 * heartbeat)
	told := func() order.Time {
		return order.Time(*fabric.Word(w.members[0].Table().Row(0), fabric.LineBytes+8)) // behind the heartbeat
	}
	w.paused[1], w.paused[2] = true, true // they ack nothing
	w.members[0].Join([]views.Member{{ID: 4}})
	w.pass(tick)
	before, beats := told(), w.beats(0, 0)
	w.clocks[0] = 2000
	w.pass(3 * heartbeat)
	if got := told(); before != 1000 || got != before || w.beats(0, 0) == beats || w.members[0].Now() < 2000 {
		t.Errorf("it told %d before it proposed, and %d afterwards", before, got)
	}
}

// The others wait for a member's disk with the view wedged: one that does not answer takes its
// member out.
func TestAMemberWhoseDiskDoesNotTakeADecisionHalts(t *testing.T) {
	w := newWorldOf(t, views.Persistent, 3, 16)
	w.stuck = 1
	w.pass(heartbeat)
	w.members[0].Join([]views.Member{{ID: 4}})
	w.pass(failAfter / 2)
	if w.members[1].Err() != nil || w.members[0].View().ID != 1 {
		t.Fatalf("view %d, node 2: %v", w.members[0].View().ID, w.members[1].Err())
	}
	for range 20 { // a member that waits for a disk has nothing to do meanwhile
		w.pass(tick)
		for i, m := range w.members {
			if d := m.Deadline(w.now - tick); d == 0 {
				t.Fatalf("node %d does not sleep while the view is wedged", i+1)
			}
		}
	}
	w.members[0].Join(nil)
	w.pass(4 * failAfter)
	if err := w.members[1].Err(); !errors.Is(err, member.ErrDiskStuck) {
		t.Errorf("node 2: %v", err)
	}
}

// Deliveries that wait for disks come long after the ring has given the room of their messages to
// others.
func TestAFutureTellsTheVersionOfItsMessageHoweverLateItIsShown(t *testing.T) {
	const window, messages = 16, 40
	w := newWorldLike(&world{mode: views.Persistent, after: true}, t, 2, window)
	w.pass(heartbeat)
	var futures []*member.Future
	for range messages {
		c, err := w.outbox(0).TryClaim(1)
		if err != nil {
			w.pass(heartbeat)
			if c, err = w.outbox(0).TryClaim(1); err != nil {
				t.Fatal(err)
			}
		}
		f, err := w.outbox(0).CommitFuture(c)
		if err != nil {
			t.Fatal(err)
		}
		futures = append(futures, f)
	}
	w.pass(heartbeat)
	w.delivered(0, 0, 1)
	w.sync(0, 1)
	w.pass(heartbeat)
	w.delivered(messages, 0, 1)
	for k, f := range futures {
		select {
		case <-f.Done():
		default:
			t.Fatalf("message %d was shown, and its future waits", k)
		}
		if v, err := f.Wait(t.Context()); err != nil || v != w.logs[0].records[k].Version {
			t.Fatalf("message %d is version %v, its future says %v, %v", k, w.logs[0].records[k].Version, v, err)
		}
	}
}

// A view that is over stays until all messages sent in it are shown, however long the disks take:
// their senders wait for that.
func TestAFutureIsFulfilledHoweverLongAfterItsView(t *testing.T) {
	w := newWorldLike(&world{mode: views.Persistent, after: true}, t, 3, 16)
	w.pass(heartbeat)
	c, err := w.outbox(0).TryClaim(1)
	if err != nil {
		t.Fatal(err)
	}
	f, err := w.outbox(0).CommitFuture(c)
	if err != nil {
		t.Fatal(err)
	}
	w.pass(heartbeat)
	w.crash(2)
	w.pass(5 * failAfter) // the others are not waited for any longer
	w.agree(2, []order.NodeID{1, 2}, 0, 1)
	w.delivered(0, 0, 1)
	w.sync(0, 1)
	w.pass(2 * heartbeat)
	w.delivered(1, 0, 1)
	select {
	case <-f.Done():
	default:
		t.Fatal("the message was shown, and its future waits")
	}
	if v, err := f.Wait(t.Context()); err != nil || v != w.logs[0].records[0].Version {
		t.Errorf("version %v, %v", v, err)
	}
	if w.pass(heartbeat); w.retired == 0 {
		t.Error("no member needs the view that is over, and it stays")
	}
}

// A member that leaves does not learn what comes on the others' disks after its last view: it halts
// when that view is through, although futures of its own messages wait for these disks, and they
// end with the halt. What every disk has is shown first, if its application takes it.
func TestAMemberThatLeavesDoesNotWaitForDisksOfWhichItHearsNoMore(t *testing.T) {
	for _, when := range []struct{ synced, later bool }{{}, {later: true}, {synced: true}} {
		synced := when.synced
		w := newWorldLike(&world{mode: views.Persistent, after: true}, t, 4, 16)
		w.pass(heartbeat)
		w.apps[0].full = true
		c, err := w.outbox(0).TryClaim(1)
		if err != nil {
			t.Fatal(err)
		}
		f, err := w.outbox(0).CommitFuture(c)
		if err != nil {
			t.Fatal(err)
		}
		w.pass(heartbeat)
		if synced {
			w.sync(0, 1, 2, 3)
			w.pass(heartbeat)
		}
		next, nodes := order.ViewID(2), []order.NodeID{2, 3, 4}
		if when.later { // a view lies between the message and the leave
			w.crash(3)
			w.pass(failAfter)
			w.agree(2, []order.NodeID{1, 2, 3}, 0, 1, 2)
			next, nodes = 3, []order.NodeID{2, 3}
		}
		w.members[0].Leave()
		w.pass(10 * failAfter)
		w.agree(next, nodes, 1, 2)
		if synced {
			if err := w.members[0].Err(); err != nil {
				t.Fatalf("every disk has the message, its application did not take it, and the member halted: %v", err)
			}
			w.apps[0].full = false
			w.pass(heartbeat)
		}
		w.left(0)
		select {
		case <-f.Done():
		default:
			t.Fatal("the member is out of the group, and its future waits")
		}
		v, err := f.Wait(t.Context())
		if synced && (err != nil || v != w.logs[0].records[0].Version) || !synced && !errors.Is(err, member.ErrClosed) {
			t.Errorf("every disk has the message: %v, its future says %v, %v", synced, v, err)
		}
	}
}
