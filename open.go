package squall

import (
	"context"
	"fmt"
	"net"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/auto"
	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/join"
	"github.com/squall-go/squall/trust"
	"github.com/squall-go/squall/views"
)

// Open makes this process a member of a group and returns when it is one. It forms the first view
// with InitialMembers - 1 other processes, or joins a running group. It fails if ctx ends before
// that, if the group refuses this process (ErrRefused), or if the configuration is wrong.
func Open(ctx context.Context, cfg Config) (*Group, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	g := &Group{cfg: cfg.withDefaults(), identity: trust.NewIdentity(), halted: make(chan struct{}), closed: make(chan struct{})}
	if err := g.open(ctx); err != nil {
		g.release()
		return nil, fmt.Errorf("open group %q as node %d: %w", cfg.Cluster, g.cfg.ID, err)
	}
	return g, nil
}

func (g *Group) open(ctx context.Context) error {
	if err := g.listen(ctx); err != nil {
		return err
	}
	g.addSubgroups()
	if err := g.openDurable(ctx); err != nil {
		return err
	}
	if err := g.takePart(ctx); err != nil {
		return err
	}
	g.start()
	err := g.recovered(ctx)
	if err != nil {
		g.stop(err)
	}
	return err
}

// listen gives this process its identity and its address, at which other processes can ask for it.
func (g *Group) listen(ctx context.Context) (err error) {
	c := &g.cfg
	g.upcalls.watch(c)
	g.rejections.emit = c.emit
	if err := g.reserve.fit(c.InitialMembers); err != nil {
		return err
	}
	id, incarnation, lock, err := join.Identity(c.Dir, c.ID)
	if err != nil {
		return err
	}
	c.ID, g.lock = id, lock
	if g.port, err = port.Open(ctx, port.Config{
		Addr: c.Listen, Advertise: c.Advertise, TLS: c.TLS,
		OnReject: g.rejections.add,
	}); err != nil {
		return err
	}
	g.states = newStates(g)
	c.emit(Listening{g.port.Addr()})
	if g.parker, err = fabric.NewParker(); err != nil {
		return err
	}
	g.parker.OneLoop = true
	if g.node, err = auto.Open(ctx, auto.Config{
		Mode: auto.Mode(c.Fabric), Port: g.port, TLS: c.TLS, Transport: c.Transport,
		Instead: g.usesTCP,
	}); err != nil {
		return err
	}
	if err = g.openBulk(ctx); err != nil {
		return err
	}
	return g.describe(incarnation)
}

// usesTCP is called with the reason why TCP is used instead of the transport.
func (g *Group) usesTCP(why error) {
	g.cfg.Logger.Warn("TCP is used instead of the transport", "error", why)
}

// describe makes this process's record, which others get.
func (g *Group) describe(incarnation uint64) (err error) {
	g.self = views.Member{
		ID: g.cfg.ID, Incarnation: incarnation, Addr: g.port.Addr(), Host: g.node.Host(), SHM: g.node.SHM(), PublicKey: g.identity.PublicKey(),
	}
	host, _, _ := net.SplitHostPort(g.self.Addr)
	if g.self.Certificate, err = trust.OwnCertificate(g.cfg.TLS, host); err != nil {
		return err
	}
	g.present()
	return nil
}

// addSubgroups makes the subgroups of the configuration.
func (g *Group) addSubgroups() {
	c := &g.cfg
	g.slices = newSlices(c)
	for i, d := range c.declarations() {
		g.apps = append(g.apps, c.Subgroups[i].application(&g.upcalls, g.slices, g.parker.Wake))
		s := &Subgroup{group: g, decl: d, app: g.apps[i], queued: c.Subgroups[i].AsyncQueueBytes > 0}
		if sg := c.Subgroups[i]; sg.Mode == Persistent && sg.Snapshot != nil {
			s.snapshots = make(chan struct{}, 1)
			if p := sg.Log.Snapshots; p.takes() {
				s.snapshotter = newSnapshotter(s, p)
			}
		}
		g.subs = append(g.subs, s)
	}
}

// takePart bootstraps the group, joins it or restarts it with others, and enters the view that
// comes of it.
func (g *Group) takePart(ctx context.Context) error {
	o := &opening{Group: g, ctx: ctx}
	err := o.run()
	outcome := o.outcome
	if err == nil {
		if len(outcome.Unmet) > 0 {
			g.made = []made{{outcome.View.Key(), outcome.Unmet}}
		}
		err = g.enter(ctx, outcome)
	}
	if err != nil {
		if outcome != nil {
			outcome.Abort(err)
		}
		return err
	}
	if outcome.Bootstrapped {
		g.cfg.emit(GroupBootstrapped{Group: outcome.View.Group, Members: outcome.View.Members, Unlisted: len(g.cfg.Join) == 0 && g.durable == nil})
	}
	g.door = outcome.Serve(g.candidates)
	return nil
}
