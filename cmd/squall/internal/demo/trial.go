package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/testlab"
	"github.com/squall-go/squall/internal/proc"
)

// tickEvery is how often a trial looks whether something is due.
const tickEvery = 10 * time.Millisecond

// trial is the parent's side of a demo, as far as all kinds of demos are alike: it starts
// processes, hears what they say, and tells them what to do.
type trial struct {
	options
	course    course
	lines     [][]byte  // that all send
	log       io.Writer // gets what members log; nil: discarded
	story     *story
	processes []*process // by number - 1
	views     map[squall.ViewID][]squall.NodeID
	newest    squall.ViewID // in force anywhere
	ledger    testlab.Ledger
	parting   bool     // all leave, and views are not told any more
	due       []uint64 // by process: messages that all members must have when they finish; nil: they do not yet

	ctx     context.Context // of the members
	events  chan trialEvent
	over    chan struct{} // closed when no more events are received
	readers sync.WaitGroup
}

// course is what a trial of one kind has of its own.
type course interface {
	brief(*testlab.Spec)                       // tells a new process what only members of this kind need
	hear(trialEvent) error                     // takes what a member says, but for what all kinds take alike
	accounted(*process, *testlab.Answer) error // takes what a member has when it has all, or at its end
	ended(*process, error) error               // takes the end of a process
	tick() error                               // runs the actions whose time has come
	state(*process) string                     // how far a process is
}

// trialEvent is something that a member says, or its end: then err is how it ended, io.EOF if well.
type trialEvent struct {
	p *process
	testlab.News
	err error
}

var errTooLong = errors.New("not done")

// newTrial is a trial of which the course is missing. Standard output gets the story, unless it is
// for a program.
func newTrial(o options, t text, out, errs io.Writer) *trial {
	r := &trial{options: o, lines: t.lines, views: map[squall.ViewID][]squall.NodeID{}, events: make(chan trialEvent), over: make(chan struct{})}
	if o.Verbose {
		r.log = errs
	}
	if o.JSON {
		out = nil
	}
	r.story = newStory(out)
	return r
}

// begin starts the clock. When end returns no process is left.
func (t *trial) begin(ctx context.Context) (timed context.Context, end func()) {
	members, kill := context.WithCancel(ctx)
	t.ctx = members
	timed, stop := context.WithTimeoutCause(ctx, t.Duration+t.Timeout, errTooLong)
	return timed, func() {
		stop()
		close(t.over)
		kill()
		t.readers.Wait()
	}
}

// inTurn does the phases up to the first that fails.
func inTurn(ctx context.Context, phases ...func(context.Context) error) error {
	for _, phase := range phases {
		if err := phase(ctx); err != nil {
			return err
		}
	}
	return nil
}

// loop takes what members say until something holds.
func (t *trial) loop(ctx context.Context, done func() bool) error {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for !done() {
		var err error
		select {
		case e := <-t.events:
			err = t.take(e)
		case <-tick.C:
			err = errors.Join(t.course.tick(), t.ask())
		case <-ctx.Done():
			if err = context.Cause(ctx); errors.Is(err, errTooLong) {
				err = t.late()
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tick does nothing, for kinds of trials in which nothing is due at a time.
func (t *trial) tick() error { return nil }

// late says what is still waited for.
func (t *trial) late() error {
	var states []string
	for _, p := range t.processes {
		if p.stage != isKilled && p.stage != isGone {
			states = append(states, p.name()+" "+t.course.state(p))
		}
	}
	return fmt.Errorf("%w after %v: %s", errTooLong, t.Duration+t.Timeout, strings.Join(states, ", "))
}

// take takes what a member says.
func (t *trial) take(e trialEvent) error {
	switch {
	case e.err != nil:
		return t.course.ended(e.p, e.err)
	case e.Kind == testlab.NewsFault:
		return fmt.Errorf("%w: %s: %s", ErrDisagree, e.p.name(), e.Text)
	case e.Kind == testlab.NewsListening:
		e.p.addr = e.Text
		return nil
	case e.Kind == testlab.NewsView:
		if t.parting {
			return nil
		}
		if err := t.installed(e.p, e.View); err != nil {
			return err
		}
	case e.Kind == testlab.NewsAnswer:
		if err := t.answered(e.p, e.Answer); err != nil {
			return err
		}
	}
	return t.course.hear(e)
}

// answered takes an answer.
func (t *trial) answered(p *process, a *testlab.Answer) error {
	if a.Err != "" && a.Halted == "" {
		return fmt.Errorf("%s, told to %s: %s", p.name(), a.Do, a.Err)
	}
	switch a.Do {
	case testlab.DoHold:
		p.stopped = &a.Accepted[0] // if it has halted, that is told next
	case testlab.DoStatus:
		if p.asked = false; has(a.Lives[0], t.due) {
			return t.course.accounted(p, a)
		}
	case testlab.DoLeave:
		return t.course.accounted(p, a)
	}
	return nil
}

// has reports whether a state has so many messages of each process.
func has(l testlab.Lives, due []uint64) bool {
	for process, n := range due {
		if l.Of(process) < n {
			return false
		}
	}
	return true
}

// accounted takes what a member of a group has that nothing should happen to.
func (t *trial) accounted(p *process, a *testlab.Answer) error {
	if a.Halted != "" {
		return fmt.Errorf("%s halted: %s", p.name(), a.Halted)
	}
	before := p.account
	if p.account = a; before != nil && before.States[0].Messages != a.States[0].Messages {
		return fmt.Errorf("%w: %s delivered %d messages more after all that was sent", ErrDisagree, p.name(),
			a.States[0].Messages-before.States[0].Messages)
	}
	return nil
}

// ask asks the members that finish, and that lacked something when they were asked last.
func (t *trial) ask() (err error) {
	for _, p := range t.whole() {
		if t.due != nil && p.account == nil && !p.asked && err == nil {
			p.asked = true
			err = t.request(p, testlab.Request{Do: testlab.DoStatus})
		}
	}
	return err
}

// ended takes the end of a process that may have been meant to end, as in --chaos and --durable.
func (t *trial) ended(p *process, err error) error {
	p.heard = true
	switch {
	case p.stage == isKilled, p.stage == isOut, p.stage == hasLeft:
		return nil
	case p.stage == whole && p.account != nil && err == io.EOF:
		p.stage, p.until = isGone, t.story.now()
		return nil
	case err == io.EOF:
		return fmt.Errorf("%s ended too early: it %s", p.name(), p.stage)
	}
	return fmt.Errorf("%s: %w", p.name(), err)
}

// installed takes a view. With the first one the story begins.
func (t *trial) installed(p *process, v *testlab.Installed) error {
	nodes := v.Nodes()
	p.sees(v.ID)
	if known := t.views[v.ID]; known != nil {
		if !slices.Equal(known, nodes) {
			return fmt.Errorf("%w: view %d has the nodes %v at %s, and %v elsewhere", ErrDisagree, v.ID, nodes, p.name(), known)
		}
		return nil
	}
	if t.newest == 0 {
		t.story.start = time.Now()
	}
	t.newest = max(t.newest, v.ID)
	t.views[v.ID] = nodes
	t.story.tell("view", nil, "view %d: nodes %s", v.ID, strings.Trim(fmt.Sprint(nodes), "[]"))
	return nil
}

// found starts the first members: one that bootstraps the group, and then the others, which join
// it.
func (t *trial) found(ctx context.Context) error {
	for id := squall.NodeID(1); int(id) <= t.Nodes; id++ {
		if _, err := t.start(t.newcomer(id)); err != nil {
			return err
		}
		if err := t.loop(ctx, func() bool { return t.processes[0].addr != "" }); err != nil {
			return err
		}
	}
	return nil
}

// quiet is the level of a process that logs nothing.
const quiet = slog.LevelError + 1

// host is the loopback address to use.
func (o options) host() string {
	if o.IPv6 {
		return "::1"
	}
	return "127.0.0.1"
}

// newcomer returns what the next process is told, which joins the running members, in any kind of
// trial: that it sends all lines, over and over.
func (t *trial) newcomer(id squall.NodeID) testlab.Spec {
	s := testlab.Spec{
		Life: len(t.processes) + 1, Cluster: fmt.Sprintf("squall-demo-%d", os.Getpid()), ID: id, Listen: net.JoinHostPort(t.host(), "0"),
		Join: t.addresses(), Expect: t.Nodes, Fabric: fabrics[t.Fabric], Loads: []testlab.Load{{Lines: t.lines, Bytes: t.Size}}, Sends: true, Level: quiet,
	}
	if t.Verbose {
		s.Level = slog.LevelInfo
	}
	return s
}

// addresses are where members are now.
func (t *trial) addresses() (addrs []string) {
	for _, p := range t.processes {
		if p.addr != "" && p.answers() {
			addrs = append(addrs, p.addr)
		}
	}
	return addrs
}

// start starts a process.
func (t *trial) start(s testlab.Spec) (*process, error) {
	t.course.brief(&s)
	child, err := proc.Start(t.ctx, "demo "+testlab.Command, s, proc.Options{ID: int(s.ID), Log: t.log, Env: proc.Share(t.Nodes)})
	if err != nil {
		return nil, err
	}
	p := &process{number: s.Life, id: s.ID, child: child, stage: starting}
	t.processes = append(t.processes, p)
	t.readers.Go(func() { t.read(p) })
	return p, nil
}

// starts starts a process in the course of the story.
func (t *trial) starts(s testlab.Spec) error {
	again := ""
	if slices.ContainsFunc(t.processes, func(p *process) bool { return p.id == s.ID }) {
		again = " again"
	}
	p, err := t.start(s)
	if err == nil {
		t.story.tell("started", p, "node %d starts%s (process %d)", p.id, again, p.number)
	}
	return err
}

// read makes events of what a member says, up to its end.
func (t *trial) read(p *process) {
	defer func() {
		p.child.CloseInput()
		p.child.Wait()
	}()
	for {
		e := trialEvent{p: p}
		e.err = p.child.Receive(t.ctx, &e)
		select {
		case t.events <- e:
		case <-t.over:
			return
		}
		if e.err != nil {
			return
		}
	}
}

// whole are the members that have all of the state.
func (t *trial) whole() []*process { return t.at(whole) }

// stayed returns the processes that were members up to the end.
func (t *trial) stayed() []*process { return t.at(isGone) }

func (t *trial) at(s stage) (list []*process) {
	for _, p := range t.processes {
		if p.stage == s {
			list = append(list, p)
		}
	}
	return list
}

func (t *trial) all(holds func(*process) bool) bool { return every(t.whole(), holds) }

func every(list []*process, holds func(*process) bool) bool {
	return !slices.ContainsFunc(list, func(p *process) bool { return !holds(p) })
}

// tell tells all members to do something.
func (t *trial) tell(do string) error {
	var errs []error
	for _, p := range t.whole() {
		errs = append(errs, t.request(p, testlab.Request{Do: do}))
	}
	return errors.Join(errs...)
}

// request tells a member to do something, which may take as long as the trial. If the member is
// gone, its reader says so, and knows more.
func (t *trial) request(p *process, r testlab.Request) error {
	var exit *proc.Exit
	r.For = t.Duration + t.Timeout
	err := p.child.Send(r)
	if err != nil && err != io.EOF && !errors.As(err, &exit) {
		return err
	}
	return nil
}

// silence has all members stop sending.
func (t *trial) silence(ctx context.Context) error {
	t.story.tell("quiet", nil, "all stop sending")
	if err := t.tell(testlab.DoHold); err != nil {
		return err
	}
	return t.loop(ctx, func() bool { return t.all(func(p *process) bool { return p.stopped != nil }) })
}

// finish waits until all members have delivered all sent messages; of processes that could not
// report what they sent, all acknowledged ones.
func (t *trial) finish(ctx context.Context) error {
	t.due = make([]uint64, len(t.processes)+1)
	for _, p := range t.processes {
		t.due[p.number] = p.acked
		if p.stopped != nil {
			t.due[p.number] = *p.stopped
		}
	}
	return t.loop(ctx, func() bool { return t.all(func(p *process) bool { return p.account != nil }) })
}

// leave ends all members. What they say once more must be what they said before.
func (t *trial) leave(ctx context.Context) error {
	t.parting = true
	members := t.whole()
	if err := t.tell(testlab.DoLeave); err != nil {
		return err
	}
	return t.loop(ctx, func() bool { return every(members, func(p *process) bool { return p.stage == isGone }) })
}

// lastAccount returns the account of the last process that stayed; an empty one if none did.
func (t *trial) lastAccount() *testlab.Answer {
	last := &testlab.Answer{States: make([]testlab.State, 1), Lives: make([]testlab.Lives, 1)}
	for _, p := range t.stayed() {
		last = p.account
	}
	return last
}

// differences says how what members have differs from what the first one has.
func differences(stayed []*process) []string {
	var all []testlab.Account
	for _, p := range stayed {
		all = append(all, testlab.Account{Who: p.name(), Answer: p.account})
	}
	return testlab.Differ(all)
}
