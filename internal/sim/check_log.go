package sim

import (
	"slices"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/internal/viewchange"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// logChecker checks G6: all logs of a shard are one history, record by record, times included,
// which is what is delivered, without a gap and each once; nothing is said to be on a disk that is
// not, or on every disk; and what is said to be on every disk stays.
type logChecker struct{ unconcerned }

func (logChecker) name() string { return "log" }

// taken checks that a message that an application sees is in its member's log already, and that all
// logs have the same record at its place.
func (logChecker) taken(w *world, d *delivery) error {
	if d.group.sg.Mode != views.Persistent {
		return nil
	}
	id, v := w.shardOf(d.group.sg), d.Version()
	r, log := w.shard(id).find(v), d.proc().keeper(id)
	switch {
	case r == nil && w.shard(id).leftBehind(d.View, log) && !w.after(id.decl):
		return nil
	case r == nil || log.log.next() <= w.shard(id).before(v):
		return violated("G6", "%v is delivered, and is not in the log", d)
	case r.time != d.Time || r.sender != d.Message.Sender || string(r.data) != string(d.Data):
		return violated("G6", "%v at %v is delivered, and the log has %d bytes of node %d at %v", d, d.Time, len(r.data), r.sender, r.time)
	case w.plan.Keep.After>>id.decl&1 != 0 && !v.Before(log.recorder.Frontier.At(member.Everywhere)):
		return violated("G6", "%v is delivered, and every disk has what is before %v", d, log.recorder.Frontier.At(member.Everywhere))
	}
	return nil
}

// installed checks, as a view begins after all members of a shard had ended, that all members begin
// it with the same logs, which have every record that was reported to be on every disk. A record
// that no returning process has is no longer part of the history.
func (logChecker) installed(w *world, p *process, r *viewRecord) error {
	for _, k := range p.keepers {
		if !p.brings(w, k, r) {
			continue
		}
		h, n := w.shard(k.id), k.log.book.End().Records
		switch {
		case h.restart == r.view.ID && n != h.base:
			return violated("G6", "%v has %d records as view %d begins, and others have %d", k.log, n, r.view.ID, h.base)
		case h.restart >= r.view.ID: // others have gone on, and it hears of it now
		case n < h.reported:
			return violated("G6", "%v has %d records as view %d begins, and %d were said to be on every disk", k.log, n, r.view.ID, h.reported)
		default:
			w.sometimes(ShardRevived, n > 0 && !p.restarted)
			h.begin(r.view.ID, n)
		}
		if err := checkWritten(w, k, n); err != nil {
			return err
		}
	}
	return nil
}

// brings reports whether a process begins a view with a log that was on its disk, and that the
// others of the shard take for theirs: after a restart, or as the first of the processes that come
// back to a shard that had no members any more.
func (p *process) brings(w *world, k *keeper, r *viewRecord) bool {
	g := r.shard(w, k.id)
	if g == nil || g.reader(p) == nil || slices.Contains(g.sg.Fresh, p.seat().self) {
		return false
	}
	return !slices.ContainsFunc(p.seats[:len(p.seats)-1], func(s *seat) bool { return s.record.shard(w, k.id).reader(p) != nil })
}

// checkKept checks what a process says of its own disk, and of the times that are over, after each
// of its steps.
func checkKept(w *world, p *process) error {
	s := p.seat()
	for _, k := range p.keepers {
		k.sits(s)
		if k.line < 0 {
			continue
		}
		here := order.Version{View: s.record.view.ID, Seq: order.Seq(*fabric.Word(s.own, k.line+8*wordPersisted))}
		if here != k.here && *fabric.Word(s.own, k.line+8*wordWhole) != 0 {
			k.here = here
			if err := checkHere(w, k); err != nil {
				return err
			}
		}
		if err := checkSettled(w, k); err != nil {
			return err
		}
	}
	return nil
}

// sits finds out where the keeper's line is in a view, once.
func (k *keeper) sits(s *seat) {
	if k.seat == s {
		return
	}
	k.seat, k.line = s, -1
	for i, g := range s.record.groups {
		if k.proc.world.shardOf(g.sg) == k.id && g.reader(k.proc) != nil {
			k.line = s.lineOff(i)
		}
	}
}

// sitting reports whether the keeper's member is in the shard, in the last view.
func (k *keeper) sitting() bool {
	g := k.proc.world.history.last.shard(k.proc.world, k.id)
	return g != nil && g.reader(k.proc) != nil
}

// checkHere checks that a log is on its disk as far as its member says.
func checkHere(w *world, k *keeper) error {
	if need, has := w.shard(k.id).before(k.here), k.log.platter().Records; has < need {
		return violated("G6", "%v is said to be on disk up to %v, which are %d records, and %d are", k.log, k.here, need, has)
	}
	return nil
}

// checkRecorded checks that a decision is on its owner's disk before it is in its row: if all
// members end now, the processes that come back find it.
func checkRecorded(p *process, r *viewRecord, b viewchange.Ballot) error {
	if p.memory == nil {
		return nil
	}
	s := p.memory.State()
	if s.View.ID > r.view.ID || s.View.ID == r.view.ID && s.Echo != nil && s.Echo.Ballot >= b {
		return nil
	}
	return violated("V10", "node %d shows the decision of ballot %s about view %d, and its disk knows view %d and the decision %+v",
		p.self.ID, ballotText(b), r.view.ID, s.View.ID, s.Echo)
}

// checkSettled checks that what has a time that is called settled is on every disk. That nothing
// comes later that has such a time is checked as it comes.
func checkSettled(w *world, k *keeper) error {
	h, t := w.shard(k.id), k.recorder.Frontier.Settled()
	if t <= h.settled {
		return nil
	}
	h.settled = t
	if n := h.reported; n < uint64(len(h.records)) && h.records[n].time <= t {
		return violated("G6", "node %d calls %v settled, and version %v of %s, of %v, is not on every disk", k.proc.self.ID, t, h.records[n].version, w.label(k.id), h.records[n].time)
	}
	return nil
}

// checkGlobal checks that what a member takes to be on every disk is there, and that the log learns
// of it before the goroutines that wait for it.
func checkGlobal(l *diskLog, last order.Version) error {
	w := l.proc.world
	h := w.shard(l.id)
	v := last
	if v.Seq++; v.Seq == 0 {
		v.View++
	}
	if told := l.proc.keeper(l.id).recorder.Frontier.At(member.Everywhere); !told.Before(v) {
		return violated("G6", "%v is told that every disk has version %v, after goroutines were told that every disk has what is before %v", l, last, told)
	}
	n := h.before(v)
	h.reported = max(h.reported, n)
	r := w.history.byID[v.View]
	for _, g := range r.groups {
		if w.shardOf(g.sg) != l.id {
			continue
		}
		for _, rd := range g.readers {
			k := rd.proc.keeper(l.id)
			switch {
			case rd.proc.over || r.end != nil && r.failed(rd.proc):
				continue
			case k == nil:
				return violated("G6", "%v is told that every disk has what is before %v, and node %d has no log", l, v, rd.proc.self.ID)
			case k.log.platter().Records < n:
				return violated("G6", "%v is told that every disk has what is before %v, which are %d records, and that of node %d has %d",
					l, v, n, rd.proc.self.ID, k.log.platter().Records)
			}
		}
	}
	return nil
}

// end reads the logs of the members that go on from their disks: in each shard all are the same.
func (logChecker) end(w *world) error {
	if !w.goesOn() {
		return nil
	}
	for _, p := range w.history.last.procs {
		for _, k := range p.keepers {
			if !k.sitting() {
				continue
			}
			if err := checkWritten(w, k, uint64(len(w.shard(k.id).records))); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkWritten compares a log on disk with the records of all members, up to some record.
func checkWritten(w *world, k *keeper, to uint64) error {
	h, n := w.shard(k.id), uint64(0)
	for r, err := range k.log.book.Fork().Records(0) {
		switch {
		case err != nil:
			return violated("G6", "%v: %w", k.log, err)
		case n >= uint64(len(h.records)) || !h.records[n].is(&r):
			return violated("G6", "%v has %v as number %d, and that is not what was recorded", k.log, r, n)
		}
		n++
	}
	if n != to {
		return violated("G6", "%v has %d records of %d", k.log, n, to)
	}
	return nil
}

// checkComplete checks that a log that is noted as complete in a view is on the platter, and is
// what others recorded.
func checkComplete(k *keeper, v order.ViewID) error {
	w := k.proc.world
	if has := k.log.platter().Records; has < k.log.next() {
		return violated("G6", "%v is noted as complete, and %d of its %d records are on disk", k.log, has, k.log.next())
	}
	if v < w.shard(k.id).restart || !k.sitting() {
		return nil // the shard may have gone on without this member
	}
	return checkWritten(w, k, k.log.next())
}

// unkept is what of the states and logs of the members that go on is still under way.
func (p *process) unkept() error {
	for _, h := range p.stays {
		if h.getsState() && p.world.history.last.placed(p, h.decl) {
			return violated("state", "node %d still gets the state of %q", p.self.ID, p.world.plan.Decls[h.decl].Name)
		}
	}
	for _, k := range p.keepers {
		h := p.world.shard(k.id)
		switch {
		case !k.sitting():
		case k.partial:
			return violated("G6", "%v lacks what was delivered before view %d", k.log, k.since)
		case !k.log.drained():
			return violated("G6", "%v is not written to its end", k.log)
		case len(h.records) > 0 && !h.records[len(h.records)-1].version.Before(k.recorder.Frontier.At(member.Everywhere)):
			return violated("G6", "node %d: every disk has what is before %v, as far as it knows, and the last one is %v",
				p.self.ID, k.recorder.Frontier.At(member.Everywhere), h.records[len(h.records)-1].version)
		}
	}
	return nil
}
