package wire

import (
	"slices"

	"github.com/squall-go/squall/internal/invariants"
)

// Slots decide which callers a server has. A caller is new until it has proved itself. New callers
// have places of their own: a process that is welcome proves itself within moments, so the caller
// that has been new for longest is the least likely to do so, and makes room for the next one. Of
// the new callers, the oldest of the address with most of them goes, so that no address drives out
// the others. Slots is pure.
type Slots struct {
	Most    int    // callers at a time; 0: as many as come
	MostNew int    // new ones among them; 0: all
	MostOf  int    // of one address, whether they are new or not; 0: all
	callers []slot // the oldest first
}

// slot is the place of a caller.
type slot struct {
	id     uint64
	addr   string
	proved bool
}

// perAddress is how many new callers one address may have: half of all.
func (s *Slots) perAddress() int { return (s.MostNew + 1) / 2 }

// Enter gives a new caller a place, and returns the id of the caller that has to make room for it;
// 0: none. Without a place, all callers, or all of its address, have proved themselves.
func (s *Slots) Enter(id uint64, addr string) (evicted uint64, ok bool) {
	fresh, own := s.fresh(""), s.fresh(addr)
	switch {
	case s.MostOf > 0 && s.of(addr) >= s.MostOf && own == 0:
		return 0, false
	case s.MostOf > 0 && s.of(addr) >= s.MostOf:
		evicted = s.evict(addr)
	case s.MostNew > 0 && own >= s.perAddress():
		evicted = s.evict(addr)
	case s.MostNew > 0 && fresh >= s.MostNew, s.Most > 0 && len(s.callers) >= s.Most && fresh > 0:
		evicted = s.evict(s.crowd())
	case s.Most > 0 && len(s.callers) >= s.Most:
		return 0, false
	}
	s.callers = append(s.callers, slot{id: id, addr: addr})
	s.invariants(addr)
	return evicted, true
}

// fresh counts the new callers of an address; "": of all.
func (s *Slots) fresh(addr string) (n int) {
	for _, c := range s.callers {
		if !c.proved && (addr == "" || c.addr == addr) {
			n++
		}
	}
	return n
}

// of counts the callers of an address.
func (s *Slots) of(addr string) (n int) {
	for _, c := range s.callers {
		if c.addr == addr {
			n++
		}
	}
	return n
}

// crowd is the address with most new callers, the first of them if there are several.
func (s *Slots) crowd() (addr string) {
	count := map[string]int{}
	for _, c := range s.callers {
		if !c.proved {
			count[c.addr]++
		}
	}
	for _, c := range s.callers { // in their order: that of the map is none
		if count[c.addr] > count[addr] {
			addr = c.addr
		}
	}
	return addr
}

// evict takes the place of the oldest new caller of an address.
func (s *Slots) evict(addr string) uint64 {
	i := slices.IndexFunc(s.callers, func(c slot) bool { return !c.proved && c.addr == addr })
	id := s.callers[i].id
	s.callers = slices.Delete(s.callers, i, i+1)
	return id
}

// Prove says that a caller proved itself. It reports false if the caller had to make room before.
func (s *Slots) Prove(id uint64) bool {
	i := s.index(id)
	if i >= 0 {
		s.callers[i].proved = true
	}
	return i >= 0
}

// Leave takes the end of a caller.
func (s *Slots) Leave(id uint64) {
	if i := s.index(id); i >= 0 {
		s.callers = slices.Delete(s.callers, i, i+1)
	}
}

// Count is the number of callers.
func (s *Slots) Count() int { return len(s.callers) }

func (s *Slots) index(id uint64) int {
	return slices.IndexFunc(s.callers, func(c slot) bool { return c.id == id })
}

func (s *Slots) invariants(addr string) {
	if !invariants.Enabled {
		return
	}
	all, own := s.fresh(""), s.fresh(addr)
	invariants.Check(s.Most == 0 || len(s.callers) <= s.Most, "CV4", "%d callers of at most %d", len(s.callers), s.Most)
	invariants.Check(s.MostOf == 0 || s.of(addr) <= s.MostOf, "CV4", "%d callers of %s, at most %d", s.of(addr), addr, s.MostOf)
	invariants.Check(s.MostNew == 0 || all <= s.MostNew && own <= s.perAddress(), "CV4", "%d new callers, %d of %s", all, own, addr)
}
