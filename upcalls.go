package squall

import (
	"context"
	"io"
	"sync/atomic"

	"github.com/squall-go/squall/internal/callers"
)

// upcalls knows which goroutines run functions of the application, so that a call that waits for
// such a goroutine fails with ErrInCallback when it comes from that goroutine, and does not wait
// for itself.
//
// Nothing of it is on the path of a message but one counter, written for each run of messages.
// Whether the caller is the loop is asked only where a call is about to wait while an upcall of the
// loop runs.
type upcalls struct {
	running atomic.Int32 // functions of the application that run on the loop. W: loop

	loop      callers.Set // the loop's goroutine
	elsewhere callers.Set // that Close waits for, and that run functions of the application
}

// enter and leave enclose what the application does on the loop. Loop.
func (u *upcalls) enter() { u.running.Add(1) }
func (u *upcalls) leave() { u.running.Add(-1) }

// run calls a function of the application on whatever goroutine this is.
func (u *upcalls) run(f func()) {
	if !u.loop.HasCaller() {
		u.elsewhere.Run(f)
		return
	}
	u.enter()
	defer u.leave()
	f()
}

// waits returns ErrInCallback if the caller, which is about to wait for the loop, is in an upcall
// that runs on it.
func (u *upcalls) waits() error {
	if u.running.Load() > 0 && u.loop.HasCaller() {
		return ErrInCallback
	}
	return nil
}

// ends is waits for a caller that is about to wait for all goroutines of the group.
func (u *upcalls) ends() error {
	if err := u.waits(); err != nil {
		return err
	}
	if u.elsewhere.HasCaller() {
		return ErrInCallback
	}
	return nil
}

// inUpcall is a context that has ended because of ErrInCallback.
var inUpcall = func() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(ErrInCallback)
	return ctx
}()

// bound returns the context of a wait for the loop: one that has ended if the caller is in an
// upcall that runs on the loop, so that it gets what is there already and never waits.
func (u *upcalls) bound(ctx context.Context) context.Context {
	if u.waits() != nil {
		return inUpcall
	}
	return ctx
}

// watch makes the functions of a configuration run through u, so that waits and ends know of them.
// The functions that deliver do so in application.
func (u *upcalls) watch(c *Config) {
	if f := c.Events; f != nil {
		c.Events = func(e Event) { u.run(func() { f(e) }) }
	}
	if f := c.OnView; f != nil {
		c.OnView = func(v *View) { u.run(func() { f(v) }) }
	}
	for i := range c.Subgroups {
		u.watchSubgroup(&c.Subgroups[i])
	}
}

func (u *upcalls) watchSubgroup(sg *SubgroupConfig) {
	if f := sg.Layout; f != nil {
		sg.Layout = func(in LayoutInput) (out []ShardPlaces, err error) {
			u.run(func() { out, err = f(in) })
			return out, err
		}
	}
	if f := sg.Snapshot; f != nil {
		sg.Snapshot = func() (write func(io.Writer) error) {
			u.run(func() { write = u.writer(f()) })
			return write
		}
	}
	if f := sg.StateHash; f != nil {
		sg.StateHash = func(ctx context.Context, fresh bool) (h StateHash, err error) {
			u.run(func() { h, err = f(ctx, fresh) })
			return h, err
		}
	}
	if f := sg.Restore; f != nil {
		sg.Restore = func(r io.Reader) (err error) {
			u.run(func() { err = f(r) })
			return err
		}
	}
	if f := sg.Log.Recover; f != nil {
		sg.Log.Recover = func(l *Log) (err error) {
			u.run(func() { err = f(l) })
			return err
		}
	}
}

// writer is what Snapshot returned.
func (u *upcalls) writer(f func(io.Writer) error) func(io.Writer) error {
	if f == nil {
		return func(io.Writer) error { return errNilSnapshot }
	}
	return func(w io.Writer) (err error) {
		u.run(func() { err = f(w) })
		return err
	}
}
