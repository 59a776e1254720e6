package multicast

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/smc"
	"github.com/squall-go/squall/sst"
)

// errNoTime says that a message of a persistent subgroup carries no time.
var errNoTime = errors.New("a message without a time")

// disk is what another member published about its disk.
type disk struct {
	persisted order.Seq
	whole     bool
}

// untime removes the time from a message. A sender can change it in shared memory after timely has
// looked at it, so it counts as at most the latest one that was received.
func (tx *sender) untime(m *Message) error {
	n := len(m.Data) - smc.TimeBytes
	if n < 0 {
		return fmt.Errorf("%w: %d bytes", errNoTime, len(m.Data))
	}
	m.Time = order.Time(min(binary.LittleEndian.Uint64(m.Data[n:]), uint64(tx.newest)))
	m.Data = m.Data[:n:n]
	return nil
}

// timely reports whether the visible messages of a sender, up to an index, may be received. A
// message whose time is too far ahead of the clocks fails its sender. The check precedes the
// acknowledgement: what one member does not receive is stable nowhere, and in no log. Other faults
// of a message are found when it is delivered.
func (s *Subgroup) timely(k int, end order.Index) bool {
	tx := &s.senders[k]
	next := tx.timed
	latest, known := s.latest()
	for i := next.Next(); i < end; i = next.Next() {
		data, kind, err := next.Take()
		if err != nil || kind != smc.Void && len(data) < smc.TimeBytes {
			break
		}
		if kind != smc.Void {
			if t := order.Time(binary.LittleEndian.Uint64(data[len(data)-smc.TimeBytes:])); t > latest {
				if known {
					s.violated(tx.rank, fmt.Errorf("B10: index %d has the time %v, and no clock is after %v", i, t, latest))
				}
				return false
			} else {
				tx.newest = max(tx.newest, t)
			}
		}
		next.Pass()
	}
	tx.timed = next
	return true
}

// Persisted returns the position that this member has published for its disk.
func (s *Subgroup) Persisted() order.Seq { return s.persisted }

// Persist publishes how far this member's disk is: it has every position below persisted and, if
// whole, everything that was delivered before this view. It returns whether that is news. After a
// wedge no member needs it: the next view says whole.
func (s *Subgroup) Persist(persisted order.Seq, whole bool) (work int) {
	persisted = min(persisted, s.delivered) // of a run at hand, the first messages may be on disk already
	whole = whole || s.whole                // what came before this view stays on disk
	if s.wedged || persisted <= s.persisted && whole == s.whole {
		return 0
	}
	if invariants.Enabled {
		invariants.Check(persisted <= s.delivered && (whole || persisted == 0), "M11", "persisted goes to %d, delivered is %d, whole %v", persisted, s.delivered, whole)
	}
	s.persisted, s.whole = max(s.persisted, persisted), whole
	if whole {
		store(s, wordWhole, 1)
	}
	store(s, wordPersisted, s.persisted)
	return 1
}

// Everywhere returns what the disk of every member has: the positions of this view below persisted
// and, if whole, everything that was delivered before the view. If not whole, persisted is 0.
func (s *Subgroup) Everywhere() (persisted order.Seq, whole bool) {
	if s.wedged || s.allWhole && s.everywhere == s.delivered {
		return s.everywhere, s.allWhole
	}
	if mutant.Enabled && mutant.On(mutant.OwnFrontier) {
		return s.persisted, s.whole
	}
	least, all := s.persisted, s.whole
	for m, line := range s.lines {
		if m == s.self {
			continue
		}
		at := s.disk(m, line)
		least, all = min(least, at.persisted), all && at.whole
	}
	if all {
		s.everywhere, s.allWhole = max(s.everywhere, least), true
	}
	return s.everywhere, s.allWhole
}

// disk returns what a member published about its disk. A member that claims what it did not
// deliver, or takes a claim back, fails.
func (s *Subgroup) disk(m int, line *sst.Line) disk {
	was := s.disks[m]
	persisted := wordPersisted.Load(line) // before delivered, which it never passes, and before whole, which comes first
	whole := wordWhole.Load(line) != 0
	delivered := wordDelivered.Load(line)
	if persisted < was.persisted || persisted > delivered || was.whole && !whole || persisted > 0 && !whole { // M11
		if r := s.sg.Members[m]; !s.table.Frozen(r) {
			s.violated(r, fmt.Errorf("M11: persisted went from %d to %d, delivered is %d, whole %v", was.persisted, persisted, delivered, whole))
		}
		return was
	}
	s.disks[m] = disk{persisted, whole}
	return s.disks[m]
}

// Arrivals is a position of the order before which everything lies that was published, here or
// elsewhere, as far as the last Exchange saw: what it saw and did not receive yet, too (B9).
func (s *Subgroup) Arrivals() (end order.Seq) {
	for k, n := range s.reach {
		if n = max(n, s.visible[k]); n > 0 {
			end = max(end, s.turns.Seq(n-1, order.SenderRank(k))+1)
		}
	}
	return end
}
