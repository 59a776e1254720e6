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
	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/internal/shard"
	"github.com/squall-go/squall/internal/transfer"
	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/smc"
	"github.com/squall-go/squall/views"
)

// nothingToRestore is closed.
var nothingToRestore = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// states hands states over: from here to fresh members of a subgroup, and to here.
type states struct {
	group   *Group
	source  *transfer.Source
	ctx     context.Context // until this process halts
	end     context.CancelCauseFunc
	of      []*stays    // by declaration
	first   []*receiver // for whose states Open waits
	running sync.WaitGroup
}

func newStates(g *Group) *states {
	s := &states{group: g}
	s.ctx, s.end = context.WithCancelCause(context.Background())
	s.source = transfer.NewSource(transfer.SourceConfig{
		Self: g.cfg.ID, ID: g.identity, Reject: g.port.Reject, Given: func(given transfer.Given) { g.cfg.emit(StateGiven(given)) },
		Taken: g.leavers.ring,
		Keeps: func(name string) bool {
			return slices.ContainsFunc(g.cfg.Subgroups, func(sg SubgroupConfig) bool { return sg.Name == name && sg.handsOver() })
		},
	})
	g.port.Handle(port.KindState, s.source.Serve)
	for n := range g.cfg.Subgroups {
		s.of = append(s.of, newStays(s, n))
	}
	return s
}

func (s *states) dial(ctx context.Context, addr string) (net.Conn, error) {
	return port.Dial(ctx, addr, port.KindState, s.group.cfg.TLS)
}

// installed takes a view, before anything is delivered in it.
func (s *states) installed(v *views.View) {
	s.source.Installed(v)
	for _, h := range s.of {
		h.core.Installed(v)
		h.perform()
	}
}

// halted ends what is not restored yet.
func (s *states) halted(reason error) {
	for _, h := range s.of {
		h.core.Halted()
	}
	s.end(reason)
}

// close ends everything, and waits for it.
func (s *states) close() {
	s.group.port.Handle(port.KindState, nil)
	s.end(ErrClosed)
	s.source.Close()
	s.running.Wait()
}

// stays performs what the core of a subgroup decides about this process's stays in its shards.
// Everything is the loop's.
//
// How a new member gets the state: enter makes a receiver for the stay, the core returns Hold, and
// the receiver's deliveries go to a backlog. The core then returns one activity after the other:
// FetchState (of a log only where it ends; then FillLog, SyncLog, CompleteLog, Recover), and last
// HandOver, by which the application gets the backlog. begin runs each on a goroutine of its own
// (receiver.run), and tell gives the result to the core on the loop. From Live on the loop calls
// the application. At an old member the core returns OfferState (receiver.offer).
type stays struct {
	states      *states
	declaration int
	core        *shard.Core
	receivers   map[shard.Stay]*receiver
	own         *receiver               // the last one; nil: none
	cancel      context.CancelCauseFunc // of the activity that is under way
}

// The pauses between two rounds in which sources are asked.
var (
	statePauses = wait.Backoff{First: 5 * time.Millisecond, Longest: time.Second}
	logPauses   = wait.Backoff{First: 10 * time.Millisecond, Longest: time.Second}
)

func newStays(s *states, declaration int) *stays {
	sg := s.group.cfg.Subgroups[declaration]
	return &stays{
		states: s, declaration: declaration, receivers: map[shard.Stay]*receiver{},
		core: shard.New(shard.Config{
			Self: s.group.cfg.ID, Logs: sg.Mode == Persistent, HandsOver: sg.handsOver(), Recovers: sg.recovers(),
			State: statePauses, Log: logPauses,
		}),
	}
}

// enter returns the receiver of a shard of a view that is about to be installed.
func (h *stays) enter(v *views.View, i int) member.Receiver {
	id, begins := h.core.Enter(v, i)
	if !begins {
		return h.receivers[id]
	}
	r := &receiver{stays: h, id: id, view: v, index: i, before: h.own}
	r.App, r.Intake.Begins = h.states.group.apps[h.declaration], r.begins
	if sg := v.Subgroups[i]; sg.Mode == Persistent {
		r.log = h.states.group.shardLog(sg)
		r.Recorder = r.log.recorder
	}
	h.receivers[id], h.own = r, r
	h.perform()
	r.before = nil
	h.forget()
	return r
}

// forget forgets the receivers that nothing is to be done for any more: the views in which they
// delivered hold them.
func (h *stays) forget() {
	for id := range h.receivers {
		if !h.core.Knows(id) {
			delete(h.receivers, id)
		}
	}
}

// perform does what the core wants done, in its order.
func (h *stays) perform() {
	h.core.Perform(func(e shard.Effect) { h.do(h.receivers[e.Stay], e) })
}

// tell gives the core an input, later, on the loop.
func (h *stays) tell(input func()) {
	h.states.group.member.Call(func() {
		input()
		h.perform()
	})
}

func (h *stays) do(r *receiver, e shard.Effect) {
	if e.Do <= shard.Rest {
		h.begin(r, e)
		return
	}
	g := h.states.group
	switch e.Do {
	case shard.Hold:
		h.hold(r)
	case shard.LackLog:
		r.log.partial.Store(true)
		r.log.recorder.Lacks(e.View)
	case shard.HoldLog:
		r.log.recorder.Suspend(e.View)
	case shard.FreeLog:
		r.log.partial.Store(false)
		r.log.recorder.Whole()
	case shard.AwaitApp:
		g.apps[h.declaration].mark(func() { h.tell(func() { h.core.Ready(e.Stay) }) })
	case shard.Drop:
		r.Backlog().Drop()
	case shard.Silence:
		r.silent.Store(true)
	case shard.Live:
		r.Pass()
	case shard.Over:
		r.Keep()
	case shard.Cancel:
		h.cancel(errCancelled)
	case shard.OfferState:
		r.offer(e.View, e.Index)
	case shard.WithholdState:
		h.states.source.Withhold(e.View, e.Index)
		h.states.group.leavers.ring()
	case shard.Thank:
		h.states.running.Go(func() { r.fetch.Done(h.states.ctx, e.To) })
	case shard.Arrive:
		r.arrive()
	default:
		h.report(r, e)
	}
}

// report tells of what was decided.
func (h *stays) report(r *receiver, e shard.Effect) {
	g, sg := h.states.group, r.subgroup()
	switch e.Do {
	case shard.SourceFailed:
		g.cfg.emit(StateSourceFailed{sg.Name, sg.Shard, e.Source.ID, e.Err})
	case shard.Begun:
		g.cfg.emit(StateBegun{sg.Name, sg.Shard})
	case shard.Restored:
		g.cfg.emit(StateRestored{sg.Name, sg.Shard, r.got.Source, r.got.Bytes, r.got.Took, time.Since(r.handing)})
	case shard.Fail:
		g.fail(e.Err)
	}
}

// errCancelled ends an activity whose result is not wanted any more.
var errCancelled = errors.New("not wanted any more")

// begin begins an activity on a goroutine of its own.
func (h *stays) begin(r *receiver, e shard.Effect) {
	ctx, cancel := context.WithCancelCause(h.states.ctx)
	h.cancel = cancel
	h.states.running.Go(func() {
		defer cancel(nil)
		result := r.run(ctx, e)
		h.tell(func() { h.core.Ended(e.Activity, result) })
	})
}

// hold has deliveries kept until the application has the state.
func (h *stays) hold(r *receiver) {
	g := h.states.group
	cfg := g.cfg.Subgroups[h.declaration]
	r.Hold(backlog.New(backlog.Config{
		Bytes:  max(cfg.BacklogBytes, max(smc.MaxMessage(cfg.RingBytes), cfg.MaxMessageBytes)+backlog.MessageBytes),
		Upcall: r.handOver, Wake: g.parker.Wake,
	}), h.core.Fresh())
	if !h.core.Fresh() && g.member == nil {
		h.states.first = append(h.states.first, r)
	}
	if r.before != nil && r.before.here != nil && !r.before.arrived {
		r.here, r.before.arrived = r.before.here, true // goroutines that wait for that state wait for this one
	} else {
		r.here = make(chan struct{})
	}
	if h.core.Fresh() {
		r.fetch = transfer.NewFetch(transfer.FetchConfig{
			Self: g.cfg.ID, ID: g.identity, View: r.view, Subgroup: r.index, Dial: h.states.dial, Restore: r.restore,
			Trying: func(source NodeID) { g.cfg.emit(StateRestoring{r.subgroup().Name, r.subgroup().Shard, source}) },
		})
	}
	g.subs[h.declaration].state.Store(r)
}
