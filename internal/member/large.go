package member

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/order"
)

// Limits bound the messages of a declaration, in bytes.
type Limits struct {
	// MaxMessage is the largest message. One that is too large for a ring goes as a large message.
	MaxMessage int
	// LargeMemory is how much of large messages one sender may have under way; each member may have
	// to hold as much for each sender.
	LargeMemory int
}

// Transfers bring the bodies of large messages to the members of a subgroup, in one view, and
// receive the bodies that other members send.
type Transfers interface {
	multicast.Bodies
	// Send has a body brought to every member, of which the first so many bytes are there already.
	// done is called once, on any goroutine and perhaps before Send returns: with nil when every
	// member has all of it, and Take would find it there. Any goroutine.
	Send(id uint64, body *multicast.Body, filled int, done func(error)) Transfer
	// End says that the view is over here: nothing is sent or comes in any more, and what is half
	// here is freed. Loop.
	End()
	// Close ends it, and frees the messages that were not taken. Loop.
	Close()
}

// Transfer is a body on its way.
type Transfer interface {
	Fill(n int)         // so many bytes are there now
	Abort(reason error) // the message is given up
}

// Large is a large message that is to be sent. Its methods may be called from any goroutine.
//
// Life of one: admitted (LargeMemory has room for it) → filled, while it moves to the others →
// everywhere (every member of the view has it) → placed (its record has its place in the ring) →
// delivered → released (every member delivered it). If the view ends before the record is delivered
// everywhere, the body moves to the members of the next one, from the start.
type Large struct {
	outbox *Outbox
	id     uint64
	body   *multicast.Body

	// Under the outbox's mu.
	filled  int
	passage *passage // nil: this member cannot send now
	claim   uint64   // 0 before it is placed
	held    bool     // placed in a view before this one, and waits for the body to be everywhere
	future  *Future
	over    bool
	orphan  bool          // it failed with this member, and its application may still be filling the body
	err     error         // written before placed is closed
	placed  chan struct{} // closed when it has its place, or never will
}

// passage is a body's way to the members of one view.
type passage struct {
	Transfer
	end atomic.Uint32 // W: the goroutine that moves it, once. R: loop
}

// Ends of a passage; 0: it is on its way.
const (
	arrived = 1 // every member has all of it
	lost    = 2 // no member has anything of it
)

// larges are the large messages of an outbox. All but the first two are under its mu.
type larges struct {
	due  atomic.Bool // the loop has to look. W: →true any goroutine that changes something, →false loop
	next uint64      // the first claim that is to be released, or 0. Loop.

	limits    Limits
	bytes     int // of the messages that are admitted and not released
	ids       uint64
	moving    []*Large // messages without a place, in the order in which they were admitted
	placed    []*Large // messages with a place that are not released, in the order of their claims
	given     []*Large // messages that were given up, and of which others may have a part
	queue     []*waiter
	transfers Transfers // of the view in force; nil: this member cannot send
}

// TryLarge admits a large message, or fails with ErrWindowFull if too many bytes are under way. It
// moves to the others as it is filled.
func (o *Outbox) TryLarge(size int) (*Large, error) {
	if err := o.tryAdmit(size); err != nil {
		return nil, err
	}
	return o.begin(size)
}

func (o *Outbox) tryAdmit(size int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.larges.queue) > 0 && o.checkLarge(size) == nil {
		return ErrWindowFull
	}
	return o.admit(size)
}

// checkLarge refuses what no room would help. It needs mu.
func (o *Outbox) checkLarge(size int) error {
	if err := o.able(); err != nil {
		return err
	}
	if limit := o.larges.limits.MaxMessage; size > limit || size < 0 {
		if limit == 0 {
			return fmt.Errorf("%w: %d bytes, the ring takes %d, and MaxMessageBytes is not set", ErrTooLarge, size, o.sender.MaxMessage())
		}
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, size, limit)
	}
	return nil
}

// admit counts a message. It needs mu.
func (o *Outbox) admit(size int) error {
	if err := o.checkLarge(size); err != nil {
		return err
	}
	if o.larges.bytes+size > o.larges.limits.LargeMemory { // B6
		return ErrWindowFull
	}
	o.larges.bytes += size
	return nil
}

// begin makes the body of a message that was admitted, which takes the longer the larger it is, and
// only then the lock, for which the loop would wait.
func (o *Outbox) begin(size int) (*Large, error) {
	body, err := o.member.room(size)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		o.giveBack(size)
		return nil, err
	}
	l := &Large{outbox: o, body: body, placed: make(chan struct{})}
	if err := o.able(); err != nil {
		o.freeLarge(l)
		return nil, err
	}
	o.larges.ids++
	l.id = o.larges.ids
	o.larges.moving = append(o.larges.moving, l)
	o.move(l)
	return l, nil
}

// room makes the body of a message.
func (m *Member) room(size int) (*multicast.Body, error) {
	if m.cfg.Room != nil {
		return m.cfg.Room(size)
	}
	return multicast.NewBody(make([]byte, size), "", nil), nil
}

// Large is like TryLarge, but waits for buffer space until ctx ends. Callers get room in the order
// in which they began to wait.
func (o *Outbox) Large(ctx context.Context, size int) (*Large, error) {
	if err := o.awaitRoom(ctx, size); err != nil {
		return nil, err
	}
	return o.begin(size)
}

// awaitRoom admits a message, as soon as there is room.
func (o *Outbox) awaitRoom(ctx context.Context, size int) error {
	if err := o.tryAdmit(size); err != ErrWindowFull {
		return err
	}
	w := waiters.Get().(*waiter)
	defer waiters.Put(w)
	w.n = size
	o.queueLarge(w)
	defer o.unqueueLarge(w)
	for {
		if err := o.admitAs(w); err != ErrWindowFull {
			return err
		}
		select {
		case <-w.bell:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (o *Outbox) queueLarge(w *waiter) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.larges.queue = append(o.larges.queue, w)
}

func (o *Outbox) unqueueLarge(w *waiter) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.larges.queue = leaveQueue(o.larges.queue, w)
}

// admitAs admits for a waiter if it is its turn.
func (o *Outbox) admitAs(w *waiter) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.larges.queue[0] != w && o.checkLarge(w.n) == nil {
		return ErrWindowFull
	}
	return o.admit(w.n)
}

// move has a body brought to the members of the view in force. It needs mu.
func (o *Outbox) move(l *Large) {
	g := &o.larges
	before := l.passage
	l.passage = nil
	if g.transfers == nil {
		return
	}
	if mutant.Enabled && before != nil && mutant.On(mutant.OldBody) && before.end.Load() == arrived {
		l.passage = before
		return
	}
	p := &passage{}
	l.passage = p
	p.Transfer = g.transfers.Send(l.id, l.body, l.filled, func(err error) { // without a lock: the code that moves bodies may hold one
		end := uint32(arrived)
		if err != nil {
			end = lost
		}
		p.end.Store(end)
		o.look()
	})
}

// look has the loop look after large messages. Any goroutine.
func (o *Outbox) look() {
	o.larges.due.Store(true)
	o.member.cfg.Wake()
}

// Body is the message, to be filled from its start on.
func (l *Large) Body() []byte { return l.body.Data }

// Fill says that the first n bytes are there, and will not change.
func (l *Large) Fill(n int) {
	l.outbox.mu.Lock()
	defer l.outbox.mu.Unlock()
	l.filled = n
	if l.passage != nil && !l.over {
		l.passage.Fill(n)
	}
}

// Placed is closed when the message has its place behind what this process sent before, or never
// will: Err says why.
func (l *Large) Placed() <-chan struct{} { return l.placed }

// Err is why the message will not be sent, or nil. It is asked when Placed is closed.
func (l *Large) Err() error { return l.err }

// Future returns what to wait on until the message is delivered. It is asked for before the message
// is filled.
func (l *Large) Future() *Future {
	f := MakeFuture()
	l.ResolveInto(&f)
	return &f
}

// ResolveInto is Future with a future of the caller.
func (l *Large) ResolveInto(f *Future) {
	l.outbox.mu.Lock()
	defer l.outbox.mu.Unlock()
	l.future = f
	if l.over {
		f.resolve(order.Version{}, nil, l.err)
	}
}

// Abort gives the message up, unless it has its place already; then, and when it failed already,
// the application at least does not write to the body any more. Its room is free when its body's
// passage is over: then no member has anything of it, or the members that have all of it are told
// before they hear of any later message.
func (l *Large) Abort(reason error) {
	o := l.outbox
	o.mu.Lock()
	defer o.mu.Unlock()
	i := slices.Index(o.larges.moving, l)
	if i < 0 {
		if l.orphan {
			l.orphan = false
			l.body.Release()
		}
		return
	}
	o.larges.moving = slices.Delete(o.larges.moving, i, i+1)
	l.fail(reason)
	o.larges.given = append(o.larges.given, l)
	if l.passage != nil {
		l.passage.Abort(reason)
	}
	o.look() // the one behind it may be everywhere
}

// fail needs mu.
func (l *Large) fail(reason error) {
	l.over, l.err = true, reason
	close(l.placed)
	if l.future != nil {
		l.future.resolve(order.Version{}, nil, reason)
	}
}

// freeLarge gives back the room of a large message. It needs mu.
func (o *Outbox) freeLarge(l *Large) {
	l.body.Release()
	o.giveBack(len(l.body.Data))
}

// giveBack needs mu.
func (o *Outbox) giveBack(size int) {
	o.larges.bytes -= size
	if len(o.larges.queue) > 0 {
		o.larges.queue[0].ring()
	}
}

// advance gives places to large messages that are everywhere, and gives back the room of messages
// that every member delivered. Loop.
func (o *Outbox) advance(core *multicast.Subgroup) (work int) {
	g := &o.larges
	if !g.due.Load() && (g.next == 0 || !core.Sender.Released(g.next)) {
		return 0
	}
	o.lock()
	defer o.unlock()
	if core.Sender == nil || core.Sender != o.sender {
		return 0
	}
	g.due.Store(false)
	work = o.releaseLarges()
	for _, l := range g.placed {
		if l.held && g.here(l) {
			l.held = false
			core.Sender.Arrived(l.claim)
			work++
		}
	}
	for len(g.moving) > 0 && g.here(g.moving[0]) {
		if !o.place(core, g.moving[0]) { // B5
			g.due.Store(true) // the ring is full
			break
		}
		g.moving = g.moving[1:]
		work++
	}
	return work
}

// here reports whether every member of the view in force has a body.
func (g *larges) here(l *Large) bool {
	return l.passage != nil && l.passage.end.Load() == arrived || mutant.Enabled && mutant.On(mutant.EarlyPlace) && l.filled == len(l.body.Data)
}

// releaseLarges gives back the room of messages that every member delivered, or that were given up.
// It needs mu.
func (o *Outbox) releaseLarges() (work int) {
	g := &o.larges
	for len(g.placed) > 0 && o.sender.Released(g.placed[0].claim) {
		o.freeLarge(g.placed[0])
		g.placed = g.placed[1:]
		work++
	}
	g.next = 0
	if len(g.placed) > 0 {
		g.next = g.placed[0].claim
	}
	g.given = slices.DeleteFunc(g.given, func(l *Large) bool {
		over := l.passage == nil || l.passage.end.Load() != 0
		if over {
			o.freeLarge(l)
		}
		return over
	})
	return work
}

// place puts a message's record into the ring, if there is room. The record also takes what is
// reserved, which is far more than it needs, or it might wait without end. It needs mu.
func (o *Outbox) place(core *multicast.Subgroup, l *Large) bool {
	o.sender.Reserve(0, 0)
	claim, ok := core.Place(l.id, len(l.body.Data))
	if !ok {
		return false
	}
	g := &o.larges
	l.claim = claim
	g.placed = append(g.placed, l)
	g.next = g.placed[0].claim
	if l.future != nil {
		i, _ := slices.BinarySearchFunc(o.pending, l.claim, func(p pendingFuture, claim uint64) int { return cmp.Compare(p.claim, claim) })
		o.keep(slices.Insert(o.pending, i, pendingFuture{l.claim, l.future}))
	}
	l.over = true
	close(l.placed)
	return true
}

// carryLarges goes on with the large messages in the view that begins, or waits on the shelf if
// transfers is nil. The ring of that view is in use already. It needs mu.
func (o *Outbox) carryLarges(transfers Transfers) {
	g := &o.larges
	g.transfers = transfers
	if o.sender == nil {
		return
	}
	for _, l := range g.given { // no member has anything of the view before
		l.passage = nil
	}
	o.releaseLarges()
	for _, l := range g.placed {
		l.held = !(mutant.Enabled && mutant.On(mutant.NotHeld))
		o.move(l)
	}
	for _, l := range g.moving {
		o.move(l)
	}
}

// failLarges ends all large messages. It releases the bodies. A body without a place is released
// only when the application calls Abort, because the application may be filling it. It needs mu.
func (o *Outbox) failLarges(reason error) {
	g := &o.larges
	for _, l := range g.moving {
		l.fail(reason)
		l.orphan = true
	}
	for _, l := range slices.Concat(g.placed, g.given) {
		l.body.Release()
	}
	g.moving, g.placed, g.given, g.transfers = nil, nil, nil, nil
	for _, w := range g.queue {
		w.ring()
	}
}

// LargeBytes is how much of large messages is under way.
func (o *Outbox) LargeBytes() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.larges.bytes
}
