package benchlog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/proc"
)

// Times that a run may take beyond its window.
const (
	startWithin  = 45 * time.Second
	answerWithin = 20 * time.Second
	settleWithin = 30 * time.Second
)

// fleet is the processes of a run, and their directories.
type fleet struct {
	spec     Spec
	dir      string
	children []*proc.Child
}

// withFleet starts as many processes of a kind, has them do something, and ends them.
func withFleet(ctx context.Context, s Spec, j job, count int, do func(ctx context.Context, f *fleet) error) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // which kills what is left
	f := &fleet{spec: s}
	if f.dir, err = os.MkdirTemp(s.Dir, "squall-bench-log-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(f.dir)) }()
	defer f.kill()
	if err := f.start(ctx, j, count); err != nil {
		return err
	}
	return do(ctx, f)
}

// kill ends what did not end by itself.
func (f *fleet) kill() {
	for _, c := range f.children {
		c.Kill()
		<-c.Done()
	}
}

// member is the directory of a node.
func (f *fleet) member(node int) string { return filepath.Join(f.dir, strconv.Itoa(node)) }

// start starts the processes. Members have to know where the first one listens.
func (f *fleet) start(ctx context.Context, j job, count int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startWithin, errors.New("the members did not come together in time"))
	defer cancel()
	for node := 1; node <= count; node++ {
		j.Spec, j.Node, j.Dir = f.spec, node, f.member(node)
		if err := f.begin(j); err != nil {
			return err
		}
		if node == 1 && j.Kind != writeKind {
			w, err := hear(ctx, f.children[0])
			if err != nil {
				return err
			}
			j.Addr = w.Addr
		}
	}
	for _, c := range f.children {
		if w, err := hear(ctx, c); err != nil || !w.Ready {
			return errors.Join(err, fmt.Errorf("member %d did not get in", c.ID()))
		}
	}
	return nil
}

// begin starts one process. It lives as long as the fleet, not as the time to start it. It may use all cores, as an application would: the one
// that writes is in the kernel most of the time, and keeps a place from the others there.
func (f *fleet) begin(j job) error {
	if err := os.Mkdir(j.Dir, 0o700); err != nil {
		return err
	}
	c, err := proc.Start(context.Background(), "bench "+memberCommand, j, proc.Options{ID: j.Node})
	if err == nil {
		f.children = append(f.children, c)
	}
	return err
}

func hear(ctx context.Context, c *proc.Child) (w word, err error) {
	err = c.Receive(ctx, &w)
	return w, err
}

// ask sends a request to all and takes their answers.
func (f *fleet) ask(ctx context.Context, r request, within time.Duration) (answers []word, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("no answer to %q within %v", r.Op, within))
	defer cancel()
	for _, c := range f.children {
		if err := c.Send(r); err != nil {
			return nil, err
		}
	}
	for _, c := range f.children {
		w, err := hear(ctx, c)
		if err != nil {
			return nil, err
		}
		answers = append(answers, w)
	}
	return answers, nil
}

// window asks for samples of a window that begins after the warm-up, and tells how many cores the machine used in it.
func (f *fleet) window(ctx context.Context, r request) (samples []*Sample, busy float64, err error) {
	r.From = time.Now().Add(f.spec.Warmup + 20*time.Millisecond)
	r.To = r.From.Add(f.spec.Duration)
	cores := proc.WatchMachine(ctx, r.From, r.To)
	answers, err := f.ask(ctx, r, f.spec.Warmup+f.spec.Duration+answerWithin)
	if err != nil {
		return nil, 0, err
	}
	for _, a := range answers {
		if a.Sample == nil {
			return nil, 0, fmt.Errorf("%q was not answered with a sample", r.Op)
		}
		samples = append(samples, a.Sample)
	}
	return samples, <-cores, nil
}

// errNotSettled says that messages were lost, or take too long.
var errNotSettled = errors.New("not everything that was sent came to every disk")

// settle waits until everything that was sent is delivered and on every disk, and tells how much that is.
func (f *fleet) settle(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	for {
		answers, err := f.ask(ctx, request{Op: opState}, answerWithin)
		if err != nil {
			return 0, err
		}
		sent, settled := sum(answers)
		if settled {
			return sent, nil
		}
		if err := proc.Rest(ctx, 10*time.Millisecond); err != nil {
			return 0, fmt.Errorf("%w: %d were sent: %w", errNotSettled, sent, err)
		}
	}
}

func sum(answers []word) (sent uint64, settled bool) {
	for _, a := range answers {
		sent += a.State.Sent
	}
	for _, a := range answers {
		if a.State.Delivered != sent || a.State.Persisted != sent {
			return sent, false
		}
	}
	return sent, true
}

// end has all processes end by themselves.
func (f *fleet) end() error {
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
		errs = append(errs, c.Wait())
	}
	return errors.Join(errs...)
}
