package squall

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/backlog"
	"github.com/squall-go/squall/internal/transfer"
	"github.com/squall-go/squall/smc"
	"github.com/squall-go/squall/views"
)

// nothingToRestore is closed.
var nothingToRestore = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// guarded is a sink before which a backlog stands while the application has no state.
type guarded struct {
	sink
	upcall  func([]Message)  // the application, without the sink
	backlog *backlog.Backlog // nil: there is none. Loop.
}

// Deliver implements multicast.Receiver.
func (g *guarded) Deliver(run []Message) int {
	if g.backlog == nil {
		return g.sink.Deliver(run)
	}
	taken, through := g.backlog.Deliver(run)
	if !through {
		return taken
	}
	g.backlog = nil
	return g.sink.Deliver(run)
}

// mark implements sink.
func (g *guarded) mark(f func()) {
	if g.backlog == nil || g.backlog.Mark(f) {
		g.sink.mark(f)
	}
}

// recorded has f called when the log has what was delivered so far: now, unless it is still to get what a backlog keeps.
func (g *guarded) recorded(f func()) {
	if g.backlog == nil || g.backlog.Mark(f) {
		f()
	}
}

// states hands states over: from here to fresh members of a subgroup, and to here.
type states struct {
	group   *Group
	source  *transfer.Source
	ctx     context.Context // until this process halts
	end     context.CancelCauseFunc
	pending []*restoring // those that begin with the view that is being installed. Loop.
	own     []*restoring // by declaration, the last one of each; nil: none. Loop.
	running sync.WaitGroup
}

// restoring is this process getting a subgroup's state, in one view.
type restoring struct {
	states      *states
	declaration int
	subgroup    views.Subgroup
	end         context.CancelCauseFunc // its state is not wanted any more
	fetch       *transfer.Fetch         // nil: nobody has the state, and the subgroup begins anew, or all of it is here
	recover     func() error            // has the application take over what is here; nil: there is nothing
	backlog     *backlog.Backlog
	before      *restoring    // of an earlier view, which must not call the application any more; nil: there was none
	ready       chan struct{} // closed when what the application got of earlier views is through
	here        *arrival
	ended       chan struct{} // closed when nothing of this calls the application any more
}

// arrival tells when a state is here. If the state of a later view takes its place, those who wait go on waiting for that one.
type arrival struct {
	here chan struct{}
	mu   sync.Mutex
	whom *restoring // whose end it is; nil: it is over
}

func newArrival(r *restoring) *arrival { return &arrival{here: make(chan struct{}), whom: r} }

// passTo is the arrival of the one that comes next.
func (a *arrival) passTo(r *restoring) *arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.whom == nil {
		return newArrival(r)
	}
	a.whom = r
	return a
}

// of notes that one has ended: its state is here, or is not needed any more.
func (a *arrival) of(r *restoring) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.whom == r {
		a.whom = nil
		close(a.here)
	}
}

func newStates(g *Group) *states {
	s := &states{group: g, own: make([]*restoring, len(g.cfg.Subgroups))}
	s.ctx, s.end = context.WithCancelCause(context.Background())
	s.source = transfer.NewSource(transfer.SourceConfig{
		Self: g.cfg.ID, Reject: g.port.Reject, Given: func(given transfer.Given) { g.cfg.emit(StateGiven{given}) },
		Keeps: func(name string) bool {
			return slices.ContainsFunc(g.cfg.Subgroups, func(sg SubgroupConfig) bool { return sg.Name == name && sg.handsOver() })
		},
	})
	g.port.Handle(port.KindState, s.source.Serve)
	return s
}

// boundary has a snapshot taken where the deliveries of a view begin.
func (s *states) boundary(v *views.View, i, declaration int) {
	if !s.source.Wanted(v.ID, i) {
		return
	}
	if v.Subgroups[i].Mode == Persistent {
		r := s.group.recorder(v, i)
		s.group.sinks[declaration].(*guarded).recorded(func() { s.source.Put(v.ID, i, boundary{r.Last()}.write) })
		return
	}
	snapshot := s.group.cfg.Subgroups[declaration].Snapshot
	s.group.sinks[declaration].mark(func() { s.source.Put(v.ID, i, snapshot()) })
}

// expect prepares to get the state of a subgroup in which this process is fresh, in a view that is about to be installed. From here on
// deliveries wait.
func (s *states) expect(v *views.View, i, declaration int) {
	sg, cfg := v.Subgroups[i], s.group.cfg.Subgroups[declaration]
	self, _ := v.RankOf(s.group.cfg.ID)
	fresh, before := slices.Contains(sg.Fresh, self), s.own[declaration]
	first := sg.Mode == Persistent && cfg.Log.Recover != nil && !fresh && s.group.member == nil
	if !cfg.handsOver() || !fresh && !first && (before == nil || before.fetch == nil || !before.fetch.Superseded()) {
		return
	}
	sink := s.group.sinks[declaration].(*guarded)
	upcall, restore := sink.upcall, cfg.Restore
	ctx, end := context.WithCancelCause(s.ctx)
	if sg.Mode == Persistent {
		upcall, restore = s.group.wholeFrom(ctx, v, i, sink.upcall)
	}
	r := &restoring{
		states: s, declaration: declaration, subgroup: sg, end: end, before: before,
		ready: make(chan struct{}), ended: make(chan struct{}),
		backlog: backlog.New(backlog.Config{
			Bytes: max(cfg.Backlog, max(smc.MaxMessage(cfg.RingBytes), cfg.MaxMessage)+backlog.MessageBytes), Since: v.ID, Upcall: upcall, Wake: s.group.parker.Wake,
		}),
	}
	if first {
		r.recover = func() error { return s.group.recoverFrom(shard(sg)) }
	}
	if fresh {
		r.fetch = transfer.NewFetch(transfer.FetchConfig{
			Self: s.group.cfg.ID, View: v, Subgroup: i, Dial: s.dial, Restore: restore,
			Trying: func(source NodeID) { s.group.cfg.emit(StateRestoring{sg.Name, sg.Shard, source}) },
			Failed: func(source NodeID, err error) { s.group.cfg.emit(StateSourceFailed{sg.Name, sg.Shard, source, err}) },
		})
	}
	if before == nil {
		r.here = newArrival(r)
	} else {
		r.here = before.here.passTo(r)
		before.supersede()
	}
	sink.backlog = r.backlog
	sink.sink.mark(func() { close(r.ready) })
	s.group.subs[declaration].state.Store(r)
	s.own[declaration] = r
	s.pending = append(s.pending, r)
}

func (s *states) dial(ctx context.Context, addr string) (net.Conn, error) {
	return port.Dial(ctx, addr, port.KindState, s.group.cfg.TLS)
}

// installed takes a view, before anything is delivered in it.
func (s *states) installed(v *views.View) {
	s.source.Installed(v)
	for _, r := range s.own {
		if r != nil && r.fetch != nil {
			if r.fetch.Installed(v); r.fetch.Superseded() {
				r.end(transfer.ErrSuperseded)
			}
		}
	}
	for _, r := range s.pending {
		s.running.Go(r.run)
	}
	s.pending = nil
}

// halted ends what is not restored yet.
func (s *states) halted(reason error) { s.end(reason) }

// close ends everything, and waits for it.
func (s *states) close() {
	s.group.port.Handle(port.KindState, nil)
	s.end(ErrClosed)
	s.source.Close()
	s.running.Wait()
}

// supersede ends it, since the state of a later view takes its place.
func (r *restoring) supersede() {
	if r.fetch != nil {
		r.fetch.Supersede()
	}
	r.end(transfer.ErrSuperseded)
	r.backlog.Drop()
}

// run gets the state, and then hands over what was delivered meanwhile.
func (r *restoring) run() {
	defer close(r.ended)
	defer r.end(nil)
	if r.before != nil {
		<-r.before.ended
		r.before = nil
	}
	<-r.ready
	s := r.states
	if r.fetch == nil {
		if r.recover != nil {
			if err := r.recover(); err != nil {
				s.group.member.Call(func() { s.group.member.Halt(err) })
				return
			}
		}
		if r.backlog.HandOver() {
			r.whole()
		}
		r.here.of(r)
		return
	}
	got, err := r.fetch.Run(s.ctx)
	switch {
	case err == nil:
		r.catchUp(got)
	case errors.Is(err, transfer.ErrSuperseded):
		r.backlog.Drop()
		r.here.of(r)
	default:
		s.group.member.Call(func() { s.group.member.Halt(err) })
	}
}

// catchUp hands over what was delivered while the state was read.
func (r *restoring) catchUp(got transfer.Fetched) {
	s := r.states
	s.running.Go(func() { r.fetch.Done(s.ctx) })
	start := time.Now()
	through := r.backlog.HandOver()
	r.here.of(r)
	if through {
		r.whole()
		s.group.cfg.emit(StateRestored{r.subgroup.Name, r.subgroup.Shard, got.Source, got.Bytes, got.Took, time.Since(start)})
	}
}
