package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/testlab"
	"github.com/squall-go/squall/internal/proc"
	"github.com/squall-go/squall/persist"
)

// durableSubgroup is what the logs are of.
const durableSubgroup = "durable"

// mostUnacked is how many messages of a member may be on their way to disks.
const mostUnacked = 4096

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

// run does all of it. It returns what is known also with an error.
func (r *durableRun) run(ctx context.Context) (*DurableResult, error) {
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
	if p.waits != "" && p.view == nil {
		return "waits for " + p.waits
	}
	return fmt.Sprintf("has %d messages acknowledged", p.acked)
}

// hear takes what a member says.
func (r *durableRun) hear(e trialEvent) error {
	switch e.Kind {
	case testlab.NewsView:
		r.installed(e.p, e.View)
	case testlab.NewsEvent:
		if why, waits := strings.CutPrefix(e.Text, "waiting for "); waits {
			r.waits(e.p, why)
		}
	case testlab.NewsRestored:
		r.recovered(e.p, *e.Restored)
	case testlab.NewsAcked:
		e.p.acked = e.Acked[len(e.Acked)-1].Number + 1
	case testlab.NewsHalted:
		return fmt.Errorf("%s halted: %s", e.p.name(), e.Text)
	}
	return nil
}

func (r *durableRun) installed(p *process, v *testlab.Installed) {
	if p.view == nil || p.view.ID < v.ID {
		p.view = v
	}
	if v.ID <= r.newest || r.parting {
		return
	}
	r.reached(v.ID)
	r.story.tell(Happening{What: whatView, View: v.ID, Nodes: v.Nodes()})
}

func (r *durableRun) waits(p *process, why string) {
	if p.waits != why {
		p.waits = why
		r.story.tell(Happening{What: whatWaits, Node: p.id, Process: p.number, Detail: why})
	}
}

func (r *durableRun) recovered(p *process, got testlab.Restored) {
	p.stage, p.recovered = whole, &got.Messages
	if r.acked > 0 {
		r.story.tell(Happening{What: whatRecovered, Node: p.id, Process: p.number, Count: got.Messages, TookNs: int64(got.Took)})
	}
}

// together waits until all members are in one view, and have what their logs tell.
func (r *durableRun) together(ctx context.Context) error {
	return r.loop(ctx, func() bool {
		return len(r.whole()) == r.Nodes && r.all(func(p *process) bool { return p.view != nil && p.view.ID == r.newest && len(p.view.Members) == r.Nodes })
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
	r.story.tell(Happening{What: whatAllKilled, Count: r.acked})
	return nil
}

// readDisks reads what the members' logs have, while none of them runs, and looks whether
// everything that was acknowledged is there.
func (r *durableRun) readDisks(ctx context.Context) error {
	var most uint64
	load := r.kept()
	for id := squall.NodeID(1); int(id) <= r.Nodes; id++ {
		state, lives, err := testlab.ReadDisk(ctx, nodeDir(r.Dir, id), &load)
		if err != nil {
			return fmt.Errorf("the log of node %d: %w", id, err)
		}
		for _, p := range r.processes {
			if n := lives.Of(p.number); n < p.acked {
				return fmt.Errorf("%w: of %d acknowledged messages of %s, the log of node %d has %d", ErrLost, p.acked, p.name(), id, n)
			}
		}
		most = max(most, state.Messages)
	}
	same, err := r.compareDisks(ctx)
	if err != nil {
		return err
	}
	r.onDisks = same
	r.story.tell(Happening{What: whatDisks, Count: same, More: most - same})
	return nil
}

// compareDisks is how many messages all logs have, which must be the same ones.
func (r *durableRun) compareDisks(ctx context.Context) (same uint64, err error) {
	var dirs []string
	for id := squall.NodeID(1); int(id) <= r.Nodes; id++ {
		dirs = append(dirs, nodeDir(r.Dir, id))
	}
	all, err := persist.CompareLogs(ctx, dirs...)
	for _, c := range all {
		if same += c.Records; c.Differ != "" {
			err = errors.Join(err, fmt.Errorf("%w: %s", ErrDisagree, c.Differ))
		}
	}
	return same, err
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
		again, err := r.start(s)
		if err != nil {
			return err
		}
		r.story.tell(Happening{What: whatStarted, Node: p.id, Process: again.number, Again: true})
		// Each waits for the others, and says so, but for the last ones: they find enough of them.
		if err := r.loop(ctx, func() bool { return again.waits != "" || again.view != nil }); err != nil {
			return err
		}
	}
	err := r.together(ctx)
	r.restart = time.Since(begin)
	return err
}
