package sim

import (
	"errors"
	"time"

	"github.com/squall-go/squall/internal/shard"
	"github.com/squall-go/squall/order"
)

// activity performs one activity of a stay, turn by turn.
type activity struct {
	receiver  *receiver
	effect    shard.Effect
	turns     *turn
	cancelled bool
	begun     bool
	from      offered // FetchState: what the source granted
	wait      *shard.Wait
	pieces    int       // of it that are still to come
	fetching  *fetching // FillLog
	at        int       // HandOver: messages of the run at hand that were given
	recorded  bool      // the next one is in the log
}

var errBroken = errors.New("the source broke off")

// act implements actor.
func (a *activity) act(now time.Duration) time.Duration {
	return a.receiver.stays.proc.takes(now, a.turn)
}

func (a *activity) turn(now time.Duration) time.Duration {
	p := a.receiver.stays.proc
	switch {
	case p.over || p.told:
		return never
	case p.member == nil || now < p.hangs:
		return max(p.hangs, now+p.world.plan.Hop())
	}
	switch a.effect.Do {
	case shard.FetchState:
		return a.fetchState(now)
	case shard.FillLog:
		return a.fillLog(now)
	case shard.EmptyLog:
		return a.emptyLog(now)
	case shard.SyncLog:
		return a.syncLog(now)
	case shard.CompleteLog:
		return a.completeLog()
	case shard.Recover:
		return a.recoverState(now)
	case shard.RestoreEmpty:
		a.receiver.stays.state = appState{here: true}
		p.host.restore(nil)
		return a.ends(shard.Result{})
	case shard.HandOver:
		return a.handOver(now)
	}
	if a.begun || a.cancelled {
		return a.ends(shard.Result{})
	}
	a.begun = true
	return now + a.effect.Pause
}

// ends tells the core how the activity came out.
func (a *activity) ends(r shard.Result) time.Duration {
	h := a.receiver.stays
	h.tell(func() { h.core.Ended(a.effect.Activity, r) })
	return never
}

func (a *activity) failed(o shard.Outcome) time.Duration {
	return a.ends(shard.Result{Outcome: o, Err: errBroken})
}

// source is the process that is asked, or nil if it cannot be reached.
func (a *activity) source() *process {
	p := a.receiver.stays.proc
	q := p.world.processOf(a.effect.Source)
	if q.over || q.told || !p.world.near(p, q) {
		return nil
	}
	return q
}

// fetchState has the application restore the state of a source. It stands for the conversations of
// package transfer: the code that ships decides to which members the source gives its state.
func (a *activity) fetchState(now time.Duration) time.Duration {
	h, q := a.receiver.stays, a.source()
	w := h.proc.world
	switch {
	case q == nil || a.cancelled && a.pieces != 1: // the last piece may have arrived already
		w.sometimes(StateSourceDied, a.pieces > 0 && !a.cancelled)
		return a.failed(shard.Failed)
	case now < q.hangs:
		return now + w.plan.Hop()
	case !a.begun:
		a.begun = true
		return now + w.bulkTime(q, h.proc)
	case a.pieces == 0:
		return a.ask(now, q)
	}
	if a.pieces--; a.pieces > 0 {
		if a.wait.Over || w.tears() {
			return a.failed(shard.Failed)
		}
		return now + w.bulkTime(q, h.proc)
	}
	if a.receiver.keeper == nil {
		h.state = a.from.state
		h.proc.host.restore(a.from.image)
		w.judge("state", w.checkRestored(a.receiver, h.state))
	}
	return a.ends(shard.Result{Last: a.from.last})
}

func (a *activity) ask(now time.Duration, q *process) time.Duration {
	h, w := a.receiver.stays, q.world
	f := q.offers.Find(a.receiver.view.ID, a.receiver.index)
	if f == nil || f.View.Key() != a.receiver.view.Key() {
		return a.failed(shard.Later)
	}
	wait, answer := q.offers.Ask(f, h.proc.self.ID)
	switch answer {
	case shard.NotWaits, shard.NotTaken:
		return a.failed(shard.Later)
	case shard.NotKept:
		return a.failed(shard.Refused)
	}
	a.wait, a.from, a.pieces = wait, f.State, 1+int(a.effect.Activity)%3
	if a.receiver.keeper == nil {
		h.state = appState{} // what the application has is neither the old one nor the new one
	}
	w.moves(q, Gives)
	return now + w.bulkTime(q, h.proc)
}

// recoverState has the application take over what is in its log.
func (a *activity) recoverState(now time.Duration) time.Duration {
	if !a.begun {
		a.begun = true
		return now + a.receiver.stays.proc.pace.Step
	}
	h, s := a.receiver.stays, appState{here: true}
	h.proc.host.restore(nil)
	for r, err := range a.receiver.keeper.log.book.Fork().Records(0) {
		if err != nil {
			return a.ends(shard.Result{Outcome: shard.Fatal, Err: err})
		}
		s.add(r.Version, r.Sender, r.Data)
		h.proc.host.apply(&message{Data: r.Data, Sender: r.Sender, View: r.Version.View, Seq: r.Version.Seq, Time: r.Time}, a.receiver.keeper.id.shard, true)
	}
	h.state = s
	h.proc.world.judge("state", h.proc.world.checkRestored(a.receiver, s))
	return a.ends(shard.Result{})
}

// handOver gives what waited to the log and the application.
func (a *activity) handOver(now time.Duration) time.Duration {
	r, h := a.receiver, a.receiver.stays
	w := h.proc.world
	for range 8 {
		run, mark, ok := r.Backlog().Front()
		switch {
		case !ok && r.dropped, r.dropped && !r.Backlog().Gave():
			return a.ends(shard.Result{Outcome: shard.Dropped})
		case !ok:
			return a.ends(shard.Result{})
		case mark != nil:
			mark()
			r.Backlog().Gave()
			continue
		}
		if !a.give(&run[a.at], run[a.at:a.at+1]) {
			return now + w.plan.Hop()/2
		}
		r.kept = r.kept[1:]
		h.passForgone()
		if a.at++; a.at == len(run) {
			a.at = 0
			r.Backlog().Gave()
		}
		if w.result.Err != nil {
			return never
		}
	}
	return now + h.proc.pace.Step
}

// give hands one message to the log and the application, and reports whether both took it.
func (a *activity) give(m *message, run []message) bool {
	r, h := a.receiver, a.receiver.stays
	if r.keeper != nil && !a.recorded {
		if !r.keeper.recorder.Take(m) {
			return false
		}
		a.recorded = true
	}
	switch {
	case h.proc.world.after(h.decl):
	case r.silent:
		r.forgo(run)
	default:
		h.handing = true
		n := h.Deliver(run)
		h.handing = false
		if n == 0 {
			return false
		}
	}
	a.recorded = false
	return true
}

// thanks tell a member that keeps a state that one needs it no more. They may be lost.
type thanks struct {
	from, to *process
	view     order.ViewID
	index    int
}

// act implements actor.
func (t *thanks) act(now time.Duration) time.Duration {
	switch {
	case t.from.over || t.to.over || !t.to.world.near(t.from, t.to):
		return never
	case now < t.to.hangs:
		return t.to.hangs
	}
	if f := t.to.offers.Find(t.view, t.index); f != nil {
		t.to.offers.Done(f, t.from.self.ID)
		t.to.wake()
	}
	return never
}
