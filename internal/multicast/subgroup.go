package multicast

import (
	"fmt"
	"math"
	"slices"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/nullsend"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/smc"
	"github.com/squall-go/squall/sst"
	"github.com/squall-go/squall/views"
)

// maxIndex bounds what a peer may claim to have sent, so that no arithmetic on sequence numbers
// overflows.
const maxIndex = smc.NoIndex - 1

// maxStep bounds how far a sender may get between two looks. It is far more than all windows and
// skips together, and keeps a peer from using up the indexes of all senders at once.
const maxStep order.Index = 1 << 40

// Subgroup is one member's part in one subgroup. All of it is the loop's, but for the application
// side of Sender and Stats.
type Subgroup struct {
	Sender *smc.Sender // nil if this member does not send
	Stats  *Stats

	view    order.ViewID
	sg      views.Subgroup
	cols    Columns
	table   *sst.Table
	upcall  Receiver
	bodies  Bodies
	stopped func(order.Rank) error
	latest  func() (order.Time, bool)
	larges  int // in the run
	tuning  Tuning
	turns   order.Turns
	self    int              // place among the members
	rank    order.SenderRank // place among the senders, if Sender is not nil
	senders []sender
	lines   []*sst.Line // by place among the members
	taken   []*uint64   // unordered mode: this sender's word in each member's vector

	own       *sst.Line
	sent      order.Index // own indexes, nulls included
	skipped   order.Index
	got       []order.Index // by sender: sent as last loaded
	reach     []order.Index // by sender: got, or skipped if that is more
	visible   []order.Index // by sender: sent as last loaded, which is more than got where one message is received at a time
	received  order.Seq
	stable    order.Seq
	delivered order.Seq
	letGo     order.Seq // the word delivered as published: at most delivered, and at most what keeper still keeps. Wedge is its last change
	keeper    Keeper    // nil: the receiver keeps nothing
	next      turn      // whose turn delivered is
	least     order.Seq
	run       []Message
	runStart  int       // messages of run that were taken already
	runBytes  int       // of its other messages
	lastTaken order.Seq // behind the last message that was taken
	runEnd    order.Seq
	active    []active // of the block at hand, in the order of their turns
	rounds    int      // of the last block
	maxRun    int
	maxBytes  int
	busy      bool // the last step published many messages
	held      int  // steps for which owed nulls were held, so that the application can send something real
	grace     int  // for so many steps they are held at most. While they are, it does not shrink
	silent    int  // how often nulls were sent since the last message
	dirty     bool // the own line changed since it was last pushed
	begun     bool // the view before is delivered
	wedged    bool
	trimmed   bool

	seen          []progress // by place among the members: what was loaded last
	unsettled     bool       // delivered grew since it was last pushed
	waited        int        // steps ago
	unpushed      int        // by so many messages
	unpushedBytes int

	persisted  order.Seq // persistent mode: as published
	whole      bool      // the same
	disks      []disk    // the same, by place among the members: what was loaded last
	everywhere order.Seq // the same: what every member's disk has of this view
	allWhole   bool      // the same: every member's disk has everything before this view

	members []views.Member // of the view
	trim    []order.Index  // by sender, once trimmed
	ahead   []Ahead
}

// sender is what a member keeps of each sender.
type sender struct {
	smc.Receiver
	timed     smc.Receiver // persistent mode: ahead of the other one, at the first message that was not received
	newest    order.Time   // the same: of the messages that were received; no bound without timely
	id        order.NodeID
	rank      order.Rank
	line      *sst.Line
	delivered order.Index // unordered mode: taken from the ring; what the run at hand still has of it is not delivered
	drop      order.Index // unordered mode: so many of its next indexes were passed in the view before
}

// progress is how far another member is.
type progress struct{ received, delivered order.Seq }

// turn is a Seq as index and sender, so that going through the order needs no division.
type turn struct {
	index  order.Index
	sender int
}

// New lays one member's part on its table. With Carry, the caller holds the lock of the application
// side of that ring.
func New(cfg Config) *Subgroup {
	sg, table := cfg.Subgroup, cfg.Table
	s := &Subgroup{
		Stats: cfg.Stats,
		view:  cfg.View.ID, sg: sg, cols: cfg.Columns, table: table, upcall: cfg.Receiver, bodies: cfg.Bodies, stopped: cfg.Stopped, latest: cfg.Latest, tuning: cfg.Tuning,
		turns: order.Turns(len(sg.Senders)), self: slices.Index(sg.Members, table.Self()),
		seen: make([]progress, len(sg.Members)), disks: make([]disk, len(sg.Members)), lines: make([]*sst.Line, len(sg.Members)),
		got: make([]order.Index, len(sg.Senders)), reach: make([]order.Index, len(sg.Senders)), visible: make([]order.Index, len(sg.Senders)),
		senders: make([]sender, len(sg.Senders)), members: cfg.View.Members,
	}
	if s.Stats == nil {
		s.Stats = new(Stats)
	}
	if sg.Mode == views.Ordered {
		s.keeper = cfg.Keeper
	}
	s.sizeRuns()
	if k, ok := sg.SenderRank(table.Self()); ok {
		s.rank = k
		s.Sender = smc.NewSender(sg.Window, s.ring(int(k)))
		if sg.Mode == views.Persistent {
			s.Sender.Timed(cfg.Clock)
		}
		if cfg.Carry != nil {
			s.Sender.Carry(cfg.Carry, cfg.Delivered)
		}
		if sg.Mode == views.Unordered {
			s.taken = make([]*uint64, len(sg.Members))
		}
	}
	for k, r := range sg.Senders {
		rx := smc.NewReceiver(sg.Window, s.ring(k))
		if sg.Mode == views.Persistent {
			rx.Timed()
		}
		s.senders[k] = sender{Receiver: rx, timed: rx, id: s.members[r].ID, rank: r}
		if s.latest == nil || r == table.Self() {
			s.senders[k].newest = math.MaxInt64
		}
	}
	for _, r := range sg.Members {
		s.Rebind(r)
	}
	s.own = s.lines[s.self]
	s.takeAhead(cfg.View, cfg.Ahead)
	return s
}

// sizeRuns sets the size of a run.
func (s *Subgroup) sizeRuns() {
	s.maxRun, s.maxBytes = s.upcall.MaxRun(), runBytes
	if s.maxRun == 0 { // all: a sender has no more than its window under way
		s.maxRun, s.maxBytes = s.sg.Window*len(s.sg.Senders), math.MaxInt
	}
	if s.tuning.OneDeliver {
		s.maxRun = 1
	}
}

// ring is where a sender's ring lies in its row.
func (s *Subgroup) ring(k int) []byte { return s.table.Area(s.sg.Senders[k], s.cols.rings[k]) }

// Rebind takes the memory of a row anew. The table's hook calls it as soon as the row's memory is
// another one, which may be in the middle of a step of this very subgroup that found the row's
// owner at fault: so it changes nothing in place but what belongs to that row, and no step uses
// what it loaded from a row after it failed it.
//
// From then on nothing is read from the row's former memory, but messages of a run that was made
// before, and messages that the receiver keeps. A fabric keeps that memory until the table is
// closed, and its owner has no right to change these messages: this member has not published that
// it delivered them. The row of a link that is coming is zeros: a member that received nothing.
func (s *Subgroup) Rebind(r order.Rank) {
	m, ok := slices.BinarySearch(s.sg.Members, r)
	if !ok {
		return
	}
	s.lines[m] = s.table.Line(r, s.cols.line[m])
	if s.taken != nil {
		s.taken[m] = fabric.Word(s.table.Row(r), s.cols.taken[m]+8*int(s.rank))
	}
	if k, ok := s.sg.SenderRank(r); ok {
		tx := &s.senders[k]
		tx.line = s.lines[m]
		tx.Rebind(s.ring(int(k)))
		tx.timed.Rebind(s.ring(int(k)))
	}
}

// violated fails a peer that broke the protocol. One that failed before is not reported again.
func (s *Subgroup) violated(r order.Rank, err error) {
	s.table.Fail(r, fmt.Errorf("%w: subgroup %q: %w", fabric.ErrViolation, s.sg.Name, err))
}

// Name is the subgroup's name.
func (s *Subgroup) Name() string { return s.sg.Name }

// Delivered is the length of the prefix of the order that this member delivered.
func (s *Subgroup) Delivered() order.Seq { return s.delivered }

// Received is the length of the prefix of the order that is here, as far as this member has told
// the others.
func (s *Subgroup) Received() order.Seq { return s.received }

// ReceivedWord is the place of the word in the own row that says so.
func (s *Subgroup) ReceivedWord() int { return s.cols.line[s.self] + 8*int(wordReceived) }

// Taken is the position behind the last message of this view that the receiver took, and 0 if it
// took none. Unlike Delivered, it does not move over nulls.
func (s *Subgroup) Taken() order.Seq { return s.lastTaken }

// SeqOf is the position of an index of this member as a sender.
func (s *Subgroup) SeqOf(i order.Index) order.Seq {
	if s.sg.Mode == views.Unordered {
		return order.Seq(i)
	}
	return s.turns.Seq(i, s.rank)
}

// Has reports whether this member delivered the message that it sent under an index.
func (s *Subgroup) Has(i order.Index) bool {
	if s.trimmed && i >= s.trim[s.rank] {
		return false // it is sent again in the next view
	}
	if s.sg.Mode != views.Unordered {
		return s.SeqOf(i) < s.delivered
	}
	if s.runStart < len(s.run) && s.next.sender == int(s.rank) {
		return order.Seq(i) < s.run[s.runStart].Seq
	}
	return i < s.senders[s.rank].delivered
}

// Step calls Exchange and Deliver, for a caller that has nothing to do between them.
func (s *Subgroup) Step() (work int) { return s.Exchange() + s.Deliver() }

// Exchange receives visible messages and publishes committed messages, owed nulls and the received
// counters. It returns how much that was, in messages and counters moved. The caller should flush
// before Deliver runs the application's upcalls, so that no member waits for the upcalls. Exchange
// delivers one round or less itself, so that messages that the upcalls send leave with the
// acknowledgements, in one write; it does so only after Deliver was called once, because the
// messages of a view must not be delivered before the rest of the view before. A violation by a
// peer freezes its row and is reported by the table. After Wedge nothing of this is done (M8).
func (s *Subgroup) Exchange() (work int) {
	if s.wedged {
		return 0
	}
	work += s.receive()
	if s.sg.Mode != views.Unordered {
		work += s.acknowledge()
		work += s.stabilise()
		if s.begun && s.stable-s.runEnd <= order.Seq(s.turns) && !s.tuning.OneDeliver {
			work += s.deliver()
		}
	}
	if s.Sender != nil {
		work += s.publish()
		work += s.sendNulls()
		if s.sg.Mode != views.Unordered {
			work += s.acknowledge() // of what was just sent
		}
	}
	if s.dirty {
		s.push()
	}
	return work
}

// Deliver delivers the messages that can be delivered and releases the messages that every member
// delivered. The own delivered counter is pushed together with the next other push, or when a
// quarter of some ring waits for it, or after some steps: a push of its own would cost a write that
// delays more urgent ones. After Wedge it delivers the messages that were stable then, and after
// Trim the rest.
func (s *Subgroup) Deliver() (work int) {
	if s.wedged {
		return s.deliverRest()
	}
	s.begun = true
	if s.sg.Mode == views.Unordered {
		work = s.deliverArrived()
	} else {
		work = s.stabilise() + s.deliver()
		if s.letGo < s.delivered && s.storeDelivered() {
			work++
		}
	}
	if s.unsettled {
		s.waited++
		if s.unpushed >= s.sg.Window/4 || s.unpushedBytes >= s.sg.RingBytes/4 || s.waited >= SettleAfter {
			s.push()
			return work + 1
		}
	}
	return work
}

// SettleAfter is how many steps the delivered counter waits for company.
const SettleAfter = 128

// Unsettled reports whether the delivered counter is not pushed yet: then further steps, or Settle,
// have to follow.
func (s *Subgroup) Unsettled() bool { return s.unsettled }

// Settle pushes the delivered counter if it was not pushed yet.
func (s *Subgroup) Settle() {
	if s.unsettled {
		s.push()
	}
}

// push pushes the own counters.
func (s *Subgroup) push() {
	s.dirty, s.unsettled, s.waited, s.unpushed, s.unpushedBytes = false, false, 0, 0, 0
	s.table.PushLine(s.sg.Members, s.cols.line[s.self])
	if s.sg.Mode == views.Unordered {
		first := s.cols.taken[s.self]
		for off := first; off < first+8*len(s.senders); off += fabric.LineBytes {
			s.table.PushLine(s.sg.Members, off)
		}
	}
}

// receive counts everything that is visible: one load per sender, whatever the batch.
func (s *Subgroup) receive() (work int) {
	for k := range s.senders {
		tx := &s.senders[k]
		skipped := wordSkipped.Load(tx.line) // before sent (N5)
		sent := wordSent.Load(tx.line)
		if mutant.Enabled && mutant.On(mutant.SentFirst) {
			skipped = wordSkipped.Load(tx.line)
		}
		if sent == s.got[k] && skipped <= s.reach[k] {
			continue
		}
		if sent < s.got[k] || max(sent, skipped) > min(maxIndex, s.reach[k]+maxStep) { // M2
			if !s.table.Frozen(tx.rank) {
				s.violated(tx.rank, fmt.Errorf("M2: sent went from %d to %d, skipped is %d", s.got[k], sent, skipped))
			}
			continue
		}
		if sent > s.got[k] && !s.see(k) || s.latest != nil && sent > s.got[k] && !s.timely(k, sent) {
			continue
		}
		s.visible[k] = sent
		if mutant.Enabled && mutant.On(mutant.OneTooMany) {
			sent++
		}
		if s.tuning.OneReceive && sent > s.got[k]+1 {
			sent = s.got[k] + 1
			skipped = min(skipped, sent)
		}
		if n := sent - s.got[k]; n > 0 {
			s.Stats.ReceiveBatch.observe(uint64(n))
			s.got[k] = sent
		}
		s.reach[k] = max(sent, skipped, s.reach[k])
		work++
	}
	return work
}

// see counts the records that a sender published. It is called after sent was loaded.
func (s *Subgroup) see(k int) bool {
	tx := &s.senders[k]
	position := wordPosition.Load(tx.line)
	if err := tx.See(position); err != nil {
		s.violated(tx.rank, err)
		return false
	}
	if s.latest != nil {
		tx.timed.See(position) // its cursor is not before that of the other one
	}
	return true
}

// publish gives committed messages the next indexes, and pushes them before the counter sent.
func (s *Subgroup) publish() int {
	limit := math.MaxInt
	if s.tuning.OneSend {
		limit = 1
	}
	b, any := s.Sender.Publish(nullsend.Count(s.sent, s.skipped), limit)
	s.busy = s.Sender.Many(b.Messages)
	if !any {
		return 0
	}
	area := s.table.Offset(s.table.Self(), s.cols.rings[s.rank])
	for _, r := range b.Ranges {
		if r.N > 0 {
			s.table.Push(s.sg.Members, area+r.Off, r.N)
		}
	}
	s.silent = 0
	if mutant.Enabled && mutant.On(mutant.PositionLate) {
		store(s, wordSent, b.Next)
	}
	store(s, wordPosition, b.Position)
	s.see(int(s.rank))
	s.setSent(b.Next)
	s.Stats.NullsSent.add(b.Voids)
	if b.Messages > 0 {
		s.Stats.Sent.add(b.Messages)
		s.Stats.SentBytes.add(b.Bytes)
		s.Stats.SendBatch.observe(b.Messages)
	}
	return int(b.Messages + b.Voids)
}

// setSent publishes the own count, which is beyond what was skipped; the own messages are received
// with it.
func (s *Subgroup) setSent(n order.Index) {
	s.sent = n
	s.got[s.rank] = n
	s.reach[s.rank] = n
	store(s, wordSent, n)
}

func store[T ~uint64](s *Subgroup, counter sst.Counter[T], v T) {
	counter.Store(s.own, v)
	s.dirty = true
}

// sendNulls sends what the null rule says this sender owes.
func (s *Subgroup) sendNulls() int {
	if s.tuning.NoNulls || s.sg.Mode == views.Unordered {
		return 0
	}
	from := nullsend.Count(s.sent, s.skipped)
	owed := nullsend.Owed(s.rank, from, s.got)
	if mutant.Enabled {
		owed = mutant.Nulls(owed)
	}
	if owed > 0 {
		owed = min(owed, max(s.furthest(), from)-from)
	}
	held := s.held
	s.held = 0
	if patience := s.patience(); held == 0 || patience > s.grace {
		s.grace = patience
	}
	if mutant.Enabled && mutant.On(mutant.HoldsAnew) && s.grace > s.patience() {
		held = 0
	}
	switch {
	case s.silent >= silentRounds && !s.Sender.Active() && s.tuning == (Tuning{}):
		return s.autoSkip(from)
	case owed == 0 || s.grace == HoldSteps && s.followed(from):
		return 0
	case held < s.grace:
		s.held = held + 1
		return 0 // see Holding
	}
	s.silent++
	s.setSent(from + owed)
	s.Stats.NullsSent.add(uint64(owed))
	return 1
}

// followed reports whether another sender's turn comes before this one's next one, and is not taken
// yet: then a null of this sender is of use to nobody. The first sender whose turn is missing holds
// its nulls for few steps, and what it sends wakes the others.
func (s *Subgroup) followed(next order.Index) bool {
	own := s.turns.Seq(next, s.rank)
	if mutant.Enabled && mutant.On(mutant.FollowsItself) {
		own++
	}
	return s.turns.Received(s.reach) < own
}

// Holding reports whether this sender holds nulls for some steps, so that these have to follow.
// They are no work: between them the application's goroutine runs and, where members share cores,
// the other members.
func (s *Subgroup) Holding() bool { return s.held > 0 && !s.wedged }

// HoldSteps is the number of steps for which a sender holds its nulls while it has no buffer space,
// or publishes much. Without space two suffice nearly always: the other members deliver what is in
// the ring, and the goroutine that waits runs.
const HoldSteps = 16

// patience is the number of steps for which this sender holds nulls, because a message is likely to
// take their turns. A sender that was given space again may begin with few messages; what follows
// them is worth waiting for as well. So a larger patience lasts as long as the nulls are held.
func (s *Subgroup) patience() int {
	switch {
	case mutant.Enabled && mutant.On(mutant.TurnsKept) && s.Sender.Starved():
		return math.MaxInt
	case s.busy || s.Sender.Starved() && (s.silent == 0 || s.Sender.Active()): // else it was given space, and did not use it
		return HoldSteps
	case s.Sender.Active():
		return 1
	}
	return 0
}

// furthest is the count up to which this sender may send nulls and skip, so that no member sees it
// go further than maxStep at once: a sender that lies about its count would have the others break
// that rule. The rest follows when every member has received what went before.
func (s *Subgroup) furthest() order.Index {
	return s.turns.CountBefore(s.stable, s.rank) + maxStep/2 // what a gap is rounded up by, and messages, come on top
}

// silentRounds is how often in a row a sender sent nulls and nothing else before it counts as
// silent.
const silentRounds = 16

// autoSkip declares the next rounds silent before any member needs them, so that no member waits
// for a sender that has been silent for long. A message that it sends nevertheless takes its turn
// after these rounds; the nulls of the others make that turn come at once.
func (s *Subgroup) autoSkip(from order.Index) int {
	furthest := order.Index(0)
	for k, got := range s.got {
		if order.SenderRank(k) != s.rank {
			furthest = max(furthest, got)
		}
	}
	window := order.Index(s.sg.Window)
	if from >= furthest+window {
		return 0
	}
	to := min(furthest+2*window, s.furthest())
	if to <= from {
		return 0
	}
	s.Skip(to - from)
	return 1
}

// Skip declares that this sender stays silent for the next n rounds: no member waits for it. A
// message sent meanwhile takes its turn behind them. After Wedge it is too late. In unordered mode
// there are no turns, and indexes have no gaps, which Ahead relies on.
func (s *Subgroup) Skip(n order.Index) {
	if s.wedged || s.sg.Mode == views.Unordered {
		return
	}
	s.skipped = min(max(s.sent, s.skipped)+n, maxIndex)
	s.reach[s.rank] = max(s.reach[s.rank], s.skipped)
	store(s, wordSkipped, s.skipped)
}

// acknowledge publishes the length of the prefix of the order that is here.
func (s *Subgroup) acknowledge() int {
	if len(s.senders) == 0 {
		return 0
	}
	received := s.turns.Received(s.reach)
	if received == s.received {
		return 0
	}
	if invariants.Enabled {
		invariants.Check(received > s.received, "M1", "received went from %d to %d", s.received, received)
	}
	s.received = received
	store(s, wordReceived, received)
	return 1
}

// stabilise computes what every member has, and releases what every member delivered. One pass over
// the members' lines serves both.
func (s *Subgroup) stabilise() (work int) {
	stable, least := s.received, s.letGo
	for m, line := range s.lines {
		if m == s.self {
			continue
		}
		delivered := wordDelivered.Load(line) // before received, which it never passes
		received := wordReceived.Load(line)
		if seen := &s.seen[m]; received < seen.received || delivered < seen.delivered || delivered > received { // M1
			if r := s.sg.Members[m]; !s.table.Frozen(r) {
				s.violated(r, fmt.Errorf("M1: received went from %d to %d, delivered from %d to %d", seen.received, received, seen.delivered, delivered))
			}
			received, delivered = seen.received, seen.delivered
		} else {
			*seen = progress{received, delivered}
		}
		stable, least = min(stable, received), min(least, delivered)
	}
	if stable > s.stable && !s.consistent() {
		return 0
	}
	if mutant.Enabled && mutant.On(mutant.Unstable) {
		stable = s.received
	}
	if least > s.least && s.Sender != nil {
		if invariants.Enabled {
			invariants.Check(least <= s.letGo && s.letGo <= s.delivered, "M4", "release up to %d, of %d, delivered %d", least, s.letGo, s.delivered)
		}
		s.least = least
		if s.Sender.Release(s.turns.CountBefore(least, s.rank)) {
			work++
		}
	}
	if invariants.Enabled {
		invariants.Check(stable >= s.stable && s.delivered <= s.stable, "M1", "stable went from %d to %d, delivered %d", s.stable, stable, s.delivered)
	}
	s.stable = stable
	return work
}
