package child

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
)

// Start starts a command that dies with this process, and returns the ends of its standard input
// and output. It does so on a thread of its own, and the thread stays as long as the child: the
// kernel takes the thread's end for that of the parent. enter, if there is one, moves that thread
// somewhere first, like into the network namespace of a host, from where the child then starts.
// ended is called with what Wait returned.
func Start(cmd *exec.Cmd, enter func() error, ended func(error)) (in, out *os.File, err error) {
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer stdin.Close()
	out, stdout, err := os.Pipe()
	if err != nil {
		return nil, nil, errors.Join(err, in.Close())
	}
	defer stdout.Close()
	cmd.Stdin, cmd.Stdout = stdin, stdout
	DieWithParent(cmd)
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if enter == nil {
			defer runtime.UnlockOSThread() // a thread that moved ends with this goroutine: nobody else must get it
		} else if err := enter(); err != nil {
			started <- err
			return
		}
		err := cmd.Start()
		started <- err
		if err == nil {
			ended(cmd.Wait())
		}
	}()
	if err := <-started; err != nil {
		return nil, nil, errors.Join(err, in.Close(), out.Close())
	}
	return in, out, nil
}
