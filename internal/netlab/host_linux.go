package netlab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Host is a network namespace, with one address in the lab's network.
type Host struct {
	Addr  string // IPv4
	index int
	ns    *os.File

	rate  Rate         // of the whole link
	links map[int]Rate // to other hosts, by index, where they differ or did
}

// device is a host's end of its link.
const device = "eth0"

// port is the bridge's end.
func (h *Host) port() string { return fmt.Sprintf("port%d", h.index) }

func (h *Host) hardware() string { return fmt.Sprintf("02:00:00:00:00:%02x", h.index+1) }

// neighbour is the command that tells a host where another one is.
func (h *Host) neighbour(to *Host, hardware string) string {
	return fmt.Sprintf("neigh replace %s lladdr %s dev %s nud permanent", to.Addr, hardware, device)
}

// Path is a name of the host's namespace, for other processes of this machine; it lasts as long as
// the lab does.
func (h *Host) Path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), h.ns.Fd()) }

// Enter moves the calling thread, to which its goroutine has to be locked, to the host for good.
func (h *Host) Enter() error { return enter(h.ns) }

func enter(ns *os.File) error {
	return os.NewSyscallError("setns", unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET))
}

// Do runs f on a thread of the host: sockets that f makes, and processes that it starts, are there.
// The goroutines that f starts are not.
func (h *Host) Do(f func() error) error { return within(h.ns, f) }

// Run runs a command on the host, and returns its output. A failure carries what it wrote to its
// standard error.
func (h *Host) Run(ctx context.Context, name string, args ...string) (out []byte, err error) {
	cmd := exec.CommandContext(ctx, name, args...)
	err = h.Do(func() error {
		out, err = cmd.Output()
		return err
	})
	if failed, ok := err.(*exec.ExitError); ok {
		return out, fmt.Errorf("%s on %s: %w: %s", name, h.Addr, err, failed.Stderr)
	}
	return out, err
}

// Start starts a command on the host. A command that has to die with the thread that started it (a
// Pdeathsig) needs Enter instead.
func (h *Host) Start(cmd *exec.Cmd) error { return h.Do(cmd.Start) }

// Processes are the processes that are on the host now.
func (h *Host) Processes() (pids []int, err error) {
	var own, its unix.Stat_t
	if err := unix.Fstat(int(h.ns.Fd()), &own); err != nil {
		return nil, err
	}
	all, err := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		if unix.Stat(filepath.Join(dir, "ns/net"), &its) != nil || its.Ino != own.Ino || its.Dev != own.Dev {
			continue // somewhere else, or gone
		}
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, err
}

// newNamespace makes a network namespace that is there as long as the file is open, or a process is
// in it.
func newNamespace() (ns *os.File, err error) {
	onThread(func() {
		if err = os.NewSyscallError("unshare", unix.Unshare(unix.CLONE_NEWNET)); err == nil {
			ns, err = os.Open("/proc/thread-self/ns/net")
		}
	})
	return ns, err
}

// within runs f on a thread in a namespace.
func within(ns *os.File, f func() error) (err error) {
	onThread(func() {
		if err = enter(ns); err == nil {
			err = f()
		}
	})
	return err
}

// onThread runs f on a thread that ends with it.
func onThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked
		f()
	}()
	<-done
}
