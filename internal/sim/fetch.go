package sim

import (
	"time"

	"github.com/squall-go/squall/internal/life"
	"github.com/squall-go/squall/internal/restart"
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

// fetchPauses are the pauses between two rounds in which sources are asked.
func fetchPauses(p *Plan) shard.Pauses { return shard.Pauses{First: p.Hop() / 4, Longest: 4 * p.Hop()} }

// fetching performs an effect of kind life.CatchUp, turn by turn.
type fetching struct {
	proc   *process
	effect life.Effect
	begun  bool
	fetch  *fetch
	got    bool
}

func (f *fetching) failed() (*life.Result, time.Duration) {
	return &life.Result{Outcome: life.Failed, Err: errBroken, Progress: f.got}, 0
}

// turn does a little, and returns how it came out; nil: it goes on at some time.
func (f *fetching) turn(now time.Duration) (*life.Result, time.Duration) {
	p, w, q := f.proc, f.proc.world, f.proc.at(f.effect.Source.Node, f.effect.Source.Addr)
	k, err := p.keep(w.shardOfLog(f.effect.Log))
	if err != nil {
		return &life.Result{Outcome: life.Fatal, Err: err}, 0
	}
	switch {
	case k.log.err != nil:
		return &life.Result{Outcome: life.Fatal, Err: k.log.err}, 0
	case q == nil:
		return f.failed()
	case now < q.hangs || f.fetch == nil && !k.log.drained():
		return nil, now + w.plan.Hop()
	case !f.begun:
		f.begun = true
		return nil, now + w.bulkTime(q, p)
	case f.fetch == nil:
		return f.align(now, q, k)
	case k.log.next() < f.fetch.upTo:
		if f.fetch.take() != nil {
			return f.failed()
		}
		f.got = true
		return nil, now + w.bulkTime(q, p)
	case !k.log.drained():
		return nil, now + w.plan.Hop()/4
	}
	return &life.Result{}, 0
}

// align cuts what the source does not have, once that is ready.
func (f *fetching) align(now time.Duration, q *process, k *keeper) (*life.Result, time.Duration) {
	w, id := q.world, k.id
	if w.lax == OtherShard {
		id.shard = (id.shard + 1) % w.plan.Decls[id.decl].ShardCount()
	}
	o := q.keeper(id)
	if o == nil {
		return f.failed()
	}
	fetch := &fetch{keeper: k, from: o, upTo: o.log.book.End().Records}
	if last := f.effect.Last; last != (order.Version{}) && w.lax != OtherShard {
		source, ready := o.gives(last)
		switch {
		case !source:
			return f.failed()
		case !ready:
			return nil, now + w.plan.Hop()
		}
		n, err := o.log.book.Find(last)
		if err != nil {
			return f.failed()
		}
		fetch.upTo = n + 1
	} else if !o.speaks() && w.lax != AheadOfAnybody && w.lax != OtherShard {
		return f.failed()
	}
	same, err := fetch.common()
	if err == nil && f.effect.Keep && same < k.log.next() && w.lax != AheadOfAnybody {
		return f.failed()
	}
	if err == nil {
		err = fetch.agree(same)
	}
	if err != nil {
		return &life.Result{Outcome: life.Fatal, Err: err}, 0
	}
	f.fetch = fetch
	return nil, now + w.bulkTime(q, k.proc)
}

// fillLog makes the log what a source has.
func (a *activity) fillLog(now time.Duration) time.Duration {
	p, e := a.receiver.stays.proc, a.effect
	if a.fetching == nil {
		id := p.world.logID(a.receiver.keeper.id)
		a.fetching = &fetching{proc: p, effect: life.Effect{Log: id, Source: restart.Source{Node: e.Source.ID}, Last: e.Last}}
	}
	if a.cancelled {
		return a.failed(shard.Failed)
	}
	switch r, next := a.fetching.turn(now); {
	case r == nil:
		return next
	case r.Outcome == life.Failed:
		return a.ends(shard.Result{Outcome: shard.Failed, Err: r.Err, Progress: r.Progress})
	case r.Outcome == life.Fatal:
		return a.ends(shard.Result{Outcome: shard.Fatal, Err: r.Err})
	}
	return a.ends(shard.Result{})
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

// agree drops what only this log has.
func (f *fetch) agree(same uint64) error {
	k, own, w := f.keeper, f.keeper.log, f.keeper.proc.world
	if same == own.next() {
		return nil
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
