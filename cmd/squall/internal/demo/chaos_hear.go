package demo

import (
	"fmt"
	"slices"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/testlab"
)

// hear takes what a member says.
func (r *chaosRun) hear(e trialEvent) error {
	p := e.p
	switch {
	case e.Kind == testlab.NewsView:
		return r.installed(p, e.View)
	case e.Kind == testlab.NewsMark:
		return r.marked(p, *e.Mark)
	case e.Kind == testlab.NewsPause:
		r.paused(p, *e.Pause)
	case e.Kind == testlab.NewsRestored:
		r.restored(p, *e.Restored)
	case e.Kind == testlab.NewsHalted && e.Answer != nil:
		return r.accounted(p, e.Answer)
	}
	return nil
}

// installed takes a view.
func (r *chaosRun) installed(p *process, v *testlab.Installed) error {
	if r.parting {
		return nil
	}
	p.sees(v.ID)
	if p.number <= r.Nodes && p.stage == starting { // it forms the group
		p.stage = whole
	}
	known := r.views[v.ID]
	if known != nil {
		if nodes := v.Nodes(); !slices.Equal(known.nodes, nodes) {
			return fmt.Errorf("%w: view %d has the nodes %v at %s, and %v elsewhere", ErrDisagree, v.ID, nodes, p.name(), known.nodes)
		}
		return nil
	}
	r.reached(v.ID)
	r.views[v.ID] = &view{nodes: v.Nodes()}
	r.story.tell(Happening{What: whatView, View: v.ID, Nodes: v.Nodes()})
	r.miss(v.Nodes())
	return nil
}

// miss notes the members that are not in a view any more.
func (r *chaosRun) miss(nodes []squall.NodeID) {
	for _, p := range r.processes {
		if p.stage == isHung && !p.missed && !slices.Contains(nodes, p.id) {
			p.missed = true
			r.vacate(p)
		}
	}
}

// marked compares a mark with what others said.
func (r *chaosRun) marked(p *process, m testlab.Mark) error {
	p.delivered = max(p.delivered, m.Messages)
	if err := r.ledger.Note(p.name(), m); err != nil {
		return fmt.Errorf("%w: %w", ErrDisagree, err)
	}
	return nil
}

// paused takes the pause that a member saw before the first message of a view.
func (r *chaosRun) paused(p *process, seen testlab.Pause) {
	p.longest = max(p.longest, seen.Took)
	if v := r.views[seen.View]; v != nil {
		v.pauses = append(v.pauses, Pause{p.id, int64(seen.Took)})
	}
}

// strikes notes that a member is not in the group any more.
func (r *chaosRun) strikes(p *process, s stage) { p.stage, p.until = s, r.story.now() }

// restored notes that a member has the state.
func (r *chaosRun) restored(p *process, got testlab.Restored) {
	if p.stage != starting {
		return
	}
	p.stage, p.from = whole, r.story.now()
	r.story.tell(Happening{
		What: whatRestored, Node: p.id, Process: p.number, Source: got.Source, Count: got.Messages, TookNs: int64(got.Took),
	})
}

// accounted takes what a member says at its end.
func (r *chaosRun) accounted(p *process, a *testlab.Answer) error {
	p.longest = max(p.longest, a.Longest)
	state := a.States[0]
	if err := r.marked(p, testlab.Mark{At: testlab.AtEnd, Messages: state.Messages, Digest: state.Digest}); err != nil {
		return err
	}
	if a.Halted != "" {
		p.account = a
		return r.lost(p, a)
	}
	if err := r.trial.accounted(p, a); err != nil {
		return err
	}
	if p.stage == isLeaving {
		r.strikes(p, hasLeft)
		r.story.tell(Happening{What: whatLeft, Node: p.id, Process: p.number})
		r.vacate(p)
	}
	return nil
}

// lost takes the end of a member that the others go on without.
func (r *chaosRun) lost(p *process, a *testlab.Answer) error {
	planned := p.stage == goesOn || p.stage == isHung
	if !planned && (a.Kind != testlab.HaltedEvicted || !r.refilling) {
		return fmt.Errorf("%s was removed, although the demo did not harm it: %s; if this machine is busy, try a longer --fail-after", p.name(), a.Halted)
	}
	r.strikes(p, isOut)
	r.story.tell(Happening{What: whatEvicted, Node: p.id, Process: p.number, Detail: a.Halted})
	if !planned {
		r.vacate(p)
	}
	return nil
}

// vacate has a new process take a place, in a while.
func (r *chaosRun) vacate(p *process) {
	v := opening{id: p.id, at: r.story.now() + r.plan.vacant(), again: true}
	if !r.plan.sameNode() {
		r.nodes++
		v.id, v.again = r.nodes, false
	}
	r.openings = append(r.openings, v)
}

// tick does what is due.
func (r *chaosRun) tick() error {
	if err := r.resume(); err != nil {
		return err
	}
	if r.refilling {
		if err := r.refill(); err != nil {
			return err
		}
	}
	if r.striking && r.story.now() >= r.next && r.Nodes-len(r.whole()) < (r.Nodes-1)/2 {
		r.next = r.story.now() + r.plan.rest()
		return r.strike()
	}
	return nil
}

// resume lets members go on that hung for long enough, and that the others have noticed.
func (r *chaosRun) resume() error {
	for _, p := range r.processes {
		if p.stage != isHung || !p.missed || r.story.now() < p.since+p.hangs {
			continue
		}
		if err := p.child.Continue(); err != nil {
			return fmt.Errorf("%s: %w", p.name(), err)
		}
		p.stage = goesOn
		r.story.tell(Happening{What: whatContinued, Node: p.id, Process: p.number})
	}
	return nil
}

// refill fills the places that are due.
func (r *chaosRun) refill() error {
	now := r.story.now()
	due := func(v opening) bool { return v.at <= now }
	for _, v := range r.openings {
		if !due(v) {
			continue
		}
		r.story.tell(Happening{What: whatStarted, Node: v.id, Process: len(r.processes) + 1, Again: v.again})
		if _, err := r.start(r.newcomer(v.id)); err != nil {
			return err
		}
	}
	r.openings = slices.DeleteFunc(r.openings, due)
	return nil
}

// strike lets something happen to a member.
func (r *chaosRun) strike() error {
	members := r.whole()
	p := members[r.plan.victim(len(members))]
	h := Happening{Node: p.id, Process: p.number}
	switch r.plan.fate() {
	case killed:
		h.What = whatKilled
		p.child.Kill()
		r.strikes(p, isKilled)
		r.vacate(p)
	case hung:
		if err := p.child.Stop(); err != nil {
			return fmt.Errorf("%s: %w", p.name(), err)
		}
		h.What = whatHung
		r.strikes(p, isHung)
		p.since, p.hangs = r.story.now(), r.plan.hang(r.FailAfter)
		h.HangsNs = int64(p.hangs)
	case leaves:
		h.What = whatLeaves
		r.strikes(p, isLeaving)
		r.story.tell(h)
		return r.request(p, testlab.Request{Do: testlab.DoLeave})
	}
	r.story.tell(h)
	return nil
}
