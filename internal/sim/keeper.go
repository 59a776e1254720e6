package sim

import (
	"errors"
	"slices"
	"syscall"
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
	forgone bool                // its member left the shard before the log was whole: nothing more of the shard is recorded
	waiting []multicast.Message // delivered, and not recorded yet
	copies  bool                // what the application is given is not where it was received
	// forgoing is while the application is given what is not recorded.
	forgoing bool
	fetch    *fetch        // nil: nothing is missing
	here     order.Version // said to be on disk: as it was checked last
	seat     *seat         // in which it was
	line     int           // where the control line is there; less than 0: it is in no such shard there
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

// shard is the subgroup of a view that has a log, or nil.
func (r *viewRecord) shard(w *world, id shardID) *group {
	i := slices.IndexFunc(r.groups, func(g *group) bool { return w.shardOf(g.sg) == id })
	if i < 0 {
		return nil
	}
	return r.groups[i]
}

// label is what a trace calls a log.
func (w *world) label(id shardID) string {
	if w.plan.Decls[id.decl].ShardCount() == 1 {
		return w.plan.Decls[id.decl].Name
	}
	return w.logID(id).String()
}

// recorder is the member's Recorder.
func (p *process) recorder(v *views.View, i int) *member.Recorder {
	sg := v.Subgroups[i]
	k, err := p.keep(p.world.shardOf(sg))
	if err != nil {
		p.diskFailed(err)
		return member.NewRecorder(member.RecorderConfig{Log: member.NoLog, Receiver: nobody{}, Observe: func(order.Time) {}})
	}
	self, _ := v.RankOf(p.self.ID)
	if slices.Contains(sg.Fresh, self) {
		k.lacks(v)
	} else if k.partial && !slices.Contains(sg.Partial, self) || k.forgone {
		p.world.judge("log", violated("G6", "%v lacks something, and counts as whole in view %d", k.log, v.ID))
	}
	return k.recorder
}

// nobody takes nothing: it stands for the application while the log cannot be opened.
type nobody struct{}

// Deliver implements multicast.Receiver.
func (nobody) Deliver([]multicast.Message) int { return 0 }

// MaxRun implements multicast.Receiver.
func (nobody) MaxRun() int { return 0 }

// keepAll opens the logs of the process's shards in a view; nil: there is none.
func (p *process) keepAll(v *views.View) error {
	if v == nil {
		return nil
	}
	self, ok := v.RankOf(p.self.ID)
	for _, sg := range v.Subgroups {
		if ok && sg.Mode == views.Persistent && sg.Has(self) {
			if _, err := p.keep(p.world.shardOf(sg)); err != nil {
				return err
			}
		}
	}
	return nil
}

// keep opens a log, once. It fails if the disk is full.
func (p *process) keep(id shardID) (*keeper, error) {
	w := p.world
	if k := p.keeper(id); k != nil {
		return k, nil
	}
	log, err := p.openLog(id)
	if errors.Is(err, syscall.ENOSPC) {
		return nil, err
	}
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
	return k, nil
}

// lacks begins to fetch what was delivered before a view.
func (k *keeper) lacks(v *views.View) {
	k.partial, k.since, k.forgone = true, v.ID, false
	k.recorder.SetPartial(true)
	k.fetch = &fetch{keeper: k}
	k.proc.world.schedule.add(k.proc.world.now, k.fetch)
}

// leaves gives up what the log still lacks, as its member is in that shard no more.
func (k *keeper) leaves() {
	if k.partial {
		k.fetch, k.forgone = nil, true
		k.proc.world.probes[ShardForgone]++
	}
}

// placed gives up, in the shards that the process is in no more, what was to be fetched.
func (p *process) placed(v *views.View) {
	w, now := p.world, p.world.record(v)
	before := now
	if len(p.seats) > 1 {
		before = p.seats[len(p.seats)-2].record
	}
	for _, k := range p.keepers {
		was, is := before.shard(w, k.id).reader(p) != nil, now.shard(w, k.id).reader(p) != nil
		w.sometimes(ShardMoved, was && !is && now.placed(p, k.id.decl))
		w.sometimes(ShardCameBack, is && !was && !k.partial && k.log.next() > 0)
		if !is {
			k.leaves()
		}
	}
}

// receiver is the member's Receiver.
func (p *process) receiver(v *views.View, i int) multicast.Receiver {
	w := p.world
	in := newInbox(p, w.record(v).groups[i])
	if v.Subgroups[i].Mode != views.Persistent {
		return in
	}
	k := p.keeper(w.shardOf(v.Subgroups[i]))
	if k == nil {
		return nobody{}
	}
	k.inboxes = append(k.inboxes, in)
	return k
}

// Deliver implements multicast.Receiver.
func (k *keeper) Deliver(run []multicast.Message) int {
	switch {
	case k.partial:
	case k.proc.forgoing(k.id.decl) != nil:
		return 0 // what comes before is on its way to the application
	default:
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
	if !k.partial {
		return 0
	}
	k.copies = true
	work, through := k.forgo()
	if !through || k.fetch != nil || k.forgone || k.proc.forgoing(k.id.decl) != nil {
		return work
	}
	for len(k.waiting) > 0 {
		n := k.record(k.waiting)
		if n == 0 {
			return work
		}
		k.gave(n)
		work += n
	}
	k.copies, k.partial = false, false
	k.whole()
	k.proc.world.probes[CaughtUp]++
	k.proc.complete(k.id)
	k.proc.world.stir()
	if k.proc.world.trace.out != nil {
		k.proc.print("%s has caught up", k.proc.world.label(k.id))
	}
	return work + 1
}

// forgo hands the application what waits of a time for which the log was given up. It reports whether that is all of it.
func (k *keeper) forgo() (work int, through bool) {
	k.forgoing = true
	defer func() { k.forgoing = false }()
	for n := k.past(); n > 0; n = k.past() {
		if k.proc.forgoing(k.id.decl) != k {
			return work, false
		}
		taken := behind{k}.Deliver(k.waiting[:n])
		k.gave(taken)
		if work += taken; taken < n {
			return work, false
		}
	}
	return work, true
}

// whole says that the log lacks nothing any more.
func (k *keeper) whole() {
	p := k.proc
	if p.world.lax != LateWhole {
		k.recorder.SetPartial(false)
		return
	}
	p.world.later(p.world.plan.FailAfter(), func() {
		if !p.over && !p.told {
			k.recorder.SetPartial(false)
		}
	})
}

// past is how much of what waits is not recorded any more.
func (k *keeper) past() (n int) {
	for n < len(k.waiting) && (k.forgone || k.waiting[n].View < k.since) {
		n++
	}
	return n
}

// forgoing is the keeper out of which the application is still to be given what is not recorded, before anything of another shard; nil: there is none.
func (p *process) forgoing(decl int) (first *keeper) {
	for _, k := range p.keepers {
		if k.id.decl == decl && k.past() > 0 && (first == nil || k.waiting[0].View < first.waiting[0].View) {
			first = k
		}
	}
	return first
}

// gave drops what waited longest.
func (k *keeper) gave(n int) {
	for i := range k.waiting[:n] {
		if body := k.waiting[i].Body(); body != nil {
			body.Release()
		}
	}
	k.waiting = k.waiting[n:]
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
		in.reader.forgone = b.forgoing
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
	case !f.goesOn():
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
