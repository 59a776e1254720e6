package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/cmd/squall/internal/testlab"
	"github.com/squall-go/squall/internal/proc"
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
}

func newRun(t *trial, text text) *run {
	r := &run{trial: t, text: text, total: uint64(len(text.lines)) * uint64(t.Repeat)}
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
	err := r.verdict(ctx)
	return r.result(err), err
}

// brief sets the lines of the text that a process sends after the start command.
func (r *run) brief(s *testlab.Spec) {
	s.Sends = false
	lines := r.text.share(s.Life-1, r.Nodes)
	s.Loads = []testlab.Load{{Name: "lines", Lines: lines, Bytes: r.Size, Most: uint64(len(lines) * r.Repeat), Timed: true, Total: r.total}}
}

// hear takes what a member says.
func (r *run) hear(e trialEvent) error {
	p := e.p
	switch {
	case e.Kind == testlab.NewsEvent:
		p.said = e.Text
	case e.Kind == testlab.NewsHalted:
		p.said = e.Text
		return r.inquire()
	case e.Kind == testlab.NewsView && p.stage == starting:
		p.stage = whole
	case e.Kind == testlab.NewsView && len(e.View.Members) < r.Nodes && !r.parting:
		return r.inquire()
	case e.Kind == testlab.NewsMark:
		if p.delivered = e.Mark.Messages; p.delivered == r.total {
			return r.request(p, testlab.Request{Do: testlab.DoStatus})
		}
	case e.Kind == testlab.NewsAnswer && e.Answer.Do == testlab.DoProbe:
		p.probed = e.Answer
	}
	return nil
}

// accounted takes what a member has of the loaded phase.
func (r *run) accounted(p *process, a *testlab.Answer) error {
	if a.Do == testlab.DoStatus {
		p.account = a
	}
	return nil
}

// ended takes the end of a member.
func (r *run) ended(p *process, err error) error {
	if r.parting && err == io.EOF {
		return r.trial.ended(p, err)
	}
	p.end = err
	return r.inquire()
}

// state is how far a member is.
func (r *run) state(p *process) string {
	return fmt.Sprintf("delivered %d of %d messages", p.delivered, r.total)
}

// inquire finds out which member is to blame for an untimely end: it listens a moment to all. One
// end may bring others about, so the first to be seen need not be the first to have gone.
func (r *run) inquire() error {
	wait := autopsy
	if !r.formed {
		wait = autopsyUnformed
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for !r.explained() {
		select {
		case e := <-r.events:
			if e.err != nil {
				e.p.end = e.err
			} else if e.Kind == testlab.NewsEvent || e.Kind == testlab.NewsHalted {
				e.p.said = e.Text
			}
		case <-r.ctx.Done():
			return context.Cause(r.ctx)
		case <-timer.C:
			return blame(r.processes)
		}
	}
	return blame(r.processes)
}

// explained reports whether some member has ended, and each of the others has ended or said
// something.
func (r *run) explained() bool {
	return !every(r.processes, func(p *process) bool { return p.end == nil }) &&
		every(r.processes, func(p *process) bool { return p.end != nil || p.said != "" })
}

// blame names the members that failed, and what the others say. Members that were killed come
// first, then members that ended in another way.
func blame(processes []*process) error {
	var killed, failed, early []error
	var witnesses []int
	said := ""
	for _, p := range processes {
		var exit *proc.Exit
		switch {
		case p.end == io.EOF:
			early = append(early, fmt.Errorf("%s ended too early", p.name()))
		case errors.As(p.end, &exit) && exit.Signal != 0:
			killed = append(killed, p.end)
		case p.end != nil:
			failed = append(failed, p.end)
		case p.said != "":
			if witnesses = append(witnesses, p.number); said == "" {
				said = p.said
			}
		}
	}
	for _, causes := range [][]error{killed, failed, early} {
		if err := errors.Join(causes...); err != nil && said != "" {
			return fmt.Errorf("%w; %s: %s", err, those(witnesses, "reports", "report"), said)
		} else if err != nil {
			return err
		}
	}
	if said == "" {
		return errors.New("the demo ended early, and no member says why")
	}
	return fmt.Errorf("%s: %s", those(witnesses, "reports", "report"), said)
}

// those names members in a sentence: "member 1 reports", "members 1, 3 and 4 report".
func those(ids []int, one, many string) string {
	if len(ids) == 1 {
		return fmt.Sprintf("member %d %s", ids[0], one)
	}
	words := strings.Fields(strings.Trim(fmt.Sprint(ids), "[]"))
	last := len(words) - 1
	return fmt.Sprintf("members %s and %s %s", strings.Join(words[:last], ", "), words[last], many)
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

// load has all members send their shares, and waits until all have delivered everything.
func (r *run) load(ctx context.Context) error {
	for i, p := range r.processes {
		if len(r.text.share(i, r.Nodes)) > 0 { // without a limit, a load sends on and on
			if err := r.request(p, testlab.Request{Do: testlab.DoSend}); err != nil {
				return err
			}
		}
	}
	return r.loop(ctx, func() bool { return r.all(func(p *process) bool { return p.account != nil }) })
}

// tick shows how far the slowest member is.
func (r *run) tick() error {
	slowest := r.total
	for _, p := range r.processes {
		slowest = min(slowest, p.delivered)
	}
	r.bar.Set(int64(slowest))
	return nil
}

func (r *run) probe(ctx context.Context) error {
	r.bar.End()
	for _, p := range r.processes {
		if err := r.request(p, testlab.Request{Do: testlab.DoProbe, Count: max(probesInAll/r.Nodes, 50)}); err != nil {
			return err
		}
		if err := r.loop(ctx, func() bool { return p.probed != nil }); err != nil {
			return err
		}
	}
	return nil
}
