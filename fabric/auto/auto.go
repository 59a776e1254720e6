// Package auto opens a view's table with the best link for each pair: shared memory between processes on one host, TCP
// between the others.
//
// Both ends of a pair come to the same choice, because they make it from the same view: shm if both members
// are on the same host and offer shared memory, else tcp. A member that is told to use TCP only does not offer it. The member of higher rank dials.
package auto

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/fabric/tcp"
	"github.com/squall-go/squall/order"
)

// Mode restricts the choice.
type Mode uint8

const (
	// Auto uses shared memory within a host and TCP between hosts.
	Auto Mode = iota
	// SHM uses shared memory, and refuses views with members on other hosts.
	SHM
	// TCP uses TCP, within a host too.
	TCP
)

func (m Mode) String() string { return [...]string{"auto", "shm", "tcp"}[m] }

// ErrNoSharedMemory says that a member cannot be reached through shared memory, though nothing else was allowed.
var ErrNoSharedMemory = errors.New("no shared memory")

// Node implements fabric.Node.
type Node struct {
	mode Mode
	host string
	tcp  *tcp.Connector
	shm  sharer
}

// New makes this process's end. The port stays the caller's; connections that are turned away, through shared memory too, are
// reported to it.
func New(mode Mode, p *port.Port, tlsConfig *tls.Config) (*Node, error) {
	n := &Node{mode: mode, host: hostID(), tcp: tcp.NewConnector(p, tlsConfig)}
	if mode == TCP {
		return n, nil
	}
	err := n.shm.listen(p.Reject)
	if err != nil && mode == SHM {
		n.tcp.Close()
		return nil, fmt.Errorf("%w: %w", ErrNoSharedMemory, err)
	}
	return n, nil
}

// Host is equal for processes on one host, and empty if that cannot be told.
func (n *Node) Host() string { return n.host }

// Shm is the name of this process's abstract unix socket, or empty if it offers no shared memory.
func (n *Node) Shm() string { return n.shm.name() }

// Close stops accepting connections for further tables.
func (n *Node) Close() error {
	n.tcp.Close()
	return n.shm.close()
}

// Open implements fabric.Node. On failure nothing stays open.
func (n *Node) Open(ctx context.Context, spec fabric.Spec) (*fabric.Table, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	shared, remote, err := n.choose(&spec)
	if err != nil {
		return nil, err
	}
	own, release, err := n.shm.ownRow(len(shared) > 0, spec.Peers[spec.Self].Shape.RowBytes)
	if err != nil {
		return nil, err
	}
	links := make([]fabric.Link, len(spec.Peers))
	var done sync.WaitGroup
	try := func(f func() error) {
		done.Go(func() {
			if err := f(); err != nil {
				cancel(err) // the first failure ends the other attempts
			}
		})
	}
	dialEach(spec.Self, remote, func(r order.Rank) {
		try(func() error {
			l, err := n.tcp.Dial(ctx, &spec, r, own.mem)
			return keep(links, r, l, err)
		})
	})
	try(func() error { return n.tcp.Await(ctx, &spec, above(spec.Self, remote), own.mem, links) })
	n.shm.connect(ctx, &spec, shared, own, links, try)
	done.Wait()
	if err := context.Cause(ctx); err != nil {
		for _, l := range links {
			if l != nil {
				l.Close()
			}
		}
		return nil, errors.Join(err, release())
	}
	return fabric.NewTable(spec.Self, own.mem, links, spec.Parker, release), nil
}

// choose splits the peers by the link they get.
func (n *Node) choose(spec *fabric.Spec) (shared, remote []order.Rank, err error) {
	self := spec.Peers[spec.Self]
	for r, p := range spec.Peers {
		switch local := p.Host != "" && p.Host == self.Host && p.Shm != "" && self.Shm != ""; {
		case order.Rank(r) == spec.Self:
		case local:
			shared = append(shared, order.Rank(r))
		case n.mode == SHM:
			return nil, nil, fmt.Errorf("%w with node %d at %s: it is on another host, or does not offer it", ErrNoSharedMemory, p.ID, p.Addr)
		default:
			remote = append(remote, order.Rank(r))
		}
	}
	return shared, remote, nil
}

// dialEach calls dial for the peers that this member dials: those of lower rank.
func dialEach(self order.Rank, peers []order.Rank, dial func(order.Rank)) {
	for _, r := range peers {
		if r < self {
			dial(r)
		}
	}
}

// above is the set of peers that dial this member.
func above(self order.Rank, peers []order.Rank) map[order.Rank]bool {
	want := map[order.Rank]bool{}
	for _, r := range peers {
		if r > self {
			want[r] = true
		}
	}
	return want
}

// keep stores a link that was made. (A nil *Link in an interface is not nil, hence the check.)
func keep[L fabric.Link](links []fabric.Link, r order.Rank, l L, err error) error {
	if err == nil {
		links[r] = l
	}
	return err
}

// row is the own row; fd is its segment, or -1.
type row struct {
	mem []byte
	fd  int
}

// heapRow makes a row that nobody maps.
func heapRow(n int) (row, func() error, error) {
	mem, release, err := fabric.NewMemory(n)
	return row{mem, -1}, release, err
}
