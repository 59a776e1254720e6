package member_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

const (
	largest     = 10_000
	largeMemory = 25_000
)

// freight moves bodies in a test: every member has a body as soon as the test says so.
type freight struct {
	w     *world
	place int
	view  order.ViewID
	here  map[[2]uint64]*multicast.Body
	moves []*moving
	ended bool
}

// moving is a body on its way. It implements member.Transfer.
type moving struct {
	from   *freight
	id     uint64
	body   *multicast.Body
	filled int
	done   func(error)
	abort  error
}

func (m *moving) Fill(n int)      { m.filled = n }
func (m *moving) Abort(err error) { m.abort = err }

// arrive gives the body to every member.
func (m *moving) arrive() {
	for _, f := range m.from.w.freights {
		if f.view == m.from.view && !f.ended {
			f.w.taken++
			f.here[[2]uint64{uint64(m.from.place), m.id}] = multicast.NewBody(m.body.Data, "", func() { f.w.taken-- })
		}
	}
	m.done(nil)
}

func (f *freight) Take(sender order.SenderRank, id uint64) *multicast.Body {
	return f.here[[2]uint64{uint64(sender), id}]
}

func (f *freight) Send(id uint64, body *multicast.Body, filled int, done func(error)) member.Transfer {
	m := &moving{from: f, id: id, body: body, filled: filled, done: done}
	f.moves = append(f.moves, m)
	return m
}

func (f *freight) End()   { f.ended = true }
func (f *freight) Close() { f.ended = true }

// transfers makes an end of a member, whose sender rank in the first view is its place.
func (w *world) transfers(i int) func(*views.View, int) member.Transfers {
	return func(v *views.View, _ int) member.Transfers {
		f := &freight{w: w, place: i, view: v.ID, here: map[[2]uint64]*multicast.Body{}}
		w.freights = append(w.freights, f)
		return f
	}
}

// freight is a member's end in a view.
func (w *world) freight(i int, view order.ViewID) *freight {
	for _, f := range w.freights {
		if f.place == i && f.view == view {
			return f
		}
	}
	w.t.Fatalf("node %d has no part in view %d", i+1, view)
	return nil
}

func isPlaced(l *member.Large) bool {
	select {
	case <-l.Placed():
		return true
	default:
		return false
	}
}

func (w *world) large(i, size int) *member.Large {
	w.t.Helper()
	l, err := w.outbox(i).TryLarge(size)
	if err != nil {
		w.t.Fatal(err)
	}
	l.Fill(size)
	return l
}

func TestALargeMessageHoldsUpNobodyBeforeEverybodyHasIt(t *testing.T) {
	w := newWorld(t, 3, 16)
	first, second := w.large(0, largest), w.large(0, largest)
	for i := range 3 {
		w.send(i)
	}
	w.pass(time.Second)
	w.delivered(3, 0, 1, 2)
	moves := w.freight(0, 1).moves
	if moves[0].filled != largest || isPlaced(first) {
		t.Fatal("it has its place, or its body does not move")
	}
	moves[1].arrive()
	if w.pass(time.Second); isPlaced(second) {
		t.Error("one that was admitted later has its place first")
	}
	moves[0].arrive()
	w.pass(time.Second)
	w.delivered(5, 0, 1, 2)
	if !isPlaced(first) || !isPlaced(second) || first.Err() != nil || w.outbox(0).Undelivered() != 0 {
		t.Errorf("%v, %d undelivered", first.Err(), w.outbox(0).Undelivered())
	}
}

func TestLargeMemoryBoundsWhatIsUnderWay(t *testing.T) {
	w := newWorld(t, 2, 16)
	out := w.outbox(0)
	if _, err := out.TryLarge(largest + 1); !errors.Is(err, member.ErrTooLarge) {
		t.Error(err)
	}
	w.large(0, largest)
	given := w.large(0, largest)
	if _, err := out.TryLarge(largest); !errors.Is(err, member.ErrWindowFull) {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	waited := make(chan error, 1)
	go func() {
		_, err := out.Large(ctx, largest)
		waited <- err
	}()
	reason := errors.New("no more")
	given.Abort(reason)
	if w.pass(tick); out.LargeBytes() != 2*largest {
		t.Errorf("the room of a message that others have something of is free: %d bytes are taken", out.LargeBytes())
	}
	w.freight(0, 1).moves[1].done(reason)
	w.pass(tick)
	if err := <-waited; err != nil {
		t.Errorf("there is room again: %v", err)
	}
	w.freight(0, 1).moves[0].arrive()
	if w.pass(time.Second); w.outbox(0).Undelivered() != 1 {
		t.Errorf("%d undelivered", out.Undelivered())
	}
	w.large(0, largest) // in the room of the delivered message
	tired := errors.New("tired of waiting")
	gone, stop := context.WithCancelCause(t.Context())
	stop(tired)
	if _, err := out.Large(gone, largest); !errors.Is(err, tired) {
		t.Error(err)
	}
}

func TestALargeMessageThatIsGivenUpHoldsUpNoneBehindIt(t *testing.T) {
	w := newWorld(t, 2, 16)
	reason := errors.New("thought better of it")
	first := w.large(0, largest)
	future := first.Future()
	second := w.large(0, largest)
	moves := w.freight(0, 1).moves
	moves[1].arrive()
	w.pass(time.Second)
	first.Abort(reason)
	if !isPlaced(first) || !errors.Is(first.Err(), reason) || !errors.Is(moves[0].abort, reason) {
		t.Errorf("%v, its body goes on: %v", first.Err(), moves[0].abort)
	}
	if _, err := future.Wait(t.Context()); !errors.Is(err, reason) {
		t.Error(err)
	}
	w.pass(time.Second)
	w.delivered(1, 0, 1)
	if second.Abort(reason); second.Err() != nil {
		t.Error("what has its place is given up")
	}
	moves[0].arrive()
	w.pass(time.Second)
	w.delivered(1, 0, 1)
}

// What was given up counts until its body's passage in the view in force is over, whatever became
// of it in the one before.
func TestTheRoomOfWhatIsGivenUpIsFreeWhenItsPassageIsOver(t *testing.T) {
	w := newWorld(t, 3, 16)
	w.pass(time.Second)
	reason := errors.New("thought better of it")
	moved, everywhere := w.large(0, largest), w.large(0, largest)
	w.crash(2)
	w.pass(time.Second)
	w.agree(2, []order.NodeID{1, 2}, 0, 1)
	w.freight(0, 1).moves[0].done(reason) // the transfers of the view that ended fail
	if moved.Abort(reason); w.outbox(0).LargeBytes() != 2*largest {
		t.Error("free in the view that begins, where others have something of it")
	}
	w.pass(tick)
	moves := w.freight(0, 2).moves
	moves[1].done(nil) // and before the loop gives it its place
	everywhere.Abort(reason)
	if w.pass(tick); !errors.Is(everywhere.Err(), reason) || w.outbox(0).LargeBytes() != largest {
		t.Errorf("%v, %d bytes are taken", everywhere.Err(), w.outbox(0).LargeBytes())
	}
	moves[0].done(reason)
	if w.pass(tick); w.outbox(0).LargeBytes() != 0 {
		t.Errorf("%d bytes are taken", w.outbox(0).LargeBytes())
	}
}

func TestLargeMessagesMoveToTheMembersOfTheNextView(t *testing.T) {
	w := newWorld(t, 3, 16)
	w.pass(time.Second)
	moving := w.large(0, largest)
	placed := w.large(1, largest)
	future := moving.Future()
	open, _ := w.outbox(1).TryClaim(1) // nothing behind it is published
	w.freight(1, 1).moves[0].arrive()
	w.pass(tick)
	if !isPlaced(placed) {
		t.Fatal("it has no place")
	}
	w.send(1)
	w.crash(2)
	w.pass(time.Second)
	w.agree(2, []order.NodeID{1, 2}, 0, 1)
	w.delivered(0, 0, 1)
	if !w.freight(1, 1).ended || len(w.freight(1, 2).moves) != 1 || w.freight(1, 2).moves[0].filled != largest {
		t.Fatal("the body of what has its place does not move again")
	}
	w.outbox(1).Commit(open)
	w.pass(time.Second)
	w.delivered(1, 0, 1)
	w.freight(1, 2).moves[0].arrive()
	w.pass(time.Second)
	w.delivered(3, 0, 1)
	w.freight(0, 1).moves[0].done(nil) // of the view that is over: it says nothing
	if w.pass(time.Second); isPlaced(moving) {
		t.Fatal("the message has its place, and no member has its body")
	}
	w.freight(0, 2).moves[0].arrive()
	w.pass(time.Second)
	w.delivered(4, 0, 1)
	if v, err := future.Wait(t.Context()); err != nil || v.View != 2 {
		t.Errorf("delivered at %v: %v", v, err)
	}
	if !slices.ContainsFunc(w.freights, func(f *freight) bool { return f.view == 1 && f.ended }) {
		t.Error("the transfers of the view that is over go on")
	}
}

// A message that leaves the queue wakes the next one: the room may be enough for both.
func TestRoomForTwoLargeMessagesIsTakenByBothThatWait(t *testing.T) {
	w := newWorld(t, 2, 16)
	out := w.outbox(0)
	w.large(0, largest)
	w.large(0, largest)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan error, 2)
	wait := func(size, queued int) {
		go func() {
			_, err := out.Large(ctx, size)
			done <- err
		}()
		for out.LargeWaiters() < queued {
			runtime.Gosched()
		}
	}
	wait(largest, 1)
	wait(largeMemory-2*largest, 2)
	w.freight(0, 1).moves[0].arrive()
	w.pass(time.Second)
	for range 2 {
		if err := <-done; err != nil {
			t.Fatalf("%v; %d bytes are taken", err, out.LargeBytes())
		}
	}
}

func TestALargeMessageForWhichThereIsNoMemoryTakesNothing(t *testing.T) {
	w := newWorld(t, 2, 16)
	w.noRoom = errors.New("no memory")
	for range 5 {
		if _, err := w.outbox(0).TryLarge(largest); !errors.Is(err, w.noRoom) {
			t.Fatal(err)
		}
	}
	if n := w.outbox(0).LargeBytes(); n != 0 {
		t.Errorf("%d bytes are taken", n)
	}
}

// A log that has no room refuses a record again and again. Each time the log releases the body, and
// it holds the body once when it takes the record.
func TestALogThatRefusesALargeMessageKeepsNothingOfIt(t *testing.T) {
	w := newWorldOf(t, views.Persistent, 2, 16)
	w.pass(heartbeat)
	w.logs[1].full = true
	w.large(0, largest)
	w.freight(0, 1).moves[0].arrive()
	w.pass(time.Second)
	w.delivered(0, 1)
	w.logs[1].full = false
	w.pass(time.Second)
	w.delivered(1, 0, 1)
	for i, l := range w.logs {
		if len(l.records) != 1 {
			t.Fatalf("node %d recorded %d messages", i+1, len(l.records))
		}
		l.records[0].Release()
	}
	if w.taken != 0 {
		t.Errorf("%d bodies are held, and no member needs them", w.taken)
	}
}

func TestAHaltLetsGoOfAllBodies(t *testing.T) {
	w := newWorld(t, 2, 16)
	reason := errors.New("no more")
	placed := w.large(0, largest)
	w.freight(0, 1).moves[0].arrive()
	w.paused[1] = true // so that it is not delivered everywhere
	w.pass(tick)
	given := w.large(0, largest)
	given.Abort(reason)
	moving := w.large(0, largest/2)
	if !isPlaced(placed) || w.made-w.freed != 3 {
		t.Fatalf("placed %v, %d bodies were made and %d freed", isPlaced(placed), w.made, w.freed)
	}
	w.members[0].Halt(member.ErrClosed)
	if w.freed != 2 {
		t.Errorf("%d bodies are freed; one may still be filled", w.freed)
	}
	moving.Abort(reason)
	moving.Abort(reason)
	if w.freed != 3 || !errors.Is(moving.Err(), member.ErrClosed) {
		t.Errorf("%d of 3 bodies are freed; %v", w.freed, moving.Err())
	}
}

func TestLargeMessagesGetTheReasonOfTheHalt(t *testing.T) {
	w := newWorld(t, 2, 16)
	l := w.large(0, largest)
	future := l.Future()
	w.large(0, largest)
	waited := make(chan error, 1)
	go func() {
		_, err := w.outbox(0).Large(t.Context(), largest)
		waited <- err
	}()
	w.members[0].Halt(member.ErrClosed)
	if !isPlaced(l) || !errors.Is(l.Err(), member.ErrClosed) {
		t.Error(l.Err())
	}
	if _, err := future.Wait(t.Context()); !errors.Is(err, member.ErrClosed) {
		t.Error(err)
	}
	if err := <-waited; !errors.Is(err, member.ErrClosed) {
		t.Error(err)
	}
	if !w.freight(0, 1).ended {
		t.Error("its transfers go on")
	}
}
