package sim

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

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
	tie   uint64 // among those of one time; drawn, so that no order is the usual one
	who   actor
	place int // in the heap; -1: not in it
}

// schedule is the heap of turns.
type schedule struct {
	turns  turns
	random *rand.Rand
}

// add has an actor act at a time for the first time.
func (s *schedule) add(at time.Duration, who actor) *turn {
	t := &turn{at: at, tie: s.random.Uint64(), who: who}
	heap.Push(&s.turns, t)
	return t
}

// next takes the earliest turn, lets its actor act, and puts it back.
func (s *schedule) next(limit time.Duration, clock func(time.Duration)) bool {
	if len(s.turns) == 0 || s.turns[0].at > limit {
		return false
	}
	t := s.turns[0]
	clock(t.at)
	next := t.who.act(t.at)
	if next == never {
		heap.Remove(&s.turns, t.place)
		return true
	}
	t.at, t.tie = max(next, t.at), s.random.Uint64()
	heap.Fix(&s.turns, t.place)
	return true
}

// put has the actor of a turn that is in the schedule act at another time, or never again.
func (s *schedule) put(t *turn, at time.Duration) {
	if at == never {
		heap.Remove(&s.turns, t.place)
		return
	}
	t.at = at
	heap.Fix(&s.turns, t.place)
}

// pull moves a turn to an earlier time.
func (s *schedule) pull(t *turn, at time.Duration) {
	if t.place >= 0 && at < t.at {
		t.at = at
		heap.Fix(&s.turns, t.place)
	}
}

// turns implements heap.Interface.
type turns []*turn

func (h turns) Len() int { return len(h) }
func (h turns) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].tie < h[j].tie
}
func (h turns) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}
func (h *turns) Push(x any) {
	t := x.(*turn)
	t.place = len(*h)
	*h = append(*h, t)
}
func (h *turns) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	t.place = -1
	*h = (*h)[:last]
	return t
}
