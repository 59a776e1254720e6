package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/squall-go/squall/order"
)

// fetch brings a log up to those of others: it drops what they do not have, and takes what is missing. It stands for package logwire.
type fetch struct {
	keeper *keeper
	from   *keeper // nil: nobody yet
	upTo   uint64  // of its records
	known  bool    // where it ends: somebody who has all of it has told
	last   order.Version
}

// fetchBatch is how many records come at once.
const fetchBatch = 16

// act implements actor.
func (f *fetch) act(now time.Duration) (next time.Duration) {
	p := f.keeper.proc
	next = never
	p.survive(func() { next = f.turn(now) })
	return next
}

func (f *fetch) turn(now time.Duration) time.Duration {
	k := f.keeper
	p, w := k.proc, k.proc.world
	switch {
	case p.over || p.told || k.fetch != f || k.log.err != nil:
		return never
	case p.member == nil || now < p.hangs || !k.log.drained():
		return max(p.hangs, now+w.plan.Hop())
	case !f.known:
		return f.ask(now)
	case !f.goesOn():
		if f.from = f.source(); f.from == nil {
			return now + w.plan.Hop()
		}
		if err := f.agree(); err != nil {
			w.fail(err)
			return never
		}
		return now + w.bulkTime(f.from.proc, p)
	}
	if k.log.next() < f.upTo {
		if err := f.take(); err != nil {
			w.fail(err)
			return never
		}
		return now + w.bulkTime(f.from.proc, p)
	}
	p.notes(f.through(k.since))
	return never
}

// through notes that the log has got what it lacked since a view. It comes before what was delivered meanwhile is handed over.
func (f *fetch) through(since order.ViewID) func() error {
	k := f.keeper
	return func() error {
		err := k.proc.memory.Complete(k.proc.world.logID(k.id), since)
		if err == nil && k.fetch == f {
			k.fetch = nil
			k.proc.wake()
		}
		return err
	}
}

// ask finds out where the log ends, from somebody who was in the shard before this one. It stands for package transfer.
func (f *fetch) ask(now time.Duration) time.Duration {
	k := f.keeper
	p, w := k.proc, k.proc.world
	g, left := w.history.byID[k.since].shard(w, k.id), 0
	for _, rd := range g.readers {
		o := rd.proc.keeper(k.id)
		if slices.Contains(g.sg.Fresh, g.sg.Members[rd.place]) || !p.seat().record.has(rd.proc) {
			continue
		}
		if left++; o == nil || !o.serves(k) {
			continue
		}
		if err := f.upToView(o); err != nil {
			w.fail(err)
			return never
		}
		return now + w.bulkTime(rd.proc, p)
	}
	if left == 0 {
		p.diskFailed(errStateLost)
		return never
	}
	return now + w.plan.Hop()
}

// errStateLost halts a member that does not come to know where its log ends.
var errStateLost = errors.New("nobody is left who knows where the log ends")

// goesOn reports whether who it has begun with has what is missing still.
func (f *fetch) goesOn() bool { return f.from != nil && (f.from.serves(f.keeper) || f.has(f.from)) }

// source is somebody who has all that is missing on disk: one whose log is whole, or else any that goes as far as this one has to.
func (f *fetch) source() *keeper {
	k, p := f.keeper, f.keeper.proc
	id := k.id
	if p.world.lax == OtherShard {
		id.shard = (id.shard + 1) % p.world.plan.Decls[id.decl].ShardCount()
	}
	for _, fit := range []func(*keeper) bool{func(o *keeper) bool { return o.serves(k) }, f.has} {
		for _, rd := range p.seat().record.shard(p.world, id).readers {
			if o := rd.proc.keeper(id); o != nil && o != k && fit(o) {
				return o
			}
		}
	}
	return nil
}

// has reports whether a log that may lack something itself has what this one lacks: up to a version that both have, all logs are the same.
func (f *fetch) has(o *keeper) bool {
	p := f.keeper.proc
	if !f.known || f.upTo == 0 || o.proc.over || o.proc.told || o.log.err != nil || !p.world.near(p, o.proc) {
		return false
	}
	r, err := o.log.book.Read(f.upTo - 1)
	return err == nil && r.Version == f.last
}

// upToView has a log end where the view begins since which it lacks something.
func (f *fetch) upToView(o *keeper) (err error) {
	f.upTo, err = o.log.book.Seek(order.Version{View: f.keeper.since})
	if f.known = err == nil; err != nil || f.upTo == 0 {
		return err
	}
	r, err := o.log.book.Read(f.upTo - 1)
	f.last = r.Version
	return err
}

// common is how many records both logs have.
func (f *fetch) common() (same uint64, err error) {
	own, theirs := f.keeper.log, f.from.log
	for same = min(own.next(), f.upTo); same > 0; same-- {
		a, err := own.book.Read(same - 1)
		if err != nil {
			return same, err
		}
		b, err := theirs.book.Read(same - 1)
		if err != nil {
			return same, err
		}
		if a.Version == b.Version && a.Time == b.Time && a.Sender == b.Sender {
			break
		}
	}
	return same, nil
}

// agree finds out what both logs have, and drops what only this one has.
func (f *fetch) agree() error {
	k, own, w := f.keeper, f.keeper.log, f.keeper.proc.world
	same, err := f.common()
	if err != nil || same == own.next() {
		return err
	}
	w.probes[LogCut]++
	switch w.lax {
	case CutsTooLittle:
		same++
	case CutsTooMuch:
		f.upTo = max(f.upTo, 1) - 1
		same = min(same, f.upTo)
	}
	if k.proc.world.trace.out != nil {
		k.proc.print("%s cut from %d to %d", w.label(k.id), own.next(), same)
	}
	return own.cutFrom(same)
}

// take imports some records.
func (f *fetch) take() error {
	own := f.keeper.log
	for range fetchBatch {
		if own.next() == f.upTo {
			return nil
		}
		r, err := f.from.log.book.Read(own.next())
		if err != nil {
			return err
		}
		if !own.Import(r) {
			return nil
		}
	}
	return nil
}
