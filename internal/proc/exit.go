package proc

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
)

// Exit is the error that a child failed with.
type Exit struct {
	Role   string // "member"
	ID     int
	Pid    int
	Code   int            // its exit status, or -1
	Signal syscall.Signal // what killed it, or 0
	Stderr []string       // the last lines that it wrote
	Err    error          // if neither code nor signal says it
}

// Error names the child that ended, and how it ended. What the child itself said comes last, unless
// another process ended it.
func (e *Exit) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d (pid %d) ", e.Role, e.ID, e.Pid)
	switch {
	case e.Signal != 0:
		fmt.Fprintf(&b, "was killed by signal %d (%v)", int(e.Signal), e.Signal)
	case e.Err != nil:
		fmt.Fprintf(&b, "failed: %v", e.Err)
	default:
		fmt.Fprintf(&b, "ended with exit status %d", e.Code)
	}
	if len(e.Stderr) > 0 && e.Signal == 0 {
		fmt.Fprintf(&b, ": %s", strings.Join(e.Stderr, "\n\t"))
	}
	return b.String()
}

// Unwrap returns the cause, if the system gave one.
func (e *Exit) Unwrap() error { return e.Err }

// exitOf turns what the system says of an ended child into an Exit, or nil if the child did well.
func (c *Child) exitOf(err error) *Exit {
	if err == nil {
		return nil
	}
	e := &Exit{Role: c.role, ID: c.id, Pid: c.Pid(), Code: -1, Stderr: c.tail.last()}
	var ended *exec.ExitError
	if !errors.As(err, &ended) {
		e.Err = err
		return e
	}
	e.Code = ended.ExitCode()
	if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		e.Signal = status.Signal()
	}
	return e
}
