package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/show"
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

// run is the parent's side of one demo.
type run struct {
	options
	text     text
	total    uint64    // messages of all members
	log      io.Writer // nil: the members log nothing
	bar      *show.Progress
	children []*proc.Child // by member, from the start on; nil if it could not be started
	events   chan event
	readers  sync.WaitGroup

	formed    bool
	links     [][]string // by member, then by the other one
	progress  []uint64
	delivered []*delivered
	probed    []*latency
}

// event is something that a member says, or its end: then err is how it ended, io.EOF if well.
type event struct {
	i int // the member, from 0
	report
	err error
}

func newRun(o options, t text) *run {
	return &run{
		options: o, text: t, total: uint64(len(t.lines)) * uint64(o.Repeat),
		children: make([]*proc.Child, o.Nodes), events: make(chan event, 4*o.Nodes),
		links: make([][]string, o.Nodes), progress: make([]uint64, o.Nodes),
		delivered: make([]*delivered, o.Nodes), probed: make([]*latency, o.Nodes),
	}
}

// do runs the phases. Whatever happens, no member is left when it returns.
func (r *run) do(ctx context.Context) (*Result, error) {
	deadline := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer r.readers.Wait()
	defer cancel()
	defer r.bar.End()
	for _, phase := range []func(context.Context) error{r.start, r.introduce, r.form, r.load, r.probe, r.close} {
		err := phase(ctx)
		if errors.Is(deadline.Err(), context.DeadlineExceeded) {
			return nil, fmt.Errorf("not done after %v; delivered of %d messages, by member: %d", r.Timeout, r.total, r.progress)
		}
		if err != nil {
			return nil, err
		}
	}
	return r.result(), nil
}

// start starts the members.
func (r *run) start(ctx context.Context) error {
	errs := make([]error, r.Nodes)
	share := proc.Share(r.Nodes)
	var starting sync.WaitGroup
	for i := range r.children {
		starting.Go(func() {
			c := config{
				ID: squall.NodeID(i + 1), Cluster: fmt.Sprintf("squall-demo-%d", os.Getpid()), Listen: net.JoinHostPort(r.host(), "0"),
				Nodes: r.Nodes, Fabric: r.Fabric, Lines: r.text.share(i, r.Nodes), Repeat: r.Repeat, Size: r.Size,
				Total: r.total, Probes: max(probesInAll/r.Nodes, 50), Verbose: r.Verbose,
			}
			r.children[i], errs[i] = proc.Start(ctx, "demo "+memberCommand, c, proc.Options{ID: i + 1, Log: r.log, Env: share})
		})
	}
	starting.Wait()
	for i, c := range r.children {
		if c != nil {
			r.readers.Go(func() { r.read(i) })
		}
	}
	return errors.Join(errs...)
}

// introduce tells the others where the founder listens. The system chooses its port: one that was
// free a moment ago may be taken now.
func (r *run) introduce(ctx context.Context) error {
	var founder string
	if err := r.await(ctx, 1, func(e event) bool {
		founder = e.Listening
		return founder != ""
	}); err != nil {
		return err
	}
	return r.tell(founder, r.children[1:]...)
}

// read makes events of what a member sends, up to its end. Nobody may listen any more when the demo
// fails, so the last ones must not wait for that.
func (r *run) read(i int) {
	c := r.children[i]
	for {
		e := event{i: i}
		// Without a context: cancelling the run kills the member, which ends this.
		e.err = c.Receive(context.Background(), &e.report)
		select {
		case r.events <- e:
		case <-c.Done():
			select {
			case r.events <- e:
			case <-time.After(autopsy):
			}
		}
		if e.err != nil {
			c.CloseInput()
			c.Wait()
			return
		}
	}
}

func (r *run) tell(what string, members ...*proc.Child) error {
	var errs []error
	for _, c := range members {
		errs = append(errs, tell(c, what))
	}
	return errors.Join(errs...)
}

// await takes events until n members have said what done looks for.
func (r *run) await(ctx context.Context, n int, done func(event) bool) error {
	for n > 0 {
		select {
		case e := <-r.events:
			switch {
			case done(e):
				n--
			case e.err != nil || e.Lost != nil:
				return r.inquire(ctx, e)
			case e.Progress > 0:
				r.advance(e)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// inquire finds out which member is to blame for an untimely end: it listens a moment to the
// others.
func (r *run) inquire(ctx context.Context, first event) error {
	q := newFailureReport(r.children)
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
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			return q.verdict()
		}
	}
	return q.verdict()
}

func (r *run) form(ctx context.Context) error {
	if r.log != nil {
		for i, c := range r.children {
			fmt.Fprintf(r.log, "member %d has pid %d\n", i+1, c.Pid())
		}
	}
	err := r.await(ctx, r.Nodes, func(e event) bool {
		r.links[e.i] = e.Links
		return e.Links != nil
	})
	if r.formed = err == nil; r.formed && r.log != nil {
		fmt.Fprintln(r.log, "the group has formed")
	}
	return err
}

func (r *run) load(ctx context.Context) error {
	if err := r.tell(doSend, r.children...); err != nil {
		return err
	}
	return r.await(ctx, r.Nodes, func(e event) bool {
		if e.Delivered == nil {
			return false
		}
		r.delivered[e.i] = e.Delivered
		e.Progress = e.Delivered.Messages
		r.advance(e)
		return true
	})
}

// advance shows how far the slowest member is.
func (r *run) advance(e event) {
	r.progress[e.i] = e.Progress
	slowest := r.progress[0]
	for _, n := range r.progress {
		slowest = min(slowest, n)
	}
	r.bar.Set(int64(slowest))
}

func (r *run) probe(ctx context.Context) error {
	r.bar.End()
	for _, c := range r.children {
		if err := r.tell(doProbe, c); err != nil {
			return err
		}
		if err := r.await(ctx, 1, func(e event) bool {
			r.probed[e.i] = e.Probed
			return e.Probed != nil
		}); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) close(ctx context.Context) error {
	if err := r.tell(doLeave, r.children...); err != nil {
		return err
	}
	return r.await(ctx, r.Nodes, func(e event) bool { return e.err == io.EOF })
}
