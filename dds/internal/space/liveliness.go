package space

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/mutant"
)

// Manual liveliness. A writer that is MANUAL_BY_TOPIC is alive while it is asserted, by the
// application or by its samples, at least once in each lease; one that is MANUAL_BY_PARTICIPANT
// while any writer of its process is, or of its client. That a lease has ended is a record, as a
// missed deadline is: all members lose the writer at one position.

// party is what writers that are MANUAL_BY_PARTICIPANT have in common: their process or, if a relay
// has them, their client.
type party struct {
	Process
	client string
}

func (e *endpoint) party() party {
	if len(e.Client) > 0 {
		return party{client: string(e.Client)}
	}
	return party{Process: e.ID.Process}
}

// life is when something of a party was asserted last.
type life struct{ asserted int64 }

// leased reports whether the writer has to be asserted.
func (e *endpoint) leased() bool {
	return !e.Reader && e.QoS.Liveliness.Kind != qos.Automatic && e.QoS.Liveliness.Lease > 0
}

// last is when a writer was asserted last.
func (e *endpoint) last() int64 {
	if e.QoS.Liveliness.Kind == qos.ManualByParticipant {
		return e.life.asserted
	}
	return e.asserted
}

// live begins the leases of a writer that is opened.
func (s *Space) live(e *endpoint) {
	if e.Reader {
		return
	}
	if s.lives == nil {
		s.lives = map[party]*life{}
	}
	was := s.predecessor(e)
	if e.life = s.lives[e.party()]; e.life == nil {
		e.life = &life{asserted: s.now}
		s.lives[e.party()] = e.life
	}
	if was == nil {
		e.life.asserted, e.asserted = max(e.life.asserted, s.now), s.now
	} else { // that it goes on at another relay asserts nothing
		e.asserted = was.asserted
	}
	if !e.leased() {
		return
	}
	s.leased++
	if was != nil && was.silent {
		e.silent = true
		s.silences++
	}
}

// unlive ends the leases of a writer that is closed.
func (s *Space) unlive(e *endpoint) {
	if e.Reader {
		return
	}
	if e.leased() {
		s.leased--
	}
	if e.silent {
		s.silences--
	}
	if !slices.ContainsFunc(s.endpoints, func(o *endpoint) bool { return o.life == e.life }) {
		delete(s.lives, e.party())
	}
}

// assert notes that a writer was asserted, and by it its party.
func (s *Space) assert(w *endpoint) {
	w.asserted = s.now
	s.assertLife(w.life)
	if w.silent {
		s.revive(w)
	}
}

// assertLife notes that something of a party was asserted.
func (s *Space) assertLife(l *life) {
	l.asserted = s.now
	if s.silences == 0 {
		return
	}
	for _, e := range s.endpoints {
		if e.silent && e.life == l && e.QoS.Liveliness.Kind == qos.ManualByParticipant {
			s.revive(e)
		}
	}
}

func (s *Space) revive(w *endpoint) {
	w.silent = false
	s.silences--
	s.tellLiveliness(w)
}

// tellLiveliness tells the readers of a writer how many writers they have that are alive.
func (s *Space) tellLiveliness(w *endpoint) {
	for _, r := range w.matched {
		alive := 0
		for _, o := range r.matched {
			if !o.silent {
				alive++
			}
		}
		s.tell(Event{Kind: LivelinessChanged, Endpoint: r.ID, Peer: w.ID, Current: alive, Gone: w.silent, Liveliness: w.QoS.Liveliness})
	}
}

// asserted applies an assertion: of a writer, or without a number of a process.
func (s *Space) asserted(id ID) error {
	if id.Number == 0 {
		return s.assertedParty(party{Process: id.Process})
	}
	w := s.byID[id]
	if w == nil || w.Reader {
		return fmt.Errorf("%w: writer %v", ErrUnknown, id)
	}
	s.assert(w)
	return nil
}

// assertedParty applies an assertion of a process or a client.
func (s *Space) assertedParty(p party) error {
	l := s.lives[p]
	if l == nil {
		return fmt.Errorf("%w: the process has no writers", ErrUnknown)
	}
	s.assertLife(l)
	return nil
}

// Silence is a writer whose lease has ended: it was asserted at a time, and not since.
type Silence struct {
	Writer   ID    `cbor:"1,keyasint"`
	Asserted int64 `cbor:"2,keyasint"`
}

// silence applies the end of a lease. Its writer has no part in instances any more, until it writes
// them again.
func (s *Space) silence(l Silence) error {
	w := s.byID[l.Writer]
	// A member that has not applied its own record yet may have sent another one.
	if w == nil || !w.leased() || w.silent || w.last() != l.Asserted || s.now-w.last() <= int64(w.QoS.Liveliness.Lease) {
		return nil
	}
	w.silent = true
	s.silences++
	s.tell(Event{Kind: LivelinessLost, Endpoint: w.ID, Liveliness: w.QoS.Liveliness})
	s.tellLiveliness(w)
	if !mutant.Enabled || !mutant.On(mutant.SpaceSilentParts) {
		w.topic.leave(s, w, true)
	}
	return nil
}

// Silences returns the writers whose leases have ended at a time, for records.
func (s *Space) Silences(now int64) (all []Silence) {
	if s.leased == 0 {
		return nil
	}
	for _, e := range s.endpoints {
		if e.leased() && !e.silent && !s.replaced(e) && now-e.last() > int64(e.QoS.Liveliness.Lease) {
			all = append(all, Silence{e.ID, e.last()})
		}
	}
	return all
}

// replaced reports whether another writer stands for the origin of a writer.
func (s *Space) replaced(w *endpoint) bool { return w.Origin != nil && s.standing(w) != w }

// LeastPatience is the shortest deadline or lease of a writer, and 0 if there is none.
func (s *Space) LeastPatience() (least time.Duration) {
	least = math.MaxInt64
	for _, e := range s.endpoints {
		if e.Reader {
			continue
		}
		if d := e.QoS.Deadline; d > 0 {
			least = min(least, d)
		}
		if e.leased() {
			least = min(least, e.QoS.Liveliness.Lease)
		}
	}
	if least == math.MaxInt64 {
		return 0
	}
	return least
}
