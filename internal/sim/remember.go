package sim

import (
	"errors"
	"slices"
	"syscall"

	"github.com/squall-go/squall/internal/life"
	"github.com/squall-go/squall/internal/restart"
	"github.com/squall-go/squall/internal/viewchange"
	"github.com/squall-go/squall/views"
)

// What a process has to remember of its group, whatever happens to it, is on its disk before it
// counts.

// safe is what is on the platter for sure as a process ends.
type safe struct {
	id      shardID
	records uint64
}

// mustHave is how many records a log has, whatever happened.
func (n *node) mustHave(id shardID) uint64 {
	for _, s := range n.safe {
		if s.id == id {
			return s.records
		}
	}
	return 0
}

// leaveDisk is what the end of a process does to its disk.
func (p *process) leaveDisk() {
	d := p.node.disk
	if d == nil {
		return
	}
	for _, k := range p.keepers { // what it did not open is as it was
		p.node.safe = slices.DeleteFunc(p.node.safe, func(s safe) bool { return s.id == k.id })
		p.node.safe = append(p.node.safe, safe{k.id, k.log.platter().Records})
	}
	if d.full = false; p.unpowered { // an operator makes room before the next process begins
		d.powerOff()
	}
}

// recall reads what the processes before have put down.
func (p *process) recall() (*restart.Memory, error) {
	return restart.Load(openMemo(p.node.disk, &p.node.disk.memo))
}

// must ends a process that cannot remember what it has to.
func (p *process) must(err error) {
	switch {
	case err == nil:
	case errors.Is(err, syscall.ENOSPC):
		p.crashed("its disk is full")
	default:
		p.world.fail(violated("G6", "node %d: %w", p.self.ID, err))
	}
}

// memoName is the name of what is remembered.
const memoName = "meta"

// notes has something written down soon, behind what was to be written before.
func (p *process) notes(what func() error) {
	if p.memory == nil {
		return
	}
	w := p.world
	p.noted = max(p.noted+1, w.now+p.node.disk.takes(memoName, w.now))
	w.callAt(p.noted, func() {
		p.survive(func() {
			if p.over || p.told {
				return
			}
			if err := what(); err != nil {
				p.diskFailed(err)
			}
		})
	})
}

// diskFailed ends a member: it must not go on as if it kept what it delivers.
func (p *process) diskFailed(err error) {
	if p.member != nil {
		p.member.Call(func() { p.member.Halt(err) })
	}
}

// recordDecision is the member's Record.
func (p *process) recordDecision() func(*views.View, viewchange.Ballot, *viewchange.Decision, func()) {
	if p.memory == nil {
		return nil
	}
	return func(v *views.View, b viewchange.Ballot, d *viewchange.Decision, done func()) {
		p.recording++
		p.world.sometimes(RecordedTwice, p.recording > 1)
		p.notes(func() error {
			p.recording--
			for _, e := range p.life.Decision(d.View) {
				if e.Do == life.NoteDecision {
					if err := p.memory.Echo(v.ID, b, d.View); err != nil {
						return err
					}
				} else if _, err := p.keep(p.world.shardOfLog(e.Log)); err != nil {
					return err
				}
			}
			done()
			return nil
		})
	}
}

// observeLogs has the clock be behind nothing that is in the logs.
func (p *process) observeLogs() {
	for _, k := range p.keepers {
		p.member.Observe(k.log.book.End().Time)
	}
}

// logID is a log's name.
func (w *world) logID(id shardID) restart.LogID {
	return restart.LogID{Name: w.plan.Decls[id.decl].Name, Shard: id.shard}
}
