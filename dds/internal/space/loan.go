package space

import (
	"math"
	"sort"

	"github.com/squall-go/squall/internal/invariants"
)

// A history borrows the data of a sample where that may save the copy: later samples may replace
// the sample before anything else needs its memory. The life of the loan:
//
//	record applied ──► borrowed ──► replaced, expired, removed: nothing was copied ───────────► released
//	                       │                                                                        ▲
//	                       └──────► copied: by Settle, by Repay, or because a view is taken ────────┘
//
//   - Borrowed: kept.borrowed is true, and kept.data lies in the memory of the record.
//     topic.remember makes the loan, with lend, and nothing else does: either until Settle, at the
//     end of the same delivery, or until Repay. The data must not change meanwhile.
//   - Copied: topic.settle alone copies, into memory of the history, and clears kept.borrowed.
//     Until then only the history has the data: of what it has borrowed it gives no view. So a
//     snapshot, a reader that comes late and a client never get borrowed data.
//   - Released: Owes says that no history has data of a record up to a position any more. Only then
//     the caller may have the memory used again, and data once released are not borrowed again.
//
// One lock of the caller guards all of it: in a Participant, its own one, which is held from
// TryApply of the first record of a delivery until Settle, and around Repay and Owes. What may be
// used again is told to others only after that, see keeper in package dds.
//
// TS12 in detail: the samples of an instance with borrowed data are among the last instance.loose
// ones, none is among the first instance.captured ones, and topic.loose is their number in all
// instances. Each is within a loan of unsettled or of loans, between its positions. Of each sender,
// what follows Due is within what Lend says.

// loan is data that an instance has borrowed in a row: of the records from one position to another
// one, as far as samples of them are in the history still.
type loan struct {
	t        *topic
	in       *instance
	from, to uint64
}

// lend notes that a history has borrowed the data of its last sample. It is until Repay if the
// history is expected to drop the sample before Repay is due: if it drops another one now, or has
// one that is to go first, which is younger than that. A sample of a topic that is slow beside
// others, so that they need the room first, is copied at the end of its delivery, and holds no
// room.
func (s *Space) lend(t *topic, in *instance, k *kept) {
	t.loose++
	if !s.stays || in.history.len() == 1 || in.history.at(0).position <= s.soon {
		if n := len(s.unsettled) - 1; n >= 0 && s.unsettled[n].in == in {
			s.unsettled[n].to = k.position
		} else {
			s.unsettled = append(s.unsettled, loan{t, in, k.position, k.position})
		}
		return
	}
	if l := s.lent; l != nil && l.in == in {
		l.to = k.position
		return
	}
	s.loans.push(loan{t, in, k.position, k.position})
	s.lent = s.loans.at(s.loans.len() - 1)
}

// Settle has the histories copy what they still have of the data of records that TryApply has
// applied, other than data that are lent until Repay.
func (s *Space) Settle() {
	for _, l := range s.unsettled {
		l.t.settle(l.in, l.from, l.to)
	}
	clear(s.unsettled)
	s.unsettled = s.unsettled[:0]
	s.lent = nil
	if invariants.Enabled {
		s.check()
	}
}

// Repay has the histories copy what they still have of the data of records up to a position.
func (s *Space) Repay(to uint64) {
	if invariants.Enabled {
		defer s.check()
	}
	s.lent = nil
	for s.loans.len() > 0 {
		l := s.loans.at(0)
		if l.from > to {
			return
		}
		l.t.settle(l.in, l.from, min(l.to, to))
		if l.to > to {
			l.from = to + 1
			return
		}
		s.loans.drop(1)
	}
}

// Owes reports whether a history has data of a record up to a position, for longer than until
// Settle.
func (s *Space) Owes(to uint64) bool {
	for s.loans.len() > 0 && s.loans.at(0).from <= to {
		l := s.loans.at(0)
		if first := l.in.borrowed(); first <= l.to {
			return first <= to
		}
		s.lent = nil
		s.loans.drop(1)
	}
	return false
}

// borrowed returns the position of the first sample of an instance whose data are borrowed, and
// math.MaxUint64 if there is none.
func (in *instance) borrowed() uint64 {
	for ; in.loose > 0; in.loose-- {
		if k := in.history.at(in.history.len() - in.loose); k.borrowed {
			return k.position
		}
	}
	return math.MaxUint64
}

// settle copies the borrowed data in the history of an instance from one position to another one.
func (t *topic) settle(in *instance, from, to uint64) {
	i, n := in.history.len()-in.loose, in.history.len()
	if in.loose > 0 && in.history.at(i).position < from {
		i += sort.Search(n-i, func(k int) bool { return in.history.at(i+k).position >= from })
	}
	for ; i < n; i++ {
		k := in.history.at(i)
		if k.position > to {
			break
		}
		if k.borrowed {
			k.data, k.borrowed = t.copied(k.data), false
			t.loose--
		}
	}
	in.borrowed()
}

// Lend has histories borrow data that stay until Repay: of each sender, no more than so many
// samples and bytes from the first sample that is lent on, also of samples that are not lent.
func (s *Space) Lend(samples, bytes int) {
	if samples > 0 && bytes > 0 {
		s.unit, s.step = max(bytes/samples, 1), max(bytes/lentSteps, 1)
	}
}

// account is how much a sender has sent, in steps of which lentSteps are lent.
type account struct {
	sender uint64
	last   uint64            // position of its last record
	rest   int               // bytes behind the last step
	steps  int               // all that it has made
	ends   [lentSteps]uint64 // positions of the records with the ends of the last steps; step i is at i modulo lentSteps
}

// lentSteps is how exactly the space knows how much of a sender lies behind a position. A sample is
// lent if it is expected to go lentSpare steps before it has to be repaid.
const (
	lentSteps = 64
	lentSpare = 2

	stalledSteps = 3 // more than so many of a sender are much
)

// end is the position of the end of a step, counted from the last one; 0: it is too long ago.
func (a *account) end(ago int) uint64 { return a.ends[(a.steps+lentSteps-1-ago)%lentSteps] }

// lay notes that a record lies in the ring of its sender. One that does not stay there needs the
// room of all that came before. A record counts with its bytes, and at least with those of an
// average sample of Lend.
func (s *Space) lay(r *Record) {
	if s.step == 0 {
		return
	}
	if !r.Stays {
		s.due, s.soon = s.position, s.position
		return
	}
	a := s.account(r.Sender)
	a.last = s.position
	for a.rest += max((len(r.Data)+7)&^7, s.unit); a.rest >= s.step; a.rest -= s.step { // a ring has words
		a.ends[a.steps%lentSteps] = s.position
		a.steps++
		s.due, s.soon = max(s.due, a.end(lentSteps-1)), max(s.soon, a.end(lentSteps-1-lentSpare))
	}
}

// account finds the account of a sender: senders take turns, mostly.
func (s *Space) account(sender uint64) *account {
	for range s.senders {
		if a := &s.senders[s.turn]; a.sender == sender {
			return a
		}
		if s.turn++; s.turn == len(s.senders) {
			s.turn = 0
		}
	}
	s.turn = len(s.senders)
	s.senders = append(s.senders, account{sender: sender})
	return &s.senders[s.turn]
}

// Due is the position up to which data have to be repaid: of some sender, Lend has no room for more
// than what came behind it.
func (s *Space) Due() uint64 { return s.due }

// Stalled returns the position of the last record of a sender that has sent nothing behind the
// position since, and much from the position from on: what lies there may be what it waits for. It
// is 0 if there is no such sender.
func (s *Space) Stalled(from, since uint64) (to uint64) {
	for i := range s.senders {
		if a := &s.senders[i]; a.last <= since && a.end(stalledSteps) >= from {
			to = max(to, a.last)
		}
	}
	return to
}

// Forget forgets how much each sender has sent: their rings are new ones.
func (s *Space) Forget() { s.senders, s.turn = s.senders[:0], 0 }
