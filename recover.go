package squall

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/squall-go/squall/internal/join"
	"github.com/squall-go/squall/internal/logwire"
	"github.com/squall-go/squall/internal/restart"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
	"github.com/squall-go/squall/views"
)

// find makes this process a member of a view: of one that is formed, of one of a group that works, or of the one in which a group goes on of which
// all members have ended.
func (g *Group) find(ctx context.Context) (*join.Outcome, error) {
	cfg := g.joinConfig()
	if g.durable == nil {
		return join.Join(ctx, cfg)
	}
	if err := g.durable.memory.Begin(g.self); err != nil {
		return nil, err
	}
	g.self.Disk, g.self.GaveUp = g.durable.memory.Disk(), g.durable.memory.GaveUp()
	cfg = g.joinConfig()
	if g.durable.memory.View() != nil {
		got, err := g.durable.comeBack(ctx)
		if err != nil {
			return nil, err
		}
		if got.View != nil {
			return join.Formed(cfg, got.View), nil
		}
		g.self.Incarnation = join.NewIncarnation() // the one before may have become a member of something
		g.present()
		if err := g.durable.memory.Begin(g.self); err != nil {
			return nil, err
		}
		cfg = g.joinConfig()
		cfg.Join = append(got.Running, cfg.Join...)
	}
	g.durable.catchUpAhead(ctx, cfg)
	return join.Join(ctx, cfg)
}

// comeBack finds the others that were in the last view that this process knows, and agrees with them on how to go on.
func (d *durable) comeBack(ctx context.Context) (restart.Outcome, error) {
	g := d.group
	return restart.Run(ctx, restart.Config{
		Cluster: g.cfg.Cluster, Self: g.self, Memory: d.memory, Join: g.cfg.Join, Logs: d.ends, Reconcile: d.reconcile, Place: d.place,
		Persistent: func(name string) bool { return d.declaration(persist.LogID{Name: name}) >= 0 },
		Port:       g.port, TLS: g.cfg.TLS, OnEvent: func(e restart.Event) { g.cfg.emit(restarting(e)) },
	})
}

// place lays out the view in which the members that came back go on.
func (d *durable) place(previous *views.View, members []views.Member) (*views.View, error) {
	g := d.group
	v, unmet, err := views.Place(views.Placement{
		ID: previous.ID + 1, Cluster: g.cfg.Cluster, Key: rand.Text(), Members: members, Declarations: g.cfg.declarations(), Layouts: g.cfg.layouts(),
		Previous: previous,
	})
	if err == nil {
		g.made = made{v.Key(), unmet}
		v.Time = max(order.TimeOf(time.Now()), d.latest()+1, previous.Time)
	}
	return v, err
}

// reconcile brings the logs here to where they are agreed to end.
func (d *durable) reconcile(ctx context.Context, plan []restart.Agreed) error {
	for _, p := range plan {
		var from []logwire.Source
		for _, s := range p.Sources {
			from = append(from, logwire.Source(s))
		}
		if slices.ContainsFunc(from, func(s logwire.Source) bool { return s.Node == d.group.cfg.ID }) {
			continue // it is as agreed here
		}
		if err := d.catchUp(ctx, persist.LogID(p.ID), p.End, func() []logwire.Source { return from }); err != nil {
			return err
		}
	}
	return nil
}

// catchUpAhead brings the logs here up to what the members of a group that works have, before this process joins it: then little is left to do while
// the others wait for its disk. What it cannot get now comes after joining. Nothing that is here is dropped before it is noted that the log lacks
// something, and the process that answers may not be able to say what the group has.
func (d *durable) catchUpAhead(ctx context.Context, cfg join.Config) {
	addr, works := join.Find(ctx, cfg)
	for _, sg := range d.group.cfg.Subgroups {
		if !works || sg.Mode != Persistent || sg.Shards > 1 {
			continue // in which shard it will be is not known yet
		}
		id := persist.LogID{Name: sg.Name}
		if err := d.catchUpOnce(ctx, id, order.Version{}, true, []logwire.Source{{Addr: addr}}); err != nil {
			d.group.cfg.Logger.Debug("catching up before joining", "log", id.String(), "error", err)
		}
	}
}

// enterDurable makes it durable that this process is in its first view, before it does anything there.
func (g *Group) enterDurable(v *views.View) error {
	if g.durable == nil {
		return nil
	}
	if err := g.durable.keepAll(v); err != nil {
		return err
	}
	return g.durable.memory.Enter(v, g.durable.lacking(v))
}

// working returns the view that this process has installed, for processes that ask whether the
// group works; nil: it has halted.
func (g *Group) working() *views.View {
	if g.member.Err() != nil {
		return nil
	}
	return g.member.View()
}

// announce tells processes that look for the group, at addresses where it is no more, where it is.
func (d *durable) announce() {
	g := d.group
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	d.silence = func() { cancel(); <-done }
	go func() {
		defer close(done)
		restart.Announce(ctx, restart.AnnounceConfig{
			Cluster: g.cfg.Cluster, Self: g.self, Join: g.cfg.Join, View: g.working, Memory: d.memory, TLS: g.cfg.TLS,
		})
	}()
}

// recovered waits until the application has taken over what is in the logs of which this process lacks nothing. The loop runs meanwhile, or the
// others would take this process for failed; what it delivers is kept.
func (g *Group) recovered(ctx context.Context) error {
	for _, r := range g.states.first {
		select {
		case <-r.here:
		case <-g.halted:
			return g.Err()
		case <-ctx.Done():
			return fmt.Errorf("subgroup %q: recovering from its log: %w", r.subgroup().Name, context.Cause(ctx))
		}
	}
	return nil
}

// stop ends a group whose application could not recover.
func (g *Group) stop(reason error) {
	g.member.Call(func() {
		g.member.Halt(reason)
		g.runner.Stop(func() {})
	})
	<-g.runner.Done()
	loops.Add(-1)
}

func (g *Group) recoverFrom(id persist.LogID) error {
	upcall := g.cfg.Subgroups[g.durable.declaration(id)].Log.Recover
	if upcall == nil {
		return nil
	}
	l, err := g.durable.open(id)
	if err == nil {
		err = upcall(l)
	}
	if errors.Is(err, persist.ErrDamaged) {
		err = g.durable.condemn(id, err)
	}
	if err != nil {
		return fmt.Errorf("subgroup %q: recovering from its log: %w", id.Name, err)
	}
	return nil
}

// handsOver reports whether members that come into the subgroup need something of those that are in it.
func (sg SubgroupConfig) handsOver() bool { return sg.Snapshot != nil || sg.Mode == Persistent }

// write is what a member gives to those that come into the subgroup.
func (b boundary) write(w io.Writer) error { return json.NewEncoder(w).Encode(b) }

// maxBoundaryBytes is more than any boundary takes.
const maxBoundaryBytes = 1 << 10

// readBoundary reads what another member gives of a log: its last version where the deliveries of a view begin.
func readBoundary(in io.Reader) (b boundary, err error) {
	text, err := io.ReadAll(io.LimitReader(in, maxBoundaryBytes))
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	return b, err
}
