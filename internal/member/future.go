package member

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/squall-go/squall/multicast"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/smc"
)

// Future is the delivery of a message that was sent here. It survives views.
type Future struct {
	done    chan struct{}
	version order.Version // written before done is closed, as is err
	err     error
}

func newFuture() *Future { return &Future{done: make(chan struct{})} }

// Done is closed when the message was delivered here, or never will be as far as can be known.
func (f *Future) Done() <-chan struct{} { return f.done }

// Wait returns the message's place in the order once it was delivered to this process's application: then every member of that view
// that goes on delivers it. An error other than the context's is the reason of a halt: others may have delivered the message, or
// not.
func (f *Future) Wait(ctx context.Context) (order.Version, error) {
	select {
	case <-f.done:
		return f.version, f.err
	case <-ctx.Done():
		return order.Version{}, context.Cause(ctx)
	}
}

func (f *Future) resolve(v order.Version, err error) {
	f.version, f.err = v, err
	close(f.done)
}

// promise is a future of a claim that was not delivered yet.
type promise struct {
	claim  uint64
	future *Future
}

// landing is a promise whose message has its place in the order.
type landing struct {
	seq    order.Seq
	future *Future
}

// promises are those of an outbox, in the order of their claims, under its mu.
type promises struct {
	list  []promise
	count atomic.Int32 // W: under mu. R: loop, which looks no further while it is 0.
}

func (p *promises) add(claim uint64, f *Future) {
	i, _ := slices.BinarySearchFunc(p.list, claim, func(have promise, claim uint64) int { return int(have.claim) - int(claim) })
	p.list = slices.Insert(p.list, i, promise{claim, f})
	p.count.Store(int32(len(p.list)))
}

func (p *promises) remove(f *Future) {
	p.list = slices.DeleteFunc(p.list, func(have promise) bool { return have.future == f })
	p.count.Store(int32(len(p.list)))
}

// take hands out the first promises, with the indexes of their messages, until one is not published yet or was not taken.
func (p *promises) take(s *smc.Sender, taken func(*Future, order.Index) bool) {
	for len(p.list) > 0 {
		index, ok := s.Published(p.list[0].claim)
		if !ok || !taken(p.list[0].future, index) {
			break
		}
		p.list = p.list[1:]
	}
	p.count.Store(int32(len(p.list)))
}

// fail tells all who wait that they wait in vain.
func (p *promises) fail(reason error) {
	for _, promise := range p.list {
		promise.future.resolve(order.Version{}, reason)
	}
	p.list = nil
	p.count.Store(0)
}

// CommitFuture is Commit, with something to wait on until the message is delivered.
func (o *Outbox) CommitFuture(c smc.Claim) (*Future, error) {
	f := newFuture()
	o.mu.Lock()
	if err := o.member.Err(); err != nil {
		o.mu.Unlock()
		return nil, err
	}
	o.promises.add(c.Number(), f)
	o.mu.Unlock()
	err := o.Commit(c)
	if err == nil {
		return f, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.promises.remove(f)
	return nil, err
}

// land tells those who wait for messages that a view delivered. Loop.
func (o *Outbox) land(core *multicast.Subgroup, view order.ViewID) {
	if o.promises.count.Load() == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if core.Sender == nil || core.Sender != o.sender {
		return // of a view that is over: its landings tell
	}
	o.promises.take(o.sender, func(f *Future, index order.Index) bool {
		seq := core.SeqOf(index)
		if !core.Has(index) {
			return false
		}
		f.resolve(order.Version{View: view, Seq: seq}, nil)
		return true
	})
}
