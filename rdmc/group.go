package rdmc

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/squall-go/squall/internal/crc"
	"github.com/squall-go/squall/internal/errs"
	"github.com/squall-go/squall/internal/relay"
	"github.com/squall-go/squall/internal/samehost"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/rdmc/schedule"
)

// GroupConfig describes a group. Members is needed. Name, Key, Members, Root, Algorithm and
// BlockBytes are the same at all members.
type GroupConfig struct {
	// Name and Key identify the group. The key is a secret that the members share: a process that
	// does not know it cannot name the group.
	Name, Key string
	// Members lists all members, including this node, which is found by its ID.
	Members []Peer
	// Root is the index in Members of the member that sends.
	Root int
	// Algorithm says which member passes blocks to which; the default chooses by size and number of
	// members.
	Algorithm schedule.Algorithm
	// BlockBytes is the size of all blocks but the last; the default chooses.
	BlockBytes int
	// MaxMessageBytes is the size of the largest message; default 1 TiB.
	MaxMessageBytes int64
	// Incoming gives the memory for a message, of exactly its size. Another size, or an error,
	// fails the group. Default: it is allocated.
	Incoming func(Incoming) ([]byte, error)
	// InPlace wants to look at messages where they lie, if that is memory of Node.Alloc of a root
	// on this host: they are complete when they are there. For these Incoming is not called;
	// Completed gets a Message with InPlace, and has to call its Release. Others come as ever. It
	// may differ from member to member.
	InPlace bool
	// Completed is called for each message that is here whole, in the order of sending. Data is what
	// Incoming gave.
	Completed func(Message)
	// Aborted is called for each message that the root gave up. The memory that Incoming gave is the
	// caller's again. A message may be given up after it was completed here, as long as it is not
	// everywhere.
	Aborted func(Incoming, error)
	// Failed is called once, when the group failed; nothing is completed afterwards.
	Failed func(error)
}

// DefaultMaxMessageBytes is the default of GroupConfig.MaxMessageBytes.
const DefaultMaxMessageBytes = int64(1) << 40

// Errors of messages.
var (
	// ErrNotRoot is returned at a member that is not the root: only the root sends.
	ErrNotRoot = relay.ErrNotRoot
	// ErrTooLarge is returned for a message of more than GroupConfig.MaxMessageBytes.
	ErrTooLarge = relay.ErrTooLarge
	// ErrLeaving is returned after Close was called.
	ErrLeaving = relay.ErrLeaving
	// ErrAborted is the error that GroupConfig.Aborted gets at the receivers.
	ErrAborted = relay.ErrAborted
)

// maxMembers bounds a group, and with it the memory that an announcement costs.
const maxMembers = 1024

// Group is one member's part in a group of transfers. Its methods may be called from any goroutine,
// but Send, SendFrom and Close not from its callbacks.
type Group struct {
	node     *Node
	cfg      GroupConfig
	token    token
	digest   uint32        // of what must be the same at all members
	peers    []Peer        // by place: the root first, then the members behind it, then the members before it
	self     int           // place
	complete chan struct{} // closed when all have opened the group
	done     chan struct{} // closed when nothing happens any more, and no memory is touched

	mu       sync.Mutex
	conds    conds
	relay    *relay.Relay
	members  []*membership // by place; nil: there is no tie, or it is this node
	missing  int           // members that have not attached
	effects  relay.Effects
	calls    []relay.Call              // that the application has to be told
	buffers  map[uint64][]byte         // at receivers, by index
	views    map[uint64]*samehost.View // at receivers, by index: messages that lie in memory of the root
	sendings map[uint64]*Sending       // at the root, by number
}

// conds are what the goroutines of a group wait for, each with the group's lock.
type conds struct{ toSend, toCall, toFetch, toFill *sync.Cond }

// newGroup checks a configuration.
func newGroup(n *Node, c GroupConfig) (*Group, error) {
	g := &Group{
		node: n, cfg: c, complete: make(chan struct{}), done: make(chan struct{}), missing: len(c.Members) - 1,
		members: make([]*membership, len(c.Members)), buffers: map[uint64][]byte{}, views: map[uint64]*samehost.View{}, sendings: map[uint64]*Sending{},
	}
	g.conds = conds{sync.NewCond(&g.mu), sync.NewCond(&g.mu), sync.NewCond(&g.mu), sync.NewCond(&g.mu)}
	if err := g.check(); err != nil {
		return nil, fmt.Errorf("%w: group %q: %w", ErrConfig, c.Name, err)
	}
	// The order is turned, and not changed by putting the root in front: with groups of the same
	// members and all roots, every member is in every place once, so that the last ones, which pass
	// nothing on, are not always the same.
	g.peers = slices.Concat(c.Members[c.Root:], c.Members[:c.Root])
	g.self = slices.IndexFunc(g.peers, func(p Peer) bool { return p.ID == n.cfg.Self.ID })
	if g.cfg.MaxMessageBytes <= 0 {
		g.cfg.MaxMessageBytes = DefaultMaxMessageBytes
	}
	if g.missing == 0 {
		close(g.complete)
	}
	g.token, g.digest = g.identify()
	g.relay = relay.New(g.relayConfig())
	return g, nil
}

// check says all that is wrong at once.
func (g *Group) check() error {
	c := &g.cfg
	var faults errs.Faults
	ids := map[order.NodeID]bool{}
	for _, m := range c.Members {
		faults.If(ids[m.ID], "node %d is named twice", m.ID)
		ids[m.ID] = true
	}
	faults.If(!ids[g.node.cfg.Self.ID], "node %d is not among its members", g.node.cfg.Self.ID)
	faults.If(c.Root < 0 || c.Root >= len(c.Members) || len(c.Members) > maxMembers,
		"root %d of %d members; at most %d", c.Root, len(c.Members), maxMembers)
	faults.If(c.BlockBytes < 0 || c.BlockBytes > relay.MaxBlockBytes,
		"blocks of %d bytes; at most %d", c.BlockBytes, relay.MaxBlockBytes)
	faults.If(c.MaxMessageBytes > relay.MaxMessageBytes,
		"messages of %d bytes; at most %d", c.MaxMessageBytes, int64(relay.MaxMessageBytes))
	return faults.Err()
}

// identify makes the name on the wire, which tells a stranger nothing, and the digest of what must
// be the same at all members.
func (g *Group) identify() (t token, digest uint32) {
	secret := sha256.New()
	fmt.Fprintf(secret, "%d %s %d %s", len(g.cfg.Key), g.cfg.Key, len(g.cfg.Name), g.cfg.Name)
	copy(t[:], secret.Sum(nil))
	same := crc.New()
	for _, p := range g.peers {
		fmt.Fprintf(same, "%d %q ", p.ID, p.Rack)
	}
	return t, same.Sum32()
}

func (g *Group) relayConfig() relay.Config {
	c := relay.Config{Self: g.self, Algorithm: g.cfg.Algorithm, BlockBytes: g.cfg.BlockBytes, MaxMessage: g.cfg.MaxMessageBytes, InPlace: g.cfg.InPlace}
	labelled := slices.ContainsFunc(g.peers, func(p Peer) bool { return p.Rack != "" })
	for _, p := range g.peers {
		c.Nodes = append(c.Nodes, p.ID)
		if labelled {
			c.Racks = append(c.Racks, p.Rack)
		}
	}
	return c
}

// isAttached reports whether the node at a place has opened the group, too.
func (g *Group) isAttached(place int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.relay.IsAttached(place)
}

// Close waits until every message has reached every member, and leaves. It succeeds at all members
// or at none; the reason is the same at all of them. If ctx ends before that, it is a Discard. The
// callbacks have returned by then, and no memory is touched any more.
func (g *Group) Close(ctx context.Context) error {
	g.do(func(r *relay.Relay, out *relay.Effects) { r.Close(out) })
	select {
	case <-g.done:
	case <-ctx.Done():
		g.Discard()
		return fmt.Errorf("rdmc: closing group %q: %w", g.cfg.Name, context.Cause(ctx))
	}
	g.node.leave(g)
	return g.failure()
}

// Discard leaves at once. The group fails at the other members, unless it is over. Memory may be
// touched until Done.
func (g *Group) Discard() {
	g.do(func(r *relay.Relay, out *relay.Effects) { r.Discard(out) })
	g.node.leave(g)
}

// Err is why the group failed, or nil; ErrClosed if it came to its end.
func (g *Group) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.relay.Finished() {
		return ErrClosed
	}
	if f := g.relay.Failure(); f != nil {
		return public(f)
	}
	return nil
}

func (g *Group) failure() error {
	if err := g.Err(); !errors.Is(err, ErrClosed) {
		return err
	}
	return nil
}

// Done is closed when the group has failed, or has come to its end: the callbacks have returned,
// and no memory is touched any more.
func (g *Group) Done() <-chan struct{} { return g.done }
