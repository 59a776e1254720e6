package testlab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithParent has the kernel kill the child when the thread that starts it ends.
func dieWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// Host is a network namespace, with one address in a network of its own.
type Host struct {
	Addr string // IPv4
	ns   *os.File
	dev  string
}

// Network is hosts that reach each other over a bridge, which stands in a namespace of its own.
type Network struct {
	Hosts []*Host
	ns    *os.File
}

// nowhere is a hardware address that no host has.
const nowhere = "02:00:00:00:00:fe"

// NewNetwork makes n hosts. It fails where this process may not, or has no ip command.
func NewNetwork(n int) (_ *Network, err error) {
	if _, err := exec.LookPath("ip"); err != nil {
		return nil, fmt.Errorf("the ip command (iproute2): %w", err)
	}
	w := &Network{}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	if w.ns, err = newNamespace(); err != nil {
		return nil, fmt.Errorf("a network namespace (needs root): %w", err)
	}
	if err = ip(w.ns, nil, "link add bridge type bridge", "link set bridge up"); err != nil {
		return nil, err
	}
	for i := range n {
		h := &Host{Addr: fmt.Sprintf("10.77.0.%d", i+1), dev: fmt.Sprintf("host%d", i)}
		w.Hosts = append(w.Hosts, h)
		if h.ns, err = newNamespace(); err != nil {
			return nil, err
		}
		if err = w.connect(h, i); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// connect puts a pair of devices between the bridge and a host. The host's file is descriptor 3 of ip.
func (w *Network) connect(h *Host, i int) error {
	port := fmt.Sprintf("port%d", i)
	err := ip(w.ns, h.ns,
		fmt.Sprintf("link add %s type veth peer name %s", port, h.dev),
		fmt.Sprintf("link set %s netns /proc/self/fd/3", h.dev),
		fmt.Sprintf("link set %s master bridge up", port))
	if err != nil {
		return err
	}
	return ip(h.ns, nil, "link set lo up", fmt.Sprintf("addr add %s/24 dev %s", h.Addr, h.dev), fmt.Sprintf("link set %s up", h.dev))
}

// Cut has nothing that a host sends reach another one, until Heal. The other direction stays.
func (w *Network) Cut(from, to *Host) error {
	return ip(from.ns, nil, fmt.Sprintf("neigh replace %s lladdr %s dev %s nud permanent", to.Addr, nowhere, from.dev))
}

// Heal ends a Cut.
func (w *Network) Heal(from, to *Host) error {
	return ip(from.ns, nil, fmt.Sprintf("neigh del %s dev %s", to.Addr, from.dev))
}

// Partition cuts hosts off from the others, in both directions.
func (w *Network) Partition(some ...*Host) error { return w.across(some, w.Cut) }

// HealPartition ends a Partition.
func (w *Network) HealPartition(some ...*Host) error { return w.across(some, w.Heal) }

func (w *Network) across(some []*Host, do func(from, to *Host) error) error {
	var errs []error
	apart := map[*Host]bool{}
	for _, h := range some {
		apart[h] = true
	}
	for _, from := range w.Hosts {
		for _, to := range w.Hosts {
			if apart[from] != apart[to] {
				errs = append(errs, do(from, to))
			}
		}
	}
	return errors.Join(errs...)
}

// Close gives the namespaces up. The kernel removes them, and all that is in them, when no process is in them any more.
func (w *Network) Close() error {
	var errs []error
	for _, h := range w.Hosts {
		if h.ns != nil {
			errs = append(errs, h.ns.Close())
		}
	}
	if w.ns != nil {
		errs = append(errs, w.ns.Close())
	}
	return errors.Join(errs...)
}

// newNamespace makes a network namespace that is there as long as the file is open, or a process is in it. It has no name, so that
// nothing stays behind however this process ends.
func newNamespace() (ns *os.File, err error) {
	onThread(func() {
		if err = unix.Unshare(unix.CLONE_NEWNET); err == nil {
			ns, err = os.Open("/proc/thread-self/ns/net")
		}
	})
	return ns, err
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

// enter moves the calling thread to the host for good.
func (h *Host) enter() error { return unix.Setns(int(h.ns.Fd()), unix.CLONE_NEWNET) }

// ip runs ip commands in a namespace.
func ip(in, file *os.File, commands ...string) (err error) {
	onThread(func() {
		if err = unix.Setns(int(in.Fd()), unix.CLONE_NEWNET); err != nil {
			return
		}
		for _, c := range commands {
			cmd := exec.Command("ip", strings.Fields(c)...)
			if file != nil {
				cmd.ExtraFiles = []*os.File{file}
			}
			if text, failed := cmd.CombinedOutput(); failed != nil {
				err = fmt.Errorf("ip %s: %w: %s", c, failed, text)
				return
			}
		}
	})
	return err
}
