package dds

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/squall-go/squall/dds/internal/core"
	"github.com/squall-go/squall/dds/internal/remote"
	"github.com/squall-go/squall/dds/internal/space"
	"github.com/squall-go/squall/internal/errs"
	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/ripc"
)

// Defaults of ClientConfig.
const (
	DefaultRelayTimeout = 2 * time.Second
	DefaultOutboxBytes  = 4 << 20
)

// ClientConfig says how a process outside of the group reaches its members.
type ClientConfig struct {
	Cluster string // the name of the group
	Group   string // the identity of the group (squall.View.Group); empty: that of the relay which answers first
	Space   string // the name of the space: of the subgroup that it is
	// Addresses are the addresses of relays (Relay.Addr). The client uses one relay, and another when
	// that relay fails.
	Addresses []string
	// Seed decides with which of Addresses, or Services, the client begins: 1 is the first one, 2 the
	// second, and so on in turn. 0 is a random one, which spreads clients over the relays.
	Seed uint64
	// Services are the ids of relays (RelayService), in place of Addresses. The Resolver of Endpoint
	// finds them.
	Services []ripc.ID
	// Endpoint has the client's TLS certificates, secret and limits. Its Listen and MoveTimeout are
	// not used, and its Resolver is with Services only. RingBytes of 0 is 256 KiB here, and
	// StreamBytes of 0 is 1 MiB: so much of what the relay has sent may wait until readers have space.
	Endpoint ripc.Config
	// RelayTimeout is how long a relay may be silent before another one is used. 0 is
	// DefaultRelayTimeout.
	RelayTimeout time.Duration
	// OutboxBytes bounds the samples of one writer that are not known to be in the order: Write waits.
	// 0 is DefaultOutboxBytes.
	OutboxBytes int
	// Logger records which relay the client uses, and why it has none. Nil: nothing is logged.
	Logger *slog.Logger
	// Events is called for what happens to the writers and readers of this process, in order. It must
	// not block.
	Events func(Event)
}

// Defaults of the endpoint of a client. Each time that the client or the relay has to wait for the
// other one costs a slice of time on a busy host, so that as much as possible is in the memory
// between them.
const (
	clientRingBytes   = 256 << 10
	clientStreamBytes = 1 << 20
)

// Errors of clients.
var (
	// ErrForgotten is returned by a writer of a client that was without a relay for so long that the
	// members do not know any more which of its samples they have: the last ones may be in the order,
	// or not.
	ErrForgotten = remote.ErrForgotten
	// ErrOtherGroup is returned to a client while its relays are of another group than the first one:
	// one with the same name, that has nothing of the first one's topics. To use it, dial again.
	ErrOtherGroup = errs.ErrOtherGroup
	// ErrTooLarge is returned for a sample that is larger than what the space takes.
	ErrTooLarge = errors.New("dds: the sample is too large")
)

// client is the Backend of a process that is outside of the group.
type client struct {
	p        *core.Participant
	events   func(Event) // the application; nil: nobody
	cfg      ClientConfig
	endpoint *ripc.Endpoint
	at       *places // nil: Services are used
	ctx      context.Context
	cancel   context.CancelFunc
	done     sync.WaitGroup
	room     wait.Bell // a reader that was full has room
	token    [12]byte  // the first part of its own GUID, and of those of its writers

	mu      sync.Mutex
	changed chan struct{} // closed at the next change, and made anew
	relay   contact
	calls   calls
	sets    clientSets
	topics  []space.TopicInfo
	all     []*used // writers and readers, in the order in which they were opened

	// Under the participant's lock.
	byNumber map[uint32]*used  // readers and writers
	lineage  []space.ViewStart // of the space at the relay
	held     bool              // the relay does not know yet how far each reader is: it says nothing about the gate
}

// used is a writer or a reader of a client.
type used struct {
	id     space.ID // here
	info   space.EndpointInfo
	filter *remote.Filter
	guid   [16]byte

	// Under the client's lock.
	there   space.ID // at the relay
	open    bool     // … in which it is
	closing bool
	persist bool // a sample is acknowledged once it is on all disks, because its topic is PERSISTENT
	outbox  remote.Outbox
	futures []*future // of samples that are not known to be in the order, by their numbers
	future  uint64    // number of the last sample with a future
	ordered uint64    // number of the last sample that is known to be in the order
	stored  uint64    // number of the last sample that is known to be on all disks
	failed  error     // why a writer writes no more
	torn    error     // … at no relay, because a set of it cannot come into the order as a whole

	// Under the participant's lock.
	reached *space.Resume // of a reader
	matched int
}

// calls are the requests without an answer. Each has a number of its own, up to the last one.
type calls struct {
	waiting map[uint64]*call // by number
	last    uint64
}

// call is a request that has no answer yet.
type call struct {
	request remote.Request
	again   bool // it is made again by every connection itself
	result  chan error
	answer  remote.Answer
	then    func(*remote.Answer) // called with the answer, in the order of what the relay sends
}

// guid is the secret of a writer towards relays, or with the number 0 that of the client.
func (c *client) guid(number uint32) (guid [16]byte) {
	copy(guid[:], c.token[:])
	binary.BigEndian.PutUint32(guid[12:], number)
	return guid
}

// contact is the client's connection with the relays, one after the other. While there is a link,
// met is true, and failed and refused are nil.
type contact struct {
	link    *link     // nil: there is no relay
	lost    time.Time // when the last link ended, or else when the client began
	welcome remote.Welcome
	met     bool   // welcome is that of a relay
	group   string // the identity of the group that the client uses; empty: no relay has said it yet
	failed  error  // of the last attempt to reach a relay
	refused error  // failed, if each relay fails whenever it is asked, until a configuration changes
}

// link is one connection to a relay.
type link struct {
	conn net.Conn
	out  []byte // frames
	wake wait.Bell
}

func (l *link) rouse() {
	l.wake.Ring()
}

// places resolves the service to the relay that is used now.
type places struct {
	mu   sync.Mutex
	addr string
}

// Resolve implements ripc.Resolver: a relay on this host is reached through shared memory.
func (p *places) Resolve(ctx context.Context, _ ripc.ID) (ripc.Place, error) {
	p.mu.Lock()
	addr := p.addr
	p.mu.Unlock()
	if place, err := ripc.OneHost("").Resolve(ctx, ripc.ID(core.Here(addr))); err == nil {
		return place, nil
	}
	return ripc.Place{Addr: addr}, nil
}

// Publish implements ripc.Resolver. A client has nothing to publish.
func (p *places) Publish(context.Context, ripc.ID, ripc.Place) (func() error, error) {
	return func() error { return nil }, nil
}

// RelayService is the id of the service of a relay whose endpoint has a Resolver.
func RelayService(cluster, space string, member order.NodeID) ripc.ID {
	return ripc.ID(fmt.Sprintf("%s\x00%d", core.Service(cluster, space), member))
}

// Dial makes this process a client of the space, outside of the group: its topics, writers and
// readers are used as those of a member are, by a relay, which is a member that serves clients. It
// returns when a relay is reached, or at once if each relay fails whenever it is asked, as with the
// wrong port, TLS on one side only, another secret, or another cluster or space.
//
// When the relay fails, the client goes on with another one. Each sample that was written takes
// effect once, in the order of its writer. Readers go on where they were: with what the tail of the
// new relay has, or else with the history of the topic; if neither has all samples, SampleLost
// tells how many are missing.
//
// A client's reader never blocks writers. What a client cannot have is refused: changes of a
// reader's partitions.
func Dial(ctx context.Context, cfg ClientConfig) (*Participant, error) {
	cfg.RelayTimeout, cfg.OutboxBytes = cmp.Or(cfg.RelayTimeout, DefaultRelayTimeout), cmp.Or(cfg.OutboxBytes, DefaultOutboxBytes)
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("dds: space %q: %w", cfg.Space, err)
	}
	c := &client{
		p: core.New(cfg.Space), events: cfg.Events, room: wait.NewBell(), changed: make(chan struct{}), byNumber: map[uint32]*used{},
		relay: contact{lost: time.Now()}, calls: calls{waiting: map[uint64]*call{}}, sets: clientSets{writing: map[uint64]*clientSet{}},
	}
	c.p.Backend, c.relay.group = c, cfg.Group
	if len(cfg.Services) == 0 {
		c.at = &places{}
		cfg.Endpoint.Resolver = c.at
	}
	relays := max(len(cfg.Addresses), len(cfg.Services))
	first := int((cfg.Seed - 1) % uint64(relays))
	if cfg.Seed == 0 {
		first = mathrand.IntN(relays)
	}
	cfg.Addresses, cfg.Services = startingWith(cfg.Addresses, first), startingWith(cfg.Services, first)
	cfg.Endpoint.Listen, cfg.Endpoint.MoveTimeout = "", -1
	cfg.Endpoint.RingBytes = cmp.Or(cfg.Endpoint.RingBytes, clientRingBytes)
	cfg.Endpoint.StreamBytes = cmp.Or(cfg.Endpoint.StreamBytes, clientStreamBytes)
	c.cfg = cfg
	var err error
	if c.endpoint, err = ripc.Open(ctx, cfg.Endpoint); err != nil {
		return nil, fmt.Errorf("dds: space %q: %w", cfg.Space, err)
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	var b [20]byte
	_, _ = rand.Read(b[:]) // it does not fail
	copy(c.token[:], b[8:])
	c.p.Self = space.Process{Incarnation: binary.LittleEndian.Uint64(b[:])}
	participant := of(c.p, cfg.Events)
	c.done.Go(c.run)
	if err := c.until(ctx, func() (bool, error) { return c.relay.met, nil }); err != nil {
		return nil, errors.Join(fmt.Errorf("dds: space %q: no relay was reached: %w", cfg.Space, c.because(err)), c.Close(ctx))
	}
	return participant, nil
}

// startingWith returns a list from one element on, in turn.
func startingWith[E any](all []E, first int) []E {
	if len(all) == 0 {
		return nil
	}
	return slices.Concat(all[first:], all[:first])
}

// validate says what is wrong with a configuration that has its defaults.
func (cfg *ClientConfig) validate() error {
	switch {
	case cfg.Space == "":
		return errors.New("Space must be the name of the space")
	case (len(cfg.Addresses) == 0) == (len(cfg.Services) == 0):
		return errors.New("either Addresses or Services must have a relay")
	case cfg.RelayTimeout < 2*core.Heartbeat || cfg.OutboxBytes < 0:
		return fmt.Errorf("RelayTimeout must be %v at least, and OutboxBytes not negative", 2*core.Heartbeat)
	}
	return nil
}

// because adds why no relay was reached to an error.
func (c *client) because(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.relay.failed != nil && !errors.Is(err, c.relay.failed) {
		err = fmt.Errorf("%w; %w", err, c.relay.failed)
	}
	return err
}

// until waits until f, which is called under the lock, says that something is so, or fails. It also
// fails if each relay refuses the client.
func (c *client) until(ctx context.Context, f func() (bool, error)) error {
	for {
		c.mu.Lock()
		ok, err := f()
		if !ok && err == nil {
			err = c.relay.refused
		}
		changed := c.changed
		c.mu.Unlock()
		if ok || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-c.ctx.Done():
			return ErrNotOpen
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// news wakes what waits for a change. The lock is held.
func (c *client) news() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// bye has the relay close the connection.
func (c *client) bye(ctx context.Context) {
	c.mu.Lock()
	l := c.relay.link
	if l != nil {
		l.out = remote.AppendFrame(l.out, remote.KindBye, func(b []byte) []byte { return b })
		l.rouse()
	}
	c.mu.Unlock()
	if l == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, core.Heartbeat)
	defer cancel()
	_ = c.until(ctx, func() (bool, error) { return c.relay.link != l, nil })
}

// Close ends the client, once what it has written is in the order, or there was no relay for the
// time after which one is given up.
func (c *client) Close(ctx context.Context) error {
	err := c.until(ctx, func() (bool, error) {
		left := uint64(0)
		for _, u := range c.all {
			if u.failed == nil {
				left += u.outbox.Last() - u.outbox.Acknowledged()
			}
		}
		if left > 0 && c.relay.link == nil && time.Since(c.relay.lost) >= c.cfg.RelayTimeout {
			return false, fmt.Errorf("dds: space %q: there is no relay, and %d samples are not known to be in the order", c.p.Name, left)
		}
		return left == 0, nil
	})
	if errors.Is(err, ErrNotOpen) {
		return nil // it was closed before
	}
	c.bye(ctx)
	c.cancel()
	c.mu.Lock()
	for _, u := range c.all {
		u.fail(cmp.Or(u.failed, ErrNotOpen))
	}
	c.mu.Unlock()
	p := c.p
	p.Mu.Lock()
	p.End()
	err = errors.Join(err, c.endpoint.Close())
	c.done.Wait()
	return err
}
