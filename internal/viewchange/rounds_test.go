package viewchange

import (
	"errors"
	"fmt"
	"testing"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/fabrictest"
	"github.com/squall-go/squall/internal/simnet"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/sst"
	"github.com/squall-go/squall/views"
)

// asking has a member of a court begin rounds, one after the other. Some are given up for the next
// one.
type asking struct {
	under bool // one is under way
	late  bool // some member knew what follows the view as it began
}

// ask is a step of that, and reports what became of the round.
func (a *asking) ask(c *court, r int) (confirmed bool) {
	s := c.rounds[r]
	s.Affirm()
	confirmed = a.under && s.Confirmed()
	if a.under && !confirmed && c.random.IntN(20) > 0 {
		return false
	}
	a.under, a.late = true, false
	for _, ch := range c.changes {
		a.late = a.late || ch.Done() != nil
	}
	s.Begin()
	return confirmed
}

// The members of courts begin rounds all the time, whatever happens to their view.
func TestV14ARoundIsConfirmedOnlyIfNoLaterViewWasInstalledAsItBegan(t *testing.T) {
	confirmed, late := 0, 0
	for seed := range uint64(400) {
		c := newCourt(t, seed, 1+int(seed%6))
		rounds := make([]asking, len(c.changes))
		c.within = func(r int) {
			if c.changes[r].Done() != nil { // the member is in another view
				c.rounds[r].Affirm()
				return
			}
			before := rounds[r]
			answered := rounds[r].ask(c, r)
			if rounds[r].late {
				late++
			}
			if !answered {
				return
			}
			confirmed++
			if before.late {
				t.Fatalf("seed %d: rank %d: a round is confirmed, and another member was in the next view as it began", seed, r)
			}
		}
		trouble := 1 + c.random.IntN(4)
		for k := 0; k < 1500; k++ {
			if c.step(); trouble > 0 && len(c.changes) > 1 && c.random.IntN(60) == 0 {
				trouble--
				c.trouble(k)
			}
		}
	}
	t.Logf("%d rounds were confirmed, %d began too late", confirmed, late)
	if confirmed < 1000 || late < 20 {
		t.Errorf("%d rounds were confirmed, %d began too late: this has not tested much", confirmed, late)
	}
}

// While members are alive and connected, every round is confirmed.
func TestARoundIsConfirmedByAQuorum(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 5, fabric.WordsPerLine + 1} {
		c := newCourt(t, uint64(n), n, simnet.Framed)
		c.rounds[0].Begin()
		c.within = func(r int) {
			if 2*r < n { // half of them, with the senior one
				c.rounds[r].Affirm()
			}
		}
		if !c.settle(c.rounds[0].Confirmed) {
			t.Errorf("%d members: a round is not confirmed", n)
		}
		if n > 1 {
			c.rounds[n-1].Begin()
			if c.rounds[n-1].Confirmed() {
				t.Errorf("%d members: a round is confirmed by one of them", n)
			}
		}
		c.within = func(r int) { c.rounds[r].Affirm() }
		c.rounds[n-1].Begin()
		if !c.settle(c.rounds[n-1].Confirmed) { // whose word has a line of its own if there are many
			t.Errorf("%d members: a round of the last one is not confirmed", n)
		}
	}
}

func TestAMemberThatHasWedgedAffirmsNothing(t *testing.T) {
	c := newCourt(t, 1, 3, simnet.Framed)
	c.changes[1].wedge()
	c.changes[2].wedge()
	c.within = func(r int) { c.rounds[r].Affirm() }
	c.rounds[0].Begin()
	for range 500 {
		c.step()
	}
	if c.rounds[0].Confirmed() {
		t.Error("V14: a round is confirmed by members that have wedged the view")
	}
}

func TestV15AMemberThatAffirmsARoundThatWasNotBegunFails(t *testing.T) {
	c := newCourt(t, 1, 3, simnet.Framed)
	c.rounds[0].Begin()
	s := c.rounds[1]
	sst.Counter[uint64](0).Store(c.changes[1].table.Line(1, s.columns.affirmed[1]), 7)
	c.changes[1].table.PushLine([]order.Rank{0}, s.columns.affirmed[1])
	var err error
	c.within = func(r int) {
		if r == 0 {
			c.rounds[0].Confirmed()
			err = c.changes[0].causes[1]
		}
	}
	if !c.settle(func() bool { return err != nil }) || !errors.Is(err, fabric.ErrViolation) {
		t.Errorf("it is suspected because of: %v", err)
	}
}

// BenchmarkAffirm is what confirmation rounds cost a step in which no member asks.
func BenchmarkAffirm(b *testing.B) {
	for _, n := range []int{3, 16, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			layout := sst.NewLayout(n)
			v := &views.View{ID: 1}
			var shapes []fabric.RowShape
			for r := range n {
				v.Members = append(v.Members, views.Member{ID: order.NodeID(r + 1)})
			}
			columns, rounds := Declare(layout, v), DeclareRounds(layout, v)
			for r := range n {
				shapes = append(shapes, layout.Shape(order.Rank(r)))
			}
			table, err := sst.NewTable(layout, fabrictest.NewMemory(shapes...).Tables[0])
			if err != nil {
				b.Fatal(err)
			}
			s := NewRounds(NewChange(Config{View: v, Table: table, Columns: columns}), rounds)
			for b.Loop() {
				s.Affirm()
			}
		})
	}
}
