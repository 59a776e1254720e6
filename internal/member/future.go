package member

import (
	"cmp"
	"context"
	"slices"

	"github.com/squall-go/squall/internal/errs"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/smc"
)

// Future is the delivery of a message that was sent here. It survives views.
type Future struct {
	done     chan struct{}
	version  order.Version // written before done is closed, as are the next two
	frontier *Frontier     // of what keeps it; nil: nothing does
	err      error
}

// MakeFuture returns a future for CommitTo or Large.ResolveInto.
func MakeFuture() Future { return Future{done: make(chan struct{})} }

// Done is closed when the message was delivered here, or never will be as far as can be known.
func (f *Future) Done() <-chan struct{} { return f.done }

// Wait returns the message's place in the order once it was delivered to this process's
// application: then every member of that view that goes on delivers it. With ErrLeftShard the place
// is valid and the others deliver the message there, but this process left the shard before its own
// application, which waits for all disks, was given it. Any other error than the context's is the
// reason of a halt: others may have delivered the message, or not.
func (f *Future) Wait(ctx context.Context) (order.Version, error) {
	select {
	case <-f.done:
		return f.version, f.err
	case <-ctx.Done():
		return order.Version{}, context.Cause(ctx)
	}
}

// Persisted is Wait until the message has come further: to this member's disk, or to that of every
// member. It fails with ErrNotPersistent if the subgroup has no log.
func (f *Future) Persisted(ctx context.Context, s Stage) (order.Version, error) {
	v, err := f.Wait(ctx)
	if err != nil {
		return v, err
	}
	if f.frontier == nil {
		return v, ErrNotPersistent
	}
	return v, f.frontier.Wait(ctx, s, v)
}

// ErrNotPersistent says that a subgroup keeps nothing.
var ErrNotPersistent = errs.ErrNotPersistent

// ErrLeftShard says that this process is not in a shard any more, and so does not learn how far the
// disks of its members are.
var ErrLeftShard = errs.ErrLeftShard

func (f *Future) resolve(v order.Version, frontier *Frontier, err error) {
	f.version, f.frontier, f.err = v, frontier, err
	close(f.done)
}

// pendingFuture is a future of a claim that was not delivered yet.
type pendingFuture struct {
	claim  uint64
	future *Future
}

// delivering is a pending future whose message has its place in the order.
type delivering struct {
	seq    order.Seq
	future *Future
}

// CommitFuture is Commit, with something to wait on until the message is delivered.
func (o *Outbox) CommitFuture(c smc.Claim) (*Future, error) {
	f := MakeFuture()
	if err := o.CommitTo(c, &f); err != nil {
		return nil, err
	}
	return &f, nil
}

// CommitTo is CommitFuture with a future of the caller.
func (o *Outbox) CommitTo(c smc.Claim, f *Future) error {
	if err := o.addFuture(c.Number(), f); err != nil {
		return err
	}
	err := o.Commit(c)
	if err == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.keep(slices.DeleteFunc(o.pending, func(p pendingFuture) bool { return p.future == f }))
	return err
}

// addFuture adds a future, unless this member halted: the halt resolves all that are there.
func (o *Outbox) addFuture(claim uint64, f *Future) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.member.Err(); err != nil {
		return err
	}
	i, _ := slices.BinarySearchFunc(o.pending, claim, func(p pendingFuture, claim uint64) int { return cmp.Compare(p.claim, claim) })
	o.keep(slices.Insert(o.pending, i, pendingFuture{claim, f}))
	return nil
}

// keep needs mu.
func (o *Outbox) keep(pending []pendingFuture) {
	o.pending = pending
	o.awaited.Store(int32(len(pending)))
}

// resolveOwn tells the goroutines that wait for messages that a view delivered. Loop.
func (o *Outbox) resolveOwn(p *part) {
	core := p.core
	if o.awaited.Load() == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if core.Sender == nil || core.Sender != o.sender {
		return // of a view that is over: its part tells
	}
	o.resolve(func(f *Future, index order.Index) bool {
		if !core.Has(index) {
			return false
		}
		v := order.Version{View: p.view.ID, Seq: core.SeqOf(index)}
		if !p.recorder.shown(v) { // its room in the ring may be another message's by the time it is
			p.delivering = append(p.delivering, delivering{v.Seq, f})
			return true
		}
		f.resolve(v, p.recorder.frontier(), nil)
		return true
	})
}

// resolve hands out the first pending futures, with the indexes of their messages, until one is not
// published yet or was not taken. It needs mu.
func (o *Outbox) resolve(taken func(*Future, order.Index) bool) {
	pending := o.pending
	for len(pending) > 0 {
		index, ok := o.sender.Published(pending[0].claim)
		if !ok || !taken(pending[0].future, index) {
			break
		}
		pending = pending[1:]
	}
	o.keep(pending)
}

// failAll tells all goroutines that wait that they wait in vain. It needs mu.
func (o *Outbox) failAll(reason error) {
	for _, p := range o.pending {
		p.future.resolve(order.Version{}, nil, reason)
	}
	o.keep(nil)
}
