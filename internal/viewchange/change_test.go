package viewchange

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/simnet"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/sst"
	"github.com/squall-go/squall/views"
)

// court is a view whose members are steps of their Changes and nothing else: the subgroup's
// messages are vectors that were drawn.
type court struct {
	t       *testing.T
	random  *rand.Rand
	net     *simnet.Net
	now     time.Duration
	view    *views.View
	changes []*Change
	rounds  []*Rounds
	within  func(r int)     // is called in each step of a member, before its change looks
	have    [][]order.Index // by rank: what it has when it is wedged
	told    [][]order.Index // by rank: what it told before that
	dead    []bool
}

// latest is the latest time of a view in a court.
const latest order.Time = 1000

func newCourt(t *testing.T, seed uint64, n int, kinds ...simnet.Kind) *court {
	c := &court{t: t, random: rand.New(rand.NewPCG(seed, 7)), dead: make([]bool, n)}
	var members []views.Member
	for i := range n {
		members = append(members, views.Member{ID: order.NodeID(90 - 7*i), Addr: fmt.Sprintf("node-%d:1", i), Incarnation: 1})
	}
	c.view = c.place(nil, members)
	layout := sst.NewLayout(n)
	columns, rounds := Declare(layout, c.view), DeclareRounds(layout, c.view)
	var ends []simnet.Endpoint
	for r, m := range members {
		ends = append(ends, simnet.Endpoint{ID: m.ID, Shape: layout.Shape(order.Rank(r))})
	}
	const us = time.Microsecond
	delay := simnet.Delay{Base: us, Jitter: 30 * us, Tail: 300 * us, TailEvery: 10}
	if len(kinds) == 0 {
		kinds = []simnet.Kind{simnet.Framed, simnet.Framed, simnet.Seeping, simnet.Shared} // only Framed pairs can be cut
	}
	kind := kinds[c.random.IntN(len(kinds))]
	c.net = simnet.New(seed, simnet.Options{
		Delay: func(_, _ order.NodeID) simnet.Delay { return delay }, NoticeAfter: 100 * us, PieceBytes: []int{0, 64}[c.random.IntN(2)],
		Kind: func(_, _ order.NodeID) simnet.Kind { return kind },
	})
	for r, rows := range c.net.Open(ends) {
		table, err := sst.NewTable(layout, rows)
		if err != nil {
			t.Fatal(err)
		}
		var have []order.Index
		for range n {
			have = append(have, order.Index(c.random.IntN(50)))
		}
		c.have, c.told = append(c.have, have), append(c.told, make([]order.Index, n))
		change := NewChange(Config{
			View: c.view, Self: order.Rank(r), Table: table, Columns: columns,
			Wedge:  func() [][]order.Index { return [][]order.Index{have} },
			Told:   func(_ int, r order.Rank) []order.Index { return c.told[r] },
			Latest: func() (order.Time, bool) { return latest, true },
			Next: func(members []views.Member, _ func(order.NodeID, int) bool) (*views.View, error) {
				return c.place(c.view, members), nil
			},
		})
		own := NewRounds(change, rounds)
		table.OnMove(func(r order.Rank) {
			change.Rebind(r)
			own.Rebind(r)
		})
		c.changes, c.rounds = append(c.changes, change), append(c.rounds, own)
	}
	return c
}

func (c *court) place(previous *views.View, members []views.Member) *views.View {
	p := views.Placement{
		ID: 1, Cluster: "court", Key: "one", Members: members, Previous: previous,
		Declarations: []views.Declaration{{Name: "all", RingBytes: views.MinRingBytes, Window: views.MinWindow}},
	}
	if previous != nil {
		p.ID, p.Key = 2, fmt.Sprint("key ", c.random.Uint64())
	}
	v, _, err := views.Place(p)
	if err != nil {
		c.t.Fatal(err)
	}
	return v
}

// step lets a random member look.
func (c *court) step() {
	c.now += time.Duration(c.random.IntN(int(20 * time.Microsecond)))
	c.look(c.random.IntN(len(c.changes)))
}

// look is one step of a member.
func (c *court) look(r int) {
	c.net.Advance(c.now)
	if c.dead[r] || c.changes[r].Err() != nil {
		return
	}
	ch := c.changes[r]
	ch.table.Poll()
	for _, f := range ch.table.Failures() {
		ch.Report(f.Rank, f.Err)
	}
	if c.within != nil {
		c.within(r)
	}
	ch.Step()
	ch.table.Flush()
	if ch.Err() != nil {
		ch.table.Close()
	}
}

func (c *court) settle(done func() bool) bool {
	for range 20000 {
		if done() {
			return true
		}
		c.step()
	}
	return false
}

// over reports whether every live member knows how the view ended, or has stopped.
func (c *court) over() bool {
	for r, ch := range c.changes {
		if !c.dead[r] && ch.Err() == nil && ch.Done() == nil {
			return false
		}
	}
	return true
}

func (c *court) crash(r int) {
	if !c.dead[r] {
		c.dead[r] = true
		c.net.Crash(c.view.Members[r].ID)
	}
}

// judge checks what must hold however the change ended.
func (c *court) judge() error {
	var first *Decision
	for r, ch := range c.changes {
		d := ch.Done()
		if d == nil {
			continue
		}
		if first == nil {
			first = d
		}
		if !same(first, d) {
			return fmt.Errorf("V8: rank %d installs %+v, another one %+v", r, d, first)
		}
		if ranksOf(d.Removed).Has(order.Rank(r)) {
			return fmt.Errorf("V7: rank %d installs a decision that removes it: %+v", r, d)
		}
		for s, trim := range d.Trim[0] {
			for q := range c.changes {
				if have := c.have[q][s]; !ranksOf(d.Removed).Has(order.Rank(q)) && have < trim {
					return fmt.Errorf("V9: the trim of sender %d is %d, rank %d has %d", s, trim, q, have)
				}
			}
		}
	}
	return nil
}

func same(a, b *Decision) bool {
	if (a.View == nil) != (b.View == nil) || !slices.Equal(a.Removed, b.Removed) || !slices.Equal(a.Left, b.Left) {
		return false
	}
	if a.View != nil && (a.View.Key() != b.View.Key() || !slices.Equal(a.View.Members, b.View.Members)) {
		return false
	}
	return slices.EqualFunc(a.Trim, b.Trim, slices.Equal[[]order.Index])
}

// One member fails, and all others go on together with the least that any of them has.
func TestTheOthersGoOnWhenAMemberFails(t *testing.T) {
	for _, victim := range []int{0, 1, 4} {
		c := newCourt(t, uint64(victim)+1, 5)
		c.crash(victim)
		if !c.settle(c.over) {
			t.Fatal("no end")
		}
		if err := c.judge(); err != nil {
			t.Fatal(err)
		}
		for r, ch := range c.changes {
			if r == victim {
				continue
			}
			d := ch.Done()
			if d == nil || len(d.View.Members) != 4 || !slices.Equal(d.Removed, ranks(order.Rank(victim))) {
				t.Fatalf("rank %d without rank %d: %+v, %v", r, victim, d, ch.Err())
			}
			for s := range d.Trim[0] {
				least := order.Index(1 << 30)
				for q := range c.have {
					if q != victim {
						least = min(least, c.have[q][s])
					}
				}
				if d.Trim[0][s] != least {
					t.Errorf("V9: the trim of sender %d is %d, the least is %d", s, d.Trim[0][s], least)
				}
			}
		}
	}
}

// Exactly half goes on with the senior member, and halts without it. (G5)
func TestHalfOfAViewGoesOnWithTheSeniorMemberOnly(t *testing.T) {
	for n, gone := range map[int][]int{2: {1}, 4: {1, 3}} {
		c := newCourt(t, uint64(n), n)
		for _, r := range gone {
			c.crash(r)
		}
		if !c.settle(c.over) || c.changes[0].Done() == nil {
			t.Errorf("%d of %d members with the senior one: %v", n-len(gone), n, c.changes[0].Err())
		}
	}
	for n, gone := range map[int][]int{2: {0}, 4: {0, 2}} {
		c := newCourt(t, uint64(n), n)
		for _, r := range gone {
			c.crash(r)
		}
		if !c.settle(c.over) || !errors.Is(c.changes[1].Err(), ErrPartitioned) {
			t.Errorf("%d of %d members without the senior one: %v, %v", n-len(gone), n, c.changes[1].Done(), c.changes[1].Err())
		}
	}
}

func TestALeaverTakesPartInTheChangeWithoutIt(t *testing.T) {
	for _, leavers := range [][]int{{0}, {1}, {0, 1}, {0, 1, 2}} {
		c := newCourt(t, 3, 3)
		for _, r := range leavers {
			c.changes[r].Leave()
		}
		c.changes[leavers[0]].Step()
		if !c.settle(c.over) {
			t.Fatalf("leave of %v: no end", leavers)
		}
		if err := c.judge(); err != nil {
			t.Fatal(err)
		}
		for r, ch := range c.changes {
			if ch.Err() != nil || ch.Done() == nil {
				t.Fatalf("leave of %v: rank %d: %v", leavers, r, ch.Err())
			}
		}
	}
}

func TestJoinersComeLastAndAtOnce(t *testing.T) {
	c := newCourt(t, 1, 3)
	var ready []views.Member
	for i := range 5 {
		ready = append(ready, views.Member{ID: order.NodeID(200 + i), Addr: "late:1", Incarnation: 3})
	}
	double := ready[0]
	double.Incarnation++
	taken := views.Member{ID: c.view.Members[1].ID, Incarnation: 9}
	c.changes[0].Join(slices.Concat(ready[:1], []views.Member{double, taken}, ready[1:]))
	if !c.settle(c.over) {
		t.Fatal("no end")
	}
	if got := c.changes[2].Done().View.Members; !slices.Equal(got[3:], ready) {
		t.Errorf("members %v", got)
	}
}

// A joiner that no view can take in is no reason to change the view, again and again.
func TestNobodyComesWhoseIDIsTakenOrWhoseRecordIsTooLarge(t *testing.T) {
	c := newCourt(t, 1, 3)
	large := views.Member{ID: 400, Addr: strings.Repeat("\x01", views.MaxTextBytes)}
	c.changes[0].Join([]views.Member{{ID: c.view.Members[1].ID, Incarnation: 9}, large})
	for range 1000 {
		c.step()
	}
	if c.changes[0].Wedged() {
		t.Error("a change was begun")
	}
	c.changes[0].Join([]views.Member{large, {ID: 401, Addr: "late:1"}})
	if !c.settle(c.over) || len(c.changes[1].Done().View.Members) != 4 {
		t.Error("the other one does not come")
	}
}

// V7: whatever a leader's row says, a member acks no proposal that does not follow from the view,
// and suspects the leader that proposes it.
func TestWhatDoesNotFollowFromAViewIsRefused(t *testing.T) {
	for name, wrong := range map[string]func(*proposal){
		"a view too far":                    func(p *proposal) { p.View.ID++ },
		"another group":                     func(p *proposal) { p.View.Cluster = "other" },
		"the same key":                      func(p *proposal) { p.View.SetKey("one") },
		"no key":                            func(p *proposal) { p.View.SetKey("") },
		"a member that is missing":          func(p *proposal) { p.View.Members = p.View.Members[1:] },
		"members in another order":          func(p *proposal) { slices.Reverse(p.View.Members[:2]) },
		"a joiner in between":               func(p *proposal) { slices.Reverse(p.View.Members) },
		"a subgroup that is missing":        func(p *proposal) { p.View.Subgroups = nil },
		"another ring":                      func(p *proposal) { p.View.Subgroups[0].RingBytes *= 2 },
		"a sender that is no member":        func(p *proposal) { p.View.Subgroups[0].Senders = ranks(9) },
		"a rank that is none":               func(p *proposal) { p.Removed = ranks(7) },
		"gone twice":                        func(p *proposal) { p.Removed, p.Left = ranks(2), ranks(2) },
		"no view for the members that stay": func(p *proposal) { p.View = nil },
		"too few mute words":                func(p *proposal) { p.View.Muted = p.View.Muted[1:] },
	} {
		c := newCourt(t, 5, 3, simnet.Framed)
		c.changes[0].Join([]views.Member{{ID: 300, Addr: "late:1"}})
		c.now += time.Millisecond
		c.net.Advance(c.now)
		liar := c.changes[0]
		p, _, err := liar.plan()
		if err != nil {
			t.Fatal(err)
		}
		wrong(p)
		n, _ := putRecord(liar.area(0, liar.cfg.Columns.proposals), newBallot(1, 0), p)
		liar.pushRecord(liar.cfg.Columns.proposals, n)
		set(liar, wordProposed, newBallot(1, 0))
		liar.publish()
		liar.table.Flush()
		c.now += time.Millisecond
		c.look(1)
		c.look(1)
		if c.changes[1].own[wordAcked]>>8 == 1 && Ballot(c.changes[1].own[wordAcked]).Leader() == 0 || !errors.Is(c.changes[1].Cause(0), fabric.ErrViolation) {
			t.Errorf("%s: acked %v, suspected because of %v", name, Ballot(c.changes[1].own[wordAcked]), c.changes[1].Cause(0))
		}
	}
}

// A member that another one suspects stops, and one that would have to suspect too many stops
// before it accuses any.
func TestTheSuspectedHearOfIt(t *testing.T) {
	c := newCourt(t, 2, 3)
	c.changes[2].Report(0, errors.New("silent"))
	if !c.settle(c.over) {
		t.Fatal("no end")
	}
	if !errors.Is(c.changes[0].Err(), ErrEvicted) {
		t.Errorf("rank 0: %v", c.changes[0].Err())
	}
	c = newCourt(t, 2, 3)
	c.changes[2].Report(0, errors.New("silent"))
	c.changes[2].Report(1, errors.New("silent"))
	c.changes[2].Step()
	if !errors.Is(c.changes[2].Err(), ErrPartitioned) || c.changes[2].own[wordSuspected] != 0 {
		t.Errorf("rank 2: %v, and accuses %b", c.changes[2].Err(), c.changes[2].own[wordSuspected])
	}
}

// The leader and a second member install a decision that a third member has echoed, and both fail.
// The third member leads next: it must decide what they installed.
func TestATakeoverAdoptsWhatSomebodyMayHaveInstalled(t *testing.T) {
	if err := takeover(t); err != nil {
		t.Error(err)
	}
}

func takeover(t *testing.T) error {
	c := newCourt(t, 4, 5, simnet.Framed)
	soon := func(ranks ...int) {
		for c.now += time.Millisecond; len(ranks) > 0; ranks = ranks[1:] {
			c.look(ranks[0])
		}
	}
	cut := func(from int, to ...int) {
		for _, q := range to {
			c.net.Cut(c.view.Members[from].ID, c.view.Members[q].ID)
		}
	}
	c.changes[0].Join([]views.Member{{ID: 300, Addr: "late:1"}})
	soon(0)
	soon(1, 2, 3, 4) // ack
	cut(0, 3, 4)
	soon(0)    // decides
	soon(1, 2) // echo
	cut(1, 2, 3, 4)
	c.changes[1].Report(3, errors.New("drawn"))
	c.changes[1].Report(4, errors.New("drawn"))
	soon(1)
	if c.changes[1].Done() == nil {
		return fmt.Errorf("rank 1 did not install: %+v", *c.changes[1].own)
	}
	for _, r := range []int{0, 1} {
		c.dead[r] = true
		c.net.PowerOff(c.view.Members[r].ID)
		c.silent(func(q int) bool { return q == r })
	}
	if !c.settle(c.over) {
		return errors.New("no end")
	}
	return c.judge()
}

// A link that the peer gave up before it stood is the peer's suspicion, which this member takes for
// its own end and not for the peer's, once the peers that did so leave no quorum. The word of fewer
// is not enough: a member that refuses each of the others would end all of them.
func TestWhoWasGivenUpByTooManyIsEvicted(t *testing.T) {
	c := newCourt(t, 2, 3)
	ch := c.changes[2]
	ch.Report(0, fmt.Errorf("dialing: %w", fabric.ErrGivenUp))
	ch.Step()
	if ch.Err() != nil || ch.Suspected() != 0 {
		t.Errorf("given up by one of two: %v, and suspects %b", ch.Err(), ch.Suspected())
	}
	ch.Report(1, fmt.Errorf("dialing: %w", fabric.ErrGivenUp))
	ch.Step()
	if !errors.Is(ch.Err(), ErrEvicted) || ch.own[wordSuspected] != 0 {
		t.Errorf("given up by both: %v, and accuses %b", ch.Err(), ch.own[wordSuspected])
	}
}

// V5 to V9 over random histories of crashes, wrong suspicions, leaves and joins at any moment.
func TestRandomChangesAgree(t *testing.T) {
	seeds := testutil.Seeds[uint64](500, 4000)
	if testing.Short() {
		seeds = 300
	}
	var installed, halted uint64
	for seed := range seeds {
		c := drawn(t, seed)
		if !c.settle(func() bool { return c.over() || c.idle() }) {
			t.Errorf("seed %d: no end", seed)
		}
		if err := c.judge(); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		for _, ch := range c.changes {
			if ch.Done() != nil {
				installed++
			} else if ch.Err() != nil {
				halted++
			}
		}
	}
	if installed < seeds || halted < seeds/10 {
		t.Errorf("%d installed, %d halted in %d runs: too few to show anything", installed, halted, seeds)
	}
}

// drawn draws troubles for a view of 2 to 6 members, and lets them pass.
func drawn(t *testing.T, seed uint64) *court {
	c := newCourt(t, seed, 2+int(seed%5))
	trouble := 1 + c.random.IntN(4)
	for k := 0; k < 3000 || trouble > 0; k++ {
		if c.step(); trouble > 0 && (k == 0 || c.random.IntN(60) == 0) {
			trouble--
			c.trouble(k)
		}
	}
	return c
}

func (c *court) trouble(k int) {
	n := len(c.changes)
	r := c.random.IntN(n)
	switch ch := c.changes[r]; c.random.IntN(8) {
	case 0, 1:
		c.crash(r)
	case 2:
		ch.Report(order.Rank(c.random.IntN(n)), errors.New("drawn"))
	case 3:
		ch.Leave()
	case 4:
		ch.Join([]views.Member{{ID: order.NodeID(300 + k), Addr: "late:1"}})
	case 5:
		for q := range n {
			if q != r && c.random.IntN(2) == 0 {
				c.changes[q].Report(order.Rank(r), errors.New("drawn"))
			}
		}
	case 6: // what is under way is lost, and the others find it silent
		c.dead[r] = true
		c.net.PowerOff(c.view.Members[r].ID)
		c.silent(func(q int) bool { return q == r })
	case 7:
		split := 1 + c.random.IntN(n-1)
		for a := range split {
			for b := split; b < n; b++ {
				c.net.Cut(c.view.Members[a].ID, c.view.Members[b].ID)
				c.net.Cut(c.view.Members[b].ID, c.view.Members[a].ID)
			}
		}
		c.silent(func(q int) bool { return q < split })
	}
}

// silent makes every member on one side report every member on the other side.
func (c *court) silent(here func(int) bool) {
	for a, ch := range c.changes {
		for b := range c.changes {
			if here(a) != here(b) {
				ch.Report(order.Rank(b), errors.New("silent"))
			}
		}
	}
}

// idle reports whether nothing is under way at all.
func (c *court) idle() bool {
	for r, ch := range c.changes {
		if !c.dead[r] && ch.Err() == nil && (ch.Suspected() != 0 || ch.Wedged() || ch.leaving() != 0 || len(ch.joiners) > 0 && ch.Leader() == ch.cfg.Self) && ch.Done() == nil {
			return false
		}
	}
	return true
}

// A Layout that is not a function of its input fills the shard every other time. What the leader
// found out is what it proposes.
func TestTheViewThatFillsAShardIsProposed(t *testing.T) {
	c := newCourt(t, 1, 1)
	ch, empty := c.changes[0], *c.view
	empty.Subgroups = []views.Subgroup{{Name: "all"}}
	ch.cfg.View = &empty
	calls := 0
	ch.cfg.Next = func(members []views.Member, _ func(order.NodeID, int) bool) (*views.View, error) {
		v := c.place(c.view, members)
		if calls++; calls%2 == 0 {
			v.Subgroups = empty.Subgroups
		}
		return v, nil
	}
	ch.Refill()
	if !ch.lead() || !ch.proposal.View.Subgroups[0].Provisioned() || calls != 1 {
		t.Errorf("%d views were placed, and %+v is proposed", calls, ch.proposal)
	}
}
