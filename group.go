package squall

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/join"
	"github.com/squall-go/squall/internal/life"
	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/internal/restart"
	"github.com/squall-go/squall/internal/viewchange"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/predicates"
	"github.com/squall-go/squall/views"
)

// Group is this process's part in a group, over all views. Its methods may be called from any
// goroutine.
type Group struct {
	cfg Config
	presence
	door    *join.Server
	asked   *statusServer // answers processes that ask for the status
	member  *member.Member
	runner  *predicates.Runner
	subs    []*Subgroup   // in the order of the declarations
	apps    []application // in the same order
	states  *states
	durable *durable // nil: no subgroup is persistent
	life    *life.Core
	made    drafts // used by the loop only, and by Open before the loop runs

	upcalls  upcalls
	slices   *timeSlices
	retiring sync.WaitGroup // tables of views that are over, while they are being closed
	news     news
	down     atomic.Uint64 // members that were suspected
	mute     atomic.Uint64 // subgroups in which this process does not want to send, one bit for each declaration

	ending
}

// loops counts the loops of this process, which compete for its cores.
var loops atomic.Int32

// candidates tells the loop which processes may be proposed as members.
func (g *Group) candidates() {
	g.member.Call(func() { g.member.Join(g.door.Candidates()) })
}

func (g *Group) joinConfig(ask []string) join.Config {
	c := &g.cfg
	var group string
	var secret views.Secret
	if g.durable != nil {
		group, secret = g.durable.identity()
	}
	return join.Config{
		Cluster: c.Cluster, Group: group, Secret: secret, Shared: c.Secret, Join: ask, Expect: c.InitialMembers, Declarations: c.declarations(), Layouts: c.layouts(), Port: g.port, TLS: c.TLS,
		Self: g.self, Identity: g.identity, FailAfter: c.FailAfter, Room: g.reserve.full, Admit: c.admit, OnEvent: (&joinings{cfg: c, began: time.Now()}).report,
		Reach: func(ctx context.Context, m views.Member) error { return g.node.Reach(ctx, fabricPeer(m)) },
	}
}

// enter connects this process to the table of its first view. A view that is also the group's first
// begins when the links of all members are up; a view that this process joined is in force already.
func (g *Group) enter(ctx context.Context, outcome *join.Outcome) error {
	cfg := member.Config{
		Self: g.cfg.ID, View: outcome.View, Open: g.table, Retire: g.retire, Next: g.next, Receiver: g.receiver,
		Transfers: g.transfers, Limits: g.limits, Room: g.room,
		Tuning: g.cfg.tuning, Heartbeat: g.cfg.Heartbeat, FailAfter: g.cfg.FailAfter, Slice: &g.slices.Slice, Time: g.slices.begin, Late: g.slices.late, Wake: g.parker.Wake,
		OnEvent: g.changing, Installed: g.installed, Halted: g.halt,
		Wall: func() order.Time { return order.TimeOf(time.Now()) },
	}
	if g.durable != nil {
		cfg.Recorder, cfg.Record = g.recorder, g.record
	}
	var err error
	if g.member, err = member.New(cfg); err != nil {
		return err
	}
	if g.durable != nil {
		g.member.Observe(g.durable.latest())
	}
	for _, s := range g.subs {
		s.outbox = g.member.Outbox(s.decl.Name)
	}
	if outcome.Session == nil {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	attempt := outcome.Session.Context()
	defer context.AfterFunc(attempt, func() { cancel(context.Cause(attempt)) })()
	if err = g.member.Table().Await(ctx); err == nil {
		err = outcome.Session.Ready(ctx)
	}
	if err != nil {
		g.closeTables()
	}
	return err
}

// retire closes the table of a view that is over, on another goroutine than the loop.
func (g *Group) retire(t *fabric.Table) {
	g.retiring.Go(func() {
		if err := t.Close(); err != nil {
			g.cfg.Logger.Warn("closing the table of a view that is over", "error", err)
		}
	})
}

// next places the members in the view that follows.
func (g *Group) next(previous *views.View, members []views.Member, mute func(NodeID, int) bool) (*views.View, error) {
	v, unmet, err := views.Place(views.Placement{
		ID: previous.ID + 1, Cluster: g.cfg.Cluster, Key: rand.Text(), Members: members, Declarations: g.cfg.declarations(),
		Previous: previous, Mute: mute, Layouts: g.cfg.layouts(),
	})
	if err == nil {
		g.made.add(previous, v, unmet)
	}
	return v, err
}

// declaration returns the index of a view's subgroup among the declarations.
func (g *Group) declaration(sg views.Subgroup) int {
	return slices.IndexFunc(g.subs, func(s *Subgroup) bool { return s.decl.Name == sg.Name })
}

// receiver returns the receiver of what a subgroup delivers here in a view that is about to be
// installed.
func (g *Group) receiver(v *views.View, i int) member.Receiver {
	return g.states.of[g.declaration(v.Subgroups[i])].enter(v, i)
}

// start runs the loop.
func (g *Group) start() {
	loops.Add(1)
	g.runner = predicates.NewRunner(predicates.Config{
		Step: g.step, Deadline: g.member.Deadline, Parker: parking{g.parker, g.member},
		Shared: g.parker.Shared, MaxSpin: g.cfg.MaxSpin,
	})
	if g.durable != nil {
		g.durable.witness = restart.NewServer(g.cfg.Cluster, g.self, g.working)
		g.port.Handle(port.KindRestart, g.durable.witness.Serve)
		g.durable.announce()
		g.durable.begin()
	}
	g.announce(g.member.View())
	go g.upcalls.loop.Run(g.runner.Run)
	if g.durable != nil {
		g.durable.takeSnapshots()
	}
	g.asked = newStatusServer(g)
	g.port.Handle(port.KindStatus, g.asked.serve)
}

// installed is called with every view but the first.
func (g *Group) installed(v *views.View) {
	self, _ := v.RankOf(g.cfg.ID)
	for _, lost := range g.door.Installed(v, self) {
		g.member.Report(lost.ID, member.ErrJoining)
	}
	if g.durable != nil {
		g.durable.entered(v)
	}
	g.retiring.Go(func() {
		if err := g.reserve.fit(len(v.Members)); err != nil {
			g.cfg.Logger.Warn("a later view change may fail", "error", err)
		}
	})
	g.announce(v)
}

// announce reports the view in force.
func (g *Group) announce(v *views.View) {
	g.runner.SetLoops(max(onHost(v, g.node.Host()), int(loops.Load())))
	g.door.Lead(g.leader(v))
	g.states.installed(v)
	g.news.add(v)
	g.cfg.emit(ViewInstalled{v, g.links(v)})
	for _, u := range g.made.unmet(v, g.cfg.declarations()) {
		g.cfg.emit(NotProvisioned{u.Name, u.Shard, u.Reason})
	}
	self, _ := v.RankOf(g.cfg.ID)
	for _, sg := range v.Subgroups {
		if sg.Lost && sg.Mode != Persistent && sg.Has(self) && g.cfg.Subgroups[g.declaration(sg)].Restore != nil {
			g.cfg.emit(StateLost{sg.Name, sg.Shard})
		}
	}
	if g.cfg.OnView != nil {
		g.cfg.OnView(v)
	}
}

// leader returns the member that admits joining processes, as this member sees it.
func (g *Group) leader(v *views.View) order.Rank {
	r, _ := v.RankOf(g.member.Leader().ID)
	return r
}

func (g *Group) links(v *views.View) []string {
	links := make([]string, len(v.Members))
	for r, m := range v.Members {
		if links[r] = "self"; m.ID != g.cfg.ID {
			links[r] = g.node.Kind(fabric.Peer{Host: m.Host, SHM: m.SHM})
		}
	}
	return links
}

// changing is called with the steps of a view change.
func (g *Group) changing(e viewchange.Event) {
	if down, ok := e.(viewchange.Suspected); ok {
		g.door.Failed(down.Member, errors.Is(down.Err, member.ErrAbsent))
		g.door.Lead(g.leader(g.member.View()))
		g.down.Add(1)
		g.cfg.emit(MemberDown{down.Member, down.Err})
		return
	}
	g.cfg.emit(viewChanging(e))
}

// onHost returns the number of a view's members, and so of their loops, on a host.
func onHost(v *views.View, host string) (n int) {
	for _, m := range v.Members {
		if host != "" && m.Host == host {
			n++
		}
	}
	return n
}

// parking tells the application's goroutines through the parker, and peers in shared memory through
// the tables, that the loop sleeps.
type parking struct {
	*fabric.Parker
	member *member.Member
}

func (p parking) Announce() {
	p.Parker.Announce()
	p.member.Announce()
}

func (p parking) Retract() {
	p.member.Retract()
	p.Parker.Retract()
}

// halt announces that the group has halted here; the member calls it once.
func (g *Group) halt(reason error) {
	g.door.Halted(reason)
	g.states.halted(reason)
	g.news.close()
	if !errors.Is(reason, ErrClosed) {
		g.cfg.emit(Halted{reason})
	}
	g.ending.halt()
}

// Done returns a channel that is closed when the group has halted here: this process left, was
// evicted, or can reach too few of the others. Err says which.
func (g *Group) Done() <-chan struct{} { return g.halted }

// Err returns the reason for which the group halted, or nil while it works.
func (g *Group) Err() error { return g.member.Err() }

// ID returns this process's node id.
func (g *Group) ID() NodeID { return g.cfg.ID }

// Addr returns the address at which the other members reach this process.
func (g *Group) Addr() string { return g.port.Addr() }

// View returns the view in force. It must not be changed.
func (g *Group) View() *View { return g.member.View() }

// Views yields the view in force and each one that follows, without a gap, until ctx ends or the
// group halts.
func (g *Group) Views(ctx context.Context) iter.Seq[*View] {
	return func(yield func(*View) bool) { g.news.follow(g.upcalls.bound(ctx))(yield) }
}

// Subgroup returns the subgroup with a name. If there is none, it fails with ErrNoSubgroup, and the
// text lists the names that there are.
func (g *Group) Subgroup(name string) (*Subgroup, error) {
	var names []string
	for _, s := range g.subs {
		if s.decl.Name == name {
			return s, nil
		}
		names = append(names, strconv.Quote(s.decl.Name))
	}
	return nil, fmt.Errorf("%w %q: Config.Subgroups declares %s", ErrNoSubgroup, name, strings.Join(names, ", "))
}

// Subgroups returns all subgroups, in the order of Config.Subgroups.
func (g *Group) Subgroups() []*Subgroup { return slices.Clone(g.subs) }

// ReportFailure says that a member failed, which the application knows for certain: the others go
// on without that member.
func (g *Group) ReportFailure(id NodeID) {
	g.member.Call(func() { g.member.Report(id, member.ErrReported) })
}

// Halt ends this process's part in the group at once, as if it had failed, for a reason that Err
// returns from then on. It is for an application whose state must not be used any more; Leave is
// the orderly way. Halt does not wait, and may be called in a callback.
func (g *Group) Halt(reason error) { g.member.Call(func() { g.member.Halt(reason) }) }

func (g *Group) setSender(s *Subgroup, on bool) error {
	if err := g.Err(); err != nil {
		return err
	}
	bit := uint64(1) << slices.Index(g.subs, s)
	if on {
		g.mute.And(^bit)
	} else {
		g.mute.Or(bit)
	}
	g.member.Call(func() { g.member.Mute(g.mute.Load()) })
	return nil
}

// ask runs f on the loop and reports whether it ran.
func (g *Group) ask(f func()) bool {
	done := make(chan struct{})
	g.member.Call(func() { f(); close(done) })
	select {
	case <-done:
		return true
	case <-g.runner.Done():
		return false
	}
}

// Leave takes this process out of the group. It accepts no more messages, waits until every message
// that was accepted here is delivered and until new members that depend on this process for a
// subgroup's state have received it, takes part in the change to a view without this process, and
// halts with ErrClosed. The other members go on. If ctx ends before that, the process goes on
// leaving; Close still ends it. Messages that were accepted for a subgroup that is not provisioned
// now are waited for too, so ctx should have a deadline. If all that is not delivered here needs a
// state or a log of other members first, Leave waits for it for FailAfter at most. In a callback or
// an event that runs on the loop, Leave returns ErrInCallback.
func (g *Group) Leave(ctx context.Context) error {
	if err := g.upcalls.waits(); err != nil {
		return err
	}
	for _, s := range g.subs {
		if f := s.leaving.Load(); f != nil {
			(*f)(ctx)
		}
	}
	for _, s := range g.subs {
		s.outbox.Close()
	}
	err := errors.Join(g.drain(ctx), g.handOver(ctx))
	g.member.Call(g.member.Leave)
	select {
	case <-g.halted:
		if reason := g.Err(); !errors.Is(reason, ErrClosed) && err == nil {
			err = reason
		}
	case <-ctx.Done():
		err = errors.Join(err, fmt.Errorf("leaving: %w", context.Cause(ctx)))
	}
	return err
}

// Close leaves the group, unless it has halted, and releases all resources. It returns an error if
// messages of this process were still in flight, or if ctx ended before the others agreed to go on
// without this process. If a callback still runs when ctx ends, the rest is released when it has
// returned. In a callback or an event, Close returns ErrInCallback.
func (g *Group) Close(ctx context.Context) error {
	if err := g.upcalls.ends(); err != nil {
		return err
	}
	return g.ending.once(func() error { return g.close(ctx) })
}

func (g *Group) close(ctx context.Context) error {
	err := g.Leave(ctx)
	g.member.Call(func() {
		g.member.Halt(ErrClosed)
		g.runner.Stop(func() {})
	})
	released := make(chan error, 1)
	go func() {
		<-g.runner.Done()
		loops.Add(-1)
		g.slices.stop()
		released <- g.release()
	}()
	// Nothing below waits for other processes; only an upcall can hold it up, and then ctx decides.
	select {
	case late := <-released:
		return errors.Join(err, late)
	case <-g.stuck(ctx):
		return errors.Join(err, fmt.Errorf("a callback still runs: %w", context.Cause(ctx)))
	}
}

// stuck returns a channel that is closed when ctx has ended and an upcall had closeTime to return.
func (g *Group) stuck(ctx context.Context) <-chan struct{} {
	stuck := make(chan struct{})
	context.AfterFunc(ctx, func() { time.AfterFunc(closeTime, func() { close(stuck) }) })
	return stuck
}

// closeTime is the time that Close may take after its context has ended: releasing takes a moment.
const closeTime = 500 * time.Millisecond

// errNoState is why a process leaves before its messages are delivered here.
var errNoState = errors.New("this process has no more space for deliveries until it has the state of a subgroup")

// drain waits until every message that was sent here is delivered, or for FailAfter while this
// process can deliver none of the rest (B14).
func (g *Group) drain(ctx context.Context) error {
	var since time.Time
	inVain := func() bool {
		switch {
		case slices.ContainsFunc(g.subs, func(s *Subgroup) bool { return g.undelivered(s) > 0 && !s.refuses() }):
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		}
		return !since.IsZero() && time.Since(since) >= g.cfg.FailAfter
	}
	undelivered := func() (n int) {
		for _, s := range g.subs {
			n += g.undelivered(s)
		}
		return n
	}
	reason := g.await(ctx, g.Err, func() bool { return undelivered() == 0 || inVain() })
	if n := undelivered(); n > 0 { // the last counters may have come with the reason
		return fmt.Errorf("%d messages may not have been delivered everywhere: %w", n, cmp.Or(reason, errNoState))
	}
	return nil
}

// handOver waits until no member depends on this process for a subgroup's state.
func (g *Group) handOver(ctx context.Context) error {
	err := g.await(ctx, g.Err, func() bool { return !g.states.source.Depended(g.View()) })
	select {
	case <-g.halted: // no member depends on it
		return nil
	default:
	}
	if err != nil {
		return fmt.Errorf("a new member may not have the state yet: %w", err)
	}
	return nil
}

// step is the cycle of the loop. What Leave waits for changes there, but for the states that new
// members take over.
func (g *Group) step(now time.Duration) (work int) {
	work = g.member.Step(now)
	g.leavers.ring()
	return work
}

// undelivered returns the number of messages of this process in a subgroup that some member has not
// delivered, as far as is known here.
func (g *Group) undelivered(s *Subgroup) int {
	n := s.outbox.Undelivered()
	if g.durable != nil {
		n += g.durable.heldBack(s.decl.Name)
	}
	return n
}

// release closes what open made, in the reverse order. The loop has ended, or was never started.
func (g *Group) release() error {
	var errs []error
	if g.asked != nil {
		g.port.Handle(port.KindStatus, nil)
		g.asked.close()
	}
	if g.door != nil {
		g.door.Close()
	}
	for _, a := range g.apps {
		a.abandon()
	}
	if g.states != nil {
		g.states.close()
	}
	for _, a := range g.apps {
		a.close()
	}
	g.absent() // before another process may take over the logs, and promise anything in a restart (V14)
	if g.durable != nil {
		errs = append(errs, g.durable.close())
	}
	if g.runner != nil {
		errs = append(errs, g.closeTables())
	}
	g.retiring.Wait()
	return errors.Join(append(errs, g.presence.release())...)
}

// closeTables ends the links and gives the rows back. If the application still holds a claim, this
// process's own rows must stay.
func (g *Group) closeTables() error {
	var errs []error
	for _, s := range g.subs {
		if s.outbox.Unfinished() > 0 {
			errs = append(errs, fmt.Errorf("subgroup %q: a claim is neither committed nor aborted; its memory stays", s.decl.Name))
		}
	}
	held := len(errs) > 0
	for _, t := range g.member.Tables() {
		if held {
			t.KeepOwn()
		}
		errs = append(errs, t.Close())
	}
	return errors.Join(errs...)
}
