package multicast

import (
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/smc"
	"github.com/squall-go/squall/sst"
	"github.com/squall-go/squall/views"
)

// runBytes bounds the bytes of a run, unless the application wants whole runs. So space is released
// during a long delivery.
const runBytes = 128 << 10

// besideBytes is the most that a message takes in a ring besides its data: header, time and padding
// of the last word.
const besideBytes = smc.HeaderBytes + smc.TimeBytes + 7

// stepBytes and stepMessages bound what a persistent subgroup delivers in one step. Recording more
// would delay other subgroups by milliseconds.
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

// storeDelivered publishes the count of messages that were delivered and are not kept, and reports
// whether the count grew. After a wedge it publishes nothing: no member needs the count, and what
// is delivered beyond a trim is no prefix.
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

// LetGo makes the receiver release all messages of this view. It is called when the whole view was
// delivered, or when nothing more will be delivered.
func (s *Subgroup) LetGo() {
	if s.keeper != nil && !(mutant.Enabled && mutant.On(mutant.KeptTooLong)) {
		s.keeper.LetGo()
		s.keeper = nil
	}
}

// collect builds the next run: the messages of the stable positions from runEnd on, without nulls
// (M3), and those after the trim (M9). It takes block after block. A block is a part of a round, or
// a number of rounds in which each sender has a small message in every round or in none. So
// decisions are made for blocks, and a long silence costs as much as a short one.
func (s *Subgroup) collect() {
	s.runStart, s.runBytes, s.run = 0, 0, s.run[:0]
	start := s.runEnd
	for s.runEnd < s.stable && len(s.run)+max(len(s.active), 1) <= s.maxRun && s.runBytes < s.maxBytes { // the last round is a whole one
		turns, rounds := s.plan()
		if turns == 0 {
			s.takeOne()
		} else {
			if len(s.active) > 0 {
				rounds = s.takeBlock(rounds)
			}
			s.pass(turns, rounds)
		}
	}
	messages := uint64(len(s.run))
	if nulls := uint64(s.runEnd-start) - messages; nulls > 0 && !s.trimmed { // then what lies after a trim is among them
		s.Stats.NullsDelivered.add(nulls)
	}
	if messages > 0 {
		s.Stats.DeliverBatch.observe(messages)
	}
}

// active is a sender that has a message in each round of a block.
type active struct {
	sender, turn int // turn counts from the first one of the block
	taken        int
	before       smc.Receiver
}

// plan finds the next block. It examines at most one round of turns, up to the first record that is
// not a small message, and stores the senders that have messages there in s.active. It returns the
// number of turns and, if they are a whole round, the number of rounds for which this holds.
func (s *Subgroup) plan() (turns, rounds int) {
	s.active = s.active[:0]
	all, left := len(s.senders), s.stable-s.runEnd
	turns, rounds = int(min(left, order.Seq(all))), int(max(left/order.Seq(all), 1))
	for turn := range turns {
		k, i := s.next.sender+turn, s.next.index
		if k >= all {
			k, i = k-all, i+1
		}
		tx := &s.senders[k]
		next, end := tx.Next(), smc.NoIndex
		if s.trimmed {
			end = s.limit(k)
		}
		switch {
		case next < i && !s.trimmed: // S3
			return turn, 1
		case next < i || i >= end: // a bad record below a trim is not passed
		case next > i:
			rounds = int(min(order.Index(rounds), next-i))
		case !tx.Plain() || len(s.run)+len(s.active) == s.maxRun:
			return turn, 1
		default:
			rounds = int(min(order.Index(rounds), end-i))
			s.active = append(s.active, active{sender: k, turn: turn})
		}
	}
	return turns, rounds
}

// takeBlock appends the messages of the active senders to the run, round by round. It returns the
// number of rounds taken, which is smaller if a sender's next record differs or the run would have
// too many bytes.
func (s *Subgroup) takeBlock(rounds int) int {
	n, each, bytes := len(s.run), len(s.active), s.maxBytes-s.runBytes
	rounds = min(rounds, (s.maxRun-n)/each, max(2*s.rounds, 8)) // not much more than the last ones
	run := s.extend(each * rounds)
	stride := uintptr(each) * unsafe.Sizeof(Message{})
	for j := range s.active {
		a := &s.active[j]
		tx := &s.senders[a.sender]
		a.before = tx.Receiver
		a.taken = tx.Fill(&run[j].Data, stride, rounds, uint64(bytes/each))
		rounds = a.taken
	}
	timed, all, end, sum := s.sg.Mode == views.Persistent, order.Seq(len(s.senders)), each*rounds, 0
	for j := range s.active {
		a := &s.active[j]
		tx, seq := &s.senders[a.sender], s.runEnd+order.Seq(a.turn)
		if a.taken > rounds {
			a.before.Refill(&run[j].Data, stride, rounds)
			tx.Receiver = a.before
		}
		for k := j; k < end; k += each {
			m := &run[k]
			m.Sender, m.Seq = tx.id, seq
			seq += all
			if timed {
				tx.untime(m) // it is long enough for a time
			}
			sum += len(m.Data)
		}
	}
	s.run, s.rounds, s.runBytes = s.run[:n+end], rounds, s.runBytes+sum
	return rounds
}

// extend lengthens the run by n messages and returns them. Their view is set, their body is nil.
func (s *Subgroup) extend(n int) []Message {
	end := len(s.run) + n
	if end > cap(s.run) {
		s.run = slices.Grow(s.run, n)
		fresh := s.run[len(s.run):cap(s.run)]
		for k := range fresh {
			fresh[k] = Message{View: s.view}
		}
	}
	return s.run[len(s.run):end]
}

// takeOne takes the record of the next turn, where plan found no block: the record is not a small
// message, or its index has passed already (S3). After an invalid record nothing can be delivered;
// below a trim it counts as a null (see Trim).
func (s *Subgroup) takeOne() {
	tx, m := &s.senders[s.next.sender], &s.extend(1)[0]
	data, kind, err := tx.Take()
	if next := tx.Next(); next < s.next.index {
		err = fmt.Errorf("%w: S3: index %d of a sender at index %d", smc.ErrBadRecord, next, s.next.index)
	}
	m.Data, m.Sender, m.Seq = data, tx.id, s.runEnd
	if err = s.complete(m, kind, err, s.next.sender); err != nil && !s.trimmed {
		s.violated(tx.rank, err)
		s.stable = s.runEnd
		return
	}
	if err == nil {
		tx.Pass()
		if kind != smc.Void {
			s.run, s.runBytes = s.run[:len(s.run)+1], s.runBytes+len(m.Data)
		}
	}
	s.pass(1, 1)
}

// pass advances the position by a number of turns or, if they are a whole round, of rounds.
func (s *Subgroup) pass(turns, rounds int) {
	all := len(s.senders)
	s.runEnd += order.Seq(turns * rounds)
	if turns == all {
		s.next.index += order.Index(rounds)
	} else if s.next.sender += turns; s.next.sender >= all {
		s.next = turn{s.next.index + 1, s.next.sender - all}
	}
}

// complete adds the body of a large message and the time of a message in a persistent subgroup. It
// returns err unchanged if the record is already invalid.
func (s *Subgroup) complete(m *Message, kind smc.Kind, err error, k int) error {
	if err != nil || kind == smc.Void {
		return err
	}
	if s.sg.Mode == views.Persistent {
		err = s.senders[k].untime(m)
	}
	if err == nil && kind == smc.Large {
		err = s.fetch(m, k)
	}
	return err
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
	bytes := s.runBytes
	if taken < len(rest) {
		bytes = 0
		for k := range rest[:taken] {
			bytes += len(rest[k].Data)
		}
	}
	s.runBytes -= bytes
	if s.larges > 0 {
		before := s.larges
		s.releaseBodies(rest[:taken])
		s.Stats.LargeDelivered.add(uint64(before - s.larges))
	}
	s.Stats.Delivered.add(uint64(taken))
	s.Stats.DeliveredBytes.add(uint64(bytes))
	s.unpushed += taken
	s.unpushedBytes += bytes + taken*besideBytes
	s.runStart += taken
	return taken, s.runStart == len(s.run)
}

// deliverArrived delivers in unordered mode: each sender's messages as they arrived (M5). Space is
// released by the vectors of all members.
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

// releaseTaken frees the space of messages that every member took, in unordered mode.
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

// deliverFrom delivers one sender's messages that are here and publishes their count.
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
	s.run, s.runStart, s.runBytes = s.run[:0], 0, 0
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
		drop := tx.drop > 0 // M10
		if drop {
			tx.drop--
		}
		switch {
		case kind == smc.Void:
			s.unpushed++
		case !drop:
			s.run, s.runBytes = append(s.run, m), s.runBytes+len(m.Data)
		case m.body != nil:
			m.body.Release()
			s.larges--
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
