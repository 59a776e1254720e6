package member

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/internal/viewchange"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// inquiry is a wait until the application was given everything that any member had delivered when
// the wait began.
type inquiry struct {
	f       func(error) // is called at the end, on any goroutine; nil: a goroutine waits for over
	over    chan error
	decided atomic.Bool // over gets the result, or the goroutine has given up
}

var inquiries = sync.Pool{New: func() any { return &inquiry{over: make(chan error, 1)} }}

func (q *inquiry) end(err error) {
	switch {
	case q.f != nil:
		q.f(err)
	case q.decided.CompareAndSwap(false, true):
		q.over <- err
	default:
		q.free()
	}
}

func (q *inquiry) free() {
	q.decided.Store(false)
	inquiries.Put(q)
}

// await returns the result of an inquiry, or the context's reason.
func (q *inquiry) await(ctx context.Context) error {
	select {
	case err := <-q.over:
		q.free()
		return err
	case <-ctx.Done():
	}
	if q.decided.CompareAndSwap(false, true) {
		return context.Cause(ctx)
	}
	err := <-q.over
	q.free()
	return err
}

// inquirer has the inquiries about a declaration that no round serves yet.
type inquirer struct {
	mu     sync.Mutex
	queue  []*inquiry
	halted error // why there are no more
}

// direct is what confirms at once, on any goroutine, if a direct round does and the application has
// been given everything that was received.
type direct struct {
	round    *viewchange.DirectRound
	table    *fabric.Table
	received int          // the place of the word in the own row
	given    atomic.Int64 // the positions that lie before it were given to the application; -1: not all of the view before was
}

// direct makes it for a part. Where deliveries wait for all disks there is none.
func (p *part) direct(e *epoch) *direct {
	if p.sg.Mode == views.Unordered || p.recorder != nil && p.recorder.cfg.AfterPersist {
		return nil
	}
	d := &direct{round: e.rounds.Direct(), table: e.table.Table, received: p.core.ReceivedWord()}
	d.given.Store(-1)
	return d
}

// give notes what was delivered, if the application has been given it.
func (d *direct) give(p *part) {
	if delivered := int64(p.core.Delivered()); delivered != d.given.Load() && p.receiver.HasAll() {
		d.given.Store(delivered)
	}
}

// confirmed reports whether the application has been given everything that any application of the
// shard had been given when the call began, as far as that can be seen.
func (d *direct) confirmed() bool {
	received, there := d.table.Peek(d.table.Self(), d.received)
	if mutant.Enabled && mutant.On(mutant.PeeksUngiven) {
		received = 0
	}
	return there && d.given.Load() >= int64(received) && d.round.Confirmed()
}

// TryConfirm reports whether a direct round confirms at once.
func (o *Outbox) TryConfirm() bool {
	d := o.direct.Load()
	return d != nil && d.confirmed()
}

// Confirm returns when this member's application was given everything that the application of any
// member of its shard had been given when the call began. A view that ends meanwhile makes it take
// longer.
func (o *Outbox) Confirm(ctx context.Context) error {
	if o.TryConfirm() {
		return nil
	}
	q := inquiries.Get().(*inquiry)
	if err := o.inquire(q); err != nil {
		inquiries.Put(q)
		return err
	}
	return q.await(ctx)
}

// ConfirmFunc is like Confirm, and calls f in place of waiting: before it returns, on the loop, or
// on the goroutine that gives the application what is delivered.
func (o *Outbox) ConfirmFunc(f func(error)) {
	if o.TryConfirm() {
		f(nil)
		return
	}
	if err := o.inquire(&inquiry{f: f}); err != nil {
		f(err)
	}
}

func (o *Outbox) inquire(q *inquiry) error {
	o.inquirer.mu.Lock()
	defer o.inquirer.mu.Unlock()
	if err := o.inquirer.halted; err != nil {
		return err
	}
	o.inquirer.queue = append(o.inquirer.queue, q)
	if len(o.inquirer.queue) == 1 {
		o.member.confirms.asked.Store(true)
		o.member.cfg.Wake()
	}
	return nil
}

// take replaces a list, which is empty, by what is asked. Loop.
func (i *inquirer) take(list []*inquiry) []*inquiry {
	i.mu.Lock()
	defer i.mu.Unlock()
	taken := i.queue
	i.queue = list
	return taken
}

// confirms is what the loop knows of inquiries. The inquiries about one declaration form a batch,
// which goes through these stages: a confirmation round serves the batch → the round is confirmed,
// and the messages that were received as the round began are being delivered → the application is
// being given these messages.
type confirms struct {
	asked    atomic.Bool // an inquirer has a queue. Any goroutine.
	round    []*batch
	received []*batch
	giving   []*batch
	spare    []*batch
}

// batch is some inquiries about one declaration.
type batch struct {
	inquiries []*inquiry
	outbox    *Outbox
	part      *part     // in the view in which the round began
	behind    order.Seq // what any application was given there lies before it
	over      atomic.Bool
	given     func() // ends it; made once, so that no closure is for each batch
}

// end tells all goroutines that wait, once. Any goroutine.
func (b *batch) end(err error) {
	if !b.over.CompareAndSwap(false, true) {
		return
	}
	for i, q := range b.inquiries {
		q.end(err)
		b.inquiries[i] = nil
	}
}

// batch is an empty one.
func (c *confirms) batch() *batch {
	if n := len(c.spare); n > 0 {
		b := c.spare[n-1]
		c.spare = c.spare[:n-1]
		b.inquiries = b.inquiries[:0]
		b.over.Store(false)
		return b
	}
	b := &batch{}
	b.given = func() { b.end(nil) }
	return b
}

// confirm affirms the rounds of others, and brings the inquiries of this member further.
func (e *epoch) confirm() (work int) {
	c := &e.m.confirms
	work = e.rounds.Affirm()
	if mutant.Enabled && mutant.On(mutant.JoinsRound) && c.asked.Load() {
		work += e.beginRound()
	}
	if len(c.round) > 0 && e.rounds.Confirmed() {
		work += c.confirmed()
	}
	if c.asked.Load() && len(c.round) == 0 {
		work += e.beginRound()
	}
	if len(c.received) > 0 {
		work += c.give()
	}
	return work
}

// beginRound begins a round that serves all inquiries that wait.
func (e *epoch) beginRound() (work int) {
	c := &e.m.confirms
	under := len(c.round) > 0
	c.asked.Store(false)
	for _, o := range e.m.out {
		b := c.batch()
		b.outbox, b.inquiries = o, o.inquirer.take(b.inquiries)
		switch n := len(b.inquiries); {
		case n == 0:
			c.spare = append(c.spare, b)
		case !b.bind(e):
			b.end(unable(e.view, o.name))
			c.spare = append(c.spare, b)
			work += n
		default:
			c.round = append(c.round, b)
			work += n
		}
	}
	if len(c.round) > 0 && !under {
		work += e.serve()
	}
	return work
}

// serve begins a round for the batches that need one.
func (e *epoch) serve() int {
	e.rounds.Begin()
	if !e.rounds.Confirmed() {
		return 1
	}
	return e.m.confirms.confirmed()
}

// bind notes what has to be delivered in the view of an epoch before the batch ends. It reports
// false if this member is not in a shard of the declaration.
func (b *batch) bind(e *epoch) bool {
	i := slices.IndexFunc(e.mine, func(p *part) bool { return p.outbox == b.outbox })
	if i < 0 {
		return false
	}
	b.part = e.mine[i]
	b.behind = b.part.core.Received()
	if r := b.part.recorder; r != nil && r.cfg.AfterPersist { // no application was shown more than this disk has
		b.behind = b.part.core.Persisted()
	}
	if mutant.Enabled && mutant.On(mutant.ConfirmsUngiven) {
		b.behind = 0
	}
	return true
}

// confirmed goes on with the batches of a round that is confirmed.
func (c *confirms) confirmed() (work int) {
	work = len(c.round)
	c.received = append(c.received, c.round...)
	clear(c.round)
	c.round = c.round[:0]
	return work
}

// give ends the batches whose part has delivered what it had received, or will as soon as the
// application has been given it.
func (c *confirms) give() (work int) {
	rest := c.received[:0]
	for _, b := range c.received {
		switch {
		case !b.delivered():
			rest = append(rest, b)
			continue
		case b.part.receiver.Given(b.given):
			b.end(nil)
			b.part = nil
			c.spare = append(c.spare, b)
		default: // others may call given as long as they like, so that this one is not used again
			c.giving = slices.DeleteFunc(c.giving, func(b *batch) bool { return b.over.Load() })
			c.giving = append(c.giving, b)
		}
		work++
	}
	clear(c.received[len(rest):])
	c.received = rest
	return work
}

// delivered reports whether everything that had been received, and everything of the views before,
// is delivered here, and shown to the application where deliveries wait for all disks.
func (b *batch) delivered() bool {
	p := b.part
	return p.begun && (p.core.Delivered() >= b.behind || p.core.Finished()) &&
		p.recorder.showed(order.Version{View: p.view.ID, Seq: b.behind})
}

// showed reports whether the application was shown everything before a version, all of which was
// taken. One that still takes over what is in the log was not.
func (r *Recorder) showed(v order.Version) bool {
	return r == nil || !r.cfg.AfterPersist || !r.partial && (r.heldBack.empty() || !r.Frontier.At(Shown).Before(v))
}

// confirmAnew goes on with the inquiries as a view begins. A round that was not confirmed begins
// anew in it. This member may be in a shard no more.
func (e *epoch) confirmAnew() {
	c := &e.m.confirms
	left := func(b *batch) bool {
		was := b.part.sg
		if slices.ContainsFunc(e.mine, func(p *part) bool { return p.outbox == b.outbox && p.sg.Shard == was.Shard }) {
			return false
		}
		b.end(ErrLeftShard)
		return true
	}
	c.received = slices.DeleteFunc(c.received, left)
	c.giving = slices.DeleteFunc(c.giving, left)
	c.round = slices.DeleteFunc(c.round, func(b *batch) bool { return left(b) || !b.bind(e) })
	if len(c.round) > 0 {
		e.serve()
	}
}

// halted ends all inquiries, and each later one with the same error.
func (c *confirms) halted(out []*Outbox, reason error) {
	for _, o := range out {
		o.inquirer.mu.Lock()
		queue := o.inquirer.queue
		o.inquirer.queue, o.inquirer.halted = nil, reason
		o.inquirer.mu.Unlock()
		for _, q := range queue {
			q.end(reason)
		}
	}
	for _, b := range slices.Concat(c.round, c.received, c.giving) {
		b.end(reason)
	}
	c.round, c.received, c.giving = nil, nil, nil
}
