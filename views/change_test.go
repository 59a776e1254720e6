package views

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric/simnet"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/sst"
)

// court is a view whose members are steps of their Changes and nothing else: the subgroup's messages are vectors that were drawn.
type court struct {
	t       *testing.T
	random  *rand.Rand
	net     *simnet.Net
	now     time.Duration
	view    *View
	changes []*Change
	have    [][]order.Index // by rank: what it has when it is wedged
	dead    []bool
}

func newCourt(t *testing.T, seed uint64, n int) *court {
	c := &court{t: t, random: rand.New(rand.NewPCG(seed, 7)), dead: make([]bool, n)}
	var members []Member
	for i := range n {
		members = append(members, Member{ID: order.NodeID(90 - 7*i), Addr: fmt.Sprintf("node-%d:1", i), Incarnation: 1})
	}
	c.view = c.place(nil, members)
	layout := sst.NewLayout(n)
	columns := Declare(layout, c.view)
	var ends []simnet.Endpoint
	for r, m := range members {
		ends = append(ends, simnet.Endpoint{ID: m.ID, Shape: layout.Shape(order.Rank(r))})
	}
	const us = time.Microsecond
	delay := simnet.Delay{Base: us, Jitter: 30 * us, Tail: 300 * us, TailEvery: 10}
	c.net = simnet.New(seed, simnet.Options{
		Delay: func(_, _ order.NodeID) simnet.Delay { return delay }, NoticeAfter: 100 * us, PieceBytes: []int{0, 64}[c.random.IntN(2)],
		Kind: func(_, _ order.NodeID) simnet.Kind {
			return []simnet.Kind{simnet.Framed, simnet.Seeping, simnet.Shared}[c.random.IntN(3)]
		},
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
		c.have = append(c.have, have)
		change := NewChange(Config{
			View: c.view, Self: order.Rank(r), Table: table, Columns: columns,
			Wedge: func() [][]order.Index { return [][]order.Index{have} },
			Next:  func(members []Member, _ func(order.NodeID, int) bool) (*View, error) { return c.place(c.view, members), nil },
		})
		table.OnMove(change.Rebind)
		c.changes = append(c.changes, change)
	}
	return c
}

func (c *court) place(previous *View, members []Member) *View {
	p := Placement{
		ID: 1, Cluster: "court", Key: "one", Members: members, Previous: previous,
		Declarations: []Declaration{{Name: "all", RingBytes: MinRingBytes, Window: MinWindow}},
	}
	if previous != nil {
		p.ID, p.Key = 2, fmt.Sprint("key ", c.random.Uint64())
	}
	v, _, err := Place(p)
	if err != nil {
		c.t.Fatal(err)
	}
	return v
}

// step lets a random member look.
func (c *court) step() {
	c.now += time.Duration(c.random.IntN(int(20 * time.Microsecond)))
	c.net.Advance(c.now)
	r := c.random.IntN(len(c.changes))
	if c.dead[r] || c.changes[r].Err() != nil {
		return
	}
	ch := c.changes[r]
	ch.table.Poll()
	for _, f := range ch.table.Failures() {
		ch.Report(f.Rank, f.Err)
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

// over reports whether everybody who lives knows how the view ended, or stopped.
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
func (c *court) judge() {
	var first *Decision
	var installed Ranks
	for r, ch := range c.changes {
		d := ch.Done()
		if d == nil {
			continue
		}
		installed |= only(order.Rank(r))
		if first == nil {
			first = d
		}
		if !same(first, d) {
			c.t.Fatalf("V8: rank %d installs %+v, another one %+v", r, d, first)
		}
		if ranksOf(d.Removed).Has(order.Rank(r)) {
			c.t.Fatalf("V7: rank %d installs a decision that removes it: %+v", r, d)
		}
		for s, trim := range d.Trim[0] {
			for q := range c.changes {
				if have := c.have[q][s]; !ranksOf(d.Removed).Has(order.Rank(q)) && have < trim {
					c.t.Fatalf("V9: the trim of sender %d is %d, rank %d has %d", s, trim, q, have)
				}
			}
		}
	}
}

func same(a, b *Decision) bool {
	if (a.View == nil) != (b.View == nil) || !slices.Equal(a.Removed, b.Removed) || !slices.Equal(a.Left, b.Left) {
		return false
	}
	if a.View != nil && (a.View.Key != b.View.Key || !slices.Equal(a.View.Members, b.View.Members)) {
		return false
	}
	return slices.EqualFunc(a.Trim, b.Trim, slices.Equal[[]order.Index])
}

// One member fails, and everybody else goes on together with the least of what they have.
func TestTheOthersGoOnWhenAMemberFails(t *testing.T) {
	for _, victim := range []int{0, 1, 4} {
		c := newCourt(t, uint64(victim)+1, 5)
		c.crash(victim)
		if !c.settle(c.over) {
			t.Fatal("no end")
		}
		c.judge()
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
		c.judge()
		for r, ch := range c.changes {
			if ch.Err() != nil || ch.Done() == nil {
				t.Fatalf("leave of %v: rank %d: %v", leavers, r, ch.Err())
			}
		}
	}
}

func TestJoinersComeLastAndAtOnce(t *testing.T) {
	c := newCourt(t, 1, 3)
	var ready []Member
	for i := range 5 {
		ready = append(ready, Member{ID: order.NodeID(200 + i), Addr: "late:1", Incarnation: 3})
	}
	ready = append(ready, Member{ID: c.view.Members[1].ID, Incarnation: 9}) // its id is taken
	c.changes[0].Join(ready)
	if !c.settle(c.over) {
		t.Fatal("no end")
	}
	if got := c.changes[2].Done().View.Members; !slices.Equal(got[3:], ready[:5]) {
		t.Errorf("members %v", got)
	}
}

// Who is suspected by another one stops, and who would have to suspect too many stops before it accuses anybody.
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

// V5 to V9 over random histories of crashes, wrong suspicions, leaves and joins at any moment.
func TestRandomChangesAgree(t *testing.T) {
	seeds := 4000
	if testing.Short() {
		seeds = 300
	}
	var installed, halted int
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			c := newCourt(t, seed, 2+int(seed%5))
			n := len(c.changes)
			quiet := false
			trouble := 1 + c.random.IntN(4)
			for k := range 3000 {
				c.step()
				if trouble > 0 && (k == 0 || c.random.IntN(60) == 0) {
					trouble--
					r := c.random.IntN(n)
					switch ch := c.changes[r]; c.random.IntN(6) {
					case 0, 1:
						c.crash(r)
					case 2:
						ch.Report(order.Rank(c.random.IntN(n)), errors.New("drawn"))
					case 3:
						ch.Leave()
					case 4:
						ch.Join([]Member{{ID: order.NodeID(300 + k), Addr: "late:1"}})
					case 5:
						for q := range n {
							if q != r && c.random.IntN(2) == 0 {
								c.changes[q].Report(order.Rank(r), errors.New("drawn"))
							}
						}
					}
				}
				quiet = trouble == 0
			}
			if quiet && !c.settle(func() bool { return c.over() || c.idle() }) {
				t.Error("no end")
			}
			c.judge()
			for r, ch := range c.changes {
				if ch.Done() != nil {
					installed++
				} else if ch.Err() != nil {
					halted++
				} else if !c.dead[r] && ch.Suspected() != 0 {
					t.Errorf("rank %d is stuck: suspects %b, %+v", r, ch.Suspected(), *ch.own)
				}
			}
		})
	}
	t.Logf("%d installed, %d halted", installed, halted)
	if installed < seeds || halted < seeds/10 {
		t.Errorf("%d installed, %d halted in %d runs: too few to show anything", installed, halted, seeds)
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
