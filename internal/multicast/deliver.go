package multicast

import (
	"sync/atomic"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/smc"
	"github.com/squall-go/squall/sst"
	"github.com/squall-go/squall/views"
)

// runBytes bounds a run unless the application wants it whole, so that room is released while much
// is delivered.
const runBytes = 128 << 10

// besideBytes is how much of a ring a message takes beside its data at most: its time, and what
// fills its last word.
const besideBytes = smc.TimeBytes + 7

// stepBytes and stepMessages bound what a persistent subgroup delivers in one step: to record much
// takes milliseconds, in which no other subgroup would be served.
const (
	stepBytes    = 32 << 10
	stepMessages = 128
)

// deliver hands the stable part of the order to the application, run by run, and publishes
// delivered.
func (s *Subgroup) deliver() (work int) {
	bytes, messages := s.Stats.DeliveredBytes.Load(), s.Stats.Delivered.Load()
	for s.runStart < len(s.run) || s.runEnd < s.stable {
		if s.runStart == len(s.run) {
			s.collect()
		}
		if mutant.Enabled && mutant.On(mutant.EarlyDelivered) {
			store(s, wordDelivered, s.runEnd)
		}
		taken, all := s.offer()
		work += taken
		if !all { // the application's queue is full, until every disk has what it took, perhaps
			if taken > 0 {
				s.delivered = s.run[s.runStart].Seq
				s.storeDelivered()
			}
			return work
		}
		if s.delivered != s.runEnd {
			s.delivered = s.runEnd
			s.storeDelivered()
			work++
		}
		if s.tuning.OneDeliver || s.sg.Mode == views.Persistent && (s.Stats.DeliveredBytes.Load()-bytes >= stepBytes || s.Stats.Delivered.Load()-messages >= stepMessages) {
			return work
		}
	}
	return work
}

// storeDelivered publishes what was delivered and is not kept, and reports whether that is more
// than before. After a wedge no member needs that, and what is delivered beyond a trim is no
// prefix.
func (s *Subgroup) storeDelivered() bool {
	letGo := s.delivered
	if s.keeper != nil && !(mutant.Enabled && mutant.On(mutant.KeptReused)) {
		letGo = min(letGo, s.keeper.Kept())
	}
	if s.wedged || letGo <= s.letGo {
		return false
	}
	s.letGo = letGo
	wordDelivered.Store(s.own, letGo)
	s.unsettled = true
	return true
}

// LetGo has the receiver keep nothing of this view, when all of the view is delivered or nothing
// more will be.
func (s *Subgroup) LetGo() {
	if s.keeper != nil && !(mutant.Enabled && mutant.On(mutant.KeptTooLong)) {
		s.keeper.LetGo()
		s.keeper = nil
	}
}

// collect makes the next run: the messages of the stable positions from runEnd on, nulls passed
// over (M3), and what lies behind the trim (M9).
func (s *Subgroup) collect() {
	s.run, s.runStart = s.run[:0], 0
	nulls := uint64(0)
	bytes, silent := 0, 0 // silent: nulls since the last message
	for s.runEnd < s.stable && len(s.run) < s.maxRun && bytes < s.maxBytes {
		tx := &s.senders[s.next.sender]
		m := Message{Sender: tx.id, View: s.view, Seq: s.runEnd}
		var kind smc.Kind
		var err error
		if !s.trimmed || s.next.index < s.limit(s.next.sender) {
			m.Data, kind, err = tx.Take(s.next.index)
			if kind != smc.Null && s.sg.Mode == views.Persistent {
				err = s.untime(&m, tx)
			}
			if kind == smc.Large && err == nil {
				err = s.large(&m, s.next.sender)
			}
		}
		if err != nil && !s.trimmed { // below a trim it is a null: see Trim
			s.violated(tx.rank, err)
			s.stable = s.runEnd // nothing behind it can be delivered now
			break
		}
		s.runEnd++
		if s.next.sender++; s.next.sender == len(s.senders) {
			s.next = turn{index: s.next.index + 1}
		}
		if kind != smc.Null && err == nil {
			silent = 0
			s.run = append(s.run, m)
			bytes += len(m.Data)
			continue
		}
		nulls++
		if silent++; silent == len(s.senders) {
			silent = 0
			nulls += s.jump()
		}
	}
	if nulls > 0 && !s.trimmed { // then what lies behind a trim is among them
		s.Stats.NullsDelivered.add(nulls)
	}
	if len(s.run) > 0 {
		s.Stats.DeliverBatch.observe(uint64(len(s.run)))
	}
}

// jump passes over the nulls up to the next message of any sender, after a round without one, and
// returns how many these were: what a long silence costs does not depend on its length.
func (s *Subgroup) jump() uint64 {
	to := s.stable
	for k := range s.senders {
		from := s.next.index
		if k < s.next.sender {
			from++
		}
		to = min(to, s.turns.Seq(s.senders[k].Next(from), order.SenderRank(k))) // behind a trim it is one stop more
	}
	passed := to - s.runEnd
	s.runEnd = to
	index, rank := s.turns.Split(to)
	s.next = turn{index, int(rank)}
	return uint64(passed)
}

// offer gives the rest of the run to the application and reports how many messages it took, and
// whether that was all.
func (s *Subgroup) offer() (taken int, all bool) {
	rest := s.run[s.runStart:]
	if len(rest) == 0 {
		return 0, true
	}
	taken = s.upcall.Deliver(rest)
	if taken > 0 {
		s.lastTaken = rest[taken-1].Seq + 1
	}
	bytes := uint64(0)
	for _, m := range rest[:taken] {
		bytes += uint64(len(m.Data))
	}
	if s.larges > 0 {
		before := s.larges
		s.releaseBodies(rest[:taken])
		s.Stats.LargeDelivered.add(uint64(before - s.larges))
	}
	s.Stats.Delivered.add(uint64(taken))
	s.Stats.DeliveredBytes.add(bytes)
	s.unpushed += taken
	s.unpushedBytes += int(bytes) + taken*besideBytes
	s.runStart += taken
	return taken, s.runStart == len(s.run)
}

// deliverArrived is delivery in unordered mode: each sender's messages as they are here (M5), and
// release by the vectors.
func (s *Subgroup) deliverArrived() (work int) {
	if s.runStart < len(s.run) {
		done, n := s.deliverFrom(s.next.sender) // the run at hand must be taken first, and published for its sender
		if work += n; !done {
			return work
		}
	}
	for k := range s.senders {
		if s.senders[k].delivered < s.here(k) {
			done, n := s.deliverFrom(k)
			if work += n; !done {
				return work
			}
		}
	}
	if s.Sender != nil && !s.wedged {
		work += s.releaseTaken()
	}
	return work
}

// releaseTaken frees the room of what every member took, in unordered mode.
func (s *Subgroup) releaseTaken() int {
	least := s.senders[s.rank].delivered
	for m, word := range s.taken {
		if m != s.self {
			least = min(least, order.Index(atomic.LoadUint64(word)))
		}
	}
	if order.Seq(least) <= s.least || !s.consistent() {
		return 0
	}
	s.least = order.Seq(least)
	if s.Sender.Release(least) {
		return 1
	}
	return 0
}

// deliverFrom delivers what is here of one sender and publishes how far that is.
func (s *Subgroup) deliverFrom(k int) (done bool, work int) {
	tx := &s.senders[k]
	s.next.sender = k // in this mode: whose run is at hand
	for s.runStart < len(s.run) || tx.delivered < s.here(k) {
		if s.runStart == len(s.run) {
			s.collectFrom(tx, s.here(k))
		}
		taken, all := s.offer()
		work += taken
		if !all {
			return false, work
		}
		s.storeTaken(k, tx.delivered)
		if s.tuning.OneDeliver {
			break
		}
	}
	return true, work
}

func (s *Subgroup) collectFrom(tx *sender, got order.Index) {
	s.run, s.runStart = s.run[:0], 0
	for tx.delivered < got && len(s.run) < s.maxRun {
		m := Message{Sender: tx.id, View: s.view, Seq: order.Seq(tx.delivered)}
		var kind smc.Kind
		var err error
		if m.Data, kind, err = tx.Take(tx.delivered); kind == smc.Large {
			err = s.large(&m, s.next.sender)
		}
		if err != nil {
			s.violated(tx.rank, err)
			tx.delivered = got
			break
		}
		if kind == smc.Null {
			tx.delivered = min(tx.Next(tx.delivered), got)
			continue
		}
		if tx.drop > 0 { // M10
			tx.drop--
			if m.body != nil {
				m.body.Release()
				s.larges--
			}
		} else {
			s.run = append(s.run, m)
		}
		tx.delivered++
	}
	if len(s.run) > 0 {
		s.Stats.DeliverBatch.observe(uint64(len(s.run)))
	}
}

// freeAborted frees the room of claims that were given back and have none before them that is under
// way: no delivery need ever come that would.
func (s *Subgroup) freeAborted() (work int) {
	if !s.Sender.Active() {
		return 0
	}
	everywhere := order.Index(s.least)
	if s.sg.Mode != views.Unordered {
		everywhere = s.turns.CountBefore(s.least, s.rank)
	}
	if s.Sender.Release(everywhere) {
		work++
	}
	return work
}

// storeTaken publishes one word of the own vector.
func (s *Subgroup) storeTaken(k int, n order.Index) {
	if s.wedged {
		return
	}
	atomic.StoreUint64(fabric.Word(s.table.Row(s.table.Self()), s.cols.taken[s.self]+8*k), uint64(n))
	s.unsettled = true
}

// Line is the subgroup's control line at a member, for tests and dumps.
func (s *Subgroup) Line(member int) sst.Line { return *s.lines[member] }
