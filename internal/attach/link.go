package attach

import (
	"errors"
	"fmt"
	"slices"

	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/internal/relay"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/trust"
)

// Link numbers the links of a node. Of two links to a peer that dialed them, the one that was
// dialed later has the larger number.
type Link uint64

// MaxWaiting is how many offers of one link may wait for their groups.
const MaxWaiting = 1024

// ErrCrowded says that a peer costs more than it may.
var ErrCrowded = errors.New("too many links")

// Proof is what the peer of a link has proved to be.
type Proof struct {
	ID          order.NodeID
	Key         trust.PublicKey
	Certificate trust.Digest // of TLS
	Secure      bool         // there is TLS
}

// Member describes a member of a group. Only a peer with its keys is that member; a key that is
// zero is not compared.
type Member struct {
	ID          order.NodeID
	Key         trust.PublicKey
	Certificate trust.Digest
}

// Is reports whether a peer is the member, as far as the description tells.
func (m *Member) Is(p *Proof) bool {
	return m.ID == p.ID && (m.Key.IsZero() || m.Key == p.Key) && (m.Certificate.IsZero() || !p.Secure || m.Certificate == p.Certificate)
}

// link is this node's end of a link.
type link struct {
	id       Link
	peer     Proof
	dialed   bool
	count    uint32          // channels [1, count] were given
	ties     []*tie          // those that have a channel
	waiting  []relay.Control // offers of groups that are not open here
	asked    int64           // pings
	answered int64           // pongs. Invariant: answered <= asked
	watch    watch
	silent   bool // this node gave it up
}

// ask asks the peer whether it is there. When it has answered as many questions as ask returns,
// everything that was said before has arrived.
func (l *link) ask(out *Effects) int64 {
	l.asked++
	out.say(l, relay.Control{Kind: relay.Ping})
	return l.asked
}

// wait keeps an offer of a group that is not open here.
func (l *link) wait(c *relay.Control) error {
	l.waiting = slices.DeleteFunc(l.waiting, func(o relay.Control) bool { return o.Token == c.Token })
	if len(l.waiting) == MaxWaiting {
		return fmt.Errorf("%w: %d groups that are not open here", ErrCrowded, MaxWaiting)
	}
	if mutant.Enabled && mutant.On(mutant.OfferForgotten) {
		return nil
	}
	l.waiting = append(l.waiting, *c)
	return nil
}

// waited takes an offer that waits for a group.
func (l *link) waited(t Token) (c relay.Control, ok bool) {
	i := slices.IndexFunc(l.waiting, func(o relay.Control) bool { return o.Token == t })
	if i < 0 {
		return c, false
	}
	c = l.waiting[i]
	l.waiting = slices.Delete(l.waiting, i, i+1)
	return c, true
}

// tie is the tie with a channel, or nil.
func (l *link) tie(channel uint32) *tie {
	i := slices.IndexFunc(l.ties, func(t *tie) bool { return t.mine == channel })
	if i < 0 {
		return nil
	}
	return l.ties[i]
}

func (l *link) drop(t *tie) {
	l.ties = slices.DeleteFunc(l.ties, func(o *tie) bool { return o == t })
}
