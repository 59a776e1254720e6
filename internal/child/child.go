// Package child starts processes that do not outlive this one, and has them stand still and go on.
//
// Life of a child: it is bound to its parent and started (Start) → it may stand still (Stop) and go
// on (Continue), any number of times → it ends, or is killed, also while it stands still.
package child

import (
	"os"
	"syscall"
)

// Stop has a child stand still where it is: when it returns, all threads do. It fails if the child
// has ended.
func Stop(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return awaitStop(p.Pid)
}

// Continue lets a child that stands still go on.
func Continue(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
