package demo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/testlab"
)

// leastNodes is how many members there must be, so that the others are a majority when one is gone.
const leastNodes = 3

// dumpWithin is how long members may take to write down what they know, when something is wrong.
const dumpWithin = 2 * time.Second

// chaosRun is the trial of a demo with --chaos.
type chaosRun struct {
	*trial
	plan      *plan
	ledger    testlab.Ledger
	dir       string // of the members' events
	views     map[squall.ViewID]*view
	openings  []opening
	nodes     squall.NodeID // the highest id so far
	next      time.Duration // when something may happen next
	striking  bool          // things happen
	refilling bool          // new processes take the places of others
}

// view is what members say of a view.
type view struct {
	nodes  []squall.NodeID
	pauses []Pause
}

// opening is a place that a new process takes.
type opening struct {
	id    squall.NodeID
	at    time.Duration
	again bool
}

// newChaosRun returns a run whose seed is known. The directory gets what happens to each member.
func newChaosRun(t *trial, dir string) *chaosRun {
	r := &chaosRun{trial: t, plan: newPlan(t.Seed), dir: dir, views: map[squall.ViewID]*view{}, nodes: squall.NodeID(t.Nodes)}
	t.course = r
	return r
}

// run does all of it. It returns what is known also with an error.
func (r *chaosRun) run(ctx context.Context) (*ChaosResult, error) {
	r.story.title(fmt.Sprintf("%d nodes, fabric %s, a member that is silent for %v is removed; --seed %d", r.Nodes, r.Fabric, r.FailAfter, r.Seed))
	ctx, end := r.begin(ctx)
	defer end()
	err := inTurn(ctx, r.found, r.form, r.harm, r.settle, r.silence, r.finish, r.leave, r.verdict)
	if err != nil {
		r.dump()
		r.keep()
	}
	return r.result(err), err
}

// brief tells a process when another one has failed, and where to write down what happens to it.
func (r *chaosRun) brief(s *testlab.Spec) {
	s.FailAfter, s.Loads[0].Name, s.Loads[0].Stateful = r.FailAfter, "chaos", true
	s.Events = filepath.Join(r.dir, fmt.Sprintf("process-%d-node-%d", s.Life, s.ID))
}

// state is how far a process is.
func (r *chaosRun) state(p *process) string {
	if p.stage == whole && p.stopped != nil && p.account == nil {
		return "has not delivered all that was sent"
	}
	return string(p.stage)
}

// form waits until all are in the first view.
func (r *chaosRun) form(ctx context.Context) error {
	return r.loop(ctx, func() bool { return len(r.whole()) == r.Nodes })
}

// harm lets things happen until time is up.
func (r *chaosRun) harm(ctx context.Context) error {
	r.striking, r.refilling = true, true
	r.next = r.story.now() + r.plan.rest()
	err := r.loop(ctx, func() bool { return r.story.now() >= r.Duration })
	r.striking = false
	return err
}

// settle waits until all places are taken again.
func (r *chaosRun) settle(ctx context.Context) error {
	err := r.loop(ctx, func() bool { return len(r.whole()) == r.Nodes && len(r.at(isHung)) == 0 && len(r.at(goesOn)) == 0 })
	r.refilling = false
	return err
}

// dump has all members that answer write down what they know.
func (r *chaosRun) dump() {
	ctx, cancel := context.WithTimeout(r.ctx, dumpWithin)
	defer cancel()
	asked := r.whole()
	for _, p := range asked {
		r.request(p, testlab.Request{Do: testlab.DoDump})
	}
	for !every(asked, func(p *process) bool { return p.dumped }) {
		select {
		case e := <-r.events:
			e.p.dumped = e.p.dumped || e.err != nil || e.Answer != nil && e.Answer.Do == testlab.DoDump
		case <-ctx.Done():
			return
		}
	}
}

// keep adds the story to what is kept.
func (r *chaosRun) keep() {
	var text strings.Builder
	fmt.Fprintf(&text, "seed %d\n", r.Seed)
	for _, h := range r.story.all {
		fmt.Fprintln(&text, h)
	}
	os.WriteFile(filepath.Join(r.dir, "story"), []byte(text.String()), 0o600)
}
