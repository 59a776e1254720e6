// Package auto opens a view's table with the best link for each pair: shared memory between
// processes on one host, TCP between the others.
//
// Both ends of a pair come to the same choice, because they make it from the same view: shm if both
// members are on the same host and offer shared memory, else tcp. A member that is configured for
// TCP only does not offer it. The member of higher rank dials. Two members between which there is
// TCP use the transport of their configuration instead (package verbs) if both have it; they agree
// on that when they connect.
package auto

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/tcp"
	"github.com/squall-go/squall/order"
)

// Mode restricts the choice.
type Mode uint8

const (
	// Auto uses shared memory within a host and TCP between hosts.
	Auto Mode = iota
	// SHM uses shared memory; members on other hosts have failed from the start.
	SHM
	// TCP uses TCP, within a host too.
	TCP
	// Transport uses the transport of the configuration, within a host too; members that do not have
	// it have failed from the start.
	Transport
)

func (m Mode) String() string { return [...]string{"auto", "shm", "tcp", "transport"}[m] }

// ErrNoSharedMemory says that a member cannot be reached through shared memory, though nothing else
// was allowed.
var ErrNoSharedMemory = errors.New("no shared memory")

// ErrNoTransport says that the transport does not reach a member, though nothing else was allowed.
var ErrNoTransport = errors.New("no link of the transport")

// Config describes a Node.
type Config struct {
	Mode Mode
	// Port stays the caller's. Connections that are refused, through shared memory too, are
	// reported to it.
	Port *port.Port
	TLS  *tls.Config // of the port; nil: none
	// Transport is used between hosts unless the mode is TCP or SHM; nil: none. It stays the caller's.
	Transport fabric.Transport
	// OnFallback, if not nil, is called on any goroutine with the reason why TCP is used in place of
	// Transport. It is not called for a member that has no transport.
	OnFallback func(error)
}

// Node is this process's end of all its links.
type Node struct {
	mode Mode
	host string
	tcp  *tcp.Connector
	shm  sharer

	transport fabric.Transport // nil: none
	instead   func(error)

	presence *presence
}

// Open makes this process's end, and listens for shared memory unless the mode is TCP.
func Open(ctx context.Context, c Config) (*Node, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	n := &Node{mode: c.Mode, host: hostID(), tcp: tcp.NewConnector(c.Port, c.TLS), presence: newPresence(c.Port, c.TLS), instead: c.OnFallback}
	if n.instead == nil {
		n.instead = func(error) {}
	}
	if c.Mode == Auto || c.Mode == Transport {
		n.transport = c.Transport
	}
	if c.Mode == TCP || c.Mode == Transport {
		return n, nil
	}
	err := n.shm.listen(c.Port.Reject)
	if err != nil && c.Mode == SHM {
		n.presence.close()
		n.tcp.Close()
		return nil, fmt.Errorf("%w: %w", ErrNoSharedMemory, err)
	}
	return n, nil
}

// Host is equal for processes on one host, and empty if that cannot be told.
func (n *Node) Host() string { return n.host }

// SHM is the name of this process's abstract unix socket, or empty if it offers no shared memory.
func (n *Node) SHM() string { return n.shm.name() }

// Present says which process this is: from now on it answers processes that ask for it.
func (n *Node) Present(self fabric.Peer) { n.presence.present(self.Process()) }

// Reach asks the process of a peer, at its address, whether it runs. Once it has answered, a
// refused connection proves later that it ended.
func (n *Node) Reach(ctx context.Context, peer fabric.Peer) error {
	conn, err := n.presence.ask(ctx, peer)
	if err == nil {
		err = conn.Close()
	}
	return err
}

// Absent has the members that share memory with this process find it gone from now on, when they
// look whether its rows are in force (H5). A group calls it before it gives up its files.
func (n *Node) Absent() { n.shm.absent() }

// Close stops accepting connections for further links. All tables were closed before.
func (n *Node) Close() error {
	n.presence.close()
	n.tcp.Close()
	return n.shm.close()
}

// Open lays out a table at once. Its links come up one by one, in the background, until the table
// is closed. A peer that stays unreachable, or whose process ended before its link came up, is a
// fabric.Failure; for one that has not started yet, the link stays pending.
func (n *Node) Open(spec fabric.Spec) (*fabric.Table, error) {
	shared, remote, apart := n.choose(&spec)
	own, release, err := n.shm.ownRow(len(shared) > 0, spec.Peers[spec.Self].Shape.RowBytes)
	if err != nil {
		return nil, err
	}
	instead, err := n.openTransport(&spec, own.mem, len(remote) > 0)
	if err != nil {
		return nil, errors.Join(err, release())
	}
	c := newConnecting(&spec)
	table, err := fabric.OpenTable(&spec, own.mem, c, release)
	if err != nil {
		if spec.Links != nil {
			err = errors.Join(err, spec.Links.Close())
		}
		return nil, errors.Join(err, release())
	}
	c.table = table
	for _, r := range apart {
		p := spec.Peers[r]
		table.Arrive(r, nil, fmt.Errorf("%w with node %d at %s: it is on another host, or does not offer it", ErrNoSharedMemory, p.ID, p.Addr))
	}
	c.dial(remote, func(ctx context.Context, r order.Rank) (fabric.Link, error) {
		l, err := n.tcp.Dial(ctx, &spec, r, own.mem)
		if err != nil {
			return nil, err
		}
		return n.allowed(spec.Peers[r], l, instead)
	})
	c.await(remote, func(ctx context.Context, wants func(order.Rank) bool, up func(order.Rank, fabric.Link, error)) {
		n.tcp.Await(ctx, &spec, wants, own.mem, func(r order.Rank, l fabric.Link) {
			l, err := n.allowed(spec.Peers[r], l, instead)
			up(r, l, err)
		})
	})
	n.shm.connect(c, shared, own)
	c.watch(append(shared, remote...), n.presence.watch)
	return table, nil
}

// openTransport makes what the table's links of the transport share, which the table closes. If
// that fails there is TCP, and instead says why, unless nothing else is allowed.
func (n *Node) openTransport(spec *fabric.Spec, own []byte, used bool) (instead, err error) {
	if n.transport == nil || !used {
		return nil, nil
	}
	links, err := n.transport.Open(spec, own)
	if err == nil {
		spec.Links = links
		return errNotThere, nil
	}
	if n.mode == Transport {
		return nil, fmt.Errorf("%w: %w", ErrNoTransport, err)
	}
	n.instead(err)
	return err, nil
}

// errNotThere is why there is TCP to a member if nothing failed.
var errNotThere = errors.New("the member does not have the transport")

// allowed returns a link that came up, or closes it and says why it may not be used. If it is TCP
// it says why, which is instead unless the link itself knows.
func (n *Node) allowed(p fabric.Peer, l fabric.Link, instead error) (fabric.Link, error) {
	t, is := l.(*tcp.Link)
	if !is {
		return l, nil
	}
	if n.mode != Transport {
		if t.Why != nil {
			n.instead(fmt.Errorf("node %d at %s: %w", p.ID, p.Addr, t.Why))
		} else {
			t.Why = instead
		}
		return l, nil
	}
	err := ErrNoTransport
	if t.Why != nil {
		err = fmt.Errorf("%w: %w", err, t.Why)
	}
	return nil, errors.Join(err, l.Close())
}

// Kind is what a peer gets, "shm", "tcp" or "transport", whether it is connected or not.
func (n *Node) Kind(p fabric.Peer) string {
	switch {
	case shares(fabric.Peer{Host: n.Host(), SHM: n.SHM()}, p) || n.mode == SHM:
		return "shm"
	case n.mode == Transport:
		return "transport"
	}
	return "tcp"
}

// shares reports whether two processes can share memory.
func shares(a, b fabric.Peer) bool {
	return a.Host != "" && a.Host == b.Host && a.SHM != "" && b.SHM != ""
}

// choose splits the peers by the link they get; peers that are apart get none.
func (n *Node) choose(spec *fabric.Spec) (shared, remote, apart []order.Rank) {
	self := spec.Peers[spec.Self]
	for i, p := range spec.Peers {
		switch r := order.Rank(i); {
		case r == spec.Self:
		case shares(p, self):
			shared = append(shared, r)
		case n.mode == SHM:
			apart = append(apart, r)
		default:
			remote = append(remote, r)
		}
	}
	return shared, remote, apart
}

// linkOrNil makes an interface of a link that was made. (A nil *Link in an interface is not nil,
// hence the check.)
func linkOrNil[L fabric.Link](l L, err error) (fabric.Link, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}

// row is the own row; fd is its segment, or -1.
type row struct {
	mem []byte
	fd  int
}

// heapRow makes a row that no other process maps.
func heapRow(n int) (row, func() error, error) {
	mem, release, err := fabric.NewMemory(n)
	return row{mem, -1}, release, err
}
