package proc

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Options of a child. The zero value is good.
type Options struct {
	ID   int      // the child's number, for errors
	Role string   // what the child is called in errors; "" is "member"
	Env  []string // added to this process's environment
	// Enter, if there is one, moves the thread from which the child starts, like into a host's
	// network namespace.
	Enter func() error
	Log   io.Writer // gets what the child writes to its standard error, as it comes; nil: discarded
	Lines int       // how many last lines of standard error an Exit keeps; 0 is 5, or none where Log shows them already; less is none
}

// Child is a process that this one started. Send and Receive may each be called from one goroutine
// at a time, the rest from any.
type Child struct {
	id    int
	role  string
	cmd   *exec.Cmd
	in    *os.File      // its standard input
	out   *bufio.Reader // its standard output
	pipe  *os.File      // below out; closed by the Receive that reads its end, or by Wait
	part  []byte        // of a line, when a Receive was given up
	tail  *tail
	ended chan struct{}
	exit  *Exit // how it ended, once ended is closed; nil if it ended well

	closing sync.Once
}

// Start runs a hidden command of this executable as a child and hands it its configuration. A
// command below others is written with blanks, "demo run-process". The child is killed when ctx
// ends.
func Start(ctx context.Context, command string, config any, opts Options) (*Child, error) {
	if opts.Role == "" {
		opts.Role = "member"
	}
	c := &Child{id: opts.ID, role: opts.Role, tail: newTail(opts.Lines, opts.Log), ended: make(chan struct{})}
	if err := c.start(ctx, command, opts); err != nil {
		return nil, fmt.Errorf("start %s %d: %w", opts.Role, opts.ID, err)
	}
	if err := c.Send(config); err != nil {
		c.Kill()
		return nil, errors.Join(err, c.Wait())
	}
	return c, nil
}

func (c *Child) start(ctx context.Context, command string, opts Options) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c.cmd = exec.CommandContext(ctx, self, strings.Fields(command)...)
	c.cmd.Env = append(os.Environ(), opts.Env...)
	c.cmd.Stderr = c.tail
	c.cmd.WaitDelay = time.Second
	return c.run(opts.Enter)
}

// run starts the command with pipes as its standard input and output. It does so on a thread of its
// own, and the thread stays as long as the child: the kernel takes the thread's end for that of the
// parent.
func (c *Child) run(enter func() error) error {
	stdin, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer stdin.Close()
	out, stdout, err := os.Pipe()
	if err != nil {
		return errors.Join(err, in.Close())
	}
	defer stdout.Close()
	c.cmd.Stdin, c.cmd.Stdout = stdin, stdout
	DieWithParent(c.cmd)
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if enter == nil {
			defer runtime.UnlockOSThread() // a thread that moved ends with this goroutine: no other goroutine must get it
		} else if err := enter(); err != nil {
			started <- err
			return
		}
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.exit = c.exitOf(c.cmd.Wait())
			close(c.ended)
		}
	}()
	if err := <-started; err != nil {
		return errors.Join(err, in.Close(), out.Close())
	}
	c.in, c.pipe, c.out = in, out, bufio.NewReader(out)
	return nil
}

// ID is the child's number, as its Options say.
func (c *Child) ID() int { return c.id }

// Pid is the number of the process.
func (c *Child) Pid() int { return c.cmd.Process.Pid }

// Send writes a value to the child. If the child has ended it fails as Receive does.
func (c *Child) Send(v any) error {
	err := json.NewEncoder(c.in).Encode(v)
	if err == nil {
		return nil
	}
	if c.soonEnded() {
		return c.end()
	}
	return fmt.Errorf("send to %s %d (pid %d): %w", c.role, c.id, c.Pid(), err)
}

// Receive reads the child's next value into v, and waits for it until ctx ends. Once the child has
// ended and everything that it sent is read, Receive fails: with an *Exit if the child failed, with
// io.EOF if it ended well.
func (c *Child) Receive(ctx context.Context, v any) error {
	// A pipe knows no context, but a deadline.
	passed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		c.pipe.SetReadDeadline(time.Unix(1, 0))
		close(passed)
	})
	line, err := c.out.ReadBytes('\n')
	if !stop() {
		<-passed // or it would hit the next Receive
		c.pipe.SetReadDeadline(time.Time{})
	}
	c.part = append(c.part, line...)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("receive from %s %d (pid %d): %w", c.role, c.id, c.Pid(), context.Cause(ctx))
	case err != nil:
		return c.receiveEnd(ctx)
	}
	line, c.part = c.part, nil
	if err := json.Unmarshal(line, v); err != nil {
		return fmt.Errorf("receive from %s %d (pid %d): %.80q: %w", c.role, c.id, c.Pid(), line, err)
	}
	return nil
}

// receiveEnd is what Receive returns when the child's output has ended: how the child did.
func (c *Child) receiveEnd(ctx context.Context) error {
	c.pipe.Close()
	select {
	case <-c.ended:
	case <-ctx.Done():
		return fmt.Errorf("%s %d (pid %d) closed its output, and lives: %w", c.role, c.id, c.Pid(), context.Cause(ctx))
	}
	return c.end()
}

// end is how a child that has ended did.
func (c *Child) end() error {
	if c.exit != nil {
		return c.exit
	}
	return io.EOF
}

// soonEnded reports whether the child has ended, after an error that means that it has, or is about
// to.
func (c *Child) soonEnded() bool {
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-c.ended:
		return true
	case <-timer.C:
		return false
	}
}

// CloseInput tells the child that nothing more will come: the context of its function ends.
func (c *Child) CloseInput() { c.closing.Do(func() { c.in.Close() }) }

// Kill ends the process at once, if it still runs. Wait tells when it is gone.
func (c *Child) Kill() { c.cmd.Process.Kill() }

// Stop has the process stand still where it is, until Continue or Kill: when it returns, all
// threads do. It fails if the process has ended.
func (c *Child) Stop() error {
	if err := c.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return awaitStop(c.Pid())
}

// Continue lets a process that stands still go on.
func (c *Child) Continue() error { return c.cmd.Process.Signal(syscall.SIGCONT) }

// CutPower kills children at one moment: all of them stand still before the first one is gone, so
// none notices that another one is.
func CutPower(children ...*Child) {
	for _, c := range children {
		_ = c.Stop() // it may have ended
	}
	for _, c := range children {
		c.Kill()
	}
}

// Done is closed when the process is gone.
func (c *Child) Done() <-chan struct{} { return c.ended }

// Wait waits until the process is gone. It returns nil if it ended well, otherwise an *Exit. Values
// that the child sent and that were not received by then may be lost.
func (c *Child) Wait() error {
	<-c.ended
	c.CloseInput()
	c.pipe.Close()
	if c.exit != nil {
		return c.exit
	}
	return nil
}
