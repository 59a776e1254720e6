package table

import (
	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/internal/mutant"
)

// Few is a number of peers that are polled without asking whether that pays. CoolAfter is the
// number of steps in which nothing came, after which one of more peers is not polled any more.
const (
	Few       = 8
	CoolAfter = 4096
)

// heat is how a peer is polled.
type heat uint8

const (
	cold    heat = iota // it rings
	hot                 // it is polled
	leaving             // it is polled for the last time, and rings already
)

// Spot is a peer's place among the peers of an endpoint. The zero value is of a cold one.
type Spot[P any] struct {
	Peer    P
	Always  bool // it never rings: once it is polled, that goes on until it ends
	heat    heat
	stirred bool
	worked  uint64 // the step in which something came last
}

// IsHot reports whether the peer is polled.
func (s *Spot[P]) IsHot() bool { return s.heat != cold }

// IsQuiet reports whether Stir has to be called when something is sent to the peer.
func (s *Spot[P]) IsQuiet() bool { return s.heat == cold && !s.stirred }

// Peers says which peers are polled. The zero value is ready.
type Peers[P any] struct {
	polled  []*Spot[P]
	stirred []*Spot[P] // to which something was sent while they were cold: an answer may come soon
	heated  bool       // a peer was heated since Doze
	steps   uint64
}

// Polled are the peers to poll. The list is valid until the next change.
func (t *Peers[P]) Polled() []*Spot[P] { return t.polled }

// Steps is the number of steps that were begun.
func (t *Peers[P]) Steps() uint64 { return t.steps }

// Step begins a step of the poller, and returns its number.
func (t *Peers[P]) Step() uint64 {
	t.steps++
	return t.steps
}

// Heat has a peer polled. If it became hot, it must not ring any more.
func (t *Peers[P]) Heat(s *Spot[P]) (became bool) {
	t.heated = true
	before := s.heat
	if before == hot {
		return false
	}
	s.heat, s.worked = hot, t.steps
	if before == cold {
		t.polled = append(t.polled, s)
	}
	return true
}

// Stir notes that something was sent to a peer.
func (t *Peers[P]) Stir(s *Spot[P]) {
	if s.IsQuiet() {
		s.stirred = true
		if mutant.Enabled && mutant.On(mutant.TableForgetsStirred) {
			return
		}
		t.stirred = append(t.stirred, s)
	}
}

// IsEmpty reports whether there is no peer to poll in the next step.
func (t *Peers[P]) IsEmpty() bool { return len(t.polled) == 0 && len(t.stirred) == 0 }

// Stirred takes a peer off the list of those to which something was sent, to be heated; nil if
// there is none (EP4).
func (t *Peers[P]) Stirred() *Spot[P] {
	last := len(t.stirred) - 1
	if last < 0 {
		return nil
	}
	s := t.stirred[last]
	t.stirred[last] = nil
	t.stirred = t.stirred[:last]
	s.stirred = false
	return s
}

// Worked notes that something came from a peer. If it was about to leave, it must not ring any
// more.
func (t *Peers[P]) Worked(s *Spot[P]) (unpark bool) {
	s.worked = t.steps
	if s.heat != leaving {
		return false
	}
	s.heat = hot
	return true
}

// Idle notes that nothing came from a peer in a step. With park, the peer has to ring from now on,
// and is looked at once more: Worked or Idle is called again, after which it is not polled (EP3).
func (t *Peers[P]) Idle(s *Spot[P]) (park bool) {
	switch {
	case s.heat == leaving:
		s.heat = cold
	case s.heat == hot && !s.Always && len(t.polled) > Few && t.steps-s.worked > CoolAfter:
		if mutant.Enabled && mutant.On(mutant.TableNoLastLook) {
			s.heat = cold
			return false
		}
		s.heat = leaving
		return true
	}
	return false
}

// Sweep takes the peer at an index off the list if it is not polled any more, or ended. Another one
// takes its index.
func (t *Peers[P]) Sweep(i int, ended bool) (removed bool) {
	s := t.polled[i]
	if s.heat != cold && !ended {
		return false
	}
	s.heat = cold
	last := len(t.polled) - 1
	t.polled[i] = t.polled[last]
	t.polled[last] = nil
	t.polled = t.polled[:last]
	return true
}

// Announce begins the last look before a sleep: all polled peers ring from now on.
func (t *Peers[P]) Announce() { t.heated = false }

// MayDoze reports whether nothing happened since Announce that the poller has to look at.
func (t *Peers[P]) MayDoze() bool {
	return !t.heated && len(t.stirred) == 0
}

// Doze has the peers ring that do, while the poller sleeps. It calls quiet for each of them.
func (t *Peers[P]) Doze(quiet func(P)) {
	rest := t.polled[:0]
	for _, s := range t.polled {
		if s.Always {
			rest = append(rest, s)
			continue
		}
		if invariants.Enabled {
			invariants.Check(s.heat == hot, "EP3", "a peer of state %d while the poller sleeps", s.heat)
		}
		s.heat = cold
		quiet(s.Peer)
	}
	clear(t.polled[len(rest):])
	t.polled = rest
}
