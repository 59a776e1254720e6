package member_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/internal/viewchange"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/smc"
)

// B1
func TestTheHeartbeatGrowsAtItsRateAndNoFaster(t *testing.T) {
	w := newWorld(t, 2, 16)
	w.pass(5 * time.Second)
	beats := w.beats(0, 0)
	if beats < 48 || beats > 52 {
		t.Errorf("B1: %d beats in 5 s, of 100 ms", beats)
	}
	if seen := w.beats(1, 0); seen+1 < beats {
		t.Errorf("the peer saw %d of %d beats", seen, beats)
	}
	w.unchanged("while all live")
}

// B2
func TestASilentPeerFailsAfterFailAfterAndNotBefore(t *testing.T) {
	w := newWorld(t, 3, 16)
	w.pass(3 * time.Second)
	w.paused[2] = true
	w.pass(failAfter - 2*heartbeat)
	w.unchanged("before FailAfter")
	w.pass(4 * heartbeat)
	w.agree(2, []order.NodeID{1, 2}, 0, 1)
	for i := range 2 {
		if len(w.downs[i]) != 1 || w.downs[i][0].Rank != 2 || w.downs[i][0].Member.ID != 3 {
			t.Fatalf("F5: node %d was told %v", i+1, w.downs[i])
		}
		if err := w.downs[i][0].Err; !errors.Is(err, member.ErrSilent) && !errors.Is(err, viewchange.ErrAccused) {
			t.Errorf("B2: node %d: %v", i+1, err)
		}
	}
	w.paused[2] = false
	w.pass(tick)
	if err := w.members[2].Err(); !errors.Is(err, viewchange.ErrEvicted) || !strings.Contains(err.Error(), "this process did not run for") {
		t.Errorf("the silent member wakes, and halts with %v", err)
	}
}

// A member that stood still in a step with callbacks names them only if the process ran meanwhile,
// which its timers show.
func TestAMemberThatWasStoppedSaysThatTheProcessDidNotRun(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		w := newWorld(t, 3, 16)
		w.apps[2].each = func(multicast.Message) { w.paused[2] = true }
		if err := w.send(0); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			if w.pass(tick); w.paused[2] {
				break
			}
		}
		w.pass(3 * failAfter)
		if w.paused[2] = false; stopped {
			w.late = 3*failAfter - heartbeat
		}
		w.apps[2].each = nil
		w.pass(4 * tick)
		err := w.members[2].Err()
		if !errors.Is(err, viewchange.ErrEvicted) {
			t.Fatalf("stopped %v: %v", stopped, err)
		}
		for _, text := range []string{"this process did not run for 3", "longer than FailAfter (1s), so the others removed it"} {
			if strings.Contains(err.Error(), text) != stopped {
				t.Errorf("stopped %v: %v", stopped, err)
			}
		}
		if strings.Contains(err.Error(), `a callback of subgroup ["a"] blocked this member for 3`) == stopped {
			t.Errorf("stopped %v: %v", stopped, err)
		}
	}
}

func TestAPeerThatIsSlowButBeatsDoesNotFail(t *testing.T) {
	w := newWorld(t, 2, 16)
	for range 20 { // it is awake for one tick in each 700 ms
		w.paused[1] = true
		w.pass(700 * time.Millisecond)
		w.paused[1] = false
		w.pass(2 * tick)
	}
	w.unchanged("though it beats now and then")
}

// A member that was stopped itself has not looked, and what it did not look at says nothing.
func TestAMemberThatSleptAccusesNobody(t *testing.T) {
	w := newWorld(t, 3, 16)
	w.pass(2 * time.Second)
	w.now += 10 * time.Second // the whole host stood still: every member wakes
	w.pass(2 * time.Second)
	w.unchanged("after the host slept")

	w = newWorld(t, 2, 16)
	w.pass(2 * time.Second)
	for r := range w.paused {
		w.paused[r] = true
	}
	w.pass(10 * time.Second)
	w.paused[0] = false // rank 0 wakes first; rank 1 has been as silent, but rank 0 has not watched it
	w.pass(failAfter - 3*heartbeat)
	w.unchanged("before rank 0 has watched for FailAfter")
	w.paused[1] = false
	w.pass(2 * time.Second)
	w.unchanged("after both woke")

	w = newWorld(t, 2, 16)
	w.pass(2 * time.Second)
	w.paused[1] = true // of all the processes of a host that stands still most of the time, rank 1 is the last one to run
	for range failAfter / heartbeat / 2 {
		w.now += failAfter/2 - 2*heartbeat
		w.pass(tick)
	}
	w.unchanged("after the host stood still again and again")
	w.pass(failAfter)
	w.agree(2, []order.NodeID{1}, 0)
}

func TestAConnectionThatEndsIsAFailureWithItsReason(t *testing.T) {
	w := newWorld(t, 2, 16)
	w.pass(time.Second)
	w.crash(1)
	w.pass(5 * tick) // no heartbeat is waited for
	w.agree(2, []order.NodeID{1}, 0)
	if len(w.downs[0]) != 1 || !errors.Is(w.downs[0][0].Err, fabric.ErrPeerGone) {
		t.Errorf("%v", w.downs[0])
	}
}

// G5
func TestOfTwoTheJuniorOneHaltsWithoutTheSenior(t *testing.T) {
	w := newWorld(t, 2, 16)
	w.pass(time.Second)
	w.crash(0)
	w.pass(5 * tick)
	if err := w.members[1].Err(); !errors.Is(err, viewchange.ErrPartitioned) || !errors.Is(err, fabric.ErrPeerGone) || !strings.Contains(err.Error(), "node 1") {
		t.Errorf("%v", err)
	}
}

// B3
func TestAfterHaltingNothingIsDeliveredAndNoSendAccepted(t *testing.T) {
	w := newWorld(t, 2, 16)
	reason := errors.New("enough")
	if err := w.send(0); err != nil {
		t.Fatal(err)
	}
	w.pass(time.Second)
	before := w.apps[0].n.Load()
	if before != 1 {
		t.Fatalf("%d messages delivered", before)
	}
	if err := w.send(1); err != nil {
		t.Fatal(err)
	}
	w.members[0].Halt(reason)
	w.members[0].Halt(errors.New("again"))
	w.pass(failAfter / 2)
	if n := w.apps[0].n.Load(); n != before {
		t.Errorf("B3: %d messages delivered after halting", n-before)
	}
	if err := w.send(0); !errors.Is(err, reason) || !errors.Is(w.members[0].Err(), reason) {
		t.Errorf("B3: send says %v, Err %v; the first reason stays", err, w.members[0].Err())
	}
	called := false
	w.members[0].Call(func() { called = true })
	if w.pass(tick); !called {
		t.Error("a call on a halted member is never run")
	}
}

// B3 holds from the moment of halting, not from the next cycle on.
func TestNothingIsDeliveredInTheCycleThatHalts(t *testing.T) {
	w := newWorld(t, 1, 16)
	if err := w.send(0); err != nil {
		t.Fatal(err)
	}
	w.members[0].Call(func() { w.members[0].Halt(errors.New("enough")) })
	w.pass(time.Second)
	if n := w.apps[0].n.Load(); n != 0 {
		t.Errorf("B3: %d messages delivered after halting", n)
	}
}

func TestSendersThatWaitGetTheReasonOfTheHalt(t *testing.T) {
	w := newWorld(t, 2, 16)
	out := w.outbox(0)
	fill(out)
	const waiting = 8
	reason := errors.New("enough")
	errs := make(chan error, waiting)
	for range waiting {
		go func() {
			_, err := out.Claim(context.Background(), 100)
			errs <- err
		}()
	}
	for range 200 {
		runtime.Gosched()
	}
	w.members[0].Halt(reason)
	for range waiting {
		select {
		case err := <-errs:
			if !errors.Is(err, reason) {
				t.Errorf("B3: %v", err)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("B3: a waiting sender does not hear of the halt")
		}
	}
}

func fill(out *member.Outbox) (n int) {
	for {
		c, err := out.TryClaim(1)
		if err != nil {
			return n
		}
		out.Commit(c)
		n++
	}
}

func TestSendingHasItsErrors(t *testing.T) {
	w := newWorld(t, 2, 16)
	out := w.outbox(0)
	if _, err := out.TryClaim(2049); !errors.Is(err, member.ErrTooLarge) {
		t.Error(err)
	}
	if _, err := out.TryClaim(-1); err == nil {
		t.Error("a message of less than no bytes")
	}
	if n := fill(out); n != 16 {
		t.Errorf("a window of 16 takes %d", n)
	}
	if _, err := out.TryClaim(1); !errors.Is(err, member.ErrWindowFull) {
		t.Error(err)
	}
	cause := errors.New("tired of waiting")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	if _, err := out.Claim(ctx, 1); !errors.Is(err, cause) {
		t.Error(err)
	}
	if n := out.Undelivered(); n != 16 {
		t.Errorf("%d undelivered", n)
	}
	if w.pass(time.Second); out.Undelivered() != 0 {
		t.Errorf("%d undelivered after all is done", out.Undelivered())
	}
	if _, err := out.Claim(ctx, 1); err != nil {
		t.Errorf("there is room, and a context that ended is not asked: %v", err)
	}
}

// A caller that finds more space than those want that wait takes it, and leaves them theirs: a
// goroutine that sends many messages does not wait for a turn for each.
func TestSpaceThatNobodyWaitsForIsTaken(t *testing.T) {
	w := newWorld(t, 2, 16)
	out := w.outbox(0)
	fill(out)
	first, second := out.Queue(1), out.Queue(1)
	if _, err := out.TryClaim(1); !errors.Is(err, member.ErrWindowFull) {
		t.Errorf("in a full window: %v", err)
	}
	w.pass(time.Second)
	if n := fill(out); n != 14 {
		t.Errorf("%d of 16 claims for others than two that wait", n)
	}
	first()
	second()
	if n := fill(out); n != 2 {
		t.Errorf("%d claims when nobody waits any more", n)
	}
}

// A goroutine that waits is woken when much space is free. Until then nobody else takes any: there
// would never be much while others send all the time.
func TestNobodyTakesSpaceBeforeTheFirstThatWaitsIsWoken(t *testing.T) {
	w := newWorld(t, 2, 16)
	out := w.outbox(0)
	var claims []smc.Claim
	for range 16 {
		c, err := out.TryClaim(1)
		if err != nil {
			t.Fatal(err)
		}
		claims = append(claims, c)
	}
	for _, c := range claims[:2] {
		out.Commit(c)
	}
	w.pass(time.Second)
	w.paused[1] = true
	for _, c := range claims[2:] {
		out.Commit(c)
	}
	w.pass(tick)
	leave := out.Queue(1)
	if w.pass(tick); out.Undelivered() != 14 {
		t.Fatalf("%d undelivered", out.Undelivered())
	}
	if _, err := out.TryClaim(1); !errors.Is(err, member.ErrWindowFull) {
		t.Errorf("2 of 16 are free, and one that waits is not woken: %v", err)
	}
	w.paused[1] = false
	w.pass(failAfter / 2)
	if n := fill(out); n != 15 {
		t.Errorf("%d of 16 claims for others than one that waits and is woken", n)
	}
	leave()
}

// No room is lost: many goroutines of very different needs, some of which give up, all get through.
func TestManyGoroutinesThatWaitAllGetTheirTurn(t *testing.T) {
	w := newWorld(t, 2, 16)
	out := w.outbox(0)
	const goroutines = 12
	each := 300
	if testing.Short() {
		each = 60
	}
	var senders sync.WaitGroup
	var sent atomic.Int64
	for g := range goroutines {
		senders.Go(func() {
			for k := range each {
				ctx, cancel := context.Background(), context.CancelFunc(func() {})
				if (g+k)%7 == 0 {
					ctx, cancel = context.WithTimeout(ctx, time.Duration(k%5)*50*time.Microsecond)
				}
				c, err := out.Claim(ctx, []int{0, 1, 100, 1000, 2048}[(g*k)%5])
				cancel()
				switch {
				case errors.Is(err, context.DeadlineExceeded):
				case err != nil:
					t.Errorf("claim: %v", err)
					return
				default:
					out.Commit(c)
					sent.Add(1)
				}
			}
		})
	}
	finished := make(chan struct{})
	go func() { senders.Wait(); close(finished) }()
	for deadline := time.Now().Add(30 * time.Second); ; runtime.Gosched() {
		w.pass(tick)
		select {
		case <-finished:
			w.pass(time.Second)
			if n := w.apps[1].n.Load(); n != sent.Load() {
				t.Errorf("%d messages sent, %d delivered", sent.Load(), n)
			}
			w.unchanged("at the end")
			return
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("stuck: %d sent, %d in use", sent.Load(), out.Undelivered())
		}
	}
}

// When nothing but the connection of two members fails, both find the other one gone. One of them
// goes, and not both.
func TestOneBrokenConnectionCostsOneMember(t *testing.T) {
	for n := 3; n <= 6; n++ {
		for a := range n {
			for b := a + 1; b < n; b++ {
				w := newWorld(t, n, 16)
				w.pass(heartbeat)
				gone := fmt.Errorf("%w: drawn", fabric.ErrPeerGone)
				w.members[b].Table().Fail(order.Rank(a), gone)
				w.members[a].Table().Fail(order.Rank(b), gone)
				w.pass(5 * heartbeat)
				for i, m := range w.members {
					if err := m.Err(); i == b && !errors.Is(err, viewchange.ErrEvicted) || i != b && (err != nil || len(m.View().Members) != n-1) {
						t.Errorf("of %d, between %d and %d: member %d: %v, view %d of %d", n, a, b, i, err, m.View().ID, len(m.View().Members))
					}
				}
			}
		}
	}
}
