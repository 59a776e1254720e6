package viewchange

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/simnet"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// rogue runs a court of four members that is asked for a change, in which one member breaks the
// rules. The other three go on without it.
func rogue(t *testing.T, who int, prepare func(c *court, its *Change)) {
	t.Helper()
	c := newCourt(t, 3, 4, simnet.Framed)
	c.changes[0].Join([]views.Member{{ID: 300, Addr: "late:1"}})
	prepare(c, c.changes[who])
	if !c.settle(c.over) {
		t.Fatal("no end")
	}
	if err := c.judge(); err != nil {
		t.Fatal(err)
	}
	for r, ch := range c.changes {
		if r == who {
			continue
		}
		if d := ch.Done(); d == nil || !ranksOf(d.Removed).Has(order.Rank(who)) || !errors.Is(ch.Cause(order.Rank(who)), fabric.ErrViolation) && !errors.Is(ch.Cause(order.Rank(who)), ErrAccused) {
			t.Errorf("rank %d: %+v, stopped: %v, suspects the rogue because of: %v", r, d, ch.Err(), ch.Cause(order.Rank(who)))
		}
	}
}

// A member that acks without having said what it has would be waited for for ever.
func TestWhoAcksWithoutVectorsIsFoundOut(t *testing.T) {
	rogue(t, 3, func(_ *court, its *Change) { its.wedged = true })
}

// A decision may be short where it was written, and too long for the row of a member that echoes
// it.
func TestADecisionThatCannotBeCopiedIsRefused(t *testing.T) {
	rogue(t, 0, func(c *court, its *Change) {
		for range 10000 {
			if c.acks(its.nextAt) == 3 {
				break
			}
			c.step()
		}
		d := &Decision{View: c.place(c.view, append(its.members(all(4).List()), brackets(10)...)), Trim: [][]order.Index{make([]order.Index, 4)}}
		d.View.Muted = make([]uint64, len(d.View.Members))
		its.writes(t, d)
		c.dead[0] = true // it does nothing else
	})
}

// acks counts the followers of the leader that acked a ballot, before it can know.
func (c *court) acks(b Ballot) (n int) {
	for _, ch := range c.changes[1:] {
		if b != 0 && Ballot(ch.own[wordAcked]) == b {
			n++
		}
	}
	return n
}

// brackets are members whose records are six times as long in the JSON that is made here.
func brackets(n int) (list []views.Member) {
	text := strings.Repeat("<", 250)
	for i := range n {
		list = append(list, views.Member{ID: order.NodeID(500 + i), Incarnation: 1, Addr: fmt.Sprint(text, i), Host: text, SHM: text})
	}
	return list
}

// writes puts a decision into the own row in a way that no correct member would.
func (c *Change) writes(t *testing.T, d *Decision) {
	t.Helper()
	area := c.area(c.cfg.Self, c.cfg.Columns.decisions)
	long := make([]byte, 1<<20)
	n, _ := putRecord(long, c.nextAt, d)
	short := strings.ReplaceAll(string(long[recordHeaderBytes:n]), `\u003c`, "<")
	if n <= len(area) || recordHeaderBytes+len(short) > len(area) {
		t.Fatalf("%d and %d bytes, there is room for %d", n, len(short), len(area))
	}
	c.pushRecord(c.cfg.Columns.decisions, putText(area, c.nextAt, []byte(short)))
	set(c, wordDecided, c.nextAt)
	c.publish()
	c.table.Flush()
}

func TestAnEmptyVectorIsNone(t *testing.T) {
	trim := []order.Index{5, 6}
	if got := fmt.Sprint(least(trim, []order.Index{}), least([]order.Index{}, trim), least(nil, trim)); got != "[5 6] [5 6] [5 6]" {
		t.Error(got)
	}
}

// A ballot of which no higher one could be made would end every change that comes after it.
func TestABallotThatIsFarAheadIsFoundOut(t *testing.T) {
	for name, acked := range map[string]Ballot{"the last attempt": ^Ballot(0)&^0xff | 2, "far ahead": newBallot(2*maxLead, 1)} {
		t.Run(name, func(t *testing.T) {
			rogue(t, 3, func(c *court, its *Change) {
				wordAcked.Store(its.own, acked)
				its.publish()
				its.table.Flush()
				c.dead[3] = true // it does nothing else
				c.now += time.Millisecond
			})
		})
	}
}

// A row that goes on changing does not keep its readers from their other work.
func TestAStepIsBounded(t *testing.T) {
	c := newCourt(t, 3, 4, simnet.Shared)
	c.changes[0].Join([]views.Member{{ID: 300, Addr: "late:1"}})
	c.changes[0].cfg.OnEvent = func(Event) { // whatever happens, rank 3 is ahead
		wordAcked.Store(c.changes[3].own, newBallot(Ballot(c.changes[0].own[wordProposed]).Attempt()+1, 2))
	}
	if work := c.changes[0].Step(); work > maxMoves || !c.changes[0].Restless() {
		t.Errorf("%d moves in a step", work)
	}
}

// A decision that a member could not deliver is the leader's fault, and not the fault of the
// members that would have to halt.
func TestATrimBeyondWhatIsHereIsRefused(t *testing.T) {
	rogue(t, 0, func(c *court, its *Change) { falsely(c, its, func(d *Decision) { d.Trim[0][1] = 1 << 60 }) })
}

// A member that has less at the end of a view than it told before would have the others give up
// what they delivered.
func TestWhoHasLessThanItToldIsFoundOut(t *testing.T) {
	rogue(t, 3, func(c *court, _ *Change) { c.told[3] = []order.Index{0, 0, 0, c.have[3][3] + 1} })
}

// The leader of a decision that takes back what was stable has made the trims up, unless some
// member's vectors explain them.
func TestATrimBelowWhatWasStableIsRefused(t *testing.T) {
	rogue(t, 0, func(c *court, its *Change) {
		for r := range c.told {
			c.told[r] = []order.Index{0, 1, 0, 0}
			c.have[r][1] += 1
		}
		falsely(c, its, func(d *Decision) { d.Trim[0][1] = 0 })
	})
}

// A member for which alone a decision takes something back, and which cannot say by whose fault,
// stops: others may have installed it. It does not suspect the members that copied the decision.
func TestAMemberThatCannotFollowADecisionStopsAlone(t *testing.T) {
	c := newCourt(t, 3, 5, simnet.Framed)
	c.changes[0].Join([]views.Member{{ID: 300, Addr: "late:1"}})
	for r := range c.have {
		c.have[r][1] = 5
	}
	its := c.changes[0]
	for range 10000 {
		if c.acks(its.nextAt) == 4 {
			break
		}
		c.step()
	}
	c.told[4] = []order.Index{0, 1, 0, 0, 0}
	d := &Decision{View: its.proposal.View, Trim: [][]order.Index{make([]order.Index, 5)}}
	its.decides(its.nextAt, d)
	its.table.Flush()
	c.dead[0] = true
	for range 1000 { // three members copy it, and rank 4 cannot
		c.now += 10 * time.Microsecond
		for r := range 3 {
			c.look(1 + r)
		}
	}
	if !c.settle(c.over) {
		t.Fatal("no end")
	}
	for _, r := range []int{1, 2, 3} {
		if ch := c.changes[r]; ch.Err() != nil || ch.Done() == nil || (ch.Suspected()&^ranksOf(ranks(0, 4))) != 0 {
			t.Errorf("rank %d: %+v, stopped: %v, suspects %b", r, ch.Done(), ch.Err(), ch.Suspected())
		}
	}
	if err := c.changes[4].Err(); !errors.Is(err, ErrEvicted) || !errors.Is(err, errTakesBack) {
		t.Errorf("rank 4 stopped: %v", err)
	}
}

// B10: the clocks of a view begin with its time.
func TestAViewThatBeginsFarAheadIsRefused(t *testing.T) {
	rogue(t, 0, func(_ *court, its *Change) {
		next := its.cfg.Next
		its.cfg.Next = func(members []views.Member, mute func(order.NodeID, int) bool) (*views.View, error) {
			v, err := next(members, mute)
			v.Time = latest + 1
			return v, err
		}
	})
}

func TestNobodyLeavesWhoDoesNotWantTo(t *testing.T) {
	rogue(t, 0, func(c *court, its *Change) {
		falsely(c, its, func(d *Decision) {
			d.View, d.Left = c.place(c.view, append(its.members(ranks(0, 1, 3)), views.Member{ID: 300, Addr: "late:1"})), ranks(2)
			d.View.Muted = make([]uint64, 4)
		})
		// Only rank 2 can know. A member that copies the decision before it hears of that is taken
		// for another rogue.
		for range 1000 {
			c.now += 10 * time.Microsecond
			c.look(2)
		}
	})
}

// falsely has the leader decide something else than it should, and nothing more.
func falsely(c *court, its *Change, wrong func(*Decision)) {
	for range 10000 {
		if c.acks(its.nextAt) == 3 {
			break
		}
		c.step()
	}
	d := &Decision{View: its.proposal.View, Trim: [][]order.Index{make([]order.Index, 4)}}
	wrong(d)
	its.decides(its.nextAt, d)
	its.table.Flush()
	c.dead[0] = true
}

// A member that suspects a majority would stop by itself if it were honest (G5). A member that
// publishes such suspicions and goes on removes itself and stops no other member.
func TestWhoAccusesAMajorityRemovesItself(t *testing.T) {
	for name, accused := range map[string][]order.Rank{
		"all others":            ranks(0, 1, 2),
		"half, with rank 0":     ranks(0, 1),
		"all others and itself": ranks(0, 1, 2, 3),
	} {
		t.Run(name, func(t *testing.T) {
			rogue(t, 3, func(c *court, its *Change) {
				its.suspect = ranksOf(accused)
				set(its, wordSuspected, its.suspect)
				its.publish()
				its.table.Flush()
				c.dead[3] = true // it does nothing else
			})
		})
	}
}

// Nor does it help to say that the view is over, in a way that cannot be.
func TestWhoAccusesAMajorityAndKnowsOfNoDecisionRemovesItself(t *testing.T) {
	rogue(t, 3, func(c *court, its *Change) {
		its.suspect = ranksOf(ranks(0, 1, 2))
		set(its, wordSuspected, its.suspect)
		set(its, wordInstalled, newBallot(1, 0))
		its.publish()
		its.table.Flush()
		c.dead[3] = true
	})
}

// A leader that proposes a view without a majority removes itself.
func TestALeaderThatRemovesAMajorityIsRefused(t *testing.T) {
	rogue(t, 0, func(c *court, its *Change) {
		next := c.place(c.view, its.members(ranks(0)))
		next.Follow(c.view)
		next.Muted = []uint64{0}
		its.proposal, its.nextAt = &proposal{View: next, Removed: ranks(1, 2, 3)}, newBallot(1, 0)
		n, _ := putRecord(its.area(0, its.cfg.Columns.proposals), its.nextAt, its.proposal)
		its.pushRecord(its.cfg.Columns.proposals, n)
		set(its, wordProposed, its.nextAt)
		its.publish()
		its.table.Flush()
		c.dead[0] = true
	})
}

// If a member claims that a ballot is final, but the ballot is impossible or the member has no
// decision of it, no other member installs the view before a quorum has the decision.
func TestABallotThatCannotBeIsNotFinal(t *testing.T) {
	for name, said := range map[string]Ballot{"no attempt": 3, "a rank beyond the view": 200, "no decision": newBallot(1, 0)} {
		t.Run(name, func(t *testing.T) {
			c := newCourt(t, 3, 4, simnet.Framed)
			c.changes[0].Join([]views.Member{{ID: 300, Addr: "late:1"}})
			its := c.changes[3]
			for range 10000 {
				if its.own[wordAcked] != 0 {
					break
				}
				c.step()
			}
			set(its, wordInstalled, said)
			its.publish()
			its.table.Flush()
			c.dead[3] = true // it does nothing else
			suspected := func() bool {
				for _, ch := range c.changes[:3] {
					if !ch.Suspected().Has(3) {
						return false
					}
				}
				return true
			}
			for range 20000 {
				if suspected() {
					break
				}
				for r, ch := range c.changes[:3] {
					if ch.Done() != nil && c.echoes(ch) < 3 {
						t.Fatalf("rank %d goes on, and %d of 4 have its decision", r, c.echoes(ch))
					}
				}
				c.step()
			}
			for r, ch := range c.changes[:3] {
				if !errors.Is(ch.Cause(3), fabric.ErrViolation) && !errors.Is(ch.Cause(3), ErrAccused) {
					t.Errorf("rank %d suspects it because of: %v", r, ch.Cause(3))
				}
			}
		})
	}
}

// echoes counts the members that have a member's decision in their rows.
func (c *court) echoes(of *Change) (n int) {
	for _, ch := range c.changes {
		if ch.own[wordDecided] == of.own[wordDecided] {
			n++
		}
	}
	return n
}
