// Package order names the positions of the protocol and owns their only conversions.
//
// A sender numbers its messages (nulls included) 0, 1, 2 …: an Index. The S senders of a subgroup
// take turns, so message k of sender s has the global position k·S + s: a Seq. Delivery is in the
// order of Seq. Everything is half-open and starts at zero: a counter with value n covers positions
// [0, n).
//
//	sender 0:  seq 0   3   6   9        index 0 1 2 3
//	sender 1:  seq 1   4   7  10        index 0 1 2 3        S = 3
//	sender 2:  seq 2   5   8  11        index 0 1 2 3
//
// Source: Spindle §2.1 and §3.3 (round-robin delivery order).
package order

import "fmt"

// NodeID identifies a process for its whole life. It says nothing about rank.
type NodeID uint64

// Rank is a member's place in a view, 0 being the most senior.
type Rank int

// SenderRank is a sender's place among the senders of one subgroup.
type SenderRank int

// Index numbers the messages of one sender, nulls included.
type Index uint64

// Seq is a position in the total order of one subgroup in one view.
type Seq uint64

// ViewID numbers views; the first view is 1, so that 0 is "no view".
type ViewID uint64

// Version is a position in the total order of one subgroup across views. Versions compare by view,
// then by seq.
type Version struct {
	View ViewID
	Seq  Seq
}

// Before reports whether v comes before w.
func (v Version) Before(w Version) bool {
	return v.View < w.View || v.View == w.View && v.Seq < w.Seq
}

func (v Version) String() string { return fmt.Sprintf("%d:%d", v.View, v.Seq) }

// Turns is the number of senders that take turns in a subgroup; it owns the arithmetic between
// Index and Seq.
type Turns int

// Seq is the global position of message i of sender s.
func (t Turns) Seq(i Index, s SenderRank) Seq { return Seq(i)*Seq(t) + Seq(s) }

// Split is the inverse of Seq.
func (t Turns) Split(q Seq) (Index, SenderRank) {
	return Index(q / Seq(t)), SenderRank(q % Seq(t))
}

// Received is the length of the gap-free prefix of the total order when got[s] messages of each
// sender s are here: the smallest position that is still missing, min over s of Seq(got[s], s).
func (t Turns) Received(got []Index) Seq {
	low := t.Seq(got[0], 0)
	for s := 1; s < len(got); s++ {
		low = min(low, t.Seq(got[s], SenderRank(s)))
	}
	return low
}

// CountBefore is how many messages of sender s lie before position q: the half-open per-sender view
// of a Seq.
func (t Turns) CountBefore(q Seq, s SenderRank) Index {
	if q <= Seq(s) {
		return 0
	}
	return Index((q-Seq(s)-1)/Seq(t)) + 1
}
