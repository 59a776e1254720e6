package member

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/squall-go/squall/internal/errs"
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/smc"
)

// Errors of sending.
var (
	ErrWindowFull = errors.New("window full")
	ErrTooLarge   = errs.ErrTooLarge
	ErrNotSender  = errors.New("not a sender of this subgroup")
	// ErrNotProvisioned says that too few members are there to make up the subgroup.
	ErrNotProvisioned = errors.New("the subgroup is not provisioned")
)

// Outbox is where an application puts messages for a subgroup, over all views. Its methods may be
// called from any goroutine, except the methods that are marked as the loop's.
//
// Life of a message: claimed (room in the ring of this view) → committed → published → delivered;
// or, if the view ends first, carried into the ring of the next one. A claim keeps its number, and
// may be filled and committed across views. While this member cannot send, what is left waits on a
// shelf, a ring that belongs to no view.
type Outbox struct {
	Stats  *multicast.Stats // by itself: the loop writes it all the time
	member *Member
	name   string
	// ahead is what was delivered here of messages that will be sent again, whichever shard this
	// member is in then. Loop.
	ahead     []multicast.Ahead
	last      *part                      // the last part that this member had, in whichever shard and view. Loop.
	delivered order.ViewID               // in which something was delivered last. Loop.
	ring      atomic.Pointer[smc.Sender] // sender, for a goroutine that claims, or finishes a claim, without mu
	_         [64]byte

	// W: under mu, when a goroutine begins or ends to wait. R: loop, in every step. Not beside what
	// every claim writes.
	waiting atomic.Int32 // length of queue
	awaited atomic.Int32 // number of pending futures
	_       [64]byte

	mu       sync.Mutex // of what follows and, unless open, of the sender's application side
	open     bool       // goroutines claim without mu
	left     wait.Bell  // the goroutine that was inside the ring when it was shut has left
	ringLeft func()
	halted   error
	why      error           // why nothing can be claimed now, or nil
	muted    bool            // the application does not want to send
	sender   *smc.Sender     // the ring of this view, or the shelf; nil: there never was one
	from     order.Index     // how much of it the view that ended delivered
	endedAt  order.ViewID    // that view
	ending   *part           // in that view, until its ring is another one
	rest     int             // claims that views which have ended deliver, and this member has not delivered yet
	origins  []order.ViewID  // the views in whose rings claims were open as they ended, while any is
	queue    []*waiter       // goroutines that wait for buffer space, the first one first
	queued   int             // bytes that they want
	pending  []pendingFuture // of claims that were not delivered yet, in their order
	larges   larges

	_        [64]byte
	inquirer inquirer
	direct   atomic.Pointer[direct] // of the view in force; nil: this member is in no shard there, or there are no direct rounds
}

// waiter is a goroutine that waits for buffer space for n bytes.
type waiter struct {
	n    int
	rung bool      // since it last found no space. Under mu
	bell wait.Bell // it may try again
}

// ring needs mu.
func (w *waiter) ring() {
	w.rung = true
	w.bell.Ring()
}

var waiters = sync.Pool{New: func() any { return &waiter{bell: wait.NewBell()} }}

// lock also keeps other goroutines from claiming. It is needed for what Shut guards, and for what
// unlock looks at.
func (o *Outbox) lock() {
	o.mu.Lock()
	if o.open {
		if o.open = false; o.sender.Shut(o.ringLeft) {
			<-o.left
		}
	}
}

// unlock lets goroutines claim without the lock again, but for what is reserved for goroutines that
// wait. A goroutine that sends many messages does not wait its turn for each while there is space
// for all; but before the first one is rung nobody else takes any, or there would never be enough
// for that (callWaiting).
func (o *Outbox) unlock() {
	if o.able() == nil && (len(o.queue) == 0 || o.queue[0].rung) {
		o.sender.Reserve(len(o.queue), o.queued)
		o.sender.Open()
		o.open = true
	}
	o.mu.Unlock()
}

// TryClaim takes space for a message of n bytes, or fails with ErrWindowFull if there is none
// besides what others wait for.
func (o *Outbox) TryClaim(n int) (c smc.Claim, err error) {
	if ring := o.ring.Load(); ring != nil {
		if c, ok := ring.TryClaim(n); ok {
			return c, nil
		}
	}
	o.lock()
	defer o.unlock()
	return o.claim(n, o.check(n, nil))
}

// TrySend sends a copy of data, or fails with ErrWindowFull like TryClaim. Its other errors are
// those of TryClaim and Commit.
func (o *Outbox) TrySend(data []byte) error {
	if ring := o.ring.Load(); ring != nil {
		if number, ok := ring.TrySend(data); ok {
			return o.sent(ring, number)
		}
	}
	_, err := o.sendBatch([][]byte{data})
	return err
}

// TrySendBatch sends copies of messages like TrySend, and returns how many: all, or those before
// the one that the error is about, or those up to the end of a share of the window.
func (o *Outbox) TrySendBatch(batch [][]byte) (n int, err error) {
	if ring := o.ring.Load(); ring != nil {
		if n, last := ring.TrySendBatch(batch); n > 0 {
			return n, o.sent(ring, last)
		}
	}
	return o.sendBatch(batch)
}

func (o *Outbox) sendBatch(batch [][]byte) (n int, err error) {
	last := uint64(0)
	o.lock()
	for n < len(batch) && (n == 0 || !o.sender.EndsShare(last)) {
		number := uint64(0)
		if err = o.check(len(batch[n]), nil); err == nil {
			number, err = o.send(batch[n])
		}
		if err != nil {
			break
		}
		last, n = number, n+1
	}
	o.unlock()
	if n > 0 {
		err = or(o.sent(o.ring.Load(), last), err)
	}
	return n, err
}

// check refuses a message that can never be sent, and one for which there is space only when the
// first goroutine that waits was rung. That goroutine may take what is reserved. It needs mu.
func (o *Outbox) check(n int, w *waiter) error {
	if err := o.able(); err != nil {
		return err
	}
	if limit := o.sender.MaxMessage(); n > limit || n < 0 {
		return fmt.Errorf("%w: %d bytes, the ring takes %d", ErrTooLarge, n, limit)
	}
	switch {
	case len(o.queue) == 0:
	case o.queue[0] == w:
		o.sender.Reserve(0, 0)
	case !o.queue[0].rung:
		return ErrWindowFull
	}
	return nil
}

// Able is why nothing can be sent now, or nil.
func (o *Outbox) Able() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.able()
}

// able needs mu.
func (o *Outbox) able() error {
	if err := or(o.halted, o.why); err != nil || !o.muted {
		return err
	}
	return ErrNotSender
}

// mute refuses claims, or takes them again. Loop.
func (o *Outbox) mute(on bool) {
	o.lock()
	defer o.unlock()
	o.muted = on
	o.ringAll()
}

// keeps reports whether the memory of a view that is over may still be written to: claims were open
// as it ended, and some are. Loop.
func (o *Outbox) keeps(view order.ViewID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sender != nil && o.sender.Foreign() > 0 && slices.Contains(o.origins, view)
}

// send needs mu.
func (o *Outbox) send(data []byte) (number uint64, err error) {
	number, ok := o.sender.Send(data, smc.Small)
	if !ok {
		return 0, ErrWindowFull
	}
	return number, nil
}

// claim claims, unless something is wrong with that. It needs mu.
func (o *Outbox) claim(n int, wrong error) (smc.Claim, error) {
	if wrong != nil {
		return smc.Claim{}, wrong
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

// Claim is like TryClaim, but waits for buffer space until ctx ends. Callers get space in the order
// in which they began to wait; what they do not need is for anyone, once the first one is woken.
func (o *Outbox) Claim(ctx context.Context, n int) (smc.Claim, error) { return o.wait(ctx, n, nil) }

// Send is like TrySend, but waits as Claim does.
func (o *Outbox) Send(ctx context.Context, data []byte) error {
	if data == nil {
		data = []byte{}
	}
	c, err := o.wait(ctx, len(data), data)
	if err != nil {
		return err
	}
	return o.sent(o.ring.Load(), c.Number())
}

// wait claims space for n bytes, or sends data unless it is nil, when there is space.
func (o *Outbox) wait(ctx context.Context, n int, data []byte) (smc.Claim, error) {
	w := waiters.Get().(*waiter)
	defer waiters.Put(w)
	w.n, w.rung = n, false
	o.join(w)
	defer o.leave(w)
	for {
		if c, err := o.claimAs(w, data); err != ErrWindowFull {
			return c, err
		}
		o.member.cfg.Wake() // the loop looks whether there is space, now that a goroutine waits
		select {
		case <-w.bell:
		case <-ctx.Done():
			return smc.Claim{}, context.Cause(ctx)
		}
	}
}

func (o *Outbox) join(w *waiter) {
	o.lock()
	defer o.unlock()
	o.queue = append(o.queue, w)
	o.queued += w.n
	o.waiting.Store(int32(len(o.queue)))
}

// leave ends a wait.
func (o *Outbox) leave(w *waiter) {
	o.lock()
	defer o.unlock()
	o.queue = leaveQueue(o.queue, w)
	o.queued -= w.n
	o.waiting.Store(int32(len(o.queue)))
}

// leaveQueue takes a waiter out of a queue; the waiter that is first then may try.
func leaveQueue(queue []*waiter, w *waiter) []*waiter {
	i := slices.Index(queue, w)
	queue = slices.Delete(queue, i, i+1)
	select {
	case <-w.bell: // it goes back to the pool
	default:
	}
	if len(queue) > 0 {
		queue[0].ring()
	}
	return queue
}

// claimAs claims for a waiter, or sends data, if it is its turn.
func (o *Outbox) claimAs(w *waiter, data []byte) (c smc.Claim, err error) {
	o.lock()
	defer o.unlock()
	if err = o.check(w.n, w); err != nil || data == nil {
		c, err = o.claim(w.n, err)
	} else {
		var number uint64
		number, err = o.send(data)
		c = smc.ClaimOf(number, nil)
	}
	w.rung = w.rung && err != ErrWindowFull
	return c, err
}

// Commit hands a filled claim to the loop. If this member has halted, Commit returns the reason:
// the message may have been sent before the halt, or not. It returns nil if every member is known
// to have delivered the message before the halt.
func (o *Outbox) Commit(c smc.Claim) error {
	err := o.ring.Load().Commit(c)
	if err != nil && errors.Is(err, smc.ErrMoved) {
		err = o.moved(c, (*smc.Sender).CommitMoved)
	}
	if err != nil {
		o.member.cfg.Wake()
		return err
	}
	return o.sent(o.ring.Load(), c.Number())
}

// sent wakes the loop for a message that was committed. It returns the reason if this member has
// halted.
func (o *Outbox) sent(ring *smc.Sender, claim uint64) error {
	o.member.cfg.Wake()
	if ring.EndsShare(claim) { // where the loop shares the processor with this goroutine, it publishes now
		runtime.Gosched()
	}
	if err := o.member.Err(); err != nil && !o.released(claim) {
		return err
	}
	return nil
}

// released reports whether the message of a committed claim was delivered everywhere.
func (o *Outbox) released(claim uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sender != nil && o.sender.Released(claim)
}

// Abort gives a claim back.
func (o *Outbox) Abort(c smc.Claim) error {
	err := o.ring.Load().Abort(c)
	if errors.Is(err, smc.ErrMoved) {
		err = o.moved(c, (*smc.Sender).AbortMoved)
	}
	o.member.cfg.Wake()
	return err
}

// moved finishes a claim whose ring is that of a view that is over.
func (o *Outbox) moved(c smc.Claim, finish func(*smc.Sender, smc.Claim) error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return finish(o.sender, c)
}

// callWaiting rings for the first waiting goroutine when there is enough room. Loop.
func (o *Outbox) callWaiting() {
	if o.waiting.Load() == 0 {
		return
	}
	o.lock()
	defer o.unlock()
	if len(o.queue) > 0 && (o.why != nil || o.sender.HasSpace(o.queue[0].n)) {
		o.queue[0].ring()
	}
}

// Close refuses claims from now on; earlier claims may still be committed.
func (o *Outbox) Close() { o.halt(ErrClosed) }

// halt makes every claim fail from now on. The first reason stays.
func (o *Outbox) halt(reason error) {
	o.lock()
	defer o.unlock()
	o.halted = or(o.halted, reason)
	o.ringAll()
}

// broken is a halt for good: what was not delivered will not be, as far as can be known here.
func (o *Outbox) broken(reason error) {
	o.halt(reason)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failAll(reason)
	o.failLarges(reason)
}

// ringAll makes every goroutine that waits try again. It needs mu.
func (o *Outbox) ringAll() {
	for _, w := range append(slices.Clone(o.queue), o.larges.queue...) {
		w.ring()
	}
}

// install makes the core of this member's part in a view, with what the view before did not
// deliver. Loop.
func (o *Outbox) install(cfg multicast.Config, transfers Transfers) *multicast.Subgroup {
	o.lock()
	defer o.unlock()
	if !(mutant.Enabled && mutant.On(mutant.NoCarry)) {
		cfg.Carry, cfg.Delivered = o.sender, o.from
	}
	core := multicast.New(cfg)
	if core.Sender == nil {
		o.shelve(ErrNotSender)
		return core
	}
	o.why = nil
	o.use(core.Sender)
	o.carryLarges(transfers)
	o.ringAll()
	return core
}

// use goes on with another ring, which took over what the one before had left. It needs mu.
func (o *Outbox) use(ring *smc.Sender) {
	switch open := ring.Foreign(); {
	case open == 0:
		o.origins = nil
	case open > o.sender.Foreign(): // not all of them are of older rings
		o.origins = append(o.origins, o.endedAt)
	}
	if o.ending != nil && !o.ending.finished() {
		o.ending.rest = o.sender.InUse() - ring.InUse()
		o.rest += o.ending.rest
	}
	o.sender, o.from, o.ending = ring, 0, nil
	o.ring.Store(ring)
}

// delivers notes that all that was left of a view is delivered here. Loop.
func (o *Outbox) delivers(p *part) {
	o.mu.Lock()
	o.rest -= p.rest
	o.mu.Unlock()
	p.rest = 0
}

// retire says that this member cannot send in the view that begins. Loop.
func (o *Outbox) retire(why error) {
	o.lock()
	defer o.unlock()
	o.shelve(why)
}

// shelve keeps what was accepted until this member can send again. It needs mu.
func (o *Outbox) shelve(why error) {
	o.why = why
	if o.sender != nil && o.sender.InUse() > 0 {
		shelf := smc.NewShelf(o.sender)
		shelf.Carry(o.sender, o.from)
		o.use(shelf)
	}
	o.carryLarges(nil)
	o.ringAll()
}

// ended notes how much of what this member sent the view that ends delivers. Loop.
func (o *Outbox) ended(p *part, from order.Index) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.from, o.endedAt, o.ending = from, p.view.ID, p
	o.resolve(func(f *Future, index order.Index) bool {
		if index < from {
			p.delivering = append(p.delivering, delivering{p.core.SeqOf(index), f})
		}
		return index < from
	})
}

// Unfinished is the number of claims that the application has neither committed nor aborted, and
// Undelivered the number of messages that some member has not delivered yet.
func (o *Outbox) Unfinished() int {
	o.lock()
	defer o.unlock()
	if o.sender == nil {
		return 0
	}
	return o.sender.Unfinished()
}

// Undelivered returns the number of claims whose room is still in use, plus the messages of ended
// views that this member has still to deliver, plus the large messages that have no place yet.
func (o *Outbox) Undelivered() int {
	o.lock()
	defer o.unlock()
	if o.sender == nil {
		return 0
	}
	return o.sender.InUse() + o.rest + len(o.larges.moving)
}
