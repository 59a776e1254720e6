package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/proc"
)

// chaosOptions are those of a run with --chaos.
type chaosOptions struct {
	Nodes     int
	Fabric    squall.Fabric
	FabricAs  string // as it was asked for
	Lines     [][]byte
	Size      int    // bytes of a message; 0 is the line's own and a header
	Host      string // a loopback address
	Duration  time.Duration
	FailAfter time.Duration
	Timeout   time.Duration // beyond Duration
	Seed      uint64        // 0: any
	Story     io.Writer     // is told what happens, as it does; nil: nobody
	Log       io.Writer     // gets what members log; nil: nobody
}

// leastNodes is how many members there must be, so that the others are a majority when one is gone.
const leastNodes = 3

const (
	tickEvery = 10 * time.Millisecond
	// pausesWithin is how long a view waits to be told for the pauses that its members saw.
	pausesWithin = time.Second
	// dumpWithin is how long members may take to write down what they know, when something is wrong.
	dumpWithin = 2 * time.Second
)

// ordeal is the parent's side of a demo with --chaos.
type ordeal struct {
	chaosOptions
	plan      *plan
	story     *story
	ledger    *ledger
	dir       string // of the members' events
	processes []*process
	views     map[squall.ViewID]*view
	newest    squall.ViewID
	vacancies []vacancy
	nodes     squall.NodeID // the highest id so far
	next      time.Duration // when something may happen next
	striking  bool          // things happen
	refilling bool          // new processes take the places of others
	parting   bool          // all leave, and views are not told any more

	ctx     context.Context // of the members
	events  chan ordealEvent
	over    chan struct{} // nobody takes events any more
	readers sync.WaitGroup
}

// view is what members say of a view.
type view struct {
	nodes  []squall.NodeID
	told   *Happening
	expect []int // processes whose pauses are to come
	pauses []Pause
}

// vacancy is a place that a new process takes.
type vacancy struct {
	id    squall.NodeID
	at    time.Duration
	again bool
}

// ordealEvent is something that a member says, or its end: then err is how it ended, io.EOF if well.
type ordealEvent struct {
	p *process
	subjectReport
	err error
}

// runOrdeal does a whole run. It returns what is known also with an error. Whatever happens, no process is left when it returns; unless ctx has
// ended, the directory that the error names has what happened to each.
func runOrdeal(ctx context.Context, o chaosOptions) (*ChaosResult, error) {
	if o.Seed == 0 {
		o.Seed = uint64(rand.Uint32()) + 1
	}
	dir, err := os.MkdirTemp("", "squall-chaos-")
	if err != nil {
		return nil, err
	}
	r := &ordeal{
		chaosOptions: o, plan: newPlan(o.Seed), story: newStory(o.Story), ledger: newLedger(), dir: dir, views: map[squall.ViewID]*view{},
		events: make(chan ordealEvent), over: make(chan struct{}),
	}
	result, err := r.do(ctx)
	if err == nil || ctx.Err() != nil {
		return result, errors.Join(err, os.RemoveAll(dir))
	}
	r.keep()
	return result, fmt.Errorf("%w\nwhat happened to each member is in %s", err, dir)
}

// do runs the phases.
func (r *ordeal) do(ctx context.Context) (*ChaosResult, error) {
	members, cancel := context.WithCancel(ctx)
	r.ctx = members
	r.begin()
	defer r.readers.Wait()
	defer cancel()
	defer close(r.over)
	defer r.story.end()
	ctx, stop := context.WithTimeoutCause(ctx, r.Duration+r.Timeout, errTooLong)
	defer stop()
	for _, phase := range []func(context.Context) error{r.found, r.form, r.harm, r.settle, r.silence, r.finish, r.leave} {
		if err := phase(ctx); err != nil {
			if ctx.Err() == nil || errors.Is(err, errTooLong) {
				r.dump()
			}
			return r.result(err), err
		}
	}
	err := r.verdict()
	return r.result(err), err
}

// begin says what can be said before anything happens.
func (r *ordeal) begin() {
	if r.Story != nil {
		fmt.Fprintf(r.Story, "%d nodes, fabric %s, a member that is silent for %v is removed; --seed %d\n", r.Nodes, r.FabricAs, r.FailAfter, r.Seed)
	}
}

var errTooLong = errors.New("not done in time")

// loop takes what members say until something holds.
func (r *ordeal) loop(ctx context.Context, done func() bool) error {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for !done() {
		var err error
		select {
		case e := <-r.events:
			err = r.hear(e)
		case <-tick.C:
			err = r.tick()
		case <-ctx.Done():
			if err = context.Cause(ctx); errors.Is(err, errTooLong) {
				err = r.late()
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// late says what is still waited for.
func (r *ordeal) late() error {
	var states []string
	for _, p := range r.processes {
		if p.stage != isKilled && p.stage != isGone {
			state := string(p.stage)
			if p.stage == whole && p.stopped != nil && p.account == nil {
				state = "has not delivered all that was sent"
			}
			states = append(states, p.who()+" "+state)
		}
	}
	return fmt.Errorf("%w, %v and %v: %s", errTooLong, r.Duration, r.Timeout, strings.Join(states, ", "))
}

// found starts the first member, which founds the group.
func (r *ordeal) found(ctx context.Context) error {
	r.nodes = squall.NodeID(r.Nodes)
	if err := r.start(1, false); err != nil {
		return err
	}
	founder := r.processes[0]
	return r.loop(ctx, func() bool { return founder.addr != "" })
}

// form starts the others, and waits until all are in the first view.
func (r *ordeal) form(ctx context.Context) error {
	for id := 2; id <= r.Nodes; id++ {
		if err := r.start(squall.NodeID(id), false); err != nil {
			return err
		}
	}
	for _, p := range r.processes {
		p.first = true
	}
	return r.loop(ctx, func() bool { return len(r.whole()) == r.Nodes })
}

// harm lets things happen until time is up.
func (r *ordeal) harm(ctx context.Context) error {
	r.striking, r.refilling = true, true
	r.next = r.story.now() + r.plan.rest()
	err := r.loop(ctx, func() bool { return r.story.now() >= r.Duration })
	r.striking = false
	return err
}

// settle waits until all places are taken again.
func (r *ordeal) settle(ctx context.Context) error {
	err := r.loop(ctx, func() bool {
		return len(r.whole()) == r.Nodes && !slices.ContainsFunc(r.processes, func(p *process) bool { return p.stage == goesOn || p.stage == isHung })
	})
	r.refilling = false
	return err
}

// silence has all members stop sending.
func (r *ordeal) silence(ctx context.Context) error {
	r.story.tell(Happening{What: whatQuiet})
	if err := r.tell(order{Stop: true}); err != nil {
		return err
	}
	return r.loop(ctx, func() bool { return r.all(func(p *process) bool { return p.stopped != nil }) })
}

// finish waits until all members have delivered what was sent.
func (r *ordeal) finish(ctx context.Context) error {
	sent := make([]uint64, len(r.processes)+1)
	for _, p := range r.processes {
		if p.stopped != nil {
			sent[p.number] = *p.stopped
		}
	}
	if err := r.tell(order{Finish: sent}); err != nil {
		return err
	}
	return r.loop(ctx, func() bool { return r.all(func(p *process) bool { return p.account != nil }) })
}

// leave ends all members. What they say once more must be what they said before.
func (r *ordeal) leave(ctx context.Context) error {
	r.parting = true
	members := r.whole()
	if err := r.tell(order{Leave: true}); err != nil {
		return err
	}
	return r.loop(ctx, func() bool {
		return !slices.ContainsFunc(members, func(p *process) bool { return p.stage != isGone })
	})
}

// whole are the members that have all of the state.
func (r *ordeal) whole() (list []*process) {
	for _, p := range r.processes {
		if p.stage == whole {
			list = append(list, p)
		}
	}
	return list
}

func (r *ordeal) all(holds func(*process) bool) bool {
	return !slices.ContainsFunc(r.whole(), func(p *process) bool { return !holds(p) })
}

// tell tells all members to do something.
func (r *ordeal) tell(do order) error {
	var errs []error
	for _, p := range r.whole() {
		errs = append(errs, r.order(p, do))
	}
	return errors.Join(errs...)
}

// order tells a member to do something. If it is gone, its reader says so, and knows more.
func (r *ordeal) order(p *process, do order) error {
	var exit *proc.Exit
	if err := p.child.Send(do); err != nil && err != io.EOF && !errors.As(err, &exit) {
		return err
	}
	return nil
}

// start starts a process.
func (r *ordeal) start(id squall.NodeID, again bool) error {
	p := &process{number: len(r.processes) + 1, id: id, stage: starting, again: again}
	c := subjectConfig{
		ID: id, Process: p.number, Cluster: fmt.Sprintf("squall-chaos-%d", os.Getpid()), Subgroup: "chaos", Listen: net.JoinHostPort(r.Host, "0"), Join: r.addresses(),
		Expect: r.Nodes, Fabric: r.Fabric, FailAfter: r.FailAfter, Lines: r.Lines, Size: r.Size, Verbose: r.Log != nil,
		Events: filepath.Join(r.dir, fmt.Sprintf("process-%d-node-%d", p.number, id)),
	}
	o := proc.Options{ID: int(id), Log: r.Log, Env: proc.Share(r.Nodes)}
	var err error
	if p.child, err = proc.Start(r.ctx, "demo "+heirCommand, c, o); err != nil {
		return err
	}
	r.processes = append(r.processes, p)
	r.readers.Go(func() { r.read(p) })
	return nil
}

// addresses are where members are now.
func (r *ordeal) addresses() (addrs []string) {
	for _, p := range r.processes {
		if p.addr != "" && p.answers() {
			addrs = append(addrs, p.addr)
		}
	}
	return addrs
}

// read makes events of what a member says, up to its end.
func (r *ordeal) read(p *process) {
	defer func() {
		p.child.CloseInput()
		p.child.Wait()
	}()
	for {
		e := ordealEvent{p: p}
		e.err = p.child.Receive(r.ctx, &e.subjectReport)
		select {
		case r.events <- e:
		case <-r.over:
			return
		}
		if e.err != nil {
			return
		}
	}
}

// dump has all members that answer write down what they know.
func (r *ordeal) dump() {
	ctx, cancel := context.WithTimeout(r.ctx, dumpWithin)
	defer cancel()
	asked := r.whole()
	for _, p := range asked {
		r.order(p, order{Dump: true})
	}
	for slices.ContainsFunc(asked, func(p *process) bool { return !p.dumped }) {
		select {
		case e := <-r.events:
			e.p.dumped = e.p.dumped || e.Dumped || e.err != nil
		case <-ctx.Done():
			return
		}
	}
}

// keep adds the story to what is kept.
func (r *ordeal) keep() {
	var text strings.Builder
	fmt.Fprintf(&text, "seed %d\n", r.Seed)
	for _, h := range r.story.all {
		fmt.Fprintln(&text, h)
	}
	os.WriteFile(filepath.Join(r.dir, "story"), []byte(text.String()), 0o600)
}
