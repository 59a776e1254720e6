package demo

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/cmd/squall/internal/testlab"
)

// probesInAll is how many messages the unloaded phase has, about: with many members, fewer from
// each.
const probesInAll = 900

// autopsy is how long the parent waits, once a member is gone or missed, for what the others have
// to say about it. Before there is a group the others notice nothing.
const (
	autopsy         = 2 * time.Second
	autopsyUnformed = 300 * time.Millisecond
)

// run is the trial of a demo in which no member is to come to harm.
type run struct {
	*trial
	text   text
	total  uint64 // messages of all members
	bar    *show.Progress
	formed bool

	// By member.
	links     [][]string // by the other one
	progress  []uint64
	delivered []*delivered
	probed    []*latency
}

func newRun(t *trial, text text) *run {
	r := &run{
		trial: t, text: text, total: uint64(len(text.lines)) * uint64(t.Repeat),
		links: make([][]string, t.Nodes), progress: make([]uint64, t.Nodes), delivered: make([]*delivered, t.Nodes), probed: make([]*latency, t.Nodes),
	}
	t.course = r
	return r
}

// do runs the phases. Whatever happens, no member is left when it returns.
func (r *run) do(ctx context.Context) (*Result, error) {
	ctx, end := r.begin(ctx)
	defer end()
	defer r.bar.End()
	if err := inTurn(ctx, r.found, r.form, r.load, r.probe, r.leave); err != nil {
		return nil, err
	}
	return r.result(), nil
}

// brief tells a process its share of the lines, and how much all send.
func (r *run) brief(s *testlab.Spec) (command string, config any) {
	s.Loads = []testlab.Load{{Name: "lines", Lines: r.text.share(s.Life-1, r.Nodes), Bytes: r.Size}}
	return memberCommand, memberConfig{*s, r.Repeat, r.total, max(probesInAll/r.Nodes, 50)}
}

// hear takes what a member says.
func (r *run) hear(e trialEvent) error {
	i := e.p.number - 1
	switch {
	case e.Links != nil:
		e.p.stage, r.links[i] = whole, e.Links
	case e.Progress > 0:
		r.advance(i, e.Progress)
	case e.Delivered != nil:
		r.delivered[i] = e.Delivered
		r.advance(i, e.Delivered.Messages)
	case e.Probed != nil:
		r.probed[i] = e.Probed
	case e.Lost != nil:
		return r.inquire(e)
	}
	return nil
}

// ended takes the end of a member.
func (r *run) ended(p *process, err error) error {
	if r.parting && err == io.EOF {
		p.stage = isGone
		return nil
	}
	return r.inquire(trialEvent{p: p, err: err})
}

// state is how far a member is.
func (r *run) state(p *process) string {
	return fmt.Sprintf("delivered %d of %d messages", r.progress[p.number-1], r.total)
}

// inquire finds out which member is to blame for an untimely end: it listens a moment to the
// others.
func (r *run) inquire(first trialEvent) error {
	q := newFailureReport(r.processes)
	q.add(first)
	wait := autopsy
	if !r.formed {
		wait = autopsyUnformed
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for !q.complete() {
		select {
		case e := <-r.events:
			q.add(e)
		case <-r.ctx.Done():
			return context.Cause(r.ctx)
		case <-timer.C:
			return q.verdict()
		}
	}
	return q.verdict()
}

// form waits until all members are in the group.
func (r *run) form(ctx context.Context) error {
	if r.log != nil {
		for _, p := range r.processes {
			fmt.Fprintf(r.log, "member %d has pid %d\n", p.number, p.child.Pid())
		}
	}
	err := r.loop(ctx, func() bool { return len(r.whole()) == r.Nodes })
	if r.formed = err == nil; r.formed && r.log != nil {
		fmt.Fprintln(r.log, "the group has formed")
	}
	return err
}

func (r *run) load(ctx context.Context) error {
	if err := r.tell(testlab.DoSend); err != nil {
		return err
	}
	return r.loop(ctx, func() bool { return r.all(func(p *process) bool { return r.delivered[p.number-1] != nil }) })
}

// advance shows how far the slowest member is.
func (r *run) advance(i int, messages uint64) {
	r.progress[i] = messages
	slowest := r.progress[0]
	for _, n := range r.progress {
		slowest = min(slowest, n)
	}
	r.bar.Set(int64(slowest))
}

func (r *run) probe(ctx context.Context) error {
	r.bar.End()
	for i, p := range r.processes {
		if err := r.request(p, doProbe); err != nil {
			return err
		}
		if err := r.loop(ctx, func() bool { return r.probed[i] != nil }); err != nil {
			return err
		}
	}
	return nil
}
