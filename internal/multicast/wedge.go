package multicast

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// ErrBadTrim says that a trim does not fit what this member has or delivered.
var ErrBadTrim = errors.New("bad trim")

// Wedge ends the exchange permanently: from now on this member receives, publishes, acknowledges
// and releases nothing (M8). What was stable is still delivered.
func (s *Subgroup) Wedge() {
	s.wedged, s.unsettled = true, false
}

// Reach returns, by sender, how many indexes are received: messages, nulls and skipped turns. After
// Wedge it does not change. The slice is the subgroup's own.
func (s *Subgroup) Reach() []order.Index { return s.reach }

// Told returns, by sender, the least count that a member of the subgroup has according to its
// words: the others have acted upon it. For this member it returns what all survivors must have,
// because it became stable here, or its space was released. The slice is a new one.
func (s *Subgroup) Told(r order.Rank) []order.Index {
	told := make([]order.Index, len(s.senders))
	m := slices.Index(s.sg.Members, r)
	switch {
	case s.sg.Mode != views.Unordered && m == s.self:
		s.before(s.stable, told)
	case s.sg.Mode != views.Unordered:
		s.before(max(s.seen[m].received, wordReceived.Load(s.lines[m])), told)
	case m == s.self && s.Sender != nil:
		told[s.rank] = order.Index(s.least)
	case m != s.self:
		for k := range told {
			told[k] = order.Index(atomic.LoadUint64(fabric.Word(s.table.Row(r), s.cols.taken[m]+8*k)))
		}
	}
	return told
}

// before stores how many indexes of each sender lie before a position.
func (s *Subgroup) before(end order.Seq, counts []order.Index) {
	for k := range counts {
		counts[k] = s.turns.CountBefore(end, order.SenderRank(k))
	}
}

// consistent reports whether no member that wedged the view publishes progress beyond its final
// reach, which the trim need not cover. It is called after the loads of the words that the caller
// is about to act upon. A member that publishes more fails.
func (s *Subgroup) consistent() bool {
	if s.stopped == nil {
		return true
	}
	for m, r := range s.sg.Members {
		if m == s.self {
			continue
		}
		if err := s.stopped(r); err != nil {
			s.violated(r, fmt.Errorf("M8: %w", err))
			return false
		}
	}
	return true
}

// Trim says what is delivered of this view: of each sender the indexes below its trim, which is the
// least reach among the survivors. Once, after Wedge. What is wrong with it is reported, for it
// comes from elsewhere.
//
// A record below the trim that is not valid counts as a null, as does everything after it of the
// same sender. It is the same at every member, no member delivered anything behind it before the
// wedge, and every member that saw it failed its sender.
func (s *Subgroup) Trim(trim []order.Index) error {
	if err := s.checkTrim(trim); err != nil {
		return fmt.Errorf("%w: subgroup %q of view %d: %w", ErrBadTrim, s.sg.Name, s.view, err)
	}
	s.trim, s.trimmed = slices.Clone(trim), true
	if s.sg.Mode == views.Unordered {
		s.noteAhead()
		return nil
	}
	s.stable = 0
	for k := range s.senders {
		if n := s.limit(k); n > 0 {
			s.stable = max(s.stable, s.turns.Seq(n-1, order.SenderRank(k))+1)
		}
	}
	if invariants.Enabled {
		invariants.Check(s.runEnd <= s.stable, "M6", "the trim ends at %d, delivered %d", s.stable, s.runEnd)
	}
	return nil
}

func (s *Subgroup) checkTrim(trim []order.Index) error {
	if !s.wedged || s.trimmed || len(trim) != len(s.senders) {
		return fmt.Errorf("%d senders have %d trims (wedged: %v, trimmed: %v)", len(s.senders), len(trim), s.wedged, s.trimmed)
	}
	for k, n := range trim {
		if n > s.reach[k] {
			return fmt.Errorf("M7: sender %d: %d indexes, %d are here", k, n, s.reach[k])
		}
		if s.sg.Mode == views.Unordered {
			continue
		}
		if stable := s.turns.CountBefore(s.stable, order.SenderRank(k)); n < stable {
			return fmt.Errorf("M6: sender %d: %d indexes, %d were stable", k, n, stable)
		}
	}
	return nil
}

// limit is the index of a sender at which its part of this view ends.
func (s *Subgroup) limit(k int) order.Index {
	if mutant.Enabled && mutant.On(mutant.NoTrim) && s.table.Frozen(s.senders[k].rank) {
		return s.reach[k]
	}
	return s.trim[k]
}

// here returns the count of a sender's messages that can be delivered in unordered mode.
func (s *Subgroup) here(k int) order.Index {
	if s.trimmed {
		return min(s.got[k], s.limit(k)) // between the two are nulls
	}
	return s.got[k]
}

// Finished reports whether everything below the trim was delivered.
func (s *Subgroup) Finished() bool {
	if !s.trimmed || s.runStart < len(s.run) {
		return false
	}
	if s.sg.Mode != views.Unordered {
		return s.delivered == s.stable
	}
	for k := range s.senders {
		if s.senders[k].delivered < s.here(k) {
			return false
		}
	}
	return true
}

// deliverRest delivers what was stable at the wedge, or lies below the trim (M9).
func (s *Subgroup) deliverRest() int {
	if s.sg.Mode == views.Unordered {
		return s.deliverArrived()
	}
	return s.deliver()
}

// Ahead is how many of the indexes that a sender will use next a member has passed already: in
// unordered mode it may have delivered messages beyond the trim. What is sent again keeps its place
// among these, and so do the nulls of claims that were given back.
type Ahead struct {
	Sender      order.NodeID
	Incarnation uint64
	Indexes     order.Index
}

// Ahead is what this member has delivered beyond the trim, for its part in the next view. It stands
// after Trim, whatever is still to be delivered below it. A sender that does not send in the next
// view, and is a member, stays in it: what it carries is sent when it sends again. So if this
// member has no part in the subgroup for a view, its owner keeps this for the one after.
func (s *Subgroup) Ahead() []Ahead { return s.ahead }

// takeAhead notes what was delivered in the view before. A process that is not in the view any more
// sends nothing again.
func (s *Subgroup) takeAhead(v *views.View, ahead []Ahead) {
	for _, a := range ahead {
		r, ok := v.RankOf(a.Sender)
		if !ok || v.Members[r].Incarnation != a.Incarnation {
			continue
		}
		if k, ok := s.sg.SenderRank(r); ok {
			s.senders[k].drop = a.Indexes
		} else {
			s.ahead = append(s.ahead, a)
		}
	}
}

// noteAhead counts, for each sender, the indexes that were passed beyond its trim, or are still to
// be dropped there.
func (s *Subgroup) noteAhead() {
	for k := range s.senders {
		tx := &s.senders[k]
		if end := tx.delivered + tx.drop; end > s.trim[k] {
			m := s.members[tx.rank]
			s.ahead = append(s.ahead, Ahead{m.ID, m.Incarnation, end - s.trim[k]})
		}
	}
}
