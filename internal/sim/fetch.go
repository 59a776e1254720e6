package sim

import (
	"time"

	"github.com/squall-go/squall/internal/shard"
	"github.com/squall-go/squall/order"
)

// fetch is a log that becomes that of another member: it loses what that one does not have, and gets what is missing. It stands for the
// conversations of package logwire.
type fetch struct {
	keeper *keeper
	from   *keeper
	upTo   uint64 // of its records
}

// fetchBatch is how many records come at once.
const fetchBatch = 16

// gives reports whether a member is a source of a log up to some version, and whether it has that on its disk yet. A log that may lack something
// itself is one only if it has the very last record.
func (k *keeper) gives(last order.Version) (source, ready bool) {
	n, err := k.log.book.Find(last)
	has := err == nil && n < k.log.book.End().Records
	if k.partial || !k.speaks() {
		return has, has
	}
	return true, has
}

// fillLog makes the log what a source has.
func (a *activity) fillLog(now time.Duration) time.Duration {
	k := a.receiver.keeper
	p, w, q := k.proc, k.proc.world, a.source()
	switch {
	case q == nil || a.cancelled:
		return a.failed(shard.Failed)
	case k.log.err != nil:
		return never
	case now < q.hangs || a.fetch == nil && !k.log.drained():
		return now + w.plan.Hop()
	case !a.begun:
		a.begun = true
		return now + w.bulkTime(q, p)
	case a.fetch == nil:
		return a.align(now, q)
	case k.log.next() < a.fetch.upTo:
		if a.fetch.take() != nil {
			return a.failed(shard.Failed)
		}
		a.got = true
		return now + w.bulkTime(q, p)
	}
	return a.ends(shard.Result{})
}

// align cuts what the source does not have, once that is ready.
func (a *activity) align(now time.Duration, q *process) time.Duration {
	k := a.receiver.keeper
	w, id := q.world, k.id
	if w.lax == OtherShard {
		id.shard = (id.shard + 1) % w.plan.Decls[id.decl].ShardCount()
	}
	o := q.keeper(id)
	if o == nil {
		return a.failed(shard.Failed)
	}
	source, ready := o.gives(a.effect.Last)
	switch {
	case w.lax == OtherShard:
		ready = true
	case !source:
		return a.failed(shard.Failed)
	case !ready:
		return now + w.plan.Hop()
	}
	f := &fetch{keeper: k, from: o}
	err := f.upToVersion(a.effect.Last)
	if w.lax == OtherShard {
		f.upTo, err = o.log.book.End().Records, nil
	}
	if err == nil {
		err = f.agree()
	}
	if err != nil {
		w.fail(err)
		return never
	}
	a.fetch = f
	return now + w.bulkTime(q, k.proc)
}

// emptyLog cuts all of the log.
func (a *activity) emptyLog(now time.Duration) time.Duration {
	k := a.receiver.keeper
	switch {
	case k.log.err != nil:
		return never
	case !k.log.drained():
		return now + k.proc.world.plan.Hop()
	}
	if had := k.log.next(); had > 0 {
		k.proc.world.probes[LogCut]++
		if k.proc.world.trace.out != nil {
			k.proc.print("%s cut from %d to 0", k.proc.world.label(k.id), had)
		}
	}
	if err := k.log.cutFrom(0); err != nil {
		return a.ends(shard.Result{Outcome: shard.Fatal, Err: err})
	}
	return a.ends(shard.Result{})
}

// syncLog waits for the disk.
func (a *activity) syncLog(now time.Duration) time.Duration {
	k := a.receiver.keeper
	switch {
	case k.log.err != nil:
		return never
	case a.cancelled:
		return a.failed(shard.Failed)
	case !k.log.drained():
		return now + k.proc.world.plan.Hop()/4
	}
	return a.ends(shard.Result{})
}

// completeLog notes that the log lacks nothing.
func (a *activity) completeLog() time.Duration {
	k := a.receiver.keeper
	w := k.proc.world
	k.proc.notes(func() error {
		w.judge("log", checkComplete(k))
		err := k.proc.memory.Complete(w.logID(k.id), a.effect.View)
		if err == nil {
			a.ends(shard.Result{})
		}
		return err
	})
	return never
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
