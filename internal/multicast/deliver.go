package multicast

import (
	"slices"
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

// besideBytes is how much of a ring a message takes besides its data at most: its header, its time,
// and what fills its last word.
const besideBytes = smc.HeaderBytes + smc.TimeBytes + 7

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
// over (M3), and what lies after the trim (M9). What only some messages need is done in complete.
func (s *Subgroup) collect() {
	s.runStart = 0
	run, bytes, nulls, silent := s.run[:0], 0, uint64(0), 0 // silent: nulls since the last message
	q, t, timed := s.runEnd, s.next, s.sg.Mode == views.Persistent
	alone := order.Seq(0) // before this position only the sender of the last message has any, if it is after that
	for q < s.stable && len(run) < s.maxRun && bytes < s.maxBytes {
		tx := &s.senders[t.sender]
		null := true
		if tx.Next() == t.index && (!s.trimmed || t.index < s.limit(t.sender)) {
			data, kind, err := tx.Take()
			if len(run) == cap(run) {
				run = slices.Grow(run, 1)
			}
			run = run[:len(run)+1]
			m := &run[len(run)-1] // field by field: a copy of a whole message would wait for its parts
			m.Data, m.Sender, m.View, m.Seq, m.Time, m.body = data, tx.id, s.view, q, 0, nil
			if kind != smc.Small || timed {
				err = s.complete(m, kind, err, t.sender)
			}
			if err != nil && !s.trimmed { // below a trim it is a null: see Trim
				s.violated(tx.rank, err)
				s.stable, run = q, run[:len(run)-1] // nothing after it can be delivered now
				break
			}
			if err == nil {
				tx.Pass()
			}
			if null = err != nil || kind == smc.Void; null {
				run = run[:len(run)-1]
			} else {
				bytes += len(m.Data)
			}
		}
		q++
		if !null {
			silent = 0
			if i := tx.Next(); q < alone && i < smc.NoIndex {
				if to := s.turns.Seq(i, order.SenderRank(t.sender)); to < alone {
					nulls += uint64(to - q)
					q, t.index = to, i
					continue
				}
			}
		}
		if t.sender++; t.sender == len(s.senders) {
			t = turn{index: t.index + 1}
		}
		if !null {
			continue
		}
		nulls++
		if silent++; silent >= len(s.senders)-1 {
			silent = 0
			from := q
			q, t, alone = s.jump(t)
			nulls += uint64(q - from)
		}
	}
	s.run, s.runEnd, s.next = run, q, t
	if nulls > 0 && !s.trimmed { // then what lies after a trim is among them
		s.Stats.NullsDelivered.add(nulls)
	}
	if len(run) > 0 {
		s.Stats.DeliverBatch.observe(uint64(len(run)))
	}
}

// complete does what a message needs that is large, or of a persistent subgroup. What was wrong
// with its record stays wrong.
func (s *Subgroup) complete(m *Message, kind smc.Kind, err error, k int) error {
	if err != nil || kind == smc.Void {
		return err
	}
	if s.sg.Mode == views.Persistent {
		err = untime(m)
	}
	if err == nil && kind == smc.Large {
		err = s.fetch(m, k)
	}
	return err
}

// jump passes over the nulls from a turn to the next message of any sender, after a round with one
// message or none: what a long silence costs does not depend on its length. The next message of
// another sender is not before the position alone.
func (s *Subgroup) jump(t turn) (to order.Seq, at turn, alone order.Seq) {
	to, alone = s.stable, s.stable
	for k := range s.senders {
		from := t.index
		if k < t.sender {
			from++
		}
		next := s.senders[k].Next()
		if next < from || next == smc.NoIndex { // a bad record is not passed
			continue
		}
		if q := s.turns.Seq(next, order.SenderRank(k)); q < to { // after a trim it is one stop more
			to, alone = q, to
		} else {
			alone = min(alone, q)
		}
	}
	index, rank := s.turns.Split(to)
	return to, turn{index, int(rank)}, alone
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
			if s.collectFrom(tx, s.here(k)); len(s.run) == 0 {
				work++ // nulls
			}
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
		if next := tx.Next(); next > tx.delivered {
			tx.delivered = min(next, got)
			continue
		}
		m := Message{Sender: tx.id, View: s.view, Seq: order.Seq(tx.delivered)}
		var kind smc.Kind
		var err error
		m.Data, kind, err = tx.Take()
		if err = s.complete(&m, kind, err, s.next.sender); err != nil { // it is not passed, and no later one is taken
			s.violated(tx.rank, err)
			tx.delivered = got
			break
		}
		tx.Pass()
		tx.delivered++
		if kind == smc.Void {
			s.unpushed++
			continue
		}
		tx.recent[tx.taken%uint64(len(tx.recent))] = order.Index(m.Seq)
		tx.taken++
		if tx.drop > 0 { // M10
			tx.drop--
			if m.body != nil {
				m.body.Release()
				s.larges--
			}
		} else {
			s.run = append(s.run, m)
		}
	}
	if len(s.run) > 0 {
		s.Stats.DeliverBatch.observe(uint64(len(s.run)))
	}
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
