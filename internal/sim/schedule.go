package sim

import "time"

// never is the next time of an actor that is done.
const never = time.Duration(-1)

// actor is something that acts at times of its own: a member, an application, a fault.
type actor interface {
	// act does what is due and returns when to be called again, or never.
	act(now time.Duration) (next time.Duration)
}

// turn is an actor's place in the schedule.
type turn struct {
	at    time.Duration
	tie   uint64 // among the turns of one time; drawn, so that no order is the usual one
	who   actor
	place int // in the heap; -1: not in it
}

// schedule is a heap of turns: the turns at 2k+1 and 2k+2 come behind the turn at k.
type schedule struct {
	turns []*turn
	drawn uint64 // so many ties
	seed  uint64
	even  bool // a turn that is put in later comes later
}

// tie draws the place of a turn among the turns of its time.
func (s *schedule) tie() uint64 {
	if s.drawn++; s.even {
		return s.drawn
	}
	return scramble(s.seed + s.drawn*0x9e3779b97f4a7c15)
}

// add has an actor act at a time for the first time.
func (s *schedule) add(at time.Duration, who actor) *turn {
	t := &turn{at: at, tie: s.tie(), who: who, place: len(s.turns)}
	s.turns = append(s.turns, t)
	s.up(t)
	return t
}

// callAt has f called at a time.
func (w *world) callAt(at time.Duration, f func()) { w.schedule.add(at, deferred(f)) }

// deferred is a scheduled function call.
type deferred func()

// act implements actor.
func (f deferred) act(time.Duration) time.Duration {
	f()
	return never
}

// acting is an actor that is a function.
type acting func(now time.Duration) (next time.Duration)

// act implements actor.
func (f acting) act(now time.Duration) time.Duration { return f(now) }

// next takes the earliest turn, lets its actor act, and puts it back.
func (s *schedule) next(limit time.Duration, clock func(time.Duration)) bool {
	if len(s.turns) == 0 || s.turns[0].at > limit {
		return false
	}
	t := s.turns[0]
	clock(t.at)
	next := t.who.act(t.at)
	if next == never {
		s.remove(t)
		return true
	}
	t.at, t.tie = max(next, t.at), s.tie()
	s.fix(t)
	return true
}

// put has the actor of a turn that is in the schedule act at another time, or never again.
func (s *schedule) put(t *turn, at time.Duration) {
	if at == never {
		s.remove(t)
		return
	}
	t.at = at
	s.fix(t)
}

// pull moves a turn to an earlier time.
func (s *schedule) pull(t *turn, at time.Duration) {
	if t.place >= 0 && at < t.at {
		t.at = at
		s.up(t)
	}
}

// wake has an actor act at a time, if it does not before: in its turn, or in another one if that is
// over.
func (s *schedule) wake(t *turn, at time.Duration, who actor) *turn {
	if t == nil || t.place < 0 {
		return s.add(at, who)
	}
	s.pull(t, at)
	return t
}

// sooner returns the earlier one of two times; never is none.
func sooner(a, b time.Duration) time.Duration {
	if a == never || b != never && b < a {
		return b
	}
	return a
}

// remove takes a turn out.
func (s *schedule) remove(t *turn) {
	last := s.turns[len(s.turns)-1]
	s.turns = s.turns[:len(s.turns)-1]
	if last != t {
		last.place = t.place
		s.turns[last.place] = last
		s.fix(last)
	}
	t.place = -1
}

// fix finds the place of a turn whose time is another one now.
func (s *schedule) fix(t *turn) {
	at := t.place
	if s.up(t); t.place == at {
		s.down(t)
	}
}

// up has a turn go before the turns that are due later.
func (s *schedule) up(t *turn) {
	for t.place > 0 {
		parent := s.turns[(t.place-1)/2]
		if !t.before(parent) {
			return
		}
		s.swap(parent, t)
	}
}

// down has a turn go behind the turns that are due before it.
func (s *schedule) down(t *turn) {
	for {
		k := 2*t.place + 1
		if k >= len(s.turns) {
			return
		}
		if k+1 < len(s.turns) && s.turns[k+1].before(s.turns[k]) {
			k++
		}
		if !s.turns[k].before(t) {
			return
		}
		s.swap(t, s.turns[k])
	}
}

// swap exchanges a turn with one right below it.
func (s *schedule) swap(upper, lower *turn) {
	upper.place, lower.place = lower.place, upper.place
	s.turns[upper.place], s.turns[lower.place] = upper, lower
}

// before reports whether a turn comes before another one.
func (t *turn) before(o *turn) bool { return t.at < o.at || t.at == o.at && t.tie < o.tie }
