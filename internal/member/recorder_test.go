package member

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/journal"
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/order"
)

// memoryLog is a log with room for so many records, that are durable when the test says so.
type memoryLog struct {
	records []journal.Record
	room    int
	durable int
	global  order.Version

	onGlobal func(order.Version) // what SetGlobal calls; may be nil
}

func (l *memoryLog) Append(r *journal.Record) bool {
	if len(l.records)-l.durable >= l.room {
		return false
	}
	if n := len(l.records); n > 0 {
		r.Time = max(r.Time, l.records[n-1].Time+1)
	}
	l.records = append(l.records, *r)
	return true
}

func (l *memoryLog) Appended() uint64 { return uint64(len(l.records)) }

func (l *memoryLog) Durable() (uint64, order.Version) {
	if l.durable == 0 {
		return 0, order.Version{}
	}
	return uint64(l.durable), l.records[l.durable-1].Version
}

func (l *memoryLog) SetGlobal(v order.Version) {
	if l.global = v; l.onGlobal != nil {
		l.onGlobal(v)
	}
}

// taker is an application that takes so many messages at a time.
type taker struct {
	seen []string
	most int
}

func (a *taker) Deliver(run []multicast.Message) int {
	n := min(len(run), a.most)
	for _, m := range run[:n] {
		a.seen = append(a.seen, fmt.Sprintf("%s@%d", m.Data, m.Time))
	}
	return n
}

func (a *taker) MaxRun() int { return 0 }

func runOf(from, n int) (run []multicast.Message) {
	for k := range n {
		run = append(run, multicast.Message{Data: fmt.Append(nil, from+k), Sender: 1, View: 1, Seq: order.Seq(from + k), Time: 7})
	}
	return run
}

// B7.
func TestAMessageIsRecordedOnceHoweverOftenItIsOffered(t *testing.T) {
	l, a := &memoryLog{room: 3}, &taker{most: 2}
	var clock order.Time
	r := NewRecorder(RecorderConfig{Log: l, Receiver: a, Observe: func(t order.Time) { clock = t }})
	run := runOf(0, 5)
	for offers := 0; len(run) > 0; offers++ {
		if taken := r.Deliver(run); taken > 2 {
			t.Fatalf("the application takes 2 at a time, %d were taken", taken)
		} else {
			run = run[taken:]
		}
		if offers > 20 {
			t.Fatal("no end")
		}
		if at := (order.Version{View: 1, Seq: order.Seq(len(a.seen) - 1)}); r.Given() != at {
			t.Errorf("the application took everything up to %v, it is said to have taken what is up to %v", at, r.Given())
		}
		if len(l.records) == l.durable+l.room {
			l.durable = len(l.records)
		}
	}
	if want := "[0@7 1@8 2@9 3@10 4@11]"; fmt.Sprint(a.seen) != want || len(l.records) != 5 || clock != 11 {
		t.Errorf("%d records, the application saw %v at clock %d, want %s", len(l.records), a.seen, clock, want)
	}
	l.durable = 5
	if !r.drained(5, 1, 5) {
		t.Error("everything is on disk, and it is not drained")
	}
	if r.drained(5, 1, 6) || r.drained(5, 2, 1) {
		t.Error("the log did not take what was delivered last, and it is drained")
	}
	if r.Lacks(2); r.drained(5, 1, 5) {
		t.Error("the log lacks something, and counts as drained")
	}
}

// B7.
func TestWithAfterPersistTheApplicationSeesWhatEveryDiskHas(t *testing.T) {
	l, a := &memoryLog{room: 100}, &taker{most: 100}
	r := NewRecorder(RecorderConfig{Log: l, Receiver: a, AfterPersist: true, Memory: 4, Observe: func(order.Time) {}})
	run := runOf(0, 10)
	if taken := r.Deliver(run); taken != 4 {
		t.Fatalf("%d messages of one byte were taken, there is room for 4 bytes", taken)
	}
	for i := range run {
		run[i].Data[0] = 'x' // it was a copy
	}
	if r.global(order.Version{View: 1, Seq: 3}); fmt.Sprint(a.seen) != "[0@7 1@8 2@9]" {
		t.Fatalf("every disk has 3, the application saw %v", a.seen)
	}
	if at := r.Given(); at != (order.Version{View: 1, Seq: 2}) {
		t.Errorf("the application is said to have taken what is up to %v", at)
	}
	if at := r.Frontier.At(Shown); at != (order.Version{View: 1, Seq: 3}) || l.global != (order.Version{View: 1, Seq: 2}) {
		t.Errorf("shown up to %v, the log knows of %v", at, l.global)
	}
	if r.shown(order.Version{View: 1, Seq: 3}) || !r.shown(order.Version{View: 1, Seq: 2}) {
		t.Error("what was not shown counts as shown, or the other way round")
	}
	a.most = 0
	if r.global(order.Version{View: 1, Seq: 4}); r.Frontier.At(Shown) != (order.Version{View: 1, Seq: 3}) {
		t.Error("the application took nothing, and it counts as shown")
	}
	a.most = 1
	if r.global(order.Version{View: 2}); len(a.seen) != 4 {
		t.Errorf("the application saw %v", a.seen)
	}
	if r.close(errors.New("over")); r.Deliver(runOf(10, 1)) != 0 {
		t.Error("taken after the end")
	}
}

// What a member gets while its log is partial must not wait for disks: nothing is on all of them
// before that log is whole.
func TestAPartialLogIsMadeWholeHoweverLittleMayWaitForDisks(t *testing.T) {
	l, a := &memoryLog{room: 100}, &taker{most: 100}
	r := NewRecorder(RecorderConfig{Log: l, Receiver: a, AfterPersist: true, Memory: 4, Observe: func(order.Time) {}})
	r.Lacks(1)
	run := runOf(0, 10)
	for i := range run {
		if !r.Take(&run[i]) {
			t.Fatalf("message %d is not taken, and nothing will ever make room", i)
		}
	}
	if r.Deliver(runOf(10, 1)) != 0 {
		t.Error("the loop delivers more than may wait")
	}
	r.Whole()
	if r.global(order.Version{View: 2}); len(a.seen) != 10 || r.Deliver(runOf(10, 1)) != 1 {
		t.Errorf("every disk has 10, the application saw %v", a.seen)
	}
}

// B7.
func TestAShardThatAMemberComesBackToIsRecordedFromItsFirstMessage(t *testing.T) {
	l, a := &memoryLog{room: 100}, &taker{most: 2}
	r := NewRecorder(RecorderConfig{Log: l, Receiver: a, Observe: func(order.Time) {}})
	r.Deliver(runOf(0, 5)) // it goes to another shard meanwhile
	r.Lacks(2)
	r.Whole()
	run := runOf(5, 3)
	for len(run) > 0 {
		run = run[r.Deliver(run):]
	}
	if len(l.records) != 8 {
		t.Errorf("%d records of 8 messages", len(l.records))
	}
}

// A goroutine that waits for the end of what waits for disks must not wait for the application.
func TestUnshownDoesNotWaitForAnUpcall(t *testing.T) {
	l, a := &memoryLog{room: 100}, &slowTaker{entered: make(chan struct{}), release: make(chan struct{})}
	r := NewRecorder(RecorderConfig{Log: l, Receiver: a, AfterPersist: true, Memory: 100, Self: 1, Observe: func(order.Time) {}})
	r.Deliver(runOf(0, 3))
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.global(order.Version{View: 2})
	}()
	<-a.entered
	asked := make(chan int, 1)
	go func() { asked <- r.HeldBack() }()
	select {
	case n := <-asked:
		if n != 3 {
			t.Errorf("%d messages wait for disks while the callback of the first 3 runs", n)
		}
	case <-time.After(5 * time.Second):
		t.Error("HeldBack waits for the callback")
	}
	close(a.release)
	<-done
	if n := r.HeldBack(); n != 0 {
		t.Errorf("%d messages wait after all were shown", n)
	}
}

// slowTaker is an application whose upcall takes until it is released.
type slowTaker struct{ entered, release chan struct{} }

func (a *slowTaker) Deliver(run []multicast.Message) int {
	close(a.entered)
	<-a.release
	return len(run)
}

func (*slowTaker) MaxRun() int { return 0 }

// What a shard has delivered when this member leaves it is in its log, and the application sees no
// more of it, even if the member comes back. A goroutine that waits for disks there is told, and
// may wait again after that.
func TestWhoLeavesAShardSeesNoMoreOfIt(t *testing.T) {
	l, a := &memoryLog{room: 100}, &taker{most: 100}
	r := NewRecorder(RecorderConfig{Log: l, Receiver: a, AfterPersist: true, Memory: 2, Self: 1, Observe: func(order.Time) {}})
	r.Deliver(runOf(0, 2))
	told := make(chan error, 1)
	go func() { told <- r.Frontier.Wait(t.Context(), Everywhere, order.Version{View: 1}) }()
	for r.waits() == 0 {
		runtime.Gosched()
	}
	r.leave()
	if err := <-told; !errors.Is(err, ErrLeftShard) {
		t.Errorf("a wait for all disks ended with %v", err)
	}
	if err := r.Frontier.Settle(t.Context(), 1); !errors.Is(err, ErrLeftShard) {
		t.Errorf("a wait for a time ended with %v", err)
	}
	if n := r.Deliver(runOf(2, 4)); n != 4 || len(l.records) != 6 || r.HeldBack() != 0 {
		t.Errorf("%d of the last 4 messages were taken, %d records, %d messages wait for disks", n, len(l.records), r.HeldBack())
	}
	r.enter()
	if r.global(order.Version{View: 2}); len(a.seen) != 0 {
		t.Errorf("the application saw %v", a.seen)
	}
	if err := r.Frontier.Wait(t.Context(), Everywhere, order.Version{View: 1, Seq: 5}); err != nil {
		t.Error(err)
	}
}

// waits is how many wait for the frontier.
func (r *Recorder) waits() int {
	r.Frontier.mu.Lock()
	defer r.Frontier.mu.Unlock()
	return len(r.Frontier.waiters)
}

// What a partial log gets at its end would make a hole: the rest comes from others, should this
// member be in the shard again.
func TestAPartialLogKeepsNothingOfAShardThatWasLeft(t *testing.T) {
	l, a := &memoryLog{room: 100}, &taker{most: 100}
	r := NewRecorder(RecorderConfig{Log: l, Receiver: a, Observe: func(order.Time) {}})
	r.Lacks(1)
	if n := r.Keep(runOf(0, 3)); n != 3 || len(l.records) != 0 {
		t.Errorf("%d of 3 messages are over, and the partial log has %d of them", n, len(l.records))
	}
	r.Whole()
	if n := r.Keep(runOf(3, 3)); n != 3 || len(l.records) != 3 || len(a.seen) != 0 {
		t.Errorf("%d of 3 messages are over, the log has %d, the application saw %v", n, len(l.records), a.seen)
	}
}

// A member goes to another shard and comes back to the first one, as a member that lacks what was
// sent meanwhile, while messages of its last stay there are still to be recorded. Its log tells
// others where the history before the next view ended: it needs these messages, each once.
func TestWhatAStayLeftIsRecordedThoughTheMemberCameBack(t *testing.T) {
	for _, before := range []int{0, 3} { // messages that the log took before the member came back
		l, a := &memoryLog{room: before}, &taker{most: 1}
		r := NewRecorder(RecorderConfig{Log: l, Receiver: a, Observe: func(order.Time) {}})
		run := runOf(0, 6)
		run = run[r.Deliver(run):]
		if before > 0 {
			r.Suspend(1) // the application takes over the log meanwhile
		}
		r.Lacks(3)
		r.Suspend(3)
		for l.room = 1; len(run) > 0; l.durable = len(l.records) {
			run = run[r.Keep(run):]
		}
		for i, rec := range l.records {
			if rec.Version.Seq != order.Seq(i) {
				t.Errorf("record %d has version %v", i, rec.Version)
			}
		}
		if v := r.Last(); len(l.records) != 6 || v != (order.Version{View: 1, Seq: 5}) {
			t.Errorf("the log has %d records of 6, up to %v; %d were there before", len(l.records), v, before)
		}
		later := runOf(6, 2)
		for i := range later {
			later[i].View = 3
		}
		if n := r.Keep(later); n != 2 || len(l.records) != 6 {
			t.Errorf("%d of 2 messages of the view from which on the log lacks something are over, and it has %d records", n, len(l.records))
		}
	}
}

// This log is replaced by the log of another member, which lacks the last messages that were
// recorded here. A member that offers the state afterwards must not announce an end that no log
// has.
func TestARecordThatWasCutOffIsNotTheEndOfTheLog(t *testing.T) {
	l := &memoryLog{room: 10}
	r := NewRecorder(RecorderConfig{Log: l, Receiver: &taker{most: 10}, Observe: func(order.Time) {}})
	r.Deliver(runOf(0, 5))
	l.durable = len(l.records)
	r.Lacks(2)
	l.records, l.durable = l.records[:3], 3
	if v := r.Last(); v != l.records[2].Version {
		t.Errorf("the log ends with %v, not %v", v, l.records[2].Version)
	}
	r.Whole()
	if v := r.Given(); v != l.records[2].Version {
		t.Errorf("the application took everything up to %v, not %v", v, l.records[2].Version)
	}
	r.Deliver(runOf(5, 1))
	if v := r.Last(); v != l.records[3].Version || l.durable == len(l.records) {
		t.Errorf("the log ends with %v, of which the disk knows nothing, not %v", v, l.records[3].Version)
	}
}

// A member comes back to a shard while a backlog of its last stay there still goes to the log. The
// application takes these messages over with the log, and is not given them a second time.
func TestMessagesThatAnApplicationTakesOverWithTheLogAreNotShown(t *testing.T) {
	l, a := &memoryLog{room: 100}, &taker{most: 100}
	r := NewRecorder(RecorderConfig{Log: l, Receiver: a, AfterPersist: true, Memory: 100, Observe: func(order.Time) {}})
	r.Lacks(2)
	run := runOf(0, 5)
	for i := 3; i < 5; i++ {
		run[i].View = 2
	}
	for i := range run {
		if !r.Take(&run[i]) {
			t.Fatalf("message %d was not taken", i)
		}
	}
	r.Whole()
	r.show(order.Version{View: 3})
	if want := "[3@10 4@11]"; fmt.Sprint(a.seen) != want || len(l.records) != 5 {
		t.Errorf("the log has %d records, and the application saw %v, want %s", len(l.records), a.seen, want)
	}
}

// The disks of a view are waited for only when all that the view before left is recorded: there
// must be room for it.
func TestWhatAViewLeftIsTakenHoweverLittleMayWaitForDisks(t *testing.T) {
	l, a := &memoryLog{room: 100}, &taker{most: 100}
	r := NewRecorder(RecorderConfig{Log: l, Receiver: a, AfterPersist: true, Memory: 4, Observe: func(order.Time) {}})
	run := runOf(0, 10)
	taken := r.Deliver(run)
	r.end(1)
	if n := taken + r.Deliver(run[taken:]); taken != 4 || n != 10 || len(l.records) != 10 {
		t.Errorf("%d of 10 messages were taken, of these %d before their view had ended", n, taken)
	}
}

// A goroutine that waited until every disk has a version may take a snapshot of it at once.
func TestTheLogLearnsWhatEveryDiskHasBeforeAWaitForItEnds(t *testing.T) {
	l := &memoryLog{}
	r := NewRecorder(RecorderConfig{Log: l, Receiver: &taker{most: 1}, Observe: func(order.Time) {}})
	called := 0
	l.onGlobal = func(last order.Version) {
		called++
		if told := r.Frontier.At(Everywhere); last.Before(told) {
			t.Errorf("the log is told %v, and waits for what is before %v have ended", last, told)
		}
	}
	for _, v := range []order.Version{{View: 1, Seq: 4}, {View: 1, Seq: 4}, {View: 2}} {
		r.global(v)
		if told := r.Frontier.At(Everywhere); told != v {
			t.Errorf("every disk has what is before %v, and waits end for what is before %v", v, told)
		}
	}
	if called != 2 {
		t.Errorf("the log was told %d times, want 2", called)
	}
}

func TestAWaitForADiskEndsWhenItIsThereOrTheMemberHalts(t *testing.T) {
	var f Frontier
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	got := make(chan error, 2)
	go func() { got <- f.Wait(ctx, Everywhere, order.Version{View: 1, Seq: 4}) }()
	for f.waitersFor() == 0 {
		runtime.Gosched()
	}
	f.reach(Here, order.Version{View: 2})
	f.reach(Everywhere, order.Version{View: 1, Seq: 4})
	if f.waitersFor() != 1 {
		t.Fatal("versions before 4 are everywhere, and the wait for 4 is over")
	}
	if f.reach(Everywhere, order.Version{View: 1, Seq: 5}); <-got != nil {
		t.Error("it is everywhere")
	}
	go func() { got <- f.Settle(ctx, 10) }()
	for f.waitersFor() == 0 {
		runtime.Gosched()
	}
	f.settle(9)
	gone := errors.New("gone")
	if f.fail(gone); !errors.Is(<-got, gone) {
		t.Error("the member halted, and the reason did not come")
	}
	if err := f.Wait(ctx, Everywhere, order.Version{View: 1}); err != nil {
		t.Errorf("what was everywhere before the halt: %v", err)
	}
	ended, end := context.WithCancel(ctx)
	end()
	var g Frontier
	if err := g.Wait(ended, Here, order.Version{}); !errors.Is(err, context.Canceled) || g.waitersFor() != 0 {
		t.Errorf("%v, %d still wait", err, g.waitersFor())
	}
}

func (f *Frontier) waitersFor() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.waiters)
}

// While another goroutine makes the log whole, the loop asks whether it is drained: for the race
// detector.
func TestALogThatLacksSomethingIsNotDrainedWhileItIsMadeWhole(t *testing.T) {
	r := NewRecorder(RecorderConfig{Log: &memoryLog{room: 100}, Receiver: &taker{}, Observe: func(order.Time) {}})
	r.Lacks(1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, m := range runOf(0, 100) {
			r.Take(&m)
		}
	}()
	if r.drained(0, 1, 1) { // before anything tells that the other goroutine has ended
		t.Error("it is drained")
	}
	<-done
}
