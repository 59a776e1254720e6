package proc

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// DieWithParent has the kernel kill the child when the thread that starts it ends.
func DieWithParent(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// awaitStop waits until all threads of a child stand still: the signal reaches one of them, and
// that one halts the others when it runs next. The status that it finds is left for the goroutine
// that waits for the child's end.
func awaitStop(pid int) error {
	for {
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil); err != unix.EINTR {
			return err
		}
	}
}
