package demo

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/testlab"
)

// leastNodes is how many members there must be, so that the others are a majority when one is gone.
const leastNodes = 3

// chaosRun is the trial of a demo with --chaos. Equal seeds draw the same faults; when the next one
// comes is up to the members and the machine.
type chaosRun struct {
	*trial
	random    *rand.Rand
	fates     []func(*process) error // of the next members, in a drawn order
	openings  []opening
	nodes     squall.NodeID // the highest id so far
	next      time.Duration // when something may happen next
	striking  bool          // things happen
	refilling bool          // new processes take the places of others
}

// opening is a place that a new process takes.
type opening struct {
	id squall.NodeID
	at time.Duration
}

// newChaosRun returns a run whose seed is known.
func newChaosRun(t *trial) *chaosRun {
	r := &chaosRun{trial: t, random: rand.New(rand.NewPCG(t.Seed, 0)), nodes: squall.NodeID(t.Nodes)}
	t.course = r
	return r
}

// runChaos does the whole demo with --chaos: standard output gets the story and the table, or the
// one JSON object.
func (o options) runChaos(ctx context.Context, t text, out, errs io.Writer) error {
	if o.Seed == 0 {
		o.Seed = uint64(rand.Uint32()) + 1
	}
	result, err := newChaosRun(newTrial(o, t, out, errs)).run(ctx)
	return o.conclude(ctx, result, out, err)
}

// run does all of it. It returns what is known also with an error.
func (r *chaosRun) run(ctx context.Context) (*Account, error) {
	r.story.title(fmt.Sprintf("%d nodes, fabric %s, a member that is silent for %v is removed; --seed %d", r.Nodes, r.Fabric, r.FailAfter, r.Seed))
	ctx, end := r.begin(ctx)
	defer end()
	err := inTurn(ctx, r.found, r.form, r.harm, r.settle, r.silence, r.finish, r.leave, r.verdict)
	return r.result(err), err
}

const chaosLegend = `sent: messages that came into the sequence. State: all messages of the run so far, also those before this process; it came
from the others, as far as this one did not deliver them. A process that was killed could not say how far it was.`

func (r *chaosRun) result(fault error) *Account {
	a := r.told(fault)
	a.Chaos = &Chaos{r.Seed, r.FailAfter.Seconds()}
	a.header = table.Row{"process", "node", "from", "until", "fate", "views", "sent", "state, messages", "digest", "longest pause"}
	a.row = func(p ProcessResult) table.Row {
		messages, digest := p.state()
		early := p.Until == 0 // the run ended before it did
		return table.Row{
			p.Process, p.Node, seconds(p.From), unless(early, seconds(p.Until)), p.Fate, fmt.Sprintf("%d–%d", p.FirstView, p.LastView),
			unless(early, comma(p.Delivered)), messages, digest, unless(p.Digest == "", milliseconds(time.Duration(p.LongestNs))),
		}
	}
	a.legend = chaosLegend
	a.conclusion = fmt.Sprintf("all %d members have the same %s messages in the same order, over %d views; nothing that a survivor sent is missing",
		a.Nodes, comma(a.Messages), len(a.Views))
	return a
}

// brief tells a process when another one has failed.
func (r *chaosRun) brief(s *testlab.Spec) {
	s.FailAfter, s.Loads[0].Name, s.Loads[0].Stateful = r.FailAfter, "chaos", true
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
	r.next = r.story.now() + r.rest()
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

// hear takes what a member says.
func (r *chaosRun) hear(e trialEvent) error {
	p := e.p
	switch {
	case e.Kind == testlab.NewsView:
		r.installed(p, e.View)
	case e.Kind == testlab.NewsMark:
		return r.marked(p, *e.Mark)
	case e.Kind == testlab.NewsRestored && p.stage == starting:
		p.stage, p.from = whole, r.story.now()
		r.story.restored(p, e.Restored.Messages, fmt.Sprintf("node %d", e.Restored.Source), e.Restored.Took)
	case e.Kind == testlab.NewsHalted && e.Answer != nil:
		return r.accounted(p, e.Answer)
	}
	return nil
}

// installed notes which processes are no longer in a view.
func (r *chaosRun) installed(by *process, v *testlab.Installed) {
	if by.number <= r.Nodes && by.stage == starting { // it forms the group
		by.stage = whole
	}
	for _, p := range r.at(isHung) {
		if !p.missed && !slices.Contains(v.Nodes(), p.id) {
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

// ends notes that a member is not in the group any more.
func (r *chaosRun) ends(p *process, s stage) { p.stage, p.until = s, r.story.now() }

// accounted takes what a member says at its end.
func (r *chaosRun) accounted(p *process, a *testlab.Answer) error {
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
		r.ends(p, hasLeft)
		r.story.tell("left", p, "node %d has left", p.id)
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
	r.ends(p, isOut)
	why, _, _ := strings.Cut(a.Halted, ";")
	r.story.tell("evicted", p, "node %d is out: %s", p.id, why)
	if !planned {
		r.vacate(p)
	}
	return nil
}

// vacate has a new process take a place, in a while: the same node twice as often as another one.
func (r *chaosRun) vacate(p *process) {
	o := opening{p.id, r.story.now() + r.between(0, 600*time.Millisecond)}
	if r.random.IntN(3) == 0 {
		r.nodes++
		o.id = r.nodes
	}
	r.openings = append(r.openings, o)
}

// tick does everything whose time has come.
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
		r.next = r.story.now() + r.rest()
		return r.strike()
	}
	return nil
}

// resume lets members go on that hung for long enough, and that the others have noticed.
func (r *chaosRun) resume() error {
	for _, p := range r.at(isHung) {
		if !p.missed || r.story.now() < p.until+p.hangs {
			continue
		}
		if err := p.child.Continue(); err != nil {
			return fmt.Errorf("%s: %w", p.name(), err)
		}
		p.stage = goesOn
		r.story.tell("continued", p, "node %d goes on", p.id)
	}
	return nil
}

// refill fills the places whose time has come.
func (r *chaosRun) refill() error {
	openings := r.openings
	r.openings = nil
	for _, o := range openings {
		if o.at > r.story.now() {
			r.openings = append(r.openings, o)
			continue
		}
		if err := r.starts(r.newcomer(o.id)); err != nil {
			return err
		}
	}
	return nil
}

// rest is for how long nothing happens next.
func (r *chaosRun) rest() time.Duration { return r.between(200*time.Millisecond, 800*time.Millisecond) }

func (r *chaosRun) between(least, most time.Duration) time.Duration {
	return least + time.Duration(r.random.Int64N(int64(most-least)))
}

// strike lets something happen to a member. Each fate comes once before one comes again, so that
// also a short run has all of them.
func (r *chaosRun) strike() error {
	if len(r.fates) == 0 {
		r.fates = []func(*process) error{r.kill, r.hang, r.dismiss}
		r.random.Shuffle(len(r.fates), func(i, j int) { r.fates[i], r.fates[j] = r.fates[j], r.fates[i] })
	}
	fate := r.fates[0]
	r.fates = r.fates[1:]
	members := r.whole()
	return fate(members[r.random.IntN(len(members))])
}

func (r *chaosRun) kill(p *process) error {
	p.child.Kill()
	r.ends(p, isKilled)
	r.vacate(p)
	r.story.tell("killed", p, "node %d killed", p.id)
	return nil
}

func (r *chaosRun) hang(p *process) error {
	if err := p.child.Stop(); err != nil {
		return fmt.Errorf("%s: %w", p.name(), err)
	}
	r.ends(p, isHung)
	p.hangs = r.between(r.FailAfter*5/4, r.FailAfter*2)
	r.story.tell("hung", p, "node %d hangs, for %s", p.id, p.hangs.Round(time.Millisecond))
	return nil
}

func (r *chaosRun) dismiss(p *process) error {
	r.ends(p, isLeaving)
	r.story.tell("leaves", p, "node %d leaves", p.id)
	return r.request(p, testlab.Request{Do: testlab.DoLeave})
}
