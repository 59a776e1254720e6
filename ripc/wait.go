package ripc

import (
	"context"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/ripc/internal/pair"
	"github.com/squall-go/squall/ripc/internal/table"
)

// waiter is a goroutine that waits. The endpoint's mu guards it.
type waiter struct {
	bell wait.Bell // rung when what it waits for may be there, or the role of polling is its own
	seat table.Seat[*waiter]
	goal goal

	service *Service // goalMessage

	peer    *peer // goalRoom, goalAnswer
	channel int   // goalAnswer: on which the request was sent, 0 before
	route   *route
	asks    *waiter     // for the answer to the request that waits for space
	halts   func() bool // the stream does not write any more
	entry   pair.Entry[*waiter]

	frame    *pair.Frame // goalAnswer: the reply, the refusal, or nil
	err      error
	answered bool
	ordinal  uint32     // the messages of the channel when the request was sent
	into     []byte     // the return buffer
	reply    *receiving // the long reply that is on its way

	check func() bool // goalStream

	ctx  context.Context // that wakes the poller when it ends
	stop func() bool
}

// goal is what a waiter waits for.
type goal uint8

const (
	goalNone    goal = iota // nothing: it polls for others
	goalMessage             // a message of a service
	goalAnswer              // a reply, or the answer to the opening of a channel
	goalRoom                // room for a message
	goalNotice              // a notice
	goalStream              // something about a stream
)

func newWaiter() *waiter {
	w := &waiter{bell: wait.NewBell()}
	w.seat.Waiter = w
	return w
}

// reached reports whether what it waits for is there.
func (w *waiter) reached() bool {
	switch w.goal {
	case goalMessage:
		return w.service.queue.len() > 0 || w.service.closed
	case goalAnswer:
		return w.answered
	case goalRoom:
		return w.entry.Woken() || w.isHalted()
	case goalNotice:
		return len(w.service.notices.boards) > 0 || w.service.closed
	case goalStream:
		return w.check()
	}
	return false
}

// isHalted reports whether a frame that waits for buffer space has no place there any more.
func (w *waiter) isHalted() bool {
	return w.peer.ended() || w.route.isOver() || w.asks != nil && w.asks.answered || w.halts != nil && w.halts()
}

// sleep waits on the bell, until ctx ends.
func (w *waiter) sleep(ctx context.Context) {
	done := ctx.Done()
	if done == nil {
		<-w.bell
		return
	}
	select {
	case <-w.bell:
	case <-done:
	}
}

// hush takes a bell back that was rung for what the waiter found by itself.
func (w *waiter) hush() {
	select {
	case <-w.bell:
	default:
	}
}

// wakeOn has the parker woken when ctx ends. The registration of one context serves until another
// one comes: mostly it is the same again and again.
func (w *waiter) wakeOn(ctx context.Context, p *fabric.Parker) {
	if ctx.Done() == nil || w.ctx == ctx {
		return
	}
	if w.stop != nil {
		w.stop()
	}
	w.ctx, w.stop = ctx, context.AfterFunc(ctx, p.Wake)
}

// waiter is one for a goroutine that is about to wait, which gives it back. The caller holds the
// mu.
func (t *polling) waiter() *waiter {
	if last := len(t.spare) - 1; last >= 0 {
		w := t.spare[last]
		t.spare = t.spare[:last]
		return w
	}
	return newWaiter()
}

func (t *polling) giveBack(w *waiter) {
	if w.reply != nil {
		w.detach()
	}
	w.peer, w.route, w.service, w.frame, w.err, w.check, w.halts, w.into, w.asks = nil, nil, nil, nil, nil, nil, nil, nil, nil
	t.spare = append(t.spare, w)
}

// wait returns when the waiter has what it waits for, or ctx ends, or the endpoint is closed. The
// caller holds the mu.
func (t *polling) wait(ctx context.Context, w *waiter) (err error) {
	for {
		if w.reached() {
			break
		}
		if t.closed {
			err = ErrClosed
			break
		}
		if err = ctx.Err(); err != nil {
			err = context.Cause(ctx)
			break
		}
		if t.role.IsFree(&w.seat) {
			t.poll(ctx, w)
			continue
		}
		t.role.Join(&w.seat)
		t.unlock()
		w.sleep(ctx)
		t.lock()
		t.role.Leave(&w.seat)
		w.hush()
	}
	t.pass()
	return err
}

// pass gives the role of polling to a goroutine that waits, if nobody has it.
func (t *polling) pass() {
	next, care := t.role.Next()
	if next != nil {
		t.rouse(next.Waiter)
	}
	if care {
		t.care <- struct{}{} // has room: it is sent once for each time that the caretaker asks
	}
}

// rouse wakes a waiter: on its bell, or in the parker if it polls and sleeps.
func (t *polling) rouse(w *waiter) {
	switch t.role.Rouse(&w.seat) {
	case table.CallBell:
		w.bell.Ring()
		t.wakes++
	case table.CallParker:
		t.parker.Wake()
	}
}
