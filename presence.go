package squall

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/auto"
	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/courier"
	"github.com/squall-go/squall/internal/join"
	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/rdmc"
	"github.com/squall-go/squall/trust"
	"github.com/squall-go/squall/views"
)

// presence is how other processes find, recognise and reach this one.
//
// Life: listening (it has its id and its port) → connected (it takes connections for rows and
// blocks, and answers whether it is there) → absent → released.
//
// Invariant: what it opened does not change between connect and release. Self changes before the
// first view only.
type presence struct {
	identity *trust.Identity // key and certificate by which the others recognise this process
	lock     *join.Lock
	self     views.Member
	port     *port.Port
	node     *auto.Node
	bulk     *rdmc.Node // moves large messages; nil: there are none
	parker   *fabric.Parker

	rejections rejections
	reserve    reserve
}

// listen gives this process its id and its address. It returns the number of this start.
func (p *presence) listen(ctx context.Context, c *Config) (incarnation uint64, err error) {
	p.identity = trust.NewIdentity()
	p.rejections.emit = c.emit
	if err := p.reserve.fit(c.InitialMembers); err != nil {
		return 0, err
	}
	id, incarnation, lock, err := join.Identity(c.Dir, c.ID)
	if err != nil {
		return 0, err
	}
	c.ID, p.lock = id, lock
	p.port, err = port.Open(ctx, port.Config{
		Addr: c.Listen, Advertise: c.Advertise, TLS: c.TLS,
		OnReject: p.rejections.add,
	})
	return incarnation, err
}

// connect lets others reach this process, and ask for it.
func (p *presence) connect(ctx context.Context, c *Config, incarnation uint64) (err error) {
	if p.parker, err = fabric.NewParker(); err != nil {
		return err
	}
	p.parker.OneLoop = true
	if p.node, err = auto.Open(ctx, auto.Config{
		Mode: auto.Mode(c.Fabric), Port: p.port, TLS: c.TLS, Transport: c.Transport,
		OnFallback: c.usesTCP,
	}); err != nil {
		return err
	}
	if err = p.openBulk(ctx, c); err != nil {
		return err
	}
	return p.describe(c, incarnation)
}

// usesTCP is called with the reason why TCP is used instead of the transport.
func (c *Config) usesTCP(why error) {
	c.Logger.Warn("TCP is used instead of the transport", "error", why)
}

// describe makes this process's record, which others get.
func (p *presence) describe(c *Config, incarnation uint64) (err error) {
	p.self = views.Member{
		ID: c.ID, Incarnation: incarnation, Addr: p.port.Addr(), Host: p.node.Host(), SHM: p.node.SHM(), PublicKey: p.identity.PublicKey(),
	}
	host, _, _ := net.SplitHostPort(p.self.Addr)
	if p.self.Certificate, err = trust.OwnCertificate(c.TLS, host); err != nil {
		return err
	}
	p.present()
	return nil
}

// openBulk makes what moves large messages, if any subgroup has them.
func (p *presence) openBulk(ctx context.Context, c *Config) (err error) {
	for _, sg := range c.Subgroups {
		if sg.LargeDir == "" {
			continue
		}
		if err := courier.Clear(sg.LargeDir); err != nil {
			return fmt.Errorf("LargeDir of subgroup %q: %w", sg.Name, err)
		}
	}
	if !slices.ContainsFunc(c.Subgroups, func(sg SubgroupConfig) bool { return sg.MaxMessageBytes > 0 }) {
		return nil
	}
	var streams fabric.Streams
	if c.Fabric == FabricAuto || c.Fabric == FabricTransport {
		streams, _ = c.Transport.(fabric.Streams)
	}
	p.bulk, err = rdmc.Open(ctx, rdmc.Config{
		Self: rdmc.Peer{ID: c.ID, Addr: p.port.Addr(), Host: p.node.Host(), SHM: p.node.SHM()}, Port: p.port, TLS: c.TLS, Identity: p.identity, FailAfter: c.FailAfter,
		Background: true, // the loop comes first
		NotShared:  c.Fabric == FabricTCP || c.Fabric == FabricTransport,
		Streams:    streams, OnFallback: c.usesTCP,
	})
	return err
}

// present makes this process answer other processes that ask whether it is a running member.
func (p *presence) present() { p.node.Present(fabricPeer(p.self)) }

// fabricPeer returns what a fabric needs to know of a member.
func fabricPeer(m views.Member) fabric.Peer {
	return fabric.Peer{ID: m.ID, Incarnation: m.Incarnation, Addr: m.Addr, Host: m.Host, SHM: m.SHM, PublicKey: m.PublicKey, Certificate: m.Certificate}
}

// table makes the table of a view. It is the seam between the code that decides on views and the
// code that connects their members.
func (p *presence) table(v *views.View, self order.Rank, layout *member.Layout) (*fabric.Table, error) {
	spec := fabric.Spec{Scope: v.Scope(), Identity: p.identity, Self: self, Parker: p.parker}
	for r, m := range v.Members {
		peer := fabricPeer(m)
		peer.Shape = layout.Shape(order.Rank(r))
		spec.Peers = append(spec.Peers, peer)
	}
	return p.node.Open(spec)
}

// absent makes this process answer no more that it is there.
func (p *presence) absent() {
	if p.node != nil {
		p.node.Absent()
	}
}

// release closes what was opened: first what the parker wakes, last the lock.
func (p *presence) release() error {
	errs := []error{closed(p.bulk), closed(p.node), closed(p.port)}
	p.rejections.close()
	p.reserve.close()
	return errors.Join(append(errs, closed(p.parker), closed(p.lock))...)
}

// closed closes what was opened.
func closed[T interface {
	comparable
	Close() error
}](x T) error {
	if x == *new(T) {
		return nil
	}
	return x.Close()
}
