package viewchange

import (
	"errors"
	"fmt"
	"slices"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/sst"
	"github.com/squall-go/squall/views"
)

// Why a member stops, and why it suspects another one.
var (
	// ErrEvicted says that the other members go on without this one.
	ErrEvicted = errors.New("evicted")
	// ErrPartitioned says that too few members are left that this one can reach (G5).
	ErrPartitioned = errors.New("partitioned")
	// ErrAccused is the reason for suspecting a member that another member suspects.
	ErrAccused = errors.New("suspected by another member")
)

// Config is one member's part in the change from one view to the next.
type Config struct {
	View    *views.View
	Self    order.Rank
	Table   *sst.Table
	Columns Columns
	// Wedge stops every subgroup here for good and returns what is here: by subgroup and sender
	// rank, nil where this member is not in it. It is called once.
	Wedge func() [][]order.Index
	// Told returns, by sender rank of a subgroup, the least that a member has according to the
	// words that it published: others have acted upon that. For this member it returns what the
	// others must have because of what was done here. nil: nothing is known.
	Told func(subgroup int, r order.Rank) []order.Index
	// Latest is the latest time that the next view may have, if that is known. nil: it is not.
	Latest func() (t order.Time, known bool)
	// Next makes the view that follows, out of its members.
	Next func(members []views.Member, mute func(id order.NodeID, declaration int) bool) (*views.View, error)
	// Whole reports whether a member of a subgroup has got all of its log or state since it entered
	// the subgroup. nil: no member has.
	Whole func(subgroup int, r order.Rank) bool
	// Record, if not nil, makes a decision durable, and then causes a call of Recorded; before
	// that, this member does not accept the decision. So whatever was chosen is on the disks of a
	// quorum, and a restart after all members ended at once finds it.
	Record func(Ballot, *Decision)
	// OnEvent is told what happens. It must not call the Change.
	OnEvent func(Event)
}

// Change is one member's part in ending one view and finding the next. All of it is the loop's.
type Change struct {
	cfg       Config
	n         int
	table     *sst.Table
	to        []order.Rank // all ranks
	lines     []*sst.Line  // by rank
	own       *sst.Line
	revisions []uint64 // by rank, as of the last look
	asked     bool     // something was asked of this member since the last step
	refill    bool     // and it is to find out whether a shard without members could have some

	leave   bool           // this member wants to leave
	mute    uint64         // where it does not want to send, a bit for each declaration
	joiners []views.Member // that are ready

	reports  []error // by rank: failures that were not taken up yet
	causes   []error // by rank: why it is suspected
	suspect  Ranks   // published
	gaveUp   Ranks   // refused to be connected with this member
	withheld Ranks   // would have to be suspected too, but too few would be left
	parted   Ranks   // gave this member up after it was done: they live, and are not waited for

	wedged    bool
	here      [][]order.Index // by subgroup and sender rank: what was here when it was wedged
	filling   *proposal       // as leader: what refills found, until it is proposed
	proposal  *proposal       // as leader, the last one
	nextAt    Ballot          // its ballot
	refused   string          // the key of the view of a decision that would take back what was done here
	recording *Decision       // the last one that was given to Record
	recorded  Ballot          // the highest that is durable
	decision  *Decision       // in the own row
	done      *Decision       // set once it is certain that every continuing member has the decision
	err       error           // why this member must stop
}

// NewChange lays one member's part on its table.
func NewChange(cfg Config) *Change {
	n := len(cfg.View.Members)
	c := &Change{
		cfg: cfg, n: n, table: cfg.Table, asked: true,
		to: make([]order.Rank, n), lines: make([]*sst.Line, n),
		revisions: make([]uint64, n), reports: make([]error, n), causes: make([]error, n),
	}
	for r := range order.Rank(n) {
		c.to[r], c.lines[r] = r, c.table.Line(r, cfg.Columns.line[r])
	}
	c.own = c.lines[cfg.Self]
	return c
}

// Rebind takes a row's memory anew, after it moved.
func (c *Change) Rebind(r order.Rank) {
	c.lines[r] = c.table.Line(r, c.cfg.Columns.line[r])
	c.asked = true
}

// Report says that a member failed, as far as can be seen from here.
func (c *Change) Report(r order.Rank, why error) {
	if r != c.cfg.Self && !c.suspect.Has(r) && c.reports[r] == nil {
		c.reports[r], c.asked = why, true
	}
}

// Leave asks that the next view be without this member. A change that is under way is finished
// first.
func (c *Change) Leave() { c.leave, c.asked = true, true }

// Join replaces the list of processes that are ready to join; the leader admits them with the next
// change.
func (c *Change) Join(ready []views.Member) { c.joiners, c.asked = ready, true }

// Recorded says that the decision of a ballot is durable.
func (c *Change) Recorded(b Ballot) { c.recorded, c.asked = max(c.recorded, b), true }

// Leading reports whether this member made a proposal in this view.
func (c *Change) Leading() bool { return c.nextAt != 0 }

// Refill asks the leader to find out whether a shard without members could have some now.
func (c *Change) Refill() { c.refill, c.asked = true, true }

// Mute says in which declarations this member does not want to send from the next view on, a bit
// each.
func (c *Change) Mute(declarations uint64) { c.mute, c.asked = declarations, true }

// Suspected returns the set of members that this one suspects.
func (c *Change) Suspected() Ranks { return c.suspect | c.withheld }

// Cause returns the reason for which a member is suspected, or nil.
func (c *Change) Cause(r order.Rank) error { return c.causes[r] }

// Wedged reports whether the view is at its end here: nothing is sent or received in it any more.
func (c *Change) Wedged() bool { return c.wedged }

// Done returns the decision, once it is certain that it is the only one and that every member that
// goes on has received it.
func (c *Change) Done() *Decision { return c.done }

// Through reports whether every member that took part in the decision is done too, or suspected: no
// member needs this member's row of the view any more. If this member goes on, a suspicion that it
// keeps to itself does not count: a suspect that is there would take the end of its connection for
// a failure, and go on without this member.
func (c *Change) Through() bool {
	if c.done == nil {
		return false
	}
	failed := c.Suspected()
	if c.stays() {
		failed = c.suspect
	}
	wait := all(c.n) &^ ranksOf(c.done.Removed) &^ failed &^ c.parted &^ only(c.cfg.Self)
	for r := range order.Rank(c.n) {
		if wait.Has(r) && wordInstalled.Load(c.lines[r]) == 0 {
			return false
		}
	}
	return true
}

// Err returns the reason for which this member must stop, or nil. It wraps ErrEvicted or
// ErrPartitioned.
func (c *Change) Err() error { return c.err }

// Leader returns the rank that has to make the next proposal, as this member sees it: the lowest
// that is neither suspected nor leaving. If all members leave, it is the lowest of them.
func (c *Change) Leader() order.Rank {
	there := all(c.n) &^ c.suspect
	if stay := there &^ c.leaving(); stay != 0 {
		return stay.lowest()
	}
	return there.lowest()
}

// leaving returns the set of members that said that they leave.
func (c *Change) leaving() (set Ranks) {
	for r, line := range c.lines {
		if wordLeaving.Load(line) != 0 {
			set |= only(order.Rank(r))
		}
	}
	return set
}

// Quorate reports whether the view could go on without a set of members, and without the members
// that are suspected already.
func (c *Change) Quorate(without Ranks) bool {
	return c.quorum(all(c.n) &^ c.Suspected() &^ without)
}

func (c *Change) quorum(set Ranks) bool { return quorum(c.n, set) }

func quorum(n int, set Ranks) bool {
	if mutant.Enabled && mutant.On(mutant.PlainHalf) {
		return 2*set.Count() >= n
	}
	return Quorum(n, set)
}

// maxMoves bounds a step: a row that goes on changing must not keep this member from its other
// work.
const maxMoves = 256

// Step looks at what changed and goes as far as it can. It returns the work it did.
func (c *Change) Step() (work int) {
	if c.err != nil || !c.changed() {
		return 0
	}
	for c.err == nil && work < maxMoves && c.advance() {
		work++
	}
	c.asked = c.asked || work == maxMoves
	return work
}

// changed reports whether anything changed in any row, or was asked. It is one load per row while
// nothing did.
func (c *Change) changed() bool {
	changed := c.asked
	c.asked = false
	for r, line := range c.lines {
		if revision := wordRevision.Load(line); revision != c.revisions[r] {
			c.revisions[r], changed = revision, true
		}
	}
	return changed
}

// advance makes the first move that is possible, or reports false. Every move sets a register
// further, so moves end.
func (c *Change) advance() bool {
	if c.done != nil { // through; members that are not may still need it as a witness
		return c.applyReports() || c.publishHeldSuspicions() || c.adoptSuspicions() || c.follow() || c.echo()
	}
	// The decision is looked at first: a member that goes after it may end its connections, and has
	// not failed in this view.
	return c.checkEvicted() || c.complete() || c.applyReports() || c.adoptSuspicions() || c.haltWithoutQuorum() || c.ask() || c.follow() || c.lead() || c.echo()
}

// set stores a counter of the own view line; publish pushes it.
func set[T ~uint64](c *Change, counter sst.Counter[T], v T) {
	if word := int(counter); invariants.Enabled && word >= int(wordProposed) && word <= int(wordDecided) {
		invariants.Check(uint64(v) > c.own[word], "V6", "word %d of the view line goes from %d to %d", word, c.own[word], v)
	}
	counter.Store(c.own, v)
}

func (c *Change) publish() {
	wordRevision.Store(c.own, c.own[wordRevision]+1)
	c.table.PushLine(c.to, c.cfg.Columns.line[c.cfg.Self])
}

func (c *Change) emit(e Event) {
	if c.cfg.OnEvent != nil {
		c.cfg.OnEvent(e)
	}
}

// checkEvicted finds out whether some member suspects this one. Rows that are frozen count: a
// member publishes its suspicions before it ends the connection to a suspect. A word with an
// impossible value is not a suspicion but a violation, which adoptSuspicions reports.
func (c *Change) checkEvicted() bool {
	for r := range order.Rank(c.n) {
		if c.accusedBy(r) {
			c.err = fmt.Errorf("%w: node %d (rank %d) suspects this member", ErrEvicted, c.cfg.View.Members[r].ID, r)
			return true
		}
	}
	return false
}

// accusedBy reports whether a member suspects this one.
func (c *Change) accusedBy(r order.Rank) bool {
	said, err := c.accusation(r)
	return err == nil && said.Has(c.cfg.Self)
}

// applyReports suspects all members that were reported since, but for two kinds.
//
// A member that suspects this one has ended the connection, and may live. If this member is done,
// it accuses no such member in turn: a member that is not done yet would believe it, and lose both.
//
// A member that gave this one up before they were connected suspects it, and could not say so in
// this member's replica of its row. That is believed only when the members that did so leave no
// quorum: the word of fewer reaches this member through the rows of the others, which take it up,
// unless it was said to no other member.
func (c *Change) applyReports() bool {
	var who Ranks
	for r, why := range c.reports {
		if errors.Is(why, fabric.ErrGivenUp) && c.done == nil {
			c.reports[r] = nil
			if c.gaveUp |= only(order.Rank(r)); c.Quorate(c.gaveUp) {
				continue
			}
			c.err = fmt.Errorf("%w: node %d (rank %d) suspects this member: %w", ErrEvicted, c.cfg.View.Members[r].ID, r, why)
			return true
		}
		if why != nil && c.done != nil && !errors.Is(why, fabric.ErrViolation) && c.accusedBy(order.Rank(r)) {
			c.parted |= only(order.Rank(r))
			c.reports[r] = nil
			continue
		}
		if why != nil && !c.Suspected().Has(order.Rank(r)) {
			who |= only(order.Rank(r))
			c.causes[r] = why
		}
		c.reports[r] = nil
	}
	return who != 0 && c.suspects(who)
}

// adoptSuspicions suspects the members that another member suspects. It adopts the suspicions of
// one accuser at a time, in the order of rank, and no suspicion of an accuser that is suspected
// itself. Otherwise, two members that suspect each other would both have to go.
func (c *Change) adoptSuspicions() bool {
	for r := range order.Rank(c.n) {
		if r == c.cfg.Self || c.Suspected().Has(r) {
			continue
		}
		said, err := c.accusation(r)
		if err != nil {
			c.violated(r, "V13", "%v", err)
			continue
		}
		who := said &^ c.Suspected() &^ only(c.cfg.Self)
		if who != 0 && r == c.Leader() && c.follow() {
			return true // it proposed before it lost the members that refused, and is judged by the proposal first
		}
		if who == 0 || mutant.Enabled && mutant.On(mutant.SilentSuspicion) {
			continue
		}
		for _, q := range who.List() {
			c.causes[q] = fmt.Errorf("%w: node %d (rank %d)", ErrAccused, c.cfg.View.Members[r].ID, r)
		}
		return c.suspects(who)
	}
	return false
}

// accusation is the set of members that a row names as failed, or what is wrong with it (V13). A
// member that suspects so many that the rest is no quorum stops before it says so; only when it
// knows that the view is over, and goes on in the next view without them, does it say all
// (publishHeldSuspicions). So the word that tells of that is loaded last.
func (c *Change) accusation(r order.Rank) (said Ranks, err error) {
	said = wordSuspected.Load(c.lines[r])
	final, err := c.final(r)
	if err != nil {
		return 0, err
	}
	if strange := said &^ all(c.n); strange != 0 {
		return 0, fmt.Errorf("suspects rank %d of %d", strange.lowest(), c.n)
	}
	if final == 0 && !c.quorum(all(c.n)&^said) && !(mutant.Enabled && mutant.On(mutant.BelievesAll)) {
		return 0, fmt.Errorf("suspects %d of %d members, which leaves no quorum", said.Count(), c.n)
	}
	return said, nil
}

// suspects publishes that members failed and freezes their rows. The suspects learn of it before
// their connection ends, if the connection still works. If too few members would be left, suspects
// publishes nothing: this member itself may be cut off from the others.
func (c *Change) suspects(who Ranks) bool {
	if !c.goesOnWithout(who) {
		c.withheld |= who
		return true
	}
	c.suspect |= who
	set(c, wordSuspected, c.suspect)
	c.publish()
	c.table.Flush()
	for _, r := range who.List() {
		if !(mutant.Enabled && mutant.On(mutant.NoFreeze)) {
			c.table.Freeze(r)
		}
		c.emit(Suspected{Member: c.cfg.View.Members[r], Rank: r, Err: c.causes[r]})
	}
	return true
}

// goesOnWithout reports whether this member goes on without a set of members, and without the
// members that it suspects already: they leave a quorum of the view, or of the next view once this
// member is in that. If they leave none of either, this member halts, in the next view if it was
// done with this one before, or it has left. It may be the one that is cut off, and the others
// would believe its row when it reaches them.
func (c *Change) goesOnWithout(who Ranks) bool {
	if c.Quorate(who) {
		return true
	}
	if !c.stays() {
		return false
	}
	next, left := c.done.View, Ranks(0)
	who |= c.Suspected()
	for r, m := range next.Members {
		before, ok := c.cfg.View.RankOf(m.ID)
		left = left.With(order.Rank(r), !(ok && who.Has(before) && c.cfg.View.Members[before] == m))
	}
	return Quorum(len(next.Members), left)
}

// stays reports whether this member is done with the view and is in the next one.
func (c *Change) stays() bool {
	if c.done == nil || c.done.View == nil {
		return false
	}
	_, in := c.done.View.RankOf(c.cfg.View.Members[c.cfg.Self].ID)
	return in
}

// publishHeldSuspicions publishes, once this member goes on in the next view without the suspects,
// the suspicions that it had to keep to itself: that they are too many for this view does not
// matter any more, and the member that leads in place of the suspects must not wait for this one in
// vain.
func (c *Change) publishHeldSuspicions() bool {
	who := c.withheld
	if who == 0 || !c.goesOnWithout(who) {
		return false
	}
	c.withheld = 0
	return c.suspects(who)
}

// haltWithoutQuorum stops this member when too few are left.
func (c *Change) haltWithoutQuorum() bool {
	if c.withheld == 0 {
		return false
	}
	c.err = fmt.Errorf("%w: %d of %d members of view %d are left, and that is no quorum", ErrPartitioned, (all(c.n) &^ c.Suspected()).Count(), c.n, c.cfg.View.ID)
	for _, r := range c.Suspected().List() {
		c.err = fmt.Errorf("%w; node %d: %w", c.err, c.cfg.View.Members[r].ID, c.causes[r])
	}
	return true
}

// muteSaid marks a mute word that was written: in a row that has not come yet it is 0.
const muteSaid = 1 << 63

// ask publishes what this member wants of the next view. Nothing may change while a proposal is
// under way, or the members would disagree on which of them leads.
func (c *Change) ask() bool {
	leave := c.leave && c.own[wordLeaving] == 0
	mute := c.mute | muteSaid
	if c.wedged || !leave && mute == c.own[wordMute] {
		return false
	}
	if leave {
		set(c, wordLeaving, 1)
	}
	set(c, wordMute, mute)
	c.publish()
	return true
}

// wedge stops the view at this member and publishes what is here, for good.
func (c *Change) wedge() {
	if c.wedged {
		return
	}
	c.wedged = true
	area := c.area(c.cfg.Self, c.cfg.Columns.vectors)
	for _, here := range c.cfg.Wedge() {
		c.here = append(c.here, slices.Clone(here))
	}
	n, ok := putRecord(area, vectorsBallot, vectors{c.here})
	if !ok {
		panic("viewchange: the vectors do not fit their area") // vectorBytes counts them
	}
	c.pushRecord(c.cfg.Columns.vectors, n)
	c.emit(Wedged{})
}

// vectorsBallot returns the ballot of the vectors' record, which is written once. Its guard is the
// first ack.
const vectorsBallot Ballot = 1

func (c *Change) area(r order.Rank, areas []sst.Area) []byte { return c.table.Area(r, areas[r]) }

func (c *Change) pushRecord(areas []sst.Area, n int) {
	c.table.Push(c.to, c.table.Offset(c.cfg.Self, areas[c.cfg.Self]), n)
}

// violated fails a member that broke the protocol.
func (c *Change) violated(r order.Rank, id, format string, args ...any) {
	err := fmt.Errorf("%w: %s: rank %d %s", fabric.ErrViolation, id, r, fmt.Sprintf(format, args...))
	c.table.Fail(r, err)
	c.Report(r, err)
}

// follow acks the proposal of this member's leader.
func (c *Change) follow() bool {
	l := c.Leader()
	b := wordProposed.Load(c.lines[l])
	if l == c.cfg.Self || b <= Ballot(c.own[wordAcked]) || c.withheld.Has(l) {
		return false
	}
	var p proposal
	there, err := c.read(l, c.cfg.Columns.proposals, b, &p)
	if !there {
		return false
	}
	if err == nil {
		err = c.check(b, l, p.View, p.Removed, p.Left)
	}
	if err != nil {
		c.violated(l, "V7", "proposes what cannot be: %v", err)
		return true
	}
	if ranksOf(p.Left).Has(c.cfg.Self) && c.own[wordLeaving] == 0 {
		c.violated(l, "V7", "proposes that rank %d leaves, which does not want to", c.cfg.Self)
		return true
	}
	if ranksOf(p.Removed).Has(c.cfg.Self) && c.done == nil {
		c.err = fmt.Errorf("%w: node %d (rank %d) proposes view %d without this member", ErrEvicted, c.cfg.View.Members[l].ID, l, c.cfg.View.ID+1)
		return true
	}
	c.ack(b)
	return true
}

// ack promises to accept no decision of a lower ballot.
func (c *Change) ack(b Ballot) {
	if !(mutant.Enabled && mutant.On(mutant.AckUnwedged)) {
		c.wedge()
	}
	set(c, wordAcked, b)
	c.publish()
}

// echo accepts the decision of the ballot that was acked last from the member that leads it.
func (c *Change) echo() bool {
	b := Ballot(c.own[wordAcked])
	l := b.Leader()
	if b == 0 || b <= Ballot(c.own[wordDecided]) || l == c.cfg.Self || c.Suspected().Has(l) || wordDecided.Load(c.lines[l]) != b {
		return false
	}
	if c.recording != nil && c.recording.Ballot == b { // it was read and checked before it was recorded
		return !c.unrecorded(b) && c.decides(b, c.recording) // Recorded asks for the next look
	}
	var d Decision
	there, err := c.read(l, c.cfg.Columns.decisions, b, &d)
	if !there {
		return false
	}
	if err == nil {
		err = c.checkDecision(b, l, &d)
	}
	if errors.Is(err, errTakesBack) {
		c.takenBack(l, &d, err)
		return true
	}
	if err != nil {
		c.violated(l, "V7", "decides what cannot be: %v", err)
		return true
	}
	if ranksOf(d.Removed).Has(c.cfg.Self) && c.done == nil {
		c.err = fmt.Errorf("%w: view %d was decided without this member", ErrEvicted, c.cfg.View.ID+1)
		return true
	}
	return c.decides(b, &d)
}

// decides puts a decision into the own row, once it is durable.
func (c *Change) decides(b Ballot, d *Decision) bool {
	d.Ballot = b
	if c.cfg.Record != nil {
		if c.recording == nil || c.recording.Ballot != b {
			c.recording = d
			c.cfg.Record(b, d)
		}
		if c.unrecorded(b) { // V10
			return false
		}
		d = c.recording
	}
	n, ok := putRecord(c.area(c.cfg.Self, c.cfg.Columns.decisions), b, d.fields())
	if !ok {
		panic("viewchange: the decision does not fit its area") // propose and checkDecision made sure
	}
	c.pushRecord(c.cfg.Columns.decisions, n)
	set(c, wordDecided, b)
	c.publish()
	c.decision = d
	c.emit(Decided{Ballot: b, Decision: d})
	return true
}

// unrecorded reports whether the decision of a ballot is on its way to the disk.
func (c *Change) unrecorded(b Ballot) bool {
	return c.recording != nil && c.recording.Ballot == b && c.recorded < b && !(mutant.Enabled && mutant.On(mutant.EchoUnrecorded))
}

// complete finds out whether the decision here is final: every member that goes on and is not
// suspected has echoed the decision, and these members are a quorum; or another member knows that
// the decision is final.
func (c *Change) complete() bool {
	if c.decision == nil || !c.chosen() {
		return false
	}
	c.done = c.decision
	set(c, wordInstalled, Ballot(c.own[wordDecided]))
	c.publish()
	return true
}

func (c *Change) chosen() bool {
	if mutant.Enabled && mutant.On(mutant.NoEchoQuorum) {
		return true
	}
	var echoed Ranks
	for r, line := range c.lines {
		final, err := c.final(order.Rank(r))
		if err != nil {
			c.violated(order.Rank(r), "V6", "%v", err)
			continue
		}
		if final != 0 && final <= Ballot(c.own[wordDecided]) {
			return true // it was chosen then, and every later ballot has the same one
		}
		if wordDecided.Load(line) == Ballot(c.own[wordDecided]) {
			echoed |= only(order.Rank(r))
		}
	}
	await := all(c.n) &^ ranksOf(c.decision.Removed) &^ c.Suspected() &^ echoed
	return await == 0 && c.quorum(echoed)
}

// final returns the ballot of which a member knows that it is final, or what is wrong with that:
// the row has to have its decision, or a later one. 0: it knows of none.
func (c *Change) final(r order.Rank) (b Ballot, err error) {
	b = wordInstalled.Load(c.lines[r])
	decided := wordDecided.Load(c.lines[r]) // which was stored before
	if b != 0 && (b > decided || b.Attempt() == 0 || int(b.Leader()) >= c.n) {
		return 0, fmt.Errorf("knows that ballot %d is final, and its decision is %d", b, decided)
	}
	return b, nil
}

// Restless reports whether the next step has something to look at that is here already.
func (c *Change) Restless() bool { return c.asked && c.err == nil }
