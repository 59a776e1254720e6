package sim

import (
	"slices"
	"time"

	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/multicast"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// keeper is a process's part in a shard of a persistent subgroup, over all views: the log, what records what is delivered in it, and the
// applications behind. While the log lacks what others have, deliveries wait here.
type keeper struct {
	proc     *process
	id       shardID
	log      *diskLog
	recorder *member.Recorder
	inboxes  []*inbox // of its views, the oldest first

	partial bool
	since   order.ViewID        // the view in which it became that
	waiting []multicast.Message // delivered, and not recorded yet
	copies  bool                // what the application is given is not where it was received
	fetch   *fetch              // nil: nothing is missing
	here    order.Version       // said to be on disk: as it was checked last
	seat    *seat               // in which it was
	line    int                 // where the control line is there; less than 0: it is in no such shard there
}

// unseenBytes is how much may wait until every disk has it.
const unseenBytes = 1 << 20

// epoch is when the wall clocks of a world begin.
const epoch = order.Time(1_700_000_000_000_000_000)

// wall is the process's wall clock: it is as wrong as the plan has it, and jumps with the process.
func (p *process) wall() order.Time { return epoch + order.Time(p.local()+p.node.Skew) }

// keeper is the process's part in a shard, or nil.
func (p *process) keeper(id shardID) *keeper {
	for _, k := range p.keepers {
		if k.id == id {
			return k
		}
	}
	return nil
}

// shardOf names the log of a subgroup.
func (w *world) shardOf(sg views.Subgroup) shardID { return shardID{w.declaration(sg), sg.Shard} }

// recorder is the member's Recorder.
func (p *process) recorder(v *views.View, i int) *member.Recorder {
	sg := v.Subgroups[i]
	k := p.keep(p.world.shardOf(sg))
	self, _ := v.RankOf(p.self.ID)
	if slices.Contains(sg.Fresh, self) {
		k.lacks(v)
	}
	return k.recorder
}

// keep opens a log, once.
func (p *process) keep(id shardID) *keeper {
	w := p.world
	if k := p.keeper(id); k != nil {
		return k
	}
	log, err := p.openLog(id)
	if err != nil {
		w.fail(violated("G6", "node %d: the log of %q cannot be opened: %w", p.self.ID, id.dir(), err))
		panic(err)
	}
	k := &keeper{proc: p, id: id, log: log}
	k.recorder = member.NewRecorder(member.RecorderConfig{
		Log: log, Receiver: behind{k}, AfterPersist: w.plan.Keep.After>>id.decl&1 != 0, Memory: unseenBytes,
		Self: p.self.ID, Observe: func(t order.Time) { p.member.Observe(t) },
	})
	p.keepers = append(p.keepers, k)
	return k
}

// lacks begins to fetch what was delivered before a view.
func (k *keeper) lacks(v *views.View) {
	k.partial, k.since = true, v.ID
	k.recorder.SetPartial(true)
	k.fetch = &fetch{keeper: k}
	k.proc.world.schedule.add(k.proc.world.now, k.fetch)
}

// receiver is the member's Receiver.
func (p *process) receiver(v *views.View, i int) multicast.Receiver {
	w := p.world
	in := newInbox(p, w.record(v).groups[i])
	if v.Subgroups[i].Mode != views.Persistent {
		return in
	}
	k := p.keeper(w.shardOf(v.Subgroups[i]))
	k.inboxes = append(k.inboxes, in)
	return k
}

// Deliver implements multicast.Receiver.
func (k *keeper) Deliver(run []multicast.Message) int {
	if !k.partial {
		return k.recorder.Deliver(run)
	}
	for _, m := range run {
		if body := m.Body(); body != nil {
			body.Hold()
		} else {
			m.Data = slices.Clone(m.Data)
		}
		k.waiting = append(k.waiting, m)
	}
	return len(run)
}

// MaxRun implements multicast.Receiver.
func (k *keeper) MaxRun() int { return k.inboxes[len(k.inboxes)-1].MaxRun() }

// step records what waits, once all that comes before it is in the log.
func (k *keeper) step() (work int) {
	if !k.partial || k.fetch != nil {
		return 0
	}
	k.copies = true
	for len(k.waiting) > 0 {
		n := k.record(k.waiting)
		if n == 0 {
			return work
		}
		for i := range k.waiting[:n] {
			if body := k.waiting[i].Body(); body != nil {
				body.Release()
			}
		}
		k.waiting = k.waiting[n:]
		work += n
	}
	k.copies, k.partial = false, false
	k.recorder.SetPartial(false)
	k.proc.world.probes[CaughtUp]++
	k.proc.complete(k.id)
	k.proc.world.stir()
	if k.proc.world.trace.out != nil {
		k.proc.print("%c has caught up", 'a'+k.id.decl)
	}
	return work + 1
}

// record records what waited, and hands it to the application or keeps it until every disk has it.
func (k *keeper) record(run []multicast.Message) (n int) {
	if k.proc.world.plan.Keep.After>>k.id.decl&1 == 0 {
		return k.recorder.Deliver(run)
	}
	for n < len(run) && k.recorder.Take(&run[n]) {
		n++
	}
	return n
}

// behind is the application behind a keeper. It is given messages of several views.
type behind struct{ *keeper }

// Deliver implements multicast.Receiver.
func (b behind) Deliver(run []multicast.Message) (taken int) {
	for taken < len(run) {
		v, n := run[taken].View, taken
		for n < len(run) && run[n].View == v {
			n++
		}
		in := b.inbox(v)
		in.reader.copies = b.copies || b.proc.world.plan.Keep.After>>b.id.decl&1 != 0
		got := in.Deliver(run[taken:n])
		if taken += got; taken < n {
			return taken
		}
	}
	return taken
}

// late reports whether a message was delivered while its member's log lacked something: what waits for its delivery was told then.
func (d *delivery) late() bool {
	k := d.proc().keeper(d.proc().world.shardOf(d.group.sg))
	return k != nil && k.copies
}

// waits reports whether deliveries of a declaration wait for a log.
func (p *process) waits(decl int) bool {
	return slices.ContainsFunc(p.keepers, func(k *keeper) bool { return k.id.decl == decl && len(k.waiting) > 0 })
}

func (k *keeper) inbox(v order.ViewID) *inbox {
	i := slices.IndexFunc(k.inboxes, func(in *inbox) bool { return in.group.record.view.ID == v })
	return k.inboxes[i]
}

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
	case f.from == nil || !f.from.serves(k) && !f.has(f.from):
		if f.from = f.source(); f.from == nil {
			return now + w.plan.Hop()
		}
		err := f.upToView()
		if err == nil {
			err = f.agree()
		}
		if err != nil {
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
	k.fetch = nil
	p.wake()
	return never
}

// source is somebody who has all that is missing on disk: one whose log is whole, or else any that goes as far as this one has to.
func (f *fetch) source() *keeper {
	k := f.keeper
	i := slices.IndexFunc(k.proc.seat().record.groups, func(g *group) bool { return k.proc.world.shardOf(g.sg) == k.id })
	for _, fit := range []func(*keeper) bool{func(o *keeper) bool { return o.serves(k) }, f.has} {
		for _, rd := range k.proc.seat().record.groups[i].readers {
			if o := rd.proc.keeper(k.id); o != nil && o != k && fit(o) {
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

// forlorn reports whether all that are in a shard lack something of its log that nobody among them has: they wait until somebody comes back
// with its disk.
func (w *world) forlorn(id shardID) bool {
	all := w.history.last.procs
	return len(all) > 0 && !slices.ContainsFunc(all, func(p *process) bool {
		k := p.keeper(id)
		return k == nil || k.fetch == nil || p.seat() == nil || k.fetch.source() != nil
	})
}

// serves reports whether another log has on disk everything that was delivered before the view since which k is partial, and can be reached.
func (k *keeper) serves(other *keeper) bool {
	p, q := k.proc, other.proc
	if p.over || p.told || p.seat() == nil || k.partial || k.log.err != nil || !p.world.near(p, q) || p.seat().record.view.ID < other.since {
		return false
	}
	for i, g := range p.seat().record.groups {
		if p.world.shardOf(g.sg) == k.id && g.reader(p) != nil {
			return p.seat().line(i)[wordWhole] != 0
		}
	}
	return false
}

// upToView has a log end where the view begins since which it lacks something.
func (f *fetch) upToView() (err error) {
	if f.known {
		return nil
	}
	f.upTo, err = f.from.log.book.Seek(order.Version{View: f.keeper.since})
	if err != nil || f.upTo == 0 {
		return err
	}
	r, err := f.from.log.book.Read(f.upTo - 1)
	f.last, f.known = r.Version, err == nil
	return err
}

// agree finds out what both logs have, and drops what only this one has.
func (f *fetch) agree() error {
	k, own, theirs := f.keeper, f.keeper.log, f.from.log
	same := min(own.next(), f.upTo)
	for ; same > 0; same-- {
		a, err := own.book.Read(same - 1)
		if err != nil {
			return err
		}
		b, err := theirs.book.Read(same - 1)
		if err != nil {
			return err
		}
		if a.Version == b.Version && a.Time == b.Time && a.Sender == b.Sender {
			break
		}
	}
	w := k.proc.world
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
		k.proc.print("%c cut from %d to %d", 'a'+k.id.decl, own.next(), same)
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
