package rdmc

import (
	"crypto/tls"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/attach"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/trust"
)

// Peer is a node as the others know it.
type Peer struct {
	ID   order.NodeID
	Addr string // the host:port of its port
	Host string // nodes with the same one are on the same host; "" equals no other
	SHM  string // the name of its abstract socket for shared memory; "" if it has none. It is for people: nodes ask each other
	Rack string // nodes with the same one are close to each other; "" if nothing is known
	// PublicKey is that of the node's process, and Certificate, with TLS, the hash of the public
	// key of its certificate: Node.Peer has both. Only a process that proves to have them is that
	// member. Zero: a process that knows the group's key may claim to be any of its members.
	PublicKey   trust.PublicKey
	Certificate trust.Digest
}

// member is the peer as package attach knows it.
func (p *Peer) member() attach.Member {
	return attach.Member{ID: p.ID, Key: p.PublicKey, Certificate: p.Certificate}
}

// is reports whether the other end of a link is a peer, as far as its description tells.
func (p *Peer) is(l *link) bool {
	m, proof := p.member(), l.proof()
	return m.Is(&proof)
}

// Config describes a node. Self.ID is needed, and Self.Addr or Port. Host and SHM of Self are found
// out if they are empty.
type Config struct {
	// Self describes the node to its peers. Without a Port, Self.Addr is the address on which it
	// listens; with port 0 in it, Node.Peer has the port that was chosen.
	Self Peer
	// Port is where connections of kind port.KindBlocks arrive, for a process that has one for
	// other purposes; the node handles that kind until it is closed. The port remains the caller's.
	// nil: the node opens one of its own.
	Port *port.Port
	// TLS is what connections are dialed with, the same as the port's; nil is plain TCP.
	TLS *tls.Config
	// Identity is the key pair of this process, if it has one for other purposes; nil: the node
	// makes one.
	Identity *trust.Identity
	// FailAfter is how long a peer may be silent while a transfer is in progress; default 5 s.
	FailAfter time.Duration
	// NotShared keeps memory from other processes of the host: messages go in blocks even there.
	NotShared bool
	// Streams carry blocks between two nodes that both have some and see no memory of each other; nil:
	// TCP does. They go with no TLS.
	Streams fabric.Streams
	// OnFallback, if not nil, is called with the reason when TCP carries blocks although both nodes
	// have streams, on any goroutine.
	OnFallback func(error)
	// Background has the threads that move blocks give way to others that want the processor
	// (Linux).
	Background bool
}

// DefaultFailAfter is the default of Config.FailAfter.
const DefaultFailAfter = 5 * time.Second
