package sim

import (
	"errors"
	"slices"
	"syscall"

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

// Begin implements member.Receiver.
func (nobody) Begin(*views.View, int) {}

// Whole implements member.Receiver.
func (nobody) Whole() bool { return true }

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
		Self: p.self.ID, Observe: func(t order.Time) { p.member.Hear(t) },
	})
	p.keepers = append(p.keepers, k)
	return k, nil
}

// lacks begins to fetch what was delivered before a view.
func (k *keeper) lacks(v *views.View) {
	k.partial, k.since, k.forgone = true, v.ID, false
	k.recorder.Lacks(v.ID)
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
func (p *process) receiver(v *views.View, i int) member.Receiver {
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
	case k.proc.world.after(k.id.decl) && k.sitting() && k.proc.left(k.id, run[0].View): // of the time before it left, and came back
		return k.recorder.Keep(run)
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

// Begin implements member.Receiver.
func (k *keeper) Begin(*views.View, int) {}

// Whole implements member.Receiver.
func (k *keeper) Whole() bool { return !k.partial }

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
	k.proc.world.stir()
	if k.proc.world.trace.out != nil {
		k.proc.print("%s has caught up", k.proc.world.label(k.id))
	}
	return work + 1
}

// forgo hands the application what waits of a time for which the log was given up, unless the application sees only what is on
// every disk. It reports whether that is all of it.
func (k *keeper) forgo() (work int, through bool) {
	k.forgoing = true
	defer func() { k.forgoing = false }()
	for n := k.past(); n > 0; n = k.past() {
		if k.proc.world.after(k.id.decl) {
			k.forget(n)
			work += n
			continue
		}
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

// forget drops what the application is not given.
func (k *keeper) forget(n int) {
	w, l := k.proc.world, k.proc.ledgers[k.id.decl]
	for i := range k.waiting[:n] {
		if m := &k.waiting[i]; m.Sender == k.proc.self.ID {
			w.judge("log", l.record(w, k.id, m.Version()))
		}
	}
	k.gave(n)
}

// whole says soon that the log lacks nothing any more, unless its member has left the shard by then, and may have come into it again.
func (k *keeper) whole() {
	p, w, since, soon := k.proc, k.proc.world, k.since, k.proc.world.plan.Hop()
	if w.lax == LateWhole {
		soon = w.plan.FailAfter()
	}
	w.later(soon, func() {
		if !p.over && !p.told && (k.since == since && !k.forgone || w.lax == LateWhole) {
			k.recorder.Whole()
			p.wake()
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
	if !k.proc.world.after(k.id.decl) {
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
