package netlab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
)

// Lab is hosts that reach each other over a bridge.
type Lab struct {
	Hosts []*Host
	cfg   Config
	ns    *os.File // of the bridge

	mu     sync.Mutex
	closed bool
}

// nowhere is a hardware address that no host has.
const nowhere = "02:00:00:00:00:fe"

// New makes a lab. Where there can be none it fails with ErrUnavailable.
func New(c Config) (_ *Lab, err error) {
	if c, err = c.withDefaults(); err != nil {
		return nil, err
	}
	if err := commandsAreThere(); err != nil {
		return nil, err
	}
	l := &Lab{cfg: c}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	if err := l.makeNamespaces(); err != nil {
		return nil, err
	}
	for _, step := range []func() error{l.makeBridge, l.raiseHosts, l.limitAll} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// commandsAreThere looks for all that is called.
func commandsAreThere() error {
	var errs []error
	for _, name := range []string{"ip", "bridge", "tc"} {
		if _, err := exec.LookPath(name); err != nil {
			errs = append(errs, fmt.Errorf("%w: the command %s (iproute2): %w", ErrUnavailable, name, err))
		}
	}
	return errors.Join(errs...)
}

func (l *Lab) makeNamespaces() (err error) {
	if l.ns, err = newNamespace(); err != nil {
		return fmt.Errorf("%w: a network namespace, which needs root: %w", ErrUnavailable, err)
	}
	for i := range l.cfg.Hosts {
		h := &Host{Addr: fmt.Sprintf("10.77.0.%d", i+1), index: i, links: map[int]Rate{}, rate: l.cfg.Rate}
		l.Hosts = append(l.Hosts, h)
		if h.ns, err = newNamespace(); err != nil {
			return err
		}
	}
	return nil
}

// makeBridge makes the bridge and the links, whose other ends are the hosts'. The bridge knows the
// place of every host and learns nothing: packets for unknown addresses are dropped, and take no
// part of any host's link.
func (l *Lab) makeBridge() error {
	var links, places []string
	var ends []*os.File
	links = append(links, "link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0", "link set br0 up", "link set lo up")
	for _, h := range l.Hosts {
		ends = append(ends, h.ns)
		links = append(links,
			fmt.Sprintf("link add %s type veth peer name %s address %s netns /proc/self/fd/%d", h.port(), device, h.hardware(), firstExtra+h.index),
			fmt.Sprintf("link set %s master br0 up", h.port()),
			fmt.Sprintf("link set %s type bridge_slave flood off learning off", h.port()))
		places = append(places, fmt.Sprintf("fdb replace %s dev %s master static", h.hardware(), h.port()))
	}
	if err := batch(l.ns, ends, "ip", links); err != nil {
		return err
	}
	return batch(l.ns, nil, "bridge", places)
}

// raiseHosts gives hosts their addresses and tells each where the others are.
func (l *Lab) raiseHosts() error {
	for _, h := range l.Hosts {
		lines := []string{"link set lo up", fmt.Sprintf("addr add %s/24 dev %s", h.Addr, device), fmt.Sprintf("link set %s up", device)}
		for _, other := range l.Hosts {
			if other != h {
				lines = append(lines, h.neighbour(other, other.hardware()))
			}
		}
		if err := batch(h.ns, nil, "ip", lines); err != nil {
			return err
		}
		if err := h.Do(tuneTCP); err != nil {
			return err
		}
	}
	return nil
}

// tuneTCP makes runs alike: no connection inherits what an earlier one found out, and all of them
// use the same congestion control, whatever this machine's is. Every kernel allows it, and it fills
// a queue of this kind.
func tuneTCP() error {
	if err := os.WriteFile("/proc/sys/net/ipv4/tcp_no_metrics_save", []byte("1"), 0o644); err != nil {
		return err
	}
	err := os.WriteFile("/proc/sys/net/ipv4/tcp_congestion_control", []byte("cubic"), 0o644)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return nil // not built in, or kept from namespaces: then this machine's it is
	}
	return err
}

// Cut has nothing that a host sends reach another one, until Heal. The other direction stays.
func (l *Lab) Cut(from, to *Host) error {
	return batch(from.ns, nil, "ip", []string{from.neighbour(to, nowhere)})
}

// Heal ends a Cut.
func (l *Lab) Heal(from, to *Host) error {
	return batch(from.ns, nil, "ip", []string{from.neighbour(to, to.hardware())})
}

// Partition cuts hosts off from the others, in both directions.
func (l *Lab) Partition(some ...*Host) error { return l.across(some, l.Cut) }

// HealPartition ends a Partition.
func (l *Lab) HealPartition(some ...*Host) error { return l.across(some, l.Heal) }

func (l *Lab) across(some []*Host, do func(from, to *Host) error) error {
	var errs []error
	apart := map[*Host]bool{}
	for _, h := range some {
		apart[h] = true
	}
	for _, from := range l.Hosts {
		for _, to := range l.Hosts {
			if apart[from] != apart[to] {
				errs = append(errs, do(from, to))
			}
		}
	}
	return errors.Join(errs...)
}

// Close gives the namespaces up; a second one does nothing. The kernel removes them, and all that
// is in them, when no process is in them any more.
func (l *Lab) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	var errs []error
	for _, h := range l.Hosts {
		if h.ns != nil {
			errs = append(errs, h.ns.Close())
		}
	}
	if l.ns != nil {
		errs = append(errs, l.ns.Close())
	}
	return errors.Join(errs...)
}

// firstExtra is the descriptor of the first of a command's extra files.
const firstExtra = 3

// batch gives a command of iproute2 many lines at once, in a namespace.
func batch(in *os.File, extra []*os.File, command string, lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	cmd := exec.Command(command, "-batch", "-")
	cmd.Stdin, cmd.ExtraFiles = strings.NewReader(strings.Join(lines, "\n")+"\n"), extra
	var text []byte
	err := within(in, func() (err error) {
		text, err = cmd.CombinedOutput()
		return err
	})
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s: %w: %s", command, err, strings.TrimSpace(string(text)))
	for _, missing := range []string{"kind is unknown", "Unknown device type", "classifier not found", "Operation not permitted"} {
		if strings.Contains(string(text), missing) {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
	return err
}
