package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/squall-go/squall/internal/life"
	"github.com/squall-go/squall/internal/restart"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// What package life decides for a process is performed here in virtual time.

// begin is the first that a process does: it reads what it has to remember.
func (p *process) begin() {
	var known restart.State
	var logs []restart.LogID
	if p.node.disk != nil {
		var err error
		if p.memory, err = p.recall(); err != nil {
			p.world.fail(violated("G6", "node %d does not know what it has to remember: %w", p.self.ID, err))
			return
		}
		known, logs = p.memory.State(), p.onDisk()
	}
	p.life = life.New(life.Config{Self: p.self.ID, Ask: p.asks(), Declarations: p.world.plan.Decls})
	p.live(p.life.Start(known, logs))
}

// onDisk are the logs that the processes before have left.
func (p *process) onDisk() (logs []restart.LogID) {
	for k, d := range p.world.plan.Decls {
		for shard := range d.ShardCount() {
			if id := (shardID{k, shard}); d.Mode == views.Persistent && p.node.disk.logs[id.dir()] != nil {
				logs = append(logs, p.world.logID(id))
			}
		}
	}
	return logs
}

// live performs an effect and the effects that follow, up to one that takes time.
func (p *process) live(e life.Effect) {
	for {
		r, done := p.perform(e)
		if !done || p.over {
			return
		}
		e = p.life.Ended(r)
	}
}

// lived is the end of an effect that took time.
func (p *process) lived(r life.Result) { p.live(p.life.Ended(r)) }

// noteSelf stores the identity of this process. With anew it replaces an identity that may be a
// member of the current view.
func (p *process) noteSelf(anew bool) {
	if anew {
		p.former = p.self.Incarnation
		p.self.Incarnation++
		p.blamed("goes on as another process")
	}
	p.must(p.memory.Begin(p.self))
	p.self.Disk = p.memory.Disk()
}

func (p *process) enterView(v *views.View) {
	w := p.world
	w.checkGroup(p, v)
	if p.memory != nil {
		w.judge("restart", w.checkInForce(p, v))
	}
	if err := p.enter(v); err != nil {
		w.fail(err)
	}
}

// perform does what package life wants done, and reports whether it is done. What fails ends the
// process at once.
func (p *process) perform(e life.Effect) (r life.Result, done bool) {
	w := p.world
	switch e.Do {
	case life.OpenLog, life.CutDamage, life.SetAside:
		return p.openDamaged(e), true
	case life.NoteLack:
		p.must(p.memory.MarkIncomplete(e.Log))
	case life.NoteSelf:
		p.noteSelf(e.Anew)
	case life.Restart:
		p.comeBack()
		return r, false
	case life.FindMember:
		r.Addr = p.answers(e.Ask)
	case life.CatchUp:
		p.catchUpAhead(e)
		return r, false
	case life.Join:
		if w.history.last != nil { // the initial members of a world get its first view together
			p.ask(e.Ask)
			p.wake()
		}
		return r, false
	case life.NoteView:
		if w.now > 0 { // initial members did so before the world begins
			p.hangs = max(p.hangs, w.now+p.node.disk.takes(memoName, w.now))
		}
		p.must(p.memory.Enter(e.View, e.Logs))
	case life.Begin:
		p.enterView(e.View)
		return r, false
	case life.Fail:
		p.must(e.Err)
		return r, false
	}
	return r, true
}

// openDamaged opens a log. The end of a log that the plan has damaged is dropped, if others have
// the lost records; if they do not, an operator has put a copy in its place.
func (p *process) openDamaged(e life.Effect) (r life.Result) {
	w, id := p.world, p.world.shardOfLog(e.Log)
	i := slices.Index(p.node.damaged, id)
	bad := i >= 0 && p.memory.State().Elsewhere(e.Log)
	switch {
	case e.Do == life.OpenLog && bad:
		return life.Result{Outcome: life.Damaged, Err: errDamaged}
	case e.Do == life.CutDamage && p.node.disk.dice.oneIn(8):
		return life.Result{Outcome: life.Damaged, Err: errDamaged}
	}
	k, err := p.keep(id)
	if err == nil && e.Do != life.OpenLog {
		keeps := 0
		if e.Do == life.CutDamage {
			keeps = p.node.disk.dice.IntN(int(k.log.next()) + 1)
		}
		err = k.log.cutFrom(uint64(keeps))
		w.probes[LogRepaired]++
	}
	if i >= 0 {
		p.node.damaged = slices.Delete(p.node.damaged, i, i+1)
	}
	p.must(err)
	return r
}

var errDamaged = errors.New("its end cannot be read")

// answers is the address of the first of some processes that answers as a member; empty: none does.
func (p *process) answers(ask []string) string {
	if len(ask) == 0 {
		return ""
	}
	first := p.random.IntN(len(ask))
	for i := range ask {
		addr := ask[(first+i)%len(ask)]
		if q := p.at(0, addr); q != nil && q != p && q.member != nil {
			return addr
		}
	}
	return ""
}

// catchUpAhead has a log catch up before the process joins.
func (p *process) catchUpAhead(e life.Effect) {
	p.routine(p.held, func(wait func(time.Duration)) {
		r := p.catchUp(e, func() bool { return false }, func(pause time.Duration) bool {
			wait(pause)
			return true
		})
		p.world.sometimes(CaughtUpAhead, r.Outcome == life.Done)
		p.lived(r)
	}).begin(p.world.now)
}

// reconciling brings a process's logs to where a restart agreed that they end.
type reconciling struct {
	proc    *process
	wait    func(time.Duration)
	stopped bool
}

// reconcile begins that, after a while.
func (p *process) reconcile(r restart.Reconciliation, pause time.Duration) {
	m := &reconciling{proc: p}
	held := func(now time.Duration) (time.Duration, bool) { return never, p.over || p.core.Over() }
	p.reconciling = m
	p.routine(held, func(wait func(time.Duration)) {
		m.wait = wait
		err := life.Reconcile(p.self.ID, r.Plan, fetchPauses(p.world.plan), m.perform)
		p.obey(p.core.Reconciled(p.local(), r.Ballot, err))
		p.wake()
	}).begin(p.world.now + pause)
}

// perform does what package life decides.
func (m *reconciling) perform(e life.Effect) (r life.Result) {
	p := m.proc
	switch {
	case m.stopped:
	case e.Do == life.CatchUp:
		r = p.catchUp(e, func() bool { return m.stopped }, func(pause time.Duration) bool {
			m.wait(pause)
			return true
		})
	case e.Do == life.Rest:
		m.wait(e.Pause)
	case e.Do == life.EmptyLog:
		k, err := p.keep(p.world.shardOfLog(e.Log))
		if err == nil {
			err = k.log.cutFrom(0)
		}
		p.must(err)
	}
	if m.stopped {
		r = life.Result{Outcome: life.Stopped, Err: errStopped}
	}
	m.wait(0)
	return r
}

// shardOfLog is the shard of a log's name.
func (w *world) shardOfLog(id restart.LogID) shardID { return shardID{w.declNamed(id.Name), id.Shard} }

// at is the process of a node or, if that is 0, at an address; nil: there is none, or it cannot be
// reached.
func (p *process) at(id order.NodeID, addr string) *process {
	w := p.world
	n := w.nodeAt(addr)
	if id != 0 {
		n = w.nodes[w.placeOf[id]]
	}
	if n == nil || n.proc == nil || n.proc.over || n.proc.told || !w.near(p, n.proc) {
		return nil
	}
	return n.proc
}
