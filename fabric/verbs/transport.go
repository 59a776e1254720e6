//go:build linux

package verbs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/verbs/device"
	"github.com/squall-go/squall/internal/handshake"
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/order"
)

const (
	setupTime  = 5 * time.Second
	setupBytes = 1 << 10
)

// Transport implements fabric.Transport over a device.
type Transport struct{ device device.Device }

// New makes a transport of a device, which it owns.
func New(d device.Device) *Transport { return &Transport{d} }

// Close gives up the device. No table uses it any more.
func (t *Transport) Close() error { return t.device.Close() }

// links implements fabric.Links: the pairs of one table, and their completion queue.
type links struct {
	spec   *fabric.Spec
	device device.Device
	own    []byte
	hub    *hub

	mu     sync.Mutex
	shared device.Domain // only of a mutant
}

// Open implements fabric.Transport.
func (t *Transport) Open(spec *fabric.Spec, own []byte) (fabric.Links, error) {
	capacity := len(spec.Peers) * (receives + requests)
	if most := t.device.Limits().Completions; capacity > most {
		return nil, fmt.Errorf("%w: %d members need a queue for %d completions, and it has one for %d", device.ErrFailed, len(spec.Peers), capacity, most)
	}
	q, err := t.device.Queue(capacity)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", device.ErrFailed, err)
	}
	h, err := newHub(q, spec.Parker)
	if err != nil {
		return nil, errors.Join(err, q.Close())
	}
	return &links{spec: spec, device: t.device, own: own, hub: h}, nil
}

// Name implements fabric.Links.
func (ls *links) Name() string { return "verbs" }

// Close implements fabric.Links.
func (ls *links) Close() error {
	err := ls.hub.close()
	if ls.shared != nil {
		err = errors.Join(err, ls.shared.Close())
	}
	return err
}

// setup is what the two ends of a connection tell each other about their pairs.
type setup struct {
	Refused  string          `json:"refused,omitempty"` // there will be no link, for this reason
	Pair     device.Endpoint `json:"pair"`
	Receives int             `json:"receives"`
	Message  int             `json:"message"` // bytes
	Address  uint64          `json:"address"` // of the replica of the other one's bytes
	Key      uint32          `json:"key"`
}

// ready says that a pair takes messages, or why it does not.
type ready struct {
	Refused string `json:"refused,omitempty"`
}

// Connect implements fabric.Links. Both ends do the same: each makes its pair, with its receives,
// tells the other one, connects, and says that it is ready. So nothing is sent to a pair that is
// not ready.
func (ls *links) Connect(ctx context.Context, conn net.Conn, peer order.Rank) (fabric.Link, error) {
	l, err := ls.link(peer)
	l.remote, err = meet(ctx, conn, l.pair, l.setup, err)
	if err == nil {
		l.lifeline, err = newLifeline(conn, ls.spec.Parker)
	}
	if err != nil {
		l.lifeline = noLifeline{}
		return nil, errors.Join(err, l.release())
	}
	return l, nil
}

// meet connects a pair to that of the other end, which does the same, and returns where the other
// end's memory is. If there is no pair for a reason, the other end gets that.
func meet(ctx context.Context, conn net.Conn, pair device.Pair, mine func() setup, reason error) (remote device.Region, err error) {
	if err := conn.SetDeadline(time.Now().Add(setupTime)); err != nil {
		return remote, handshake.HungUp(err)
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	if reason == nil {
		remote, err = agree(conn, pair, mine())
	} else {
		err = refuse(conn, reason)
	}
	if !stop() {
		err = context.Cause(ctx)
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		// The peer may live: it, or this process, got no processor. The dialer tries again, and the
		// heartbeats decide.
		err = fmt.Errorf("%w: %w", fabric.ErrHungUp, err)
	}
	return remote, err
}

// refuse reports to the peer that there will be no link, and why.
func refuse(conn net.Conn, why error) error {
	err := wire.WriteMessage(conn, setup{Refused: why.Error()})
	if err == nil {
		err = wire.ReadMessage(conn, setupBytes, &setup{})
	}
	if err != nil {
		return handshake.HungUp(err)
	}
	return fmt.Errorf("%w: %w", fabric.ErrRefused, why)
}

func agree(conn net.Conn, pair device.Pair, mine setup) (remote device.Region, err error) {
	theirs, err := exchange(conn, mine)
	if err != nil {
		return remote, err
	}
	if theirs.Refused != "" {
		return remote, fmt.Errorf("%w: the peer: %s", fabric.ErrRefused, theirs.Refused)
	}
	var here ready
	if theirs.Receives != mine.Receives || theirs.Message != mine.Message {
		here.Refused = fmt.Sprintf("%d receives of %d bytes there, %d of %d here", theirs.Receives, theirs.Message, mine.Receives, mine.Message)
	} else if err := pair.Connect(theirs.Pair); err != nil {
		here.Refused = err.Error()
	}
	there, err := exchange(conn, here)
	if err != nil {
		return remote, err
	}
	if why := here.Refused + there.Refused; why != "" {
		return remote, fmt.Errorf("%w: %s", fabric.ErrRefused, why)
	}
	return device.Region{Address: theirs.Address, Key: theirs.Key}, nil
}

// exchange sends a value to the peer and receives the peer's.
func exchange[M any](conn net.Conn, mine M) (theirs M, err error) {
	if err = wire.WriteMessage(conn, mine); err == nil {
		err = wire.ReadMessage(conn, setupBytes, &theirs)
	}
	if err != nil {
		err = handshake.HungUp(err)
	}
	return theirs, err
}

func (l *Link) setup() setup {
	return setup{Pair: l.pair.Endpoint(), Receives: receives, Message: messageBytes, Address: l.bytesAt.Address, Key: l.bytesAt.Key}
}

// link makes a link that is not connected. It returns one whatever the error: release gives up what
// it has.
func (ls *links) link(peer order.Rank) (*Link, error) {
	limits := ls.device.Limits()
	l := &Link{
		hub: ls.hub, own: ls.own, ownShape: ls.spec.Peers[ls.spec.Self].Shape, peerShape: ls.spec.Peers[peer].Shape,
		pending: fabric.NewPending(ls.spec.Peers[ls.spec.Self].Shape.ControlBytes),
		inline:  int(min(limits.InlineBytes, messageBytes)), mostBytes: int(limits.MessageBytes),
	}
	l.tx.granted = receives
	err := l.allocate()
	if err == nil {
		err = l.register(ls)
	}
	if err == nil {
		l.pair, err = l.domain.Pair(ls.hub.queue, device.Capacity{Requests: requests, Receives: receives, InlineBytes: l.inline})
	}
	if err == nil {
		ls.hub.add(l)
		err = l.first()
	}
	if err != nil {
		return l, fmt.Errorf("%w: %w", device.ErrFailed, err)
	}
	return l, nil
}

func (l *Link) allocate() (err error) {
	memory := func(n int) []byte {
		if err != nil {
			return nil
		}
		mem, free, failed := fabric.NewMemory(n)
		if err = failed; err == nil {
			l.free = append(l.free, free)
		}
		return mem
	}
	l.replica, l.stage = memory(l.peerShape.RowBytes), memory(2*receives*messageBytes)
	return err
}

// register makes the peer's domain, with all that its pair may touch (QP4).
func (l *Link) register(ls *links) (err error) {
	if l.domain, err = ls.domain(); err != nil {
		return err
	}
	own, err := l.domain.Register(l.own, false, false)
	if err == nil {
		l.ownKey = own.Key
		l.stageAt, err = l.domain.Register(l.stage, true, false)
	}
	control := l.peerShape.ControlBytes
	if err != nil || control == l.peerShape.RowBytes {
		return err
	}
	if mutant.Enabled && mutant.On(mutant.WholeReplica) {
		l.bytesAt, err = l.domain.Register(l.replica, true, true)
		l.bytesAt.Address += uint64(control)
		return err
	}
	l.bytesAt, err = l.domain.Register(l.replica[control:], true, true)
	return err
}

func (ls *links) domain() (device.Domain, error) {
	if !mutant.Enabled || !mutant.On(mutant.OneDomain) {
		return ls.device.Domain()
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	var err error
	if ls.shared == nil {
		ls.shared, err = ls.device.Domain()
	}
	return sharedDomain{ls.shared}, err
}

// sharedDomain is what OneDomain gives to a link: one that closing the link leaves alone.
type sharedDomain struct{ device.Domain }

func (sharedDomain) Close() error { return nil }
