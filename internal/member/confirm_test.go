package member_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/viewchange"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// confirmation is one that a test asked for.
type confirmation struct {
	ended bool
	err   error
}

// confirm asks for one.
func (w *world) confirm(i int) *confirmation {
	c := &confirmation{}
	w.outbox(i).ConfirmFunc(func(err error) {
		if c.ended {
			w.t.Error("it ends twice")
		}
		c.ended, c.err = true, err
	})
	return c
}

// ended checks that a confirmation has ended with an error, or well.
func (w *world) ended(c *confirmation, err error, when string) {
	w.t.Helper()
	if !c.ended || !errors.Is(c.err, err) || err == nil && c.err != nil {
		w.t.Errorf("%s: ended %v, with %v; want %v", when, c.ended, c.err, err)
	}
}

func TestAConfirmationWaitsForWhatWasReceived(t *testing.T) {
	w := newWorld(t, 3, 16)
	w.pass(time.Second)
	w.apps[2].full = true
	if err := w.send(0); err != nil {
		t.Fatal(err)
	}
	w.pass(20 * tick)
	w.delivered(1, 0, 1)
	c := w.confirm(2)
	w.pass(20 * tick)
	if c.ended {
		t.Error("B11: it ended while the application lacked a message that others have")
	}
	w.apps[2].full = false
	w.pass(20 * tick)
	w.ended(c, nil, "after it was delivered")
	w.delivered(1, 2)
}

func TestConfirmationsWithoutAQuorumDoNotEnd(t *testing.T) {
	w := newWorld(t, 3, 16)
	w.pass(time.Second)
	first := w.confirm(1)
	w.pass(10 * tick)
	w.ended(first, nil, "with all members")
	w.paused[0], w.paused[2] = true, true
	c := w.confirm(1)
	w.pass(10 * tick)
	if c.ended {
		t.Errorf("one of three members confirms alone: %v", c.err)
	}
	w.paused[2] = false
	w.pass(10 * tick)
	w.ended(c, nil, "with two of three members")
}

func TestConfirmationsEndWithTheReasonOfTheHalt(t *testing.T) {
	w := newWorld(t, 3, 16)
	w.pass(time.Second)
	w.paused[0], w.paused[2] = true, true
	running := w.confirm(1)
	w.pass(tick)
	blocked := make(chan error)
	before := w.woken.Load()
	go func() { blocked <- w.outbox(1).Confirm(context.Background()) }()
	for w.woken.Load() == before {
		runtime.Gosched()
	}
	waiting := w.confirm(1)
	reason := errors.New("over")
	w.members[1].Halt(reason)
	w.ended(running, reason, "in a round")
	w.ended(waiting, reason, "before its round")
	if err := <-blocked; !errors.Is(err, reason) {
		t.Errorf("a goroutine that waits: %v", err)
	}
	w.ended(w.confirm(1), reason, "after the halt")
}

func TestAConfirmationGoesOnInTheNextView(t *testing.T) {
	w := newWorld(t, 3, 16)
	w.pass(time.Second)
	var c *confirmation
	w.onEvent = func(i int, e viewchange.Event) {
		if _, ok := e.(viewchange.Wedged); ok && i == 1 {
			c = w.confirm(1)
		}
	}
	w.crash(0)
	w.pass(2 * failAfter)
	w.agree(2, []order.NodeID{2, 3}, 1, 2)
	w.ended(c, nil, "in the next view")
}

func TestAConfirmationEndsWithItsContext(t *testing.T) {
	w := newWorld(t, 2, 16)
	w.pass(time.Second)
	w.paused[0] = true
	reason := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(reason)
	if err := w.outbox(1).Confirm(ctx); !errors.Is(err, reason) {
		t.Error(err)
	}
	w.paused[0] = false
	w.pass(20 * tick) // the loop meets the inquiry that was given up
	c := w.confirm(1)
	w.pass(20 * tick)
	w.ended(c, nil, "after one that was given up")
}

// In a subgroup whose deliveries wait for all disks, a confirmation does so for what this disk has.
func TestAConfirmationWaitsForWhatOtherApplicationsMayHaveSeen(t *testing.T) {
	w := newWorldLike(&world{mode: views.Persistent, after: true}, t, 2, 16)
	w.pass(time.Second)
	if err := w.send(0); err != nil {
		t.Fatal(err)
	}
	w.pass(50 * tick)
	w.delivered(0, 0, 1)
	w.ended(w.confirmed(1), nil, "what is on no disk was shown nowhere")
	w.sync(1)
	w.pass(50 * tick)
	c := w.confirm(1)
	w.pass(50 * tick)
	if c.ended {
		t.Error("B11: this disk has a message that another application may have seen, and this one has not")
	}
	w.sync(0)
	w.pass(50 * tick)
	w.ended(c, nil, "when it is on every disk")
	w.delivered(1, 0, 1)
}

// confirmed asks for a confirmation and lets some time pass.
func (w *world) confirmed(i int) *confirmation {
	c := w.confirm(i)
	w.pass(50 * tick)
	return c
}
