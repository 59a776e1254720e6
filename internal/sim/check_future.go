package sim

import (
	"context"
	"errors"

	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// futureChecker checks the other side of G3: an application that waits for the delivery of a
// message gets its position after it is delivered here, or an error if this member halted.
type futureChecker struct{ unconcerned }

func (futureChecker) name() string { return "future" }

func (futureChecker) taken(w *world, d *delivery) error {
	l := d.ledger()
	if l.proc != d.proc() || d.late() {
		return nil
	}
	for k := range l.futures {
		f := &l.futures[k]
		if v, err, told := f.look(); told && err == nil && f.number > d.number {
			return violated("future", "%v: message %d is said to be delivered at %v", d, f.number, v)
		}
	}
	return nil
}

// look returns what was told.
func (f *promised) look() (v order.Version, err error, told bool) {
	select {
	case <-f.future.Done():
		v, err = f.future.Wait(context.Background())
		return v, err, true
	default:
		return v, nil, false
	}
}

func (futureChecker) end(w *world) error {
	for _, p := range w.procs {
		for _, l := range p.ledgers {
			for k := range l.futures {
				if err := checkFuture(w, l, &l.futures[k]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func checkFuture(w *world, l *ledger, f *promised) error {
	p := l.proc
	own, name := p.flows[l], w.plan.Decls[l.decl].Name
	here := own != nil && own.next > f.number || p.waits(l.decl)
	due, place := here, l.claims[f.number].place
	// then the wait ends when every disk has the message, or when the member leaves the shard
	if w.after(l.decl) {
		c := &l.claims[f.number]
		here, place = c.shown || l.letGo(f.number) && p.takesOver(c.shard, c.recorded.View), c.recorded
		due = c.shown || l.letGo(f.number) && !p.awaits(c.shard)
	}
	v, err, told := f.look()
	w.sometimes(FutureKept, told && err == nil)
	w.sometimes(FutureBroken, told && err != nil)
	switch {
	case !told && p.told:
		return violated("future", "node %d: %q: message %d: its future is open, and the member halted", p.self.ID, name, f.number)
	case !told && due && !p.over:
		return violated("future", "node %d: %q: message %d was delivered, and its future is open", p.self.ID, name, f.number)
	case told && errors.Is(err, member.ErrLeftShard):
		w.probes[TailForgone]++
		return checkLeft(l, f, v, err)
	case told && err != nil && !p.told && p.member.Err() == nil:
		// it may end within the step in which it halts
		return violated("future", "node %d: %q: message %d: %v, and the member did not halt", p.self.ID, name, f.number, err)
	case told && err == nil && !here:
		return violated("future", "node %d: %q: message %d is said to be delivered at %v, and was not", p.self.ID, name, f.number, v)
	case told && err == nil && w.plan.Decls[l.decl].Mode != views.Unordered && !p.waits(l.decl) && v != place:
		return violated("future", "node %d: %q: message %d is said to be delivered at %v, and was at %v", p.self.ID, name, f.number, v, place)
	}
	return nil
}
