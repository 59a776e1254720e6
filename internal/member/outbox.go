package member

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/squall-go/squall/multicast"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/smc"
	"github.com/squall-go/squall/views"
)

// Errors of sending.
var (
	ErrWindowFull = errors.New("window full")
	ErrTooLarge   = errors.New("message too large")
	ErrNotSender  = errors.New("not a sender of this subgroup")
)

// Subgroup is a member's part in one subgroup: the core, which is the loop's, and the outbox, which is the application's.
type Subgroup struct {
	*Outbox
	core *multicast.Subgroup
}

func newSubgroup(m *Member, core *multicast.Subgroup) *Subgroup {
	s := &Subgroup{core: core, Outbox: &Outbox{sender: core.Sender, wake: m.cfg.Wake, room: make(chan struct{}, 1)}}
	s.Outbox.skip = func(n order.Index) { m.Call(func() { core.Skip(n) }) }
	return s
}

// Core is the protocol's side. Loop.
func (s *Subgroup) Core() *multicast.Subgroup { return s.core }

// Stats is what the subgroup did so far. Any goroutine.
func (s *Subgroup) Stats() *multicast.Stats { return &s.core.Stats }

func (s *Subgroup) step() int {
	work := s.core.Step()
	s.Outbox.callWaiting()
	return work
}

// Outbox is where an application puts messages. Its methods may be called from any goroutine, but for callWaiting.
type Outbox struct {
	sender *smc.Sender // nil: this member does not send
	wake   func()
	skip   func(order.Index)

	mu      sync.Mutex // of the sender's application side
	halted  error
	need    int           // bytes that some waiting goroutine needs
	waiting atomic.Int32  // goroutines in wait. W: them. R: loop, which does nothing about room while it is 0.
	room    chan struct{} // one waiting goroutine may try again; it passes the bell on
}

// MaxMessage is the largest message that a subgroup takes.
func MaxMessage(sg views.Subgroup) int { return smc.MaxMessage(sg.RingBytes) }

// TryClaim takes room for a message of n bytes, or fails with ErrWindowFull.
func (o *Outbox) TryClaim(n int) (smc.Claim, error) {
	if o.sender == nil {
		return smc.Claim{}, ErrNotSender
	}
	if limit := o.sender.MaxMessage(); n > limit || n < 0 {
		return smc.Claim{}, fmt.Errorf("%w: %d bytes, the ring takes %d", ErrTooLarge, n, limit)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.halted != nil {
		return smc.Claim{}, o.halted
	}
	c, ok := o.sender.Claim(n)
	if !ok {
		return smc.Claim{}, ErrWindowFull
	}
	return c, nil
}

// Claim is TryClaim that waits for room until ctx ends.
func (o *Outbox) Claim(ctx context.Context, n int) (smc.Claim, error) {
	c, err := o.TryClaim(n)
	if err != ErrWindowFull {
		return c, err
	}
	o.waiting.Add(1)
	defer o.waiting.Add(-1)
	for {
		// Announced before the last look: room that comes after it rings.
		o.mu.Lock()
		o.need = max(o.need, n)
		o.mu.Unlock()
		if c, err = o.TryClaim(n); err != ErrWindowFull {
			o.passOn()
			return c, err
		}
		o.wake()
		select {
		case <-o.room:
		case <-ctx.Done():
			o.passOn()
			return smc.Claim{}, context.Cause(ctx)
		}
	}
}

// passOn rings for the next waiting goroutine: this one may have used up a bell that was for all.
func (o *Outbox) passOn() {
	if o.waiting.Load() > 1 {
		o.ring()
	}
}

func (o *Outbox) ring() {
	select {
	case o.room <- struct{}{}:
	default: // rung already
	}
}

// Commit hands a filled claim to the loop.
func (o *Outbox) Commit(c smc.Claim) error {
	err := o.sender.Commit(c)
	o.wake()
	return err
}

// Abort gives a claim back.
func (o *Outbox) Abort(c smc.Claim) error {
	err := o.sender.Abort(c)
	o.wake()
	return err
}

// Skip declares n rounds of silence.
func (o *Outbox) Skip(n order.Index) error {
	if o.sender == nil {
		return ErrNotSender
	}
	o.skip(n)
	return nil
}

// callWaiting rings for a waiting goroutine when there is enough room. Loop.
func (o *Outbox) callWaiting() {
	if o.waiting.Load() == 0 {
		return
	}
	o.mu.Lock()
	roomy := o.sender.Roomy(o.need)
	if roomy {
		o.need = 0
	}
	o.mu.Unlock()
	if roomy {
		o.ring()
	}
}

// halt makes every send fail from now on.
func (o *Outbox) halt(reason error) {
	o.mu.Lock()
	o.halted = reason
	o.mu.Unlock()
	o.ring()
}

// Unfinished is the number of claims that the application has neither committed nor aborted, and Undelivered the number
// of messages that some member has not delivered yet.
func (o *Outbox) Unfinished() int {
	if o.sender == nil {
		return 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sender.Unfinished()
}

// Undelivered is the number of claims whose room is still in use.
func (o *Outbox) Undelivered() int {
	if o.sender == nil {
		return 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sender.InUse()
}
