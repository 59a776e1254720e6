package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/testlab"
	"github.com/squall-go/squall/internal/proc"
	"github.com/squall-go/squall/persist"
)

const (
	// durableDuration is how long the members send by default: their logs are read four times
	// afterwards.
	durableDuration = 4 * time.Second
	// durableSubgroup is what the logs are of.
	durableSubgroup = "durable"
	// mostUnacked is how many messages of a member may be in flight to disks.
	mostUnacked = 4096
)

// durableRun is the trial of a demo with --durable. What the nodes keep is below Dir.
type durableRun struct {
	*trial
	acked   uint64        // messages that were acknowledged before all were killed
	onDisks uint64        // messages that were on every disk when that was read last
	restart time.Duration // from the first start to all in a view
}

func newDurableRun(t *trial) *durableRun {
	r := &durableRun{trial: t}
	t.course = r
	return r
}

// runDurable does the whole demo with --durable: standard output gets the story and the table, or
// the one JSON object. The logs stay if the demo failed, or if their directory was named.
func (o options) runDurable(ctx context.Context, t text, out, errs io.Writer) (err error) {
	named := o.Dir != ""
	if !named {
		if o.Dir, err = os.MkdirTemp("", "squall-durable-"); err != nil {
			return err
		}
	}
	result, err := newDurableRun(newTrial(o, t, out, errs)).run(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		err = fmt.Errorf("%w\nthe members' logs are in %s", err, o.Dir)
	case !named:
		err = errors.Join(err, os.RemoveAll(o.Dir))
	}
	return o.conclude(ctx, result, out, err)
}

// run does all of it. It returns what is known also with an error.
func (r *durableRun) run(ctx context.Context) (*Account, error) {
	r.story.title(r.title())
	ctx, end := r.begin(ctx)
	defer end()
	err := inTurn(ctx, r.found, r.together, r.load, r.killAll, r.readDisks, r.comeBack, r.load, r.silence, r.finish, r.leave, r.readDisks, r.verdict)
	return r.result(err), err
}

func (r *durableRun) title() string {
	if r.Nodes == 1 {
		return fmt.Sprintf("1 node, fabric %s; it keeps what it delivers in a log, engine %v", r.Fabric, r.Engine)
	}
	return fmt.Sprintf("%d nodes, fabric %s; each keeps what it delivers in a log of its own, engine %v", r.Nodes, r.Fabric, r.Engine)
}

const durableLegend = `acknowledged: messages of the process that it knows to be on every disk. Kept: messages of it in the one sequence;
one that was killed had some in flight, which may be there or not. From the log: messages of all that its log told of.`

func (r *durableRun) result(fault error) *Account {
	a := r.told(fault)
	a.Durable = &Durable{Engine: r.Engine, Restart: r.restart.Seconds(), Before: r.acked, OnDisks: r.onDisks}
	for _, p := range r.processes {
		a.Acknowledged += p.acked
	}
	a.header = table.Row{"process", "node", "fate", "from the log", "acknowledged", "kept", "state, messages", "digest"}
	a.row = func(p ProcessResult) table.Row {
		messages, digest := p.state()
		recovered := "–"
		if p.Recovered != nil {
			recovered = comma(*p.Recovered)
		}
		return table.Row{p.Process, p.Node, p.Fate, recovered, comma(p.Acknowledged), comma(p.Delivered), messages, digest}
	}
	a.legend = durableLegend
	have := fmt.Sprintf("all %d members have the same", r.Nodes)
	if r.Nodes == 1 {
		have = "the only member has its"
	}
	a.conclusion = fmt.Sprintf("%s %s messages in order, on their disks too; nothing acknowledged is lost, %s of it before all were killed",
		have, comma(a.Messages), comma(r.acked))
	return a
}

// verdict also compares what the members have with what is on every disk.
func (r *durableRun) verdict(ctx context.Context) error {
	err := r.trial.verdict(ctx)
	if have := r.lastAccount().States[0].Messages; r.onDisks != have {
		err = errors.Join(err, fmt.Errorf("%w: the members have %d messages, and %d are on every disk", ErrDisagree, have, r.onDisks))
	}
	return err
}

// nodeDir is what a node keeps.
func nodeDir(dir string, id squall.NodeID) string {
	return filepath.Join(dir, fmt.Sprintf("node-%d", id))
}

// brief tells a process what to keep its log in.
func (r *durableRun) brief(s *testlab.Spec) {
	s.Cluster, s.Dir, s.Loads = "squall-durable-demo", nodeDir(r.Dir, s.ID), []testlab.Load{r.kept()}
}

// kept is the load that members send, and keep in their logs.
func (r *durableRun) kept() testlab.Load {
	return testlab.Load{
		Name: durableSubgroup, Lines: r.lines, Bytes: r.Size, Durable: true, Engine: r.Engine, Acks: mostUnacked, Newest: true,
	}
}

// state is how far a process is.
func (r *durableRun) state(p *process) string {
	if p.waits != "" && p.views[1] == 0 {
		return "waits for " + p.waits
	}
	return fmt.Sprintf("has %d messages acknowledged", p.acked)
}

// hear takes what a member says.
func (r *durableRun) hear(e trialEvent) error {
	p := e.p
	switch e.Kind {
	case testlab.NewsEvent:
		if why, waits := strings.CutPrefix(e.Text, "waiting for "); waits && p.waits != why {
			p.waits = why
			r.story.tell("waits", p, "node %d waits for %s", p.id, why)
		}
	case testlab.NewsRestored:
		p.stage, p.recovered = whole, &e.Restored.Messages
		if r.acked > 0 {
			r.story.restored(p, e.Restored.Messages, "its log", e.Restored.Took)
		}
	case testlab.NewsAcked:
		p.acked = e.Acked[len(e.Acked)-1].Number + 1
	case testlab.NewsHalted:
		return fmt.Errorf("%s halted: %s", p.name(), e.Text)
	}
	return nil
}

// together waits until all members are in one view, and have what their logs tell.
func (r *durableRun) together(ctx context.Context) error {
	return r.loop(ctx, func() bool {
		return len(r.views[r.newest]) == r.Nodes && len(r.whole()) == r.Nodes && r.all(func(p *process) bool { return p.views[1] == r.newest })
	})
}

// load lets the members send for half of the time, and until each of them was acknowledged
// something.
func (r *durableRun) load(ctx context.Context) error {
	until := time.Now().Add(r.Duration / 2)
	return r.loop(ctx, func() bool {
		return time.Now().After(until) && r.all(func(p *process) bool { return p.acked > 0 })
	})
}

// killAll kills all processes at once, so that no view of fewer members is installed. What they
// reported until then counts.
func (r *durableRun) killAll(ctx context.Context) error {
	var children []*proc.Child
	for _, p := range r.processes {
		p.stage = isKilled
		children = append(children, p.child)
	}
	proc.CutPower(children...)
	if err := r.loop(ctx, func() bool { return every(r.processes, func(p *process) bool { return p.heard }) }); err != nil {
		return err
	}
	for _, p := range r.processes {
		r.acked += p.acked
	}
	r.story.tell("all killed", nil, "all killed; %s messages were acknowledged", comma(r.acked))
	return nil
}

// readDisks reads what the members' logs have, while none of them runs, and looks whether
// everything that was acknowledged is there.
func (r *durableRun) readDisks(ctx context.Context) error {
	var most uint64
	var dirs []string
	load := r.kept()
	for id := squall.NodeID(1); int(id) <= r.Nodes; id++ {
		dir := nodeDir(r.Dir, id)
		state, lives, err := testlab.ReadDisk(ctx, dir, &load)
		if err != nil {
			return fmt.Errorf("the log of node %d: %w", id, err)
		}
		for _, p := range r.processes {
			if n := lives.Of(p.number); n < p.acked {
				return fmt.Errorf("%w: of %d acknowledged messages of %s, the log of node %d has %d", ErrLost, p.acked, p.name(), id, n)
			}
		}
		most = max(most, state.Messages)
		dirs = append(dirs, dir)
	}
	all, err := persist.CompareLogs(ctx, dirs...)
	r.onDisks = 0
	for _, c := range all {
		if r.onDisks += c.Records; c.Differ != "" {
			err = errors.Join(err, fmt.Errorf("%w: %s", ErrDisagree, c.Differ))
		}
	}
	if err != nil {
		return err
	}
	besides := ""
	if more := most - r.onDisks; more > 0 {
		besides = fmt.Sprintf("; one has %s more, which were not acknowledged", comma(more))
	}
	r.story.tell("disks", nil, "the logs, record by record: %s messages are on every disk, the same ones%s", comma(r.onDisks), besides)
	return nil
}

// comeBack starts all nodes again, in another order, where they were.
func (r *durableRun) comeBack(ctx context.Context) error {
	begin := time.Now()
	first := slices.Clone(r.processes)
	var join []string
	for _, p := range first {
		join = append(join, p.addr)
	}
	for _, p := range slices.Backward(first) {
		s := r.newcomer(p.id)
		s.Listen, s.Join = p.addr, join
		if err := r.starts(s); err != nil {
			return err
		}
		again := r.processes[len(r.processes)-1]
		// Each waits for the others, and says so, but for the last ones: they find enough of them.
		if err := r.loop(ctx, func() bool { return again.waits != "" || again.views[1] != 0 }); err != nil {
			return err
		}
	}
	err := r.together(ctx)
	r.restart = time.Since(begin)
	return err
}
