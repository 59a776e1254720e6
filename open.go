package squall

import (
	"context"
	"fmt"
)

// Open makes this process a member of a group and returns when it is one. It forms the first view
// with InitialMembers - 1 other processes, or joins a running group. It fails if ctx ends before
// that, if the group refuses this process (ErrRefused), or if the configuration is wrong.
func Open(ctx context.Context, cfg Config) (*Group, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	g := &Group{cfg: cfg.withDefaults(), ending: newEnding()}
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
func (g *Group) listen(ctx context.Context) error {
	g.upcalls.watch(&g.cfg)
	incarnation, err := g.presence.listen(ctx, &g.cfg)
	if err != nil {
		return err
	}
	g.states = newStates(g)
	g.cfg.emit(Listening{g.port.Addr()})
	return g.presence.connect(ctx, &g.cfg, incarnation)
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
			g.made.begin(outcome.View, outcome.Unmet)
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
