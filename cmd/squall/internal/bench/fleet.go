package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/squall-go/squall/internal/netlab"
	"github.com/squall-go/squall/internal/proc"
	"github.com/squall-go/squall/internal/wait"
)

// Times that a run may take beyond its window.
const (
	startWithin = 45 * time.Second
	endWithin   = 10 * time.Second
	// AnswerWithin is how long members may take for a request that has nothing to wait for.
	AnswerWithin = 20 * time.Second
	// SettleWithin is how long members may take to deliver, and to keep, what was sent.
	SettleWithin = 30 * time.Second
)

// Fleet is the processes of a run.
type Fleet struct {
	children []*proc.Child
	outer    context.Context // its end kills the processes
	ctx      context.Context // ends also with the first process that does
	cancel   context.CancelCauseFunc
	watched  sync.WaitGroup
	ending   chan struct{} // closed when processes may end
	killed   sync.Map      // *proc.Child that may end before that
	end      sync.Once
	dir      string // of all processes, removed at the end; empty: there is none

	Lab *netlab.Lab // of the hosts that the processes are on; nil: all are on this one
}

// FleetConfig says which processes to start.
type FleetConfig struct {
	Workload string
	Count    int
	Spec     any         // what all processes do, for the Open of the workload
	Logs     string      // each process gets a directory of its own below a temporary one in this one; empty: none does
	Env      []string    // added to this process's environment
	Link     netlab.Rate // each process is on a host of its own, whose link has this rate; 0: all are on this one
}

// Run starts the processes, calls do, ends the processes, and removes their directories.
func Run(ctx context.Context, c FleetConfig, do func(f *Fleet) error) error {
	f, err := Start(ctx, c)
	if err != nil {
		return err
	}
	err = do(f)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return errors.Join(err, f.removeDirs())
}

func (f *Fleet) removeDirs() error {
	if f.dir == "" {
		return nil
	}
	return os.RemoveAll(f.dir)
}

// Start starts the processes and connects them. They end with ctx.
func Start(ctx context.Context, c FleetConfig) (*Fleet, error) {
	f := &Fleet{outer: ctx, ending: make(chan struct{})}
	f.ctx, f.cancel = context.WithCancelCause(ctx)
	if err := f.start(c); err != nil {
		return nil, errors.Join(f.why(err), f.Close(), f.removeDirs())
	}
	return f, nil
}

func (f *Fleet) start(c FleetConfig) (err error) {
	if c.Logs != "" {
		if f.dir, err = os.MkdirTemp(c.Logs, "squall-bench-"); err != nil {
			return err
		}
	}
	if c.Link > 0 {
		if f.Lab, err = netlab.New(netlab.Config{Hosts: c.Count, Rate: c.Link}); err != nil {
			return err
		}
	}
	for node := 1; node <= c.Count; node++ {
		if err := f.startOne(c, node); err != nil {
			return err
		}
	}
	return f.connect()
}

func (f *Fleet) startOne(c FleetConfig, node int) error {
	j := job{Workload: c.Workload, Node: node, Host: "127.0.0.1", Spec: Args(c.Spec)}
	if f.dir != "" {
		j.Dir = f.Dir(node)
		if err := os.Mkdir(j.Dir, 0o700); err != nil {
			return err
		}
	}
	o := proc.Options{ID: node, Env: c.Env}
	if f.Lab != nil {
		host := f.Lab.Hosts[node-1]
		j.Host, o.Enter = host.Addr, host.Enter
	}
	child, err := proc.Start(f.outer, MemberCommand, j, o)
	if err != nil {
		return err
	}
	f.children = append(f.children, child)
	f.watched.Go(func() { f.watch(child) })
	return nil
}

// Dir is the directory of a process.
func (f *Fleet) Dir(node int) string { return filepath.Join(f.dir, strconv.Itoa(node)) }

// connect tells every process where the others listen.
func (f *Fleet) connect() error {
	ctx, cancel := context.WithTimeoutCause(f.ctx, startWithin, errors.New("the members did not come together in time"))
	defer cancel()
	greetings := make([]greeting, len(f.children))
	if err := f.receive(ctx, func(i int) any { return &greetings[i] }); err != nil {
		return err
	}
	var all peers
	for _, g := range greetings {
		all.Addrs = append(all.Addrs, g.Addr)
	}
	for _, c := range f.children {
		if err := c.Send(all); err != nil {
			return err
		}
	}
	return f.receive(ctx, func(i int) any { return &greetings[i] })
}

// watch ends the run when a process ends before its time.
func (f *Fleet) watch(c *proc.Child) {
	<-c.Done()
	select {
	case <-f.ending:
	default:
		if _, ok := f.killed.Load(c); ok {
			return
		}
		err := c.Wait()
		if err == nil {
			err = fmt.Errorf("member %d (pid %d) ended", c.ID(), c.Pid())
		}
		f.cancel(err)
	}
}

// why is the reason of a failure: the end of the context, or the process that was killed first. The
// other processes may report its failure before its own end is seen.
func (f *Fleet) why(err error) error {
	if f.outer.Err() != nil {
		return context.Cause(f.outer)
	}
	for _, c := range f.children {
		select {
		case <-c.Done():
			if exit := (*proc.Exit)(nil); errors.As(c.Wait(), &exit) && exit.Signal != 0 {
				return exit
			}
		default:
		}
	}
	return err
}

func (f *Fleet) receive(ctx context.Context, into func(i int) any) error {
	for i, c := range f.children {
		if err := c.Receive(ctx, into(i)); err != nil {
			return f.ended(c, err)
		}
	}
	return nil
}

// ended waits until a child that closed its output is gone, so that its end can be told.
func (f *Fleet) ended(c *proc.Child, err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("member %d (pid %d) ended", c.ID(), c.Pid())
	}
	return err
}

// Children are the processes, by node from 1 up.
func (f *Fleet) Children() []*proc.Child { return f.children }

// Kill kills a process, and the run goes on.
func (f *Fleet) Kill(c *proc.Child) {
	f.killed.Store(c, true)
	c.Kill()
	<-c.Done()
}

// Context ends with the first process that ends before its time and was not killed by Kill.
func (f *Fleet) Context() context.Context { return f.ctx }

// Ask sends a request to all members and takes their answers, by node. What they say failed is told
// in one error.
func Ask[T any](f *Fleet, r Request, within time.Duration) ([]T, error) {
	return AskSome[T](f, f.children, r, within)
}

// AskSome is Ask for some of the members.
func AskSome[T any](f *Fleet, some []*proc.Child, r Request, within time.Duration) ([]T, error) {
	ctx, cancel := context.WithTimeoutCause(f.ctx, within, fmt.Errorf("no answer to %q within %v", r.Op, within))
	defer cancel()
	for _, c := range some {
		if err := c.Send(r); err != nil {
			return nil, f.why(err)
		}
	}
	values := make([]T, len(some))
	var failed []fault
	for i, c := range some {
		a := answer{Value: &values[i]}
		if err := c.Receive(ctx, &a); err != nil {
			return nil, f.why(errors.Join(once(failed), f.ended(c, err)))
		}
		if a.Err != "" {
			failed = append(failed, fault{fmt.Sprintf("member %d", c.ID()), fmt.Errorf("told to %s: %s", r.Op, a.Err)})
		}
	}
	if len(failed) > 0 {
		return nil, f.why(once(failed))
	}
	return values, nil
}

// Sampled asks for samples of a window that begins after a warm-up, and tells how many cores the
// machine used in it.
func Sampled[T any](f *Fleet, r Request, warmup, duration time.Duration) (samples []T, busy float64, err error) {
	r.From = time.Now().Add(warmup + 50*time.Millisecond)
	r.To = r.From.Add(duration)
	cores := proc.WatchMachine(f.ctx, r.From, r.To)
	if samples, err = Ask[T](f, r, warmup+duration+startWithin); err != nil {
		return nil, 0, err
	}
	return samples, <-cores, nil
}

// Until tries again and again until done says so, for SettleWithin at most; done returns what is
// still missing with an error that is why, or another one with fatal.
func (f *Fleet) Until(done func() (missing, fatal error)) error {
	ctx, cancel := context.WithTimeout(f.ctx, SettleWithin)
	defer cancel()
	for {
		missing, err := done()
		if err != nil || missing == nil {
			return err
		}
		if err := wait.Sleep(ctx, 10*time.Millisecond); err != nil {
			return errors.Join(missing, err)
		}
	}
}

// Args is the form in which a request carries its arguments.
func Args(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // the arguments are types of this program
	}
	return b
}

// Close closes the standard input of all member processes, which tells them to end, and returns
// their errors. It kills the processes that do not end.
func (f *Fleet) Close() (err error) {
	f.end.Do(func() {
		close(f.ending)
		for _, c := range f.children {
			c.CloseInput()
		}
		timer := time.AfterFunc(endWithin, func() {
			for _, c := range f.children {
				c.Kill()
			}
		})
		defer timer.Stop()
		var errs []error
		for _, c := range f.children {
			if _, ok := f.killed.Load(c); !ok {
				errs = append(errs, c.Wait())
			}
		}
		f.watched.Wait()
		f.cancel(nil)
		if f.Lab != nil {
			errs = append(errs, f.Lab.Close())
		}
		err = errors.Join(errs...)
	})
	return err
}
