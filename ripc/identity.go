package ripc

import (
	"fmt"
	"net"
	"sync"

	"github.com/squall-go/squall/trust"
)

// Peer is what this process knows of the process at the other end of a connection. All of it comes
// from the certificate, the network or the kernel, and nothing from what that process says or
// writes.
type Peer struct {
	// Identity is the name in the certificate that the process showed (trust.CertifiedName). It is
	// empty without TLS, and in shared memory.
	Identity string
	// Addr is the host:port from which the connection came, or to which it was made. It is empty in
	// shared memory.
	Addr string
	// Process is the number of the process, and User that of its user, as the kernel tells them. They
	// are known in shared memory, where User is the user of this process: no other one is let in.
	// Process is 0 if it is not known, or in a space of numbers that is not seen from here; User is -1
	// if it is not known.
	Process, User int
}

// String names the process.
func (p Peer) String() string {
	switch {
	case p.Identity != "":
		return fmt.Sprintf("%s at %s", p.Identity, p.Addr)
	case p.Addr != "":
		return p.Addr
	case p.Process != 0:
		return fmt.Sprintf("process %d of this host", p.Process)
	}
	return "a process of this host"
}

// callerOf is what is known of the process at the other end of a connection of the port.
func callerOf(conn net.Conn) Peer {
	return Peer{Identity: trust.CertifiedName(conn), Addr: conn.RemoteAddr().String(), User: -1}
}

// Peer is what is known of the process that sent the message.
func (m *Message) Peer() Peer { return m.peer.who }

// Identity is Peer().Identity: the name that the certificate of the sending process proves, or
// empty.
func (m *Message) Identity() string { return m.peer.who.Identity }

// Account names the party to which the sending process belongs, and for which limits are counted
// together: the certificate's identity under TLS, a process within a host, and otherwise an address
// (Config.MaxPeersPerClient).
func (m *Message) Account() string { return m.peer.member.Account.Name }

// Peer is what is known of the process at the other side.
func (c *Stream) Peer() Peer {
	c.e.lock()
	defer c.e.unlock()
	return c.peer.who
}

// gate lets a bounded number of processes in at a time, and a part of that number for the processes
// of one account.
type gate struct {
	most, mostPerClient int

	mu     sync.Mutex
	inside int
	of     map[string]int
}

func newGate(most int) *gate {
	return &gate{most: most, mostPerClient: (most + 1) / 2, of: map[string]int{}}
}

// enter returns why a process is not let in, or nil.
func (g *gate) enter(account string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.inside >= g.most:
		return fmt.Errorf("%w: %d processes are greeted", ErrLimit, g.most)
	case g.of[account] >= g.mostPerClient:
		return fmt.Errorf("%w: %d processes of %s are greeted", ErrLimit, g.mostPerClient, account)
	}
	g.inside++
	g.of[account]++
	return nil
}

// leave gives the place back.
func (g *gate) leave(account string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.of[account]--; g.of[account] == 0 {
		delete(g.of, account)
	}
}
