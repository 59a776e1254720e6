package member_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/fabrictest"
	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/multicast"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

const (
	heartbeat = 100 * time.Millisecond
	failAfter = time.Second
	tick      = 10 * time.Millisecond
)

// drain is an application that counts what it is given.
type drain struct{ n atomic.Int64 }

func (d *drain) Deliver(run []multicast.Message) int {
	d.n.Add(int64(len(run)))
	return len(run)
}

func (d *drain) MaxRun() int { return 0 }

// world is members on memory, stepped in virtual time. Time is the world's; a member that is paused does not see it pass.
type world struct {
	t       *testing.T
	now     time.Duration
	ways    *fabrictest.Memory
	members []*member.Member
	apps    []*drain
	downs   [][]member.PeerDown
	paused  []bool
}

func newWorld(t *testing.T, n, window int) *world {
	t.Helper()
	w := &world{t: t, now: time.Millisecond, paused: make([]bool, n), downs: make([][]member.PeerDown, n)}
	var members []views.Member
	for r := range n {
		members = append(members, views.Member{ID: order.NodeID(r + 1)})
	}
	v, _, err := views.Place(views.Placement{ID: 1, Cluster: "test", Members: members, Declarations: []views.Declaration{{Name: "a", RingBytes: 4096, Window: window}}})
	if err != nil {
		t.Fatal(err)
	}
	layout, err := member.NewLayout(v)
	if err != nil {
		t.Fatal(err)
	}
	var shapes []fabric.RowShape
	for r := range n {
		shapes = append(shapes, layout.Shape(order.Rank(r)))
	}
	w.ways = fabrictest.NewMemory(shapes...)
	for r := range n {
		w.apps = append(w.apps, &drain{})
		m, err := member.New(member.Config{
			View: v, Self: order.Rank(r), Layout: layout, Table: w.ways.Tables[r], Receivers: []multicast.Receiver{w.apps[r]},
			Heartbeat: heartbeat, FailAfter: failAfter, Wake: func() {},
			PeerDown: func(p member.PeerDown) bool { w.downs[r] = append(w.downs[r], p); return true },
		})
		if err != nil {
			t.Fatal(err)
		}
		w.members = append(w.members, m)
	}
	return w
}

// pass lets time go by, with a step of every member that is not paused in each tick.
func (w *world) pass(d time.Duration) {
	for end := w.now + d; w.now < end; w.now += tick {
		for r, m := range w.members {
			if !w.paused[r] {
				m.Step(w.now)
			}
		}
	}
}

func (w *world) nobodyHalted(when string) {
	w.t.Helper()
	for r, m := range w.members {
		if err := m.Err(); err != nil {
			w.t.Fatalf("%s: rank %d halted: %v", when, r, err)
		}
	}
}

// B1
func TestTheHeartbeatGrowsAtItsRateAndNoFaster(t *testing.T) {
	w := newWorld(t, 2, 16)
	w.pass(5 * time.Second)
	off := fabric.LineBytes // the member line comes first behind the fabric's
	beats := w.members[0].Table().Line(0, off)[0]
	if beats < 48 || beats > 52 {
		t.Errorf("B1: %d beats in 5 s, of 100 ms", beats)
	}
	if seen := w.members[1].Table().Line(0, off)[0]; seen+1 < beats {
		t.Errorf("the peer saw %d of %d beats", seen, beats)
	}
	w.nobodyHalted("while all live")
}

// B2
func TestASilentPeerFailsAfterFailAfterAndNotBefore(t *testing.T) {
	w := newWorld(t, 3, 16)
	w.pass(3 * time.Second)
	w.paused[2] = true
	w.pass(failAfter - 2*heartbeat)
	w.nobodyHalted("before FailAfter")
	w.pass(4 * heartbeat)
	for r := range 2 {
		err := w.members[r].Err()
		if !errors.Is(err, member.ErrMemberFailed) || !errors.Is(err, member.ErrSilent) || errors.Is(err, member.ErrMemberLeft) {
			t.Errorf("B2: rank %d: %v", r, err)
		}
		if len(w.downs[r]) != 1 || w.downs[r][0].Rank != 2 || w.downs[r][0].Member.ID != 3 {
			t.Errorf("F5: rank %d was told %v", r, w.downs[r])
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
	w.nobodyHalted("though it beats now and then")
}

// A member that was stopped itself has not looked, and what it did not look at says nothing.
func TestAMemberThatSleptAccusesNobody(t *testing.T) {
	w := newWorld(t, 3, 16)
	w.pass(2 * time.Second)
	w.now += 10 * time.Second // the whole host stood still: everybody wakes
	w.pass(2 * time.Second)
	w.nobodyHalted("after the host slept")

	w = newWorld(t, 2, 16)
	w.pass(2 * time.Second)
	for r := range w.paused {
		w.paused[r] = true
	}
	w.pass(10 * time.Second)
	w.paused[0] = false // rank 0 wakes first; rank 1 has been as silent, but rank 0 has not watched it
	w.pass(failAfter - 3*heartbeat)
	w.nobodyHalted("before rank 0 has watched for FailAfter")
	w.paused[1] = false
	w.pass(2 * time.Second)
	w.nobodyHalted("after both woke")
}

func TestAMemberThatLeavesIsNoFailure(t *testing.T) {
	w := newWorld(t, 3, 16)
	w.pass(time.Second)
	w.members[2].Leave()
	w.paused[2] = true
	w.ways.Tables[2].Close()
	w.pass(time.Second)
	if !errors.Is(w.members[2].Err(), member.ErrClosed) {
		t.Errorf("the one who left: %v", w.members[2].Err())
	}
	for r := range 2 {
		if err := w.members[r].Err(); !errors.Is(err, member.ErrMemberLeft) || errors.Is(err, member.ErrMemberFailed) || !strings.Contains(err.Error(), "node 3") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

func TestAConnectionThatEndsIsAFailureWithItsReason(t *testing.T) {
	w := newWorld(t, 2, 16)
	w.pass(time.Second)
	w.paused[1] = true
	w.ways.Tables[1].Close()
	w.pass(5 * tick) // no heartbeat is waited for
	if err := w.members[0].Err(); !errors.Is(err, member.ErrMemberFailed) || !errors.Is(err, fabric.ErrPeerGone) {
		t.Errorf("%v", err)
	}
}

// B3
func TestAfterHaltingNothingIsDeliveredAndNoSendAccepted(t *testing.T) {
	w := newWorld(t, 2, 16)
	reason := errors.New("enough")
	part := w.members[0].Subgroup(0)
	send := func() error {
		c, err := part.TryClaim(1)
		if err != nil {
			return err
		}
		return part.Commit(c)
	}
	if err := send(); err != nil {
		t.Fatal(err)
	}
	w.pass(time.Second)
	before := w.apps[0].n.Load()
	if before != 1 {
		t.Fatalf("%d messages delivered", before)
	}
	c, err := w.members[1].Subgroup(0).TryClaim(1)
	if err != nil {
		t.Fatal(err)
	}
	w.members[1].Subgroup(0).Commit(c)
	w.members[0].Halt(reason)
	w.members[0].Halt(errors.New("again"))
	w.pass(failAfter / 2)
	if n := w.apps[0].n.Load(); n != before {
		t.Errorf("B3: %d messages delivered after halting", n-before)
	}
	if err := send(); !errors.Is(err, reason) || !errors.Is(w.members[0].Err(), reason) {
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
	part := w.members[0].Subgroup(0)
	c, err := part.TryClaim(1)
	if err != nil {
		t.Fatal(err)
	}
	part.Commit(c)
	w.members[0].Call(func() { w.members[0].Halt(errors.New("enough")) })
	w.pass(time.Second)
	if n := w.apps[0].n.Load(); n != 0 {
		t.Errorf("B3: %d messages delivered after halting", n)
	}
}

func TestSendersThatWaitGetTheReasonOfTheHalt(t *testing.T) {
	w := newWorld(t, 2, 16)
	part := w.members[0].Subgroup(0)
	fill(part)
	const waiting = 8
	reason := errors.New("enough")
	errs := make(chan error, waiting)
	for range waiting {
		go func() {
			_, err := part.Claim(context.Background(), 100)
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

func fill(part *member.Subgroup) (n int) {
	for {
		c, err := part.TryClaim(1)
		if err != nil {
			return n
		}
		part.Commit(c)
		n++
	}
}

func TestSendingHasItsErrors(t *testing.T) {
	w := newWorld(t, 2, 16)
	part := w.members[0].Subgroup(0)
	if _, err := part.TryClaim(2049); !errors.Is(err, member.ErrTooLarge) {
		t.Error(err)
	}
	if _, err := part.TryClaim(-1); err == nil {
		t.Error("a message of less than no bytes")
	}
	if n := fill(part); n != 16 {
		t.Errorf("a window of 16 takes %d", n)
	}
	if _, err := part.TryClaim(1); !errors.Is(err, member.ErrWindowFull) {
		t.Error(err)
	}
	cause := errors.New("tired of waiting")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	if _, err := part.Claim(ctx, 1); !errors.Is(err, cause) {
		t.Error(err)
	}
	if n := part.Undelivered(); n != 16 {
		t.Errorf("%d undelivered", n)
	}
	if w.pass(time.Second); part.Undelivered() != 0 {
		t.Errorf("%d undelivered after all is done", part.Undelivered())
	}
	if _, err := part.Claim(ctx, 1); err != nil {
		t.Errorf("there is room, and a context that ended is not asked: %v", err)
	}
}

// No room is lost: many goroutines of very different needs, some of which give up, all get through.
func TestManyGoroutinesThatWaitAllGetTheirTurn(t *testing.T) {
	w := newWorld(t, 2, 16)
	part := w.members[0].Subgroup(0)
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
				c, err := part.Claim(ctx, []int{0, 1, 100, 1000, 2048}[(g*k)%5])
				cancel()
				switch {
				case errors.Is(err, context.DeadlineExceeded):
				case err != nil:
					t.Errorf("claim: %v", err)
					return
				default:
					part.Commit(c)
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
			w.nobodyHalted("at the end")
			return
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("stuck: %d sent, %d in use", sent.Load(), part.Undelivered())
		}
	}
}
