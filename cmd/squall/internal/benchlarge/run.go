package benchlarge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/squall-go/squall/cmd/squall/internal/proc"
)

// endWithin is how long members may take to deliver what is under way, and to end.
const endWithin = 30 * time.Second

// fleet is the member processes of a run.
type fleet struct {
	spec     spec
	children []*proc.Child
	progress io.Writer // nil: nobody looks
}

// run measures once.
func run(ctx context.Context, s spec, progress io.Writer) (*result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // which kills what is left
	f := &fleet{spec: s}
	if file, ok := progress.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		f.progress = progress
	}
	tallies, err := f.run(ctx)
	cancel()
	for _, c := range f.children {
		if err == nil {
			continue // it ended by itself
		}
		c.Kill()
		<-c.Done()
	}
	if err != nil {
		return nil, err
	}
	return judge(s, tallies)
}

func (f *fleet) run(ctx context.Context) ([]*tally, error) {
	if err := f.start(ctx); err != nil {
		return nil, err
	}
	for _, c := range f.children {
		if err := c.Send(time.Now()); err != nil {
			return nil, err
		}
	}
	first := f.children[0]
	for k := range f.spec.Rounds {
		if _, err := hear(ctx, first); err != nil {
			return nil, err
		}
		f.tell("large message %d of %d is delivered", k+1, f.spec.Rounds)
	}
	for _, c := range f.children[1:] {
		if err := c.Send(true); err != nil {
			return nil, err
		}
	}
	return f.tallies(ctx)
}

// start starts the members, the founder first: the others have to know where it listens.
func (f *fleet) start(ctx context.Context) error {
	founder, err := f.begin(ctx, "")
	if err != nil {
		return err
	}
	w, err := hear(ctx, founder)
	if err != nil {
		return err
	}
	for range f.spec.Nodes - 1 {
		if _, err := f.begin(ctx, w.Addr); err != nil {
			return err
		}
	}
	for _, c := range f.children {
		if w, err := hear(ctx, c); err != nil || !w.Ready {
			return errors.Join(err, fmt.Errorf("member %d did not get in", c.ID()))
		}
	}
	return nil
}

func (f *fleet) begin(ctx context.Context, founder string) (*proc.Child, error) {
	node := len(f.children) + 1
	c, err := proc.Start(ctx, "bench "+memberCommand, job{Spec: f.spec, Node: node, Addr: founder}, proc.Options{ID: node})
	if err == nil {
		f.children = append(f.children, c)
	}
	return c, err
}

func (f *fleet) tallies(ctx context.Context) (all []*tally, err error) {
	ctx, cancel := context.WithTimeout(ctx, endWithin)
	defer cancel()
	for _, c := range f.children {
		w, err := hear(ctx, c)
		if err != nil {
			return nil, err
		}
		all = append(all, w.Tally)
	}
	for _, c := range f.children {
		c.CloseInput()
		if err := c.Wait(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func hear(ctx context.Context, c *proc.Child) (w word, err error) {
	err = c.Receive(ctx, &w)
	return w, err
}

// tell shows on a terminal how far it is.
func (f *fleet) tell(format string, args ...any) {
	if f.progress != nil {
		fmt.Fprintf(f.progress, format+"\n", args...)
	}
}
