package sim

import (
	"errors"
	"slices"
	"syscall"

	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// keeper is a process's log of a shard, over all views, and the recorder in front of it.
type keeper struct {
	proc     *process
	id       shardID
	log      *diskLog
	recorder *member.Recorder

	partial bool          // it lacks what others have
	since   order.ViewID  // the view in which it became that
	here    order.Version // said to be on disk: as it was checked last
	seat    *seat         // in which it was
	line    int           // where the control line is there; less than 0: it is in no such shard there
}

// unseenBytes is how much may wait until every disk has it.
const unseenBytes = 1 << 20

// epoch is when the wall clocks of a world begin.
const epoch = order.Time(1_700_000_000_000_000_000)

// wall is the process's wall clock: its error is given by the plan, and it jumps with the process.
func (p *process) wall() order.Time { return epoch + order.Time(p.local()+p.node.Skew) }

// keeper is the process's log of a shard, or nil.
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

// recorder is the member's Recorder. Package life had the log opened.
func (p *process) recorder(v *views.View, i int) *member.Recorder {
	sg := v.Subgroups[i]
	k := p.keeper(p.world.shardOf(sg))
	if self, _ := v.RankOf(p.self.ID); k.partial && !slices.Contains(sg.Fresh, self) && !slices.Contains(sg.Partial, self) {
		p.world.judge("log", violated("G6", "%v lacks something, and counts as complete in view %d", k.log, v.ID))
	}
	return k.recorder
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
		Log: log, Receiver: p.stays[id.decl], AfterPersist: w.after(id.decl), Memory: unseenBytes,
		Self: p.self.ID, Observe: func(t order.Time) { p.member.Hear(t) },
	})
	p.keepers = append(p.keepers, k)
	return k, nil
}

// complete notes that the log lacks nothing any more.
func (k *keeper) complete() {
	w := k.proc.world
	if w.lax == LateWhole {
		w.later(w.plan.FailAfter(), func() {
			if !k.proc.over && !k.proc.told {
				k.partial = false
				k.recorder.Whole()
				k.proc.wake()
			}
		})
		return
	}
	k.partial = false
	k.recorder.Whole()
}

// placed looks where the process is now, and was before.
func (p *process) placed(v *views.View) {
	w, now := p.world, p.world.record(v)
	before := now
	if len(p.seats) > 1 {
		before = p.seats[len(p.seats)-2].record
	}
	for i, g := range before.groups {
		moved := g.reader(p) != nil && now.groups[i].reader(p) == nil && now.placed(p, g.decl)
		w.sometimes(StateMoved, moved && g.sg.Mode == views.Ordered && w.hasState(g.decl))
	}
	for _, k := range p.keepers {
		was, is := before.shard(w, k.id).reader(p) != nil, now.shard(w, k.id).reader(p) != nil
		w.sometimes(ShardMoved, was && !is && now.placed(p, k.id.decl))
		w.sometimes(ShardCameBack, is && !was && !k.partial && k.log.next() > 0)
	}
}
