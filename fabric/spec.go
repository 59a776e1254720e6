package fabric

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/trust"
)

// Peer is what a fabric needs to know of a member to bring rows to it.
type Peer struct {
	ID          order.NodeID
	Incarnation uint64 // tells a node's processes apart; 0: it is not known
	Addr        string // host:port of its port
	Host        string // equal for processes that can share memory; empty if it offers none
	SHM         string // name of its abstract unix socket
	Shape       RowShape
	PublicKey   trust.PublicKey // by which its greetings are authenticated
	Certificate trust.Digest    // with TLS: the hash of the public key of its certificate
}

// Process names the peer's process. It is the same at every process that computes it, and does not
// give the incarnation away, which is known to members only.
func (p Peer) Process() string {
	text := binary.LittleEndian.AppendUint64([]byte("squall process "), uint64(p.ID))
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64(text, p.Incarnation))
	return hex.EncodeToString(sum[:16])
}

// Spec is one view's table as a fabric sees it.
type Spec struct {
	Scope    trust.Scope // of the view
	Identity *trust.Identity
	Self     order.Rank
	Peers    []Peer // by rank, self included
	Parker   *Parker
	Links    Links // of the transport between hosts; nil: there is TCP only
}

// Transport is the name of the transport between hosts, or empty.
func (s *Spec) Transport() string {
	if s.Links == nil {
		return ""
	}
	return s.Links.Name()
}
