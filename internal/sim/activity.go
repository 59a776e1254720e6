package sim

import (
	"errors"
	"time"

	"github.com/squall-go/squall/internal/shard"
	"github.com/squall-go/squall/order"
)

// activity is one activity of a stay.
type activity struct {
	*receiver
	routine   *routine
	effect    shard.Effect
	wait      func(time.Duration)
	cancelled bool
}

var errBroken = errors.New("the source broke off")

// begin begins an activity.
func (r *receiver) begin(e shard.Effect) *activity {
	p, a := r.stays.proc, &activity{receiver: r, effect: e}
	held := func(now time.Duration) (time.Duration, bool) {
		switch {
		case p.over || p.told:
			return never, true
		case p.member == nil || now < p.hangs:
			return max(p.hangs, now+p.world.plan.Hop()), true
		}
		return now, false
	}
	a.routine = p.routine(held, func(wait func(time.Duration)) {
		a.wait = wait
		a.ends(a.perform())
	})
	a.routine.begin(p.world.now)
	return a
}

// ends tells the core how the activity came out.
func (a *activity) ends(r shard.Result) {
	a.stays.tell(func() { a.stays.core.Ended(a.effect.Activity, r) })
}

// pause waits, and reports whether the activity is still wanted.
func (a *activity) pause(d time.Duration) bool {
	if !a.cancelled {
		a.wait(d)
	}
	return !a.cancelled
}

func (a *activity) perform() shard.Result {
	h := a.stays
	switch a.effect.Do {
	case shard.FetchState:
		return a.fetchState()
	case shard.FillLog:
		return a.fillLog()
	case shard.EmptyLog:
		return a.emptyLog()
	case shard.SyncLog:
		return a.syncLog()
	case shard.CompleteLog:
		return a.completeLog()
	case shard.Recover:
		return a.recoverState()
	case shard.RestoreEmpty:
		h.state = appState{here: true}
		h.proc.host.restore(nil)
	case shard.HandOver:
		if !a.Backlog().HandOver() {
			return shard.Result{Outcome: shard.Dropped}
		}
	case shard.Rest:
		a.pause(a.effect.Pause)
	}
	return shard.Result{}
}

func failed(o shard.Outcome) shard.Result { return shard.Result{Outcome: o, Err: errBroken} }

// hears waits while the source hangs, and reports whether the source can be reached.
// When the activity is cancelled the last piece of a state may have arrived already.
func (a *activity) hears(q *process, pieces int) bool {
	p := a.stays.proc
	w := p.world
	for {
		switch gone := q.over || q.told || !w.near(p, q); {
		case gone || a.cancelled && pieces != 1:
			w.sometimes(StateSourceDied, pieces > 0 && !a.cancelled)
			return false
		case w.now >= q.hangs:
			return true
		}
		a.wait(w.plan.Hop())
	}
}

// fetchState has the application restore the state of a source. It stands for the conversations of
// package transfer: the code that ships decides to which members the source gives its state.
func (a *activity) fetchState() shard.Result {
	h := a.stays
	w, q := h.proc.world, h.proc.world.processOf(a.effect.Source)
	if !a.hears(q, 0) {
		return failed(shard.Failed)
	}
	a.wait(w.bulkTime(q, h.proc))
	if !a.hears(q, 0) {
		return failed(shard.Failed)
	}
	wait, from, refused := a.ask(q)
	if wait == nil {
		return refused
	}
	for pieces := 1 + int(a.effect.Activity)%3; pieces > 0; pieces-- {
		a.wait(w.bulkTime(q, h.proc))
		if !a.hears(q, pieces) || pieces > 1 && (wait.Over || w.tears()) {
			return failed(shard.Failed)
		}
	}
	if a.keeper == nil {
		h.state = from.state
		h.proc.host.restore(from.image)
		w.judge("state", w.checkRestored(a.receiver, h.state))
	}
	return shard.Result{Last: from.last}
}

// ask asks a source for its state, and returns it; a nil wait: it gives none.
func (a *activity) ask(q *process) (wait *shard.Wait, from offered, refused shard.Result) {
	h := a.stays
	f := q.offers.Find(a.view.ID, a.index)
	if f == nil || f.View.Key() != a.view.Key() {
		return nil, from, failed(shard.Later)
	}
	wait, answer := q.offers.Ask(f, h.proc.self.ID)
	switch answer {
	case shard.NotWaits, shard.NotTaken:
		return nil, from, failed(shard.Later)
	case shard.NotKept:
		return nil, from, failed(shard.Refused)
	}
	if from = f.State; a.keeper == nil {
		h.state = appState{} // what the application has is neither the old one nor the new one
	}
	q.world.moves(q, Gives)
	return wait, from, refused
}

// recoverState has the application take over what is in its log.
func (a *activity) recoverState() shard.Result {
	h, s := a.stays, appState{here: true}
	a.wait(h.proc.pace.Step)
	h.proc.host.restore(nil)
	for r, err := range a.keeper.log.book.Fork().Records(0) {
		if err != nil {
			return shard.Result{Outcome: shard.Fatal, Err: err}
		}
		s.add(r.Version, r.Sender, r.Data)
		h.proc.host.apply(&message{Data: r.Data, Sender: r.Sender, View: r.Version.View, Seq: r.Version.Seq, Time: r.Time}, a.keeper.id.shard, true)
	}
	h.state = s
	h.proc.world.judge("state", h.proc.world.checkRestored(a.receiver, s))
	return shard.Result{}
}

// handOver gives what waited to the log and the application: some messages at a time.
func (r *receiver) handOver(run []message) {
	h := r.stays
	w, a := h.proc.world, h.under
	for i := range run {
		if r.given++; r.given%8 == 0 {
			a.wait(h.proc.pace.Step)
		}
		for r.keeper != nil && !r.dropped && !r.keeper.recorder.Take(&run[i]) {
			a.wait(w.plan.Hop() / 2)
		}
		for !r.dropped && !w.after(h.decl) && !r.show(run[i:i+1]) {
			a.wait(w.plan.Hop() / 2)
		}
		if r.dropped || w.result.Err != nil {
			return
		}
		r.kept = r.kept[1:]
		h.passForgone()
	}
}

// show gives a message that waited to the application, and reports whether that took it.
func (r *receiver) show(run []message) (taken bool) {
	if r.silent {
		r.forgo(run)
		return true
	}
	r.stays.handing = true
	n := r.stays.Deliver(run)
	r.stays.handing = false
	return n > 0
}

// thank tells a member that keeps a state that a process needs it no more. That may be lost.
func (p *process) thank(q *process, view order.ViewID, index int, at time.Duration) {
	p.world.callAt(at, func() {
		switch {
		case p.over || q.over || !p.world.near(p, q):
			return
		case p.world.now < q.hangs:
			p.thank(q, view, index, q.hangs)
			return
		}
		if f := q.offers.Find(view, index); f != nil {
			q.offers.Done(f, p.self.ID)
			q.wake()
		}
	})
}
