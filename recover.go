package squall

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/squall-go/squall/internal/catchup"
	"github.com/squall-go/squall/internal/join"
	"github.com/squall-go/squall/internal/life"
	"github.com/squall-go/squall/internal/restart"
	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
	"github.com/squall-go/squall/views"
)

// opening performs what package life decides until this process is in a view: the first one, a
// running group's, or the one that restarts a stopped group.
type opening struct {
	*Group
	ctx     context.Context
	outcome *join.Outcome // nil: none yet
}

func (o *opening) run() error {
	var known restart.State
	var logs []restart.LogID
	if d := o.durable; d != nil {
		var err error
		if logs, err = d.onDisk(); err != nil {
			return err
		}
		known = d.memory.State()
	}
	o.life = life.New(life.Config{Self: o.cfg.ID, Ask: o.cfg.Join, Declarations: o.cfg.declarations()})
	e := o.life.Start(known, logs)
	for e.Do != life.Begin && e.Do != life.Fail {
		e = o.life.Ended(o.perform(e))
	}
	return e.Err
}

func (o *opening) perform(e life.Effect) (r life.Result) {
	switch e.Do {
	case life.Restart:
		got, err := o.durable.comeBack(o.ctx)
		r.View, r.Running, r.Err = got.View, got.Running, err
		if got.View != nil {
			o.outcome = join.Formed(o.joinConfig(o.cfg.Join), got.View)
		}
	case life.FindMember:
		r.Addr, _ = join.Find(o.ctx, o.joinConfig(e.Ask))
	case life.CatchUp:
		if group, _ := o.durable.identity(); group == "" && o.cfg.TLS == nil && !o.cfg.OpenLogs {
			break // no member would let it read: the log comes after joining
		}
		if err := o.durable.catchUp(o.ctx, e).Err; err != nil { // it comes after joining
			o.cfg.Logger.Debug("catching up before joining", "log", e.Log.String(), "error", err)
		}
	case life.Join:
		if o.outcome, r.Err = join.Join(o.ctx, o.joinConfig(e.Ask)); r.Err == nil {
			r.View = o.outcome.View
			r.Err = o.reserve.fit(len(r.View.Members))
		}
	default:
		return o.durable.perform(e)
	}
	if r.Err != nil {
		r.Outcome = life.Fatal
	}
	return r
}

// comeBack finds the others that were in the last view that this process knows, and agrees with
// them on how to go on.
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
		g.made.begin(v, unmet)
		v.Time = max(order.TimeOf(time.Now()), d.latest()+1, previous.Time)
	}
	return v, err
}

// reconcile brings the logs here to where they are agreed to end.
func (d *durable) reconcile(ctx context.Context, plan []restart.Agreed) error {
	return life.Reconcile(d.group.cfg.ID, plan, logPauses, func(e life.Effect) life.Result { return d.mend(ctx, e) })
}

func (d *durable) mend(ctx context.Context, e life.Effect) (r life.Result) {
	id := persist.LogID(e.Log)
	switch e.Do {
	case life.CatchUp:
		r = d.catchUp(ctx, e)
		var own catchup.OwnError
		if errors.As(r.Err, &own) && errors.Is(own, persist.ErrDamaged) {
			r.Err = d.condemn(id, r.Err)
		}
	case life.EmptyLog:
		r.Err = d.cutAll(id)
	case life.Rest:
		if wait.Sleep(ctx, e.Pause) != nil {
			r = life.Result{Outcome: life.Stopped, Err: context.Cause(ctx)}
		}
	}
	if r.Err != nil && r.Outcome == life.Done {
		r.Outcome = life.Fatal
	}
	return r
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

// recovered waits until the application has taken over what is in the logs of which this process
// lacks nothing. The loop runs meanwhile, or the others would take this process for failed; what it
// delivers is kept.
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

// handsOver reports whether new members of the subgroup need something from its old members.
func (sg SubgroupConfig) handsOver() bool { return sg.Snapshot != nil || sg.Mode == Persistent }

// recovers reports whether the application takes over what is in the log of the shard that it
// enters.
func (sg SubgroupConfig) recovers() bool {
	return sg.Mode == Persistent && (sg.Restore != nil || sg.Log.Recover != nil)
}

// write is what a member gives to new members of the subgroup.
func (b boundary) write(w io.Writer) error { return json.NewEncoder(w).Encode(b) }

// maxBoundaryBytes is more than any boundary takes.
const maxBoundaryBytes = 1 << 10

// readBoundary reads what another member gives of a log: its last version where the deliveries of a
// view begin.
func readBoundary(in io.Reader) (b boundary, err error) {
	text, err := io.ReadAll(io.LimitReader(in, maxBoundaryBytes))
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	return b, err
}
