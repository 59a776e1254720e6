package squall

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/auto"
	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/join"
	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/multicast"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/predicates"
	"github.com/squall-go/squall/views"
)

// Group is this process's part in a group. Its methods may be called from any goroutine.
type Group struct {
	cfg    Config
	port   *port.Port
	node   *auto.Node
	parker *fabric.Parker
	view   *views.View
	member *member.Member
	runner *predicates.Runner
	subs   map[string]*Subgroup
	queues []*queue

	rejections rejections

	halted  chan struct{}
	closing sync.Once
	closed  chan struct{}
	err     error // of Close
}

// loops counts the loops of this process, which compete for its cores.
var loops atomic.Int32

// Open forms a group with the other members and returns when all of them are there and connected. It fails if ctx ends before that,
// if the group refuses this process (ErrRefused), or if the configuration is wrong.
func Open(ctx context.Context, cfg Config) (*Group, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	g := &Group{cfg: cfg.withDefaults(), subs: map[string]*Subgroup{}, halted: make(chan struct{}), closed: make(chan struct{})}
	if err := g.open(ctx); err != nil {
		g.release()
		return nil, fmt.Errorf("open group %q as node %d: %w", cfg.Cluster, cfg.ID, err)
	}
	return g, nil
}

func (g *Group) open(ctx context.Context) (err error) {
	c := &g.cfg
	g.rejections.emit = c.emit
	if g.port, err = port.Listen(port.Config{
		Addr: c.Listen, Advertise: c.Advertise, TLS: c.TLS,
		OnReject: g.rejections.add,
	}); err != nil {
		return err
	}
	c.emit(Listening{g.port.Addr()})
	if g.parker, err = fabric.NewParker(); err != nil {
		return err
	}
	if g.node, err = auto.New(c.Fabric, g.port, c.TLS); err != nil {
		return err
	}
	session, err := join.Form(ctx, join.Config{
		Cluster: c.Cluster, Join: c.Join, Expect: c.Expect, Declarations: c.declarations(), Port: g.port, TLS: c.TLS,
		Self:    views.Member{ID: c.ID, Addr: g.port.Addr(), Host: g.node.Host(), Shm: g.node.Shm()},
		OnEvent: func(e join.Event) { c.emit(Joining{e}) },
	})
	if err != nil {
		return err
	}
	if err := g.install(ctx, session); err != nil {
		session.Abort(err)
		return err
	}
	if err := session.Ready(ctx); err != nil {
		g.member.Table().Close()
		return err
	}
	g.start()
	return nil
}

// install makes the view's table and lays this member on it. It is the seam at which a view comes into being; what decides
// on views is elsewhere.
func (g *Group) install(ctx context.Context, session *join.Session) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(session.Context(), func() { cancel(context.Cause(session.Context())) })()
	g.view = session.View()
	self, _ := g.view.RankOf(g.cfg.ID)
	layout, err := member.NewLayout(g.view)
	if err != nil {
		return err
	}
	spec := fabric.Spec{Cluster: g.view.Cluster, View: g.view.ID, Key: g.view.Key, Self: self, Parker: g.parker}
	for r, m := range g.view.Members {
		spec.Peers = append(spec.Peers, fabric.Peer{ID: m.ID, Addr: m.Addr, Host: m.Host, Shm: m.Shm, Shape: layout.Shape(order.Rank(r))})
	}
	table, err := g.node.Open(ctx, spec)
	if err != nil {
		return err
	}
	g.member, err = member.New(member.Config{
		View: g.view, Self: self, Layout: layout, Table: table, Receivers: g.receivers(self), Tuning: g.cfg.Tuning,
		Heartbeat: g.cfg.Heartbeat, FailAfter: g.cfg.FailAfter, Wake: g.parker.Wake, PeerDown: g.peerDown, Halted: g.halt,
	})
	if err != nil {
		table.Close()
		return err
	}
	for i, sg := range g.view.Subgroups {
		g.subs[sg.Name] = &Subgroup{group: g, sg: sg, part: g.member.Subgroup(i)}
	}
	return nil
}

// receivers makes the upcalls of the subgroups that this member is in.
func (g *Group) receivers(self order.Rank) []multicast.Receiver {
	receivers := make([]multicast.Receiver, len(g.view.Subgroups))
	for i, sg := range g.view.Subgroups {
		if !sg.Has(self) {
			continue
		}
		receivers[i] = g.cfg.Subgroups[i].receiver(g.parker.Wake)
		if q, ok := receivers[i].(*queue); ok {
			g.queues = append(g.queues, q)
		}
	}
	return receivers
}

// start runs the loop.
func (g *Group) start() {
	links := make([]string, len(g.view.Members))
	for r := range links {
		links[r] = g.member.Table().LinkName(order.Rank(r))
	}
	g.cfg.emit(ViewInstalled{g.view, links})
	spin := g.cfg.MaxSpin
	crowd := crowded(g.view, g.node.Host(), int(loops.Add(1)))
	g.runner = predicates.NewRunner(predicates.Config{
		Step: g.member.Step, Deadline: g.member.Deadline, Parker: parking{g.parker, g.member.Table().Table}, MaxSpin: spin, Crowded: crowd,
	})
	g.runner.Start()
}

// crowded reports whether more loops run on this host than it has cores: then nobody should spin, because whoever is
// waited for may need the core.
func crowded(v *views.View, host string, here int) bool {
	onHost := 0
	for _, m := range v.Members {
		if host != "" && m.Host == host {
			onHost++
		}
	}
	return max(onHost, here) > runtime.NumCPU()
}

// parking tells the application's goroutines through the parker, and peers in shared memory through the table, that the loop sleeps.
type parking struct {
	*fabric.Parker
	table *fabric.Table
}

func (p parking) Announce() {
	p.Parker.Announce()
	p.table.AnnounceParked()
}

func (p parking) Retract() {
	p.table.RetractParked()
	p.Parker.Retract()
}

// peerDown reports a peer that is gone. With a fixed membership the group cannot go on without it.
func (g *Group) peerDown(p member.PeerDown) (halt bool) {
	g.cfg.emit(MemberDown{p})
	return true
}

// halt announces that the group does nothing any more; the member calls it once.
func (g *Group) halt(reason error) {
	if !errors.Is(reason, ErrClosed) {
		g.cfg.emit(Halted{reason})
	}
	close(g.halted)
}

// Done is closed when the group has halted, because a member failed or left or because it was closed. Err says which.
func (g *Group) Done() <-chan struct{} { return g.halted }

// Err is why the group halted, or nil while it works.
func (g *Group) Err() error { return g.member.Err() }

// ID is this process's node id.
func (g *Group) ID() NodeID { return g.cfg.ID }

// Addr is where the other members reach this process.
func (g *Group) Addr() string { return g.port.Addr() }

// Rejected is the number of connections that were rejected so far: of strangers, and of whoever broke the rules before it was
// connected. ConnectionRejected tells of them.
func (g *Group) Rejected() uint64 { return g.rejections.count() }

// View is the membership in force. It must not be changed.
func (g *Group) View() *View { return g.view }

// Subgroup returns a subgroup by name, or nil if none of that name was declared.
func (g *Group) Subgroup(name string) *Subgroup { return g.subs[name] }

// Link is the name of the fabric between this process and a member: "shm", "tcp", or "self".
func (g *Group) Link(id NodeID) string {
	r, ok := g.view.RankOf(id)
	if !ok {
		return ""
	}
	return g.member.Table().LinkName(r)
}

// Dump prints the shared state table as this process sees it, a line per member.
func (g *Group) Dump(w io.Writer) error {
	var text bytes.Buffer // written outside the loop, which must not wait for anybody's pipe
	done := make(chan error, 1)
	g.member.Call(func() { done <- g.member.Table().Dump(&text) })
	select {
	case err := <-done:
		if err == nil {
			_, err = w.Write(text.Bytes())
		}
		return err
	case <-g.runner.Done():
		return ErrClosed
	}
}

// Close leaves the group: it accepts no more messages, waits until every message that was accepted here is delivered by every
// member, or ctx ends, tells the others and releases everything. With a fixed membership the group halts at the others,
// with ErrMemberLeft. It returns an error if messages of this process were still under way. If an upcall still runs when
// ctx ends, the rest is released behind it. Close must not be called in an upcall or an event.
func (g *Group) Close(ctx context.Context) error {
	g.closing.Do(func() {
		defer close(g.closed)
		g.err = g.close(ctx)
	})
	<-g.closed
	return g.err
}

func (g *Group) close(ctx context.Context) error {
	for _, s := range g.subs {
		if s.part != nil {
			s.part.Outbox.Close()
		}
	}
	err := g.drain(ctx)
	g.member.Call(func() {
		g.member.Leave()
		g.runner.Stop(func() {})
	})
	released := make(chan error, 1)
	go func() {
		<-g.runner.Done()
		loops.Add(-1)
		released <- g.release()
	}()
	// Nothing below waits for other processes; only an upcall can hold it up, and then ctx decides.
	select {
	case late := <-released:
		return errors.Join(err, late)
	case <-g.stuck(ctx):
		return errors.Join(err, fmt.Errorf("an upcall still runs: %w", context.Cause(ctx)))
	}
}

// stuck is closed when ctx has ended and an upcall had closeTime to return.
func (g *Group) stuck(ctx context.Context) <-chan struct{} {
	stuck := make(chan struct{})
	context.AfterFunc(ctx, func() { time.AfterFunc(closeTime, func() { close(stuck) }) })
	return stuck
}

// closeTime is how long Close goes on after its context has ended: releasing takes a moment.
const closeTime = 500 * time.Millisecond

// drain waits until nothing that was sent here is under way.
func (g *Group) drain(ctx context.Context) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	var reason error
	for {
		n := g.undelivered()
		switch {
		case n == 0:
			return nil
		case reason != nil:
			return fmt.Errorf("%d messages may not have been delivered everywhere: %w", n, reason)
		}
		select { // and look once more: the last counters may have come with the reason
		case <-tick.C:
		case <-g.halted:
			reason = g.Err()
		case <-ctx.Done():
			reason = context.Cause(ctx)
		}
	}
}

// undelivered is the number of messages of this process that some member has not delivered, as far as is known here.
func (g *Group) undelivered() (n int) {
	for _, s := range g.subs {
		if s.part != nil {
			n += s.part.Undelivered()
		}
	}
	return n
}

// release closes what open made, in the reverse order. The loop has ended, or never ran.
func (g *Group) release() error {
	var errs []error
	for _, q := range g.queues {
		q.close()
		<-q.done
	}
	if g.runner != nil {
		errs = append(errs, g.closeTable())
	}
	if g.node != nil {
		errs = append(errs, g.node.Close())
	}
	if g.port != nil {
		errs = append(errs, g.port.Close())
	}
	g.rejections.close()
	if g.parker != nil {
		errs = append(errs, g.parker.Close())
	}
	return errors.Join(errs...)
}

// closeTable ends the links and gives the rows back. If the application still holds a claim, the own row must stay.
func (g *Group) closeTable() error {
	var err error
	for _, s := range g.subs {
		if s.part != nil && s.part.Unfinished() > 0 {
			g.member.Table().KeepOwn()
			err = fmt.Errorf("subgroup %q: a claim is neither committed nor aborted; its memory stays", s.sg.Name)
		}
	}
	return errors.Join(err, g.member.Table().Close())
}
