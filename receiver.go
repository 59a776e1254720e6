package squall

import (
	"context"
	"slices"

	"github.com/squall-go/squall/internal/backlog"
	"github.com/squall-go/squall/internal/transfer"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/smc"
	"github.com/squall-go/squall/views"
)

// phase is how a receiver treats what its shard delivers.
type phase uint8

const (
	// waiting: the application has no state of the shard yet, so deliveries go to the backlog.
	waiting phase = iota
	// live: the application has the state and gets the deliveries.
	live
	// over: the application has the state of another shard, or is about to get it. What the shard still delivers here goes to its
	// log, if it has one, and nowhere else.
	over
)

// receiver takes what one shard delivers to this process, from the view in which the process enters the shard to the last view
// in which it is a member of it. A process that enters another shard, or the same one anew, gets another receiver; the one
// before is superseded if the application's state is replaced.
//
//	enter ──▶ waiting ──▶ live ──▶ over
//	             └──────────────────▲
//
// All fields but those of the goroutine are the loop's.
type receiver struct {
	group       *Group
	declaration int
	subgroup    views.Subgroup // as of the first view
	since       order.ViewID   // the first view
	last        order.ViewID   // the last view in which this process is a member of the shard
	app         application
	log         *shardLog // nil: the subgroup is not persistent
	phase       phase
	begun       bool             // its first view delivers: everything of earlier views is delivered
	backlog     *backlog.Backlog // while waiting

	// The goroutine that gets the state; none if there is nothing to get.
	before *receiver // must not call the application any more before this one does; nil: there is none
	fetch  *transfer.Fetch
	take   func() error // without fetch: has the application take over what is here
	first  bool         // Open waits for it
	cancel context.CancelCauseFunc
	ctx    context.Context // ends when the state is not wanted any more
	ready  chan struct{}   // closed when the application got everything of earlier receivers
	here   *arrival
	ended  chan struct{} // closed when the goroutine does not call the application any more
}

// enter returns the receiver of a shard of a view that is about to be installed. If the application needs the state of the
// shard, deliveries wait from here on.
//
// A member that has the state continues. Of the others, a fresh member fetches it. One that is not fresh enters a shard that
// begins, or one whose log it holds: the application takes over what is in the log, or begins with nothing. Only an application
// that was in no shard of the subgroup before has nothing to replace.
func (s *states) enter(v *views.View, i, declaration int) *receiver {
	sg, cfg := v.Subgroups[i], s.group.cfg.Subgroups[declaration]
	self, _ := v.RankOf(s.group.cfg.ID)
	fresh, before := slices.Contains(sg.Fresh, self), s.own[declaration]
	if before != nil && !fresh && !sg.Lost && before.continues(v, sg) {
		before.last = v.ID
		return before
	}
	r := &receiver{
		group: s.group, declaration: declaration, subgroup: sg, since: v.ID, last: v.ID, app: s.group.apps[declaration], phase: live,
	}
	if sg.Mode == Persistent {
		r.log = s.group.shardLog(sg)
	}
	s.own[declaration] = r
	if cfg.handsOver() && (fresh || before != nil || sg.Mode == Persistent && cfg.Log.Recover != nil) {
		r.wait(s, v, i, fresh, before)
	}
	return r
}

// continues reports whether a process that is not fresh in a shard of a view has its state already: it was in the shard in the
// view before, or in the last view in which the shard had members. In the latter case what waited for disks was not delivered, so
// an application with a log takes over the log instead.
func (r *receiver) continues(v *views.View, sg views.Subgroup) bool {
	return r.subgroup.Shard == sg.Shard && (r.last == v.ID-1 || sg.Mode != Persistent)
}

// wait has deliveries kept until the application has the state.
func (r *receiver) wait(s *states, v *views.View, i int, fresh bool, before *receiver) {
	cfg := s.group.cfg.Subgroups[r.declaration]
	r.phase, r.before = waiting, before
	r.ctx, r.cancel = context.WithCancelCause(s.ctx)
	r.ready, r.ended = make(chan struct{}), make(chan struct{})
	r.backlog = backlog.New(backlog.Config{
		Bytes:  max(cfg.BacklogBytes, max(smc.MaxMessage(cfg.RingBytes), cfg.MaxMessageBytes)+backlog.MessageBytes),
		Upcall: r.handOver, Wake: s.group.parker.Wake,
	})
	if fresh {
		r.fetch = s.fetch(v, i, r.restore)
		if r.log != nil {
			r.log.partial.Store(true)
			r.log.recorder.Lacks(v.ID)
		}
	} else {
		r.take, r.first = r.takeOver, s.group.member == nil
	}
	if before == nil {
		r.here = newArrival(r)
	} else {
		r.here = before.passTo(r)
		before.supersede()
	}
	s.group.subs[r.declaration].state.Store(r)
	s.pending = append(s.pending, r)
}

// Deliver implements multicast.Receiver.
func (r *receiver) Deliver(run []Message) int {
	if r.phase == waiting {
		taken, through := r.backlog.Deliver(run)
		if !through {
			return taken
		}
		r.through()
	}
	switch {
	case r.phase == over && r.log == nil:
		return len(run)
	case r.phase == over:
		return r.log.recorder.Keep(run)
	case r.log != nil:
		return r.log.recorder.Deliver(run)
	}
	return r.app.Deliver(run)
}

// MaxRun implements multicast.Receiver.
func (r *receiver) MaxRun() int { return r.app.MaxRun() }

// Whole implements member.Receiver.
func (r *receiver) Whole() bool { return r.phase != waiting }

// Begin implements member.Receiver.
func (r *receiver) Begin(v *views.View, i int) {
	if !r.begun {
		r.begun = true
		r.begin()
	}
	r.boundary(v, i)
}

// begin is called when everything of earlier views is delivered here.
func (r *receiver) begin() {
	if r.phase != waiting {
		return
	}
	if r.log != nil {
		r.log.recorder.Lacks(r.since) // the goroutine appends to the log from here on
	}
	r.app.mark(func() { close(r.ready) })
}

// boundary takes a snapshot where the deliveries of a view begin, if the view has fresh members that need one. A receiver that is
// over has no state to give.
func (r *receiver) boundary(v *views.View, i int) {
	source := r.group.states.source
	if !source.Wanted(v.ID, i) {
		return
	}
	f := func() { source.Put(v.ID, i, r.group.cfg.Subgroups[r.declaration].Snapshot()) }
	if r.log != nil {
		f = func() { source.Put(v.ID, i, boundary{r.log.recorder.Last()}.write) }
	}
	switch {
	case r.phase == over && (r.log == nil || r.log.partial.Load()):
		// The application, or the log, did not get all that the shard delivered before.
		source.Withhold(v.ID, i)
	case r.phase == waiting && !r.backlog.Mark(f):
	case r.log != nil:
		f() // the log has everything that was delivered
	default:
		r.app.mark(f)
	}
}

// through notes that the application has the state and everything that waited for it.
func (r *receiver) through() {
	if r.phase != waiting {
		return
	}
	r.phase = live
	if r.superseded() {
		r.phase = over
	}
	if r.log != nil {
		r.log.partial.Store(false)
		r.log.recorder.Whole()
	}
}

// leave notes that this process is in no shard of the subgroup in a view. A state that is not here yet is not wanted any more.
func (r *receiver) leave() {
	if r.phase == waiting && r.fetch != nil {
		r.supersede()
	}
}

// supersede ends the receiver's part in the application's life: the state of another receiver takes the place of its own.
//
// What waits in the backlog is forgotten, unless it belongs into a log that lacks nothing: then it is recorded first, and what
// the shard still delivers comes behind it.
func (r *receiver) supersede() {
	if r.cancel == nil { // it never waited
		r.phase = over
		return
	}
	r.cancel(transfer.ErrSuperseded)
	if r.phase == waiting && r.log != nil && r.fetch == nil {
		return
	}
	if r.fetch != nil {
		r.fetch.Supersede()
	}
	r.backlog.Drop()
	r.phase = over
}

func (r *receiver) superseded() bool { return r.group.states.own[r.declaration] != r }

// passTo lets those that wait for this receiver's state wait for that of the next one.
func (r *receiver) passTo(next *receiver) *arrival {
	if r.here == nil {
		return newArrival(next)
	}
	return r.here.passTo(next)
}
