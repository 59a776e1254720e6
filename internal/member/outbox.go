package member

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	s := &Subgroup{core: core, Outbox: &Outbox{member: m, sender: core.Sender}}
	return s
}

// Skip declares n rounds of silence. Any goroutine.
func (s *Subgroup) Skip(n order.Index) error {
	if s.sender == nil {
		return ErrNotSender
	}
	if err := s.member.Err(); err != nil {
		return err
	}
	s.member.Call(func() { s.core.Skip(n) })
	return nil
}

// Core is the protocol's side. Loop.
func (s *Subgroup) Core() *multicast.Subgroup { return s.core }

// Stats is what the subgroup did so far. Any goroutine.
func (s *Subgroup) Stats() *multicast.Stats { return &s.core.Stats }

func (s *Subgroup) exchange() int {
	if s.Outbox.member.stands() {
		return 0 // since this cycle began (B3)
	}
	return s.core.Exchange()
}

func (s *Subgroup) deliver() int {
	if s.Outbox.member.stands() {
		return 0
	}
	work := s.core.Deliver()
	s.Outbox.callWaiting()
	return work
}

// Outbox is where an application puts messages. Its methods may be called from any goroutine, but for callWaiting.
type Outbox struct {
	member *Member
	sender *smc.Sender // nil: this member does not send

	mu      sync.Mutex // of the sender's application side, and of what follows
	halted  error
	queue   []*waiter    // goroutines that wait for room, the first one first
	waiting atomic.Int32 // its length. W: under mu. R: loop, which does nothing about room while it is 0.
}

// waiter is a goroutine that waits for room for n bytes.
type waiter struct {
	n    int
	bell chan struct{} // it may try again
}

var waiters = sync.Pool{New: func() any { return &waiter{bell: make(chan struct{}, 1)} }}

func (w *waiter) ring() {
	select {
	case w.bell <- struct{}{}:
	default: // rung already
	}
}

// MaxMessage is the largest message that a subgroup takes.
func MaxMessage(sg views.Subgroup) int { return smc.MaxMessage(sg.RingBytes) }

// TryClaim takes room for a message of n bytes, or fails with ErrWindowFull if there is none, or others wait for it.
func (o *Outbox) TryClaim(n int) (smc.Claim, error) {
	if err := o.check(n); err != nil {
		return smc.Claim{}, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) > 0 {
		return smc.Claim{}, or(o.halted, ErrWindowFull)
	}
	return o.claim(n)
}

// check refuses what no waiting would help.
func (o *Outbox) check(n int) error {
	if o.sender == nil {
		return ErrNotSender
	}
	if limit := o.sender.MaxMessage(); n > limit || n < 0 {
		return fmt.Errorf("%w: %d bytes, the ring takes %d", ErrTooLarge, n, limit)
	}
	return nil
}

// claim needs mu.
func (o *Outbox) claim(n int) (smc.Claim, error) {
	if o.halted != nil {
		return smc.Claim{}, o.halted
	}
	c, ok := o.sender.Claim(n)
	if !ok {
		return smc.Claim{}, ErrWindowFull
	}
	return c, nil
}

func or(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// Claim is TryClaim that waits for room until ctx ends. Who waits first gets room first.
func (o *Outbox) Claim(ctx context.Context, n int) (smc.Claim, error) {
	c, err := o.TryClaim(n)
	if err != ErrWindowFull {
		return c, err
	}
	w := waiters.Get().(*waiter)
	defer waiters.Put(w)
	w.n = n
	o.join(w)
	defer o.leave(w)
	for {
		if c, err := o.claimAs(w); err != ErrWindowFull {
			return c, err
		}
		o.member.cfg.Wake() // the loop looks whether there is room, now that somebody waits
		select {
		case <-w.bell:
		case <-ctx.Done():
			return smc.Claim{}, context.Cause(ctx)
		}
	}
}

func (o *Outbox) join(w *waiter) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = append(o.queue, w)
	o.waiting.Store(int32(len(o.queue)))
}

// leave ends a wait; whoever is first now may try.
func (o *Outbox) leave(w *waiter) {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := slices.Index(o.queue, w)
	o.queue = slices.Delete(o.queue, i, i+1)
	o.waiting.Store(int32(len(o.queue)))
	select {
	case <-w.bell: // it goes back to the pool
	default:
	}
	if len(o.queue) > 0 {
		o.queue[0].ring()
	}
}

// claimAs claims for a waiter if it is its turn.
func (o *Outbox) claimAs(w *waiter) (smc.Claim, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.queue[0] != w {
		return smc.Claim{}, or(o.halted, ErrWindowFull)
	}
	return o.claim(w.n)
}

// Commit hands a filled claim to the loop. After a halt nobody will send it, and the reason is returned.
func (o *Outbox) Commit(c smc.Claim) error {
	if err := o.sender.Commit(c); err != nil {
		return err
	}
	o.member.cfg.Wake()
	return o.member.Err()
}

// Abort gives a claim back.
func (o *Outbox) Abort(c smc.Claim) error {
	err := o.sender.Abort(c)
	o.member.cfg.Wake()
	return err
}

// callWaiting rings for the first waiting goroutine when there is enough room. Loop.
func (o *Outbox) callWaiting() {
	if o.waiting.Load() == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) > 0 && o.sender.Roomy(o.queue[0].n) {
		o.queue[0].ring()
	}
}

// Close refuses claims from now on; those that were made before may be committed.
func (o *Outbox) Close() { o.halt(ErrClosed) }

// halt makes every claim fail from now on. The first reason stays.
func (o *Outbox) halt(reason error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.halted = or(o.halted, reason)
	for _, w := range o.queue {
		w.ring()
	}
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
