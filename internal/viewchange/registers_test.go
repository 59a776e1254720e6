package viewchange

import (
	"errors"
	"slices"
	"testing"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/simnet"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// Rows are written by hand here, and one rule of one member is looked at.

// registers are members whose rows are seen at once.
func registers(t *testing.T, n int) *court {
	t.Helper()
	return newCourt(t, 11, n, simnet.Shared)
}

// proposes writes a proposal into a row, as its owner would.
func (c *court) proposes(r int, b Ballot, p *proposal) {
	c.t.Helper()
	ch := c.changes[r]
	if _, ok := putRecord(ch.area(order.Rank(r), ch.cfg.Columns.proposals), b, p); !ok {
		c.t.Fatal("the proposal does not fit")
	}
	wordProposed.Store(ch.own, b)
}

// decided writes a decision into a row, as its owner would.
func (c *court) decided(r int, b Ballot, d *Decision) {
	c.t.Helper()
	ch := c.changes[r]
	d.Ballot = b
	if _, ok := putRecord(ch.area(order.Rank(r), ch.cfg.Columns.decisions), b, d); !ok {
		c.t.Fatal("the decision does not fit")
	}
	wordDecided.Store(ch.own, b)
	ch.decision = d
}

// without is the next view without some members.
func (c *court) without(gone ...order.Rank) *views.View {
	v := c.place(c.view, c.changes[0].members((all(len(c.changes)) &^ ranksOf(gone)).List()))
	v.Muted = make([]uint64, len(v.Members))
	return v
}

// decision removes some members, and trims everything away.
func (c *court) decision(removed ...order.Rank) *Decision {
	return &Decision{View: c.without(removed...), Removed: removed, Trim: [][]order.Index{make([]order.Index, len(c.changes))}}
}

// V8: a decision of a lower ballot is known to be chosen when a decision of the same or a lower one
// was. Of a higher one it may be another decision.
func TestWhatIsInstalledWithAHigherBallotSaysNothingOfALowerOne(t *testing.T) {
	c := registers(t, 5)
	b := newBallot(1, 0)
	c.decided(1, b, c.decision(0))
	for installed, want := range map[Ballot]bool{newBallot(2, 2): false, b: true} {
		wordDecided.Store(c.changes[2].own, installed) // no ballot is final without its decision
		wordInstalled.Store(c.changes[2].own, installed)
		if got := c.changes[1].chosen(); got != want {
			t.Errorf("ballot %v is installed elsewhere, and %v is chosen: %v", installed, b, got)
		}
	}
}

// A member that suspects its leader, and may not say so, does not follow it.
func TestALeaderThatIsLostIsNotFollowed(t *testing.T) {
	c := registers(t, 3)
	c.proposes(0, newBallot(1, 0), &proposal{View: c.without(2), Removed: ranks(2)})
	ch := c.changes[1]
	ch.withheld = only(0)
	if ch.follow() || ch.own[wordAcked] != 0 || ch.Wedged() {
		t.Errorf("acked %v", Ballot(ch.own[wordAcked]))
	}
	if ch.withheld = 0; !ch.follow() || ch.own[wordAcked] == 0 {
		t.Error("a leader that is not lost is not followed")
	}
}

// A member that is to be removed stops at the proposal: the leader's suspicion need not be in its
// row yet.
func TestWhoIsProposedToBeRemovedStops(t *testing.T) {
	c := registers(t, 3)
	c.proposes(0, newBallot(1, 0), &proposal{View: c.without(1), Removed: ranks(1)})
	ch := c.changes[1]
	if !ch.follow() || !errors.Is(ch.Err(), ErrEvicted) || ch.own[wordAcked] != 0 {
		t.Errorf("acked %v, %v", Ballot(ch.own[wordAcked]), ch.Err())
	}
}

func TestWhoIsProposedToLeaveAndDoesNotWantToSuspectsTheLeader(t *testing.T) {
	c := registers(t, 3)
	c.proposes(0, newBallot(1, 0), &proposal{View: c.without(1), Left: ranks(1)})
	ch := c.changes[1]
	if !ch.follow() || ch.own[wordAcked] != 0 || !errors.Is(ch.reports[0], fabric.ErrViolation) {
		t.Errorf("acked %v, reported %v", Ballot(ch.own[wordAcked]), ch.reports[0])
	}
}

// The choice of the leader depends on which members leave, so a member does not announce that it
// leaves once it is wedged.
func TestNothingIsAskedOfTheNextViewAfterTheWedge(t *testing.T) {
	c := registers(t, 3)
	ch := c.changes[1]
	ch.ask()
	ch.wedge()
	ch.Leave()
	ch.Mute(1)
	if before := ch.own[wordMute]; ch.ask() || ch.own[wordLeaving] != 0 || ch.own[wordMute] != before {
		t.Errorf("asked: leaving %d, mute %x", ch.own[wordLeaving], ch.own[wordMute])
	}
}

// What a member had to keep to itself it says when it goes on: the next leader must not wait for
// it.
func TestWhoGoesOnOwnsUpToWhatItSuspects(t *testing.T) {
	c := registers(t, 3)
	ch := c.changes[0]
	ch.withheld, ch.causes[1], ch.causes[2] = ranksOf(ranks(1, 2)), errors.New("silent"), errors.New("silent")
	ch.done = c.decision(1) // rank 0 is a quorum of the next view without rank 2
	if !ch.advance() || ch.suspect != ranksOf(ranks(1, 2)) || Ranks(ch.own[wordSuspected]) != ch.suspect || !ch.table.Frozen(1) {
		t.Errorf("suspects %b, says %b", ch.suspect, ch.own[wordSuspected])
	}
}

// V13: a member that is done with a view and has lost a quorum of the next one, too, halts there.
// It may be cut off, and its row of the view that is over may reach the others later: it accuses
// none of them.
func TestAMemberThatLosesTheNextViewTooAccusesNoMember(t *testing.T) {
	for name, next := range map[string]func(*court) *Decision{
		"it is in the next view": func(c *court) *Decision { return c.decision(4) },
		"it has left":            func(c *court) *Decision { return c.decision(0, 4) },
		"all have left":          func(c *court) *Decision { return &Decision{} },
	} {
		for when, lose := range map[string]func(*Change){
			"before": func(ch *Change) { ch.withheld |= ranksOf(ranks(1, 2, 3)) },
			"after": func(ch *Change) {
				for r := order.Rank(1); r < 4; r++ {
					ch.Report(r, errors.New("silent"))
				}
			},
		} {
			t.Run(name+", lost "+when, func(t *testing.T) {
				c := registers(t, 5)
				ch := c.changes[0]
				ch.done = next(c)
				lose(ch)
				for range maxMoves {
					if !ch.advance() {
						break
					}
				}
				if ch.own[wordSuspected] != 0 || ch.suspect != 0 || ch.table.Frozen(1) || ch.Suspected() != ranksOf(ranks(1, 2, 3)) {
					t.Errorf("suspects %b, says %b", ch.Suspected(), ch.own[wordSuspected])
				}
			})
		}
	}
}

// A survivor of the proposal that fails after the decision is removed by the next change: the
// decision stands.
func TestALeaderThatDecidedDoesNotProposeAnew(t *testing.T) {
	c := registers(t, 5)
	c.changes[0].Report(4, errors.New("silent"))
	c.look(0)
	first := c.changes[0].nextAt
	for range 20 {
		for r := range 4 {
			if c.changes[0].own[wordDecided] == 0 {
				c.look(r)
			}
		}
	}
	c.changes[0].Report(3, errors.New("silent"))
	c.look(0)
	if ch := c.changes[0]; first == 0 || Ballot(ch.own[wordDecided]) != first || ch.nextAt != first || Ballot(ch.own[wordProposed]) != first {
		t.Errorf("first %v, decided %v, proposed %v", first, Ballot(ch.own[wordDecided]), Ballot(ch.own[wordProposed]))
	}
}

// V8: of the decisions that are found, that of the highest ballot is taken over.
func TestTheDecisionOfTheHighestBallotIsTakenOver(t *testing.T) {
	for _, high := range []int{1, 2} {
		c := registers(t, 5)
		want := c.decision(3)
		c.decided(high, newBallot(2, 1), want)
		c.decided(3-high, newBallot(1, 0), c.decision(4))
		got, ok := c.changes[0].adopted()
		if !ok || got == nil || !slices.Equal(got.Removed, want.Removed) || got.Ballot != want.Ballot {
			t.Errorf("the higher one is in row %d: %+v", high, got)
		}
	}
}

// A leader that takes over may find that it was removed.
func TestALeaderThatFindsADecisionWithoutItselfStops(t *testing.T) {
	c := registers(t, 5)
	c.decided(2, newBallot(1, 2), c.decision(0))
	ch := c.changes[0]
	ch.proposal, ch.nextAt = &proposal{View: c.without()}, newBallot(2, 0)
	if !ch.decide() || !errors.Is(ch.Err(), ErrEvicted) || ch.own[wordDecided] != 0 {
		t.Errorf("decided %v, %v", Ballot(ch.own[wordDecided]), ch.Err())
	}
}

func TestADecisionWithoutThisMemberIsNotEchoed(t *testing.T) {
	c := registers(t, 5)
	b := newBallot(1, 0)
	c.decided(0, b, c.decision(1))
	ch := c.changes[1]
	ch.ack(b)
	if !ch.echo() || !errors.Is(ch.Err(), ErrEvicted) || ch.own[wordDecided] != 0 {
		t.Errorf("decided %v, %v", Ballot(ch.own[wordDecided]), ch.Err())
	}
}

// A leaver does not lead as long as another member stays.
func TestWhoLeavesLeadsOnlyIfAllDo(t *testing.T) {
	c := registers(t, 3)
	leaves := func(r int) { wordLeaving.Store(c.changes[r].own, 1) }
	ch := c.changes[2]
	for k, want := range []order.Rank{0, 1, 2, 0} {
		if got := ch.Leader(); got != want {
			t.Errorf("%d leave: rank %d leads, not %d", k, got, want)
		}
		if k < 3 {
			leaves(k)
		}
	}
	ch.suspect = only(0)
	if got := ch.Leader(); got != 1 {
		t.Errorf("all leave, rank 0 failed: rank %d leads", got)
	}
}

// Another process of a node has nothing of what the one before had.
func TestAnotherProcessOfANodeIsFresh(t *testing.T) {
	c := registers(t, 3)
	list := slices.Clone(c.view.Members)
	list[1].Incarnation++
	fresh := func(members []views.Member) []order.Rank {
		v := c.place(c.view, members)
		v.TakeOver(c.view, nil)
		return v.Subgroups[0].Fresh
	}
	if got := fresh(list); !slices.Equal(got, ranks(1)) {
		t.Errorf("fresh are %v", got)
	}
	if got := fresh(c.view.Members); got != nil {
		t.Errorf("no member is another process, and fresh are %v", got)
	}
}

// V7: vectors are about the view's subgroups, and about all senders of each.
func TestVectorsOfAnotherLengthAreRefused(t *testing.T) {
	c := registers(t, 3)
	ch := c.changes[0]
	for name, here := range map[string][][]order.Index{
		"no subgroup":   {},
		"two subgroups": {make([]order.Index, 3), make([]order.Index, 3)},
		"no sender":     {nil},
		"two senders":   {make([]order.Index, 2)},
		"four senders":  {make([]order.Index, 4)},
	} {
		if ch.checkVectors(1, here) == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if err := ch.checkVectors(1, [][]order.Index{make([]order.Index, 3)}); err != nil {
		t.Error(err)
	}
	if _, ok := putRecord(c.changes[1].area(1, ch.cfg.Columns.vectors), vectorsBallot, vectors{[][]order.Index{make([]order.Index, 2)}}); !ok {
		t.Fatal("the vectors do not fit")
	}
	ch.wedge()
	ch.proposal = &proposal{View: c.without(2), Removed: ranks(2)}
	if d := ch.compute(); d != nil || !errors.Is(ch.reports[1], fabric.ErrViolation) {
		t.Errorf("decided %+v, reported %v", d, ch.reports[1])
	}
}

// A decision that all remaining members echo is chosen only if these members are a quorum:
// otherwise the failed ones may decide differently.
func TestADecisionIsNotChosenByTheFewWhoAreLeft(t *testing.T) {
	c := registers(t, 5)
	b := newBallot(1, 0)
	ch := c.changes[0]
	for r := range 3 {
		c.decided(r, b, c.decision())
	}
	ch.withheld = ranksOf(ranks(2, 3, 4))
	wordDecided.Store(c.changes[2].own, 0)
	if ch.chosen() {
		t.Error("chosen by two of five")
	}
	wordDecided.Store(c.changes[2].own, b)
	if !ch.chosen() {
		t.Error("not chosen, though three of five have it, and no other member is left")
	}
}

// V10: each decision is recorded for itself. One of an earlier ballot that is on disk says nothing
// of a later one.
func TestADecisionOfEachBallotIsRecorded(t *testing.T) {
	c := registers(t, 3)
	ch := c.changes[0]
	var asked []Ballot
	ch.cfg.Record = func(b Ballot, _ *Decision) { asked = append(asked, b) }
	first, second := newBallot(1, 0), newBallot(2, 0)
	for _, b := range []Ballot{first, first, second} {
		if ch.decides(b, c.decision()) || ch.own[wordDecided] != 0 {
			t.Fatalf("ballot %v is decided, and not on disk", b)
		}
		if b == second {
			break
		}
	}
	ch.Recorded(first)
	if ch.decides(second, c.decision()) || !slices.Equal(asked, []Ballot{first, second}) {
		t.Fatalf("recorded: %v", asked)
	}
	ch.Recorded(second)
	if !ch.decides(second, c.decision()) || Ballot(ch.own[wordDecided]) != second {
		t.Errorf("ballot %v is on disk, and %v is decided", second, Ballot(ch.own[wordDecided]))
	}
}

// A new leader takes over what it finds in the rows of others. What cannot be a decision is its
// owner's fault.
func TestWhatCannotBeADecisionIsNotAdopted(t *testing.T) {
	for name, spoil := range map[string]func(*Decision){
		"another cluster": func(d *Decision) { d.View.Cluster = "elsewhere" },
		"no trim":         func(d *Decision) { d.Trim = nil },
		"beyond the end":  func(d *Decision) { d.Trim[0][1] = 1 << 40 },
	} {
		t.Run(name, func(t *testing.T) {
			c := registers(t, 4)
			d := c.decision(3)
			spoil(d)
			c.decided(2, newBallot(1, 3), d)
			ch := c.changes[0]
			ch.wedge()
			if found, ok := ch.adopted(); ok || found != nil || !errors.Is(ch.reports[2], fabric.ErrViolation) {
				t.Errorf("adopted %+v, reported: %v", found, ch.reports[2])
			}
		})
	}
}

// The row of a view is needed until all members that took part in its end are done. A member that
// failed meanwhile is not waited for, unless its suspicion was not published: it may be there.
// A member that is done with a view accuses no member that suspects it there: another one that is
// not done yet would believe both.
func TestAMemberThatIsDoneAccusesNoAccuser(t *testing.T) {
	c := registers(t, 4)
	ch := c.changes[0]
	ch.done = c.decision(3)
	wordSuspected.Store(c.changes[1].own, 1)
	wordInstalled.Store(c.changes[2].own, newBallot(1, 0))
	ch.Report(1, errors.New("connection lost"))
	for range maxMoves {
		if !ch.advance() {
			break
		}
	}
	if ch.Suspected() != 0 || ch.own[wordSuspected] != 0 || ch.Err() != nil {
		t.Errorf("suspects %b, says %b: %v", ch.Suspected(), ch.own[wordSuspected], ch.Err())
	}
	if !ch.Through() {
		t.Error("not through: it waits for a member that ended the connection")
	}
	ch.Report(2, errors.New("connection lost"))
	if ch.advance(); ch.suspect != only(2) {
		t.Errorf("suspects %b after a member that does not suspect it failed", ch.suspect)
	}
	ch.Report(1, fabric.ErrViolation)
	if ch.advance(); ch.suspect != ranksOf(ranks(1, 2)) {
		t.Errorf("suspects %b after its accuser broke the protocol", ch.suspect)
	}
}

func TestAViewIsThroughWhenAllAreWhoLive(t *testing.T) {
	c := registers(t, 4)
	ch := c.changes[0]
	if ch.Through() {
		t.Fatal("through, and nothing is decided")
	}
	ch.done = c.decision(3)
	wordInstalled.Store(c.changes[1].own, newBallot(1, 0))
	if ch.Through() {
		t.Error("through, and rank 2 is not")
	}
	if ch.suspect = only(2); !ch.Through() {
		t.Error("not through: it waits for a member that failed")
	}
	if ch.suspect, ch.withheld = 0, only(2); ch.Through() {
		t.Error("through, and rank 2, which was not told that it is suspected, is not")
	}
	if ch.done = c.decision(0, 3); !ch.Through() {
		t.Error("a member that has left waits for a member that it lost")
	}
}

// A record is written while others read it: only one that is whole is read.
func TestARecordThatIsNotWholeIsNotRead(t *testing.T) {
	area := make([]byte, 64)
	text := []byte("a record")
	n := putText(area, 7, text)
	if got, ok := recordText(area, 7); !ok || string(got) != string(text) {
		t.Fatalf("read %q", got)
	}
	for at := 8; at < n; at++ { // behind the ballot
		area[at] ^= 4
		if got, ok := recordText(area, 7); ok {
			t.Errorf("byte %d is another one, and %q is read", at, got)
		}
		area[at] ^= 4
	}
	if _, ok := recordText(area, 8); ok {
		t.Error("read as that of another ballot")
	}
}
