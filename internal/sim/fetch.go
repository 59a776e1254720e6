package sim

import (
	"errors"
	"io"
	"iter"
	"time"

	"github.com/squall-go/squall/internal/catchup"
	"github.com/squall-go/squall/internal/journal"
	"github.com/squall-go/squall/internal/life"
	"github.com/squall-go/squall/internal/restart"
	"github.com/squall-go/squall/internal/shard"
	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
	"github.com/squall-go/squall/views"
)

// A log becomes that of another process by the code of package catchup. What is supplied here are
// the two logs, and the way between them: what is asked and answered takes time, and breaks off.

// fetchPauses are the pauses between two rounds in which sources are asked.
func fetchPauses(p *Plan) wait.Backoff {
	return wait.Backoff{First: p.Hop() / 4, Longest: 4 * p.Hop()}
}

// fetching performs an effect of kind life.CatchUp.
type fetching struct {
	proc   *process
	effect life.Effect
	wait   func(time.Duration) bool // false: at once the process wants nothing of it any more
	halted func() bool              // no more records are needed
}

var errStopped = errors.New("stopped")

// catchUp has a log become that of a source.
func (p *process) catchUp(e life.Effect, halted func() bool, wait func(time.Duration) bool) life.Result {
	w := p.world
	k, err := p.keep(w.shardOfLog(e.Log))
	if err != nil {
		return life.Result{Outcome: life.Fatal, Err: err}
	}
	f := &fetching{proc: p, effect: e, wait: wait, halted: halted}
	task := catchup.Task{Log: &ownLog{reading{k}, f}, Source: &otherLog{f: f, id: k.id}, Keep: e.Keep && w.lax != AheadOfAnybody}
	if e.Last != (order.Version{}) {
		task.Before = catchup.After(e.Last)
	}
	err = task.Run()
	switch {
	case err == nil:
		return life.Result{}
	case errors.Is(err, errStopped):
		return life.Result{Outcome: life.Stopped, Err: err}
	case errors.As(err, new(catchup.OwnError)):
		return life.Result{Outcome: life.Fatal, Err: err}
	}
	return life.Result{Outcome: life.Failed, Err: err, Progress: task.Progress()}
}

// reading is a log as others read it.
type reading struct{ k *keeper }

func (l reading) book() *journal.Book { return l.k.log.book }

// Info implements catchup.Reader.
func (l reading) Info() (i persist.Info) {
	i.Count = l.book().Count()
	if i.Count > 0 {
		e := l.book().End()
		i.Last = persist.Record{Number: e.Records - 1, Version: e.Version, Time: e.Time}
		if r, ok := l.book().Oldest(); ok {
			i.First = persist.Record(r)
		}
	}
	return i
}

// Get implements catchup.Reader.
func (l reading) Get(v order.Version) (persist.Record, error) { return l.one(l.book().Find(v)) }

// At implements catchup.Reader.
func (l reading) At(t order.Time) (persist.Record, error) { return l.one(l.book().FindTime(t)) }

func (l reading) one(number uint64, err error) (persist.Record, error) {
	if err != nil {
		return persist.Record{}, err
	}
	r, err := l.book().Read(number)
	return persist.Record(r), err
}

// Range implements catchup.Reader.
func (l reading) Range(from, to order.Version) iter.Seq2[persist.Record, error] {
	return func(yield func(persist.Record, error) bool) {
		n, err := l.book().Seek(from)
		if err != nil {
			yield(persist.Record{}, err)
			return
		}
		for r, err := range l.book().Records(n) {
			if err == nil && to != (order.Version{}) && !r.Version.Before(to) || !yield(persist.Record(r), err) {
				return
			}
		}
	}
}

// SnapshotEnd implements catchup.Reader.
func (reading) SnapshotEnd() (persist.Record, error) { return persist.Record{}, persist.ErrNotFound }

// partial reports whether a log may lack what others have.
func (l reading) partial() bool {
	p := l.k.proc
	var v *views.View
	if p.member != nil && !p.told && p.seat() != nil {
		v = p.seat().record.view
	}
	return catchup.Partial(l.k.partial, v, p.self.ID, persist.LogID(p.world.logID(l.k.id)))
}

// ownLog is the log that catches up.
type ownLog struct {
	reading
	f *fetching
}

// Sync implements catchup.Log.
func (l *ownLog) Sync() error {
	for log := l.k.log; log.err != nil || !log.drained(); {
		if log.err != nil {
			return log.err
		}
		if !l.f.wait(l.k.proc.world.plan.Hop() / 4) {
			return errStopped
		}
	}
	return nil
}

// Cut implements catchup.Log.
func (l *ownLog) Cut(after order.Version) error {
	w, log, same, err := l.k.proc.world, l.k.log, uint64(0), error(nil)
	if after != (order.Version{}) {
		if same, err = l.book().Seek(catchup.After(after)); err != nil {
			return err
		}
	}
	w.probes[LogCut]++
	switch {
	case w.lax == CutsTooLittle:
		same = min(same+1, log.next())
	case w.lax == CutsTooMuch:
		same = max(same, 1) - 1
	}
	l.k.proc.print("%s cut from %d to %d", w.label(l.k.id), log.next(), same)
	return log.cutFrom(same)
}

// Import implements catchup.Log.
func (l *ownLog) Import(r persist.Record) error {
	for log := l.k.log; !log.Import(journal.Record(r)); {
		if log.err != nil {
			return log.err
		}
		if l.f.halted() || !l.f.wait(l.k.proc.world.plan.Hop()/4) {
			return errStopped
		}
	}
	return nil
}

// Install implements catchup.Log. The front of a log is never dropped here.
func (*ownLog) Install(persist.Record, io.Reader) error { return errors.ErrUnsupported }

// otherLog is the log of a source. Its process is the process that answered first.
type otherLog struct {
	f  *fetching
	id shardID
	q  *process
	reading
}

// tears reports whether a transfer breaks off at its next move.
func (w *world) tears() bool {
	torn := w.torn.oneIn(w.plan.Keep.TornIn)
	w.sometimes(TransferTorn, torn)
	return torn
}

// reach lets a request and its answer travel, and returns an error if the source did not answer.
func (l *otherLog) reach(takes time.Duration) error {
	p, e := l.f.proc, &l.f.effect
	for {
		if l.f.halted() || !l.f.wait(takes) || l.f.halted() {
			return errStopped
		}
		q := p.at(e.Source.Node, e.Source.Addr)
		if q == nil || l.q != nil && q != l.q || p.world.tears() {
			return errBroken
		}
		l.q = q
		if p.world.now >= q.hangs {
			return nil
		}
		takes = p.world.plan.Hop()
	}
}

// Ready implements catchup.Source.
func (l *otherLog) Ready(before order.Version) (i persist.Info, err error) {
	p, w, id := l.f.proc, l.f.proc.world, l.id
	if l.q = p.at(l.f.effect.Source.Node, l.f.effect.Source.Addr); l.q == nil {
		return i, errBroken
	}
	if err = l.reach(w.bulkTime(l.q, p)); err != nil {
		return i, err
	}
	if w.lax == OtherShard {
		id.shard = (id.shard + 1) % w.plan.Decls[id.decl].ShardCount()
	}
	if l.k = l.q.keeper(id); l.k == nil {
		return i, errBroken
	}
	for ready := w.lax == OtherShard; !ready && err == nil; {
		switch catchup.Ready(l.reading, l.partial() && w.lax != AheadOfAnybody, before) {
		case catchup.Refuses:
			return i, errBroken
		case catchup.Waits:
			err = l.reach(w.plan.Hop())
		default:
			ready = true
		}
	}
	for has := l.k.log.next(); err == nil && l.book().End().Records < has; {
		err = l.reach(w.plan.Hop() / 4)
	}
	if err != nil {
		return i, err // it may have lost its disk
	}
	return l.Info(), nil
}

// Probe implements catchup.Source.
func (l *otherLog) Probe(v order.Version) (m catchup.Mark, err error) {
	w := l.f.proc.world
	if err = l.reach(2 * w.plan.Net.Delays[l.q.node.place][l.f.proc.node.place].Base); err == nil {
		m, err = catchup.LastUpTo(l.reading, v)
	}
	return m, err
}

// Snapshot implements catchup.Source.
func (*otherLog) Snapshot() (persist.Record, catchup.Snapshot, error) {
	return persist.Record{}, nil, errors.ErrUnsupported
}

// fetchBatch is how many records come at once.
const fetchBatch = 16

// Records implements catchup.Source.
func (l *otherLog) Records(b catchup.Bounds) iter.Seq2[persist.Record, error] {
	return func(yield func(persist.Record, error) bool) {
		for more := true; more; {
			if err := l.reach(l.f.proc.world.bulkTime(l.q, l.f.proc)); err != nil {
				yield(persist.Record{}, err)
				return
			}
			batch, err := l.batch(b)
			for _, r := range batch {
				if !yield(r, nil) {
					return
				}
				b.From = catchup.After(r.Version)
			}
			if err != nil {
				yield(persist.Record{}, err)
				return
			}
			more = len(batch) == fetchBatch
		}
	}
}

// batch reads the next records at once. What takes them may wait, and meanwhile the source may lose
// its disk.
func (l *otherLog) batch(b catchup.Bounds) (batch []persist.Record, err error) {
	for r, err := range l.Range(b.From, b.To) {
		if err != nil {
			return batch, err
		}
		if batch = append(batch, r); len(batch) == fetchBatch {
			break
		}
	}
	return batch, nil
}

// fillLog makes the log what a source has.
func (a *activity) fillLog() shard.Result {
	if a.cancelled {
		return failed(shard.Failed)
	}
	p, e := a.stays.proc, a.effect
	r := p.catchUp(life.Effect{
		Log: p.world.logID(a.keeper.id), Source: restart.Source{Node: e.Source.ID}, Last: e.Last,
	}, func() bool { return false }, a.pause)
	switch r.Outcome {
	case life.Done:
		return shard.Result{}
	case life.Fatal:
		return shard.Result{Outcome: shard.Fatal, Err: r.Err}
	}
	return shard.Result{Outcome: shard.Failed, Err: r.Err, Progress: r.Progress}
}

// emptyLog cuts all of the log.
func (a *activity) emptyLog() shard.Result {
	k := a.keeper
	w := k.proc.world
	for !a.drained() {
		a.wait(w.plan.Hop())
	}
	if had := k.log.next(); had > 0 {
		w.probes[LogCut]++
		k.proc.print("%s cut from %d to 0", w.label(k.id), had)
	}
	if err := k.log.cutFrom(0); err != nil {
		return shard.Result{Outcome: shard.Fatal, Err: err}
	}
	return shard.Result{}
}

// drained reports whether the disk has all of the log. Once the disk has failed nothing goes on.
func (a *activity) drained() bool {
	if a.keeper.log.err != nil {
		a.wait(never)
	}
	return a.keeper.log.drained()
}

// syncLog waits for the disk.
func (a *activity) syncLog() shard.Result {
	for goesOn := !a.cancelled; !a.drained(); goesOn = a.pause(a.keeper.proc.world.plan.Hop() / 4) {
		if !goesOn {
			return failed(shard.Failed)
		}
	}
	return shard.Result{}
}

// completeLog notes that the log lacks nothing.
func (a *activity) completeLog() shard.Result {
	k := a.keeper
	w := k.proc.world
	k.proc.notes(func() error {
		w.judge("log", checkComplete(k, a.effect.View))
		err := k.proc.memory.Complete(w.logID(k.id), a.effect.View)
		if err == nil {
			a.ends(shard.Result{})
		}
		return err
	})
	a.wait(never)
	return shard.Result{}
}
