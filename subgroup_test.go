package squall_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/squall-go/squall"
)

func TestEachSubgroupHasItsOwnMembersSendersAndOrder(t *testing.T) {
	const each = 200
	all, pair, feed := newJournals(3), newJournals(3), newJournals(3)
	groups := cluster(t, 3, func(i int, c *squall.Config) {
		c.Subgroups = []squall.SubgroupConfig{
			{Name: "all", Deliver: all[i].deliver},
			{Name: "pair", Members: []squall.NodeID{1, 3}, Deliver: pair[i].deliver},
			{Name: "feed", Senders: []squall.NodeID{2}, Deliver: feed[i].deliver},
		}
	})
	everybodySends(t, "all", each, groups...)
	everybodySends(t, "pair", each, groups[0], groups[2])
	everybodySends(t, "feed", each, groups[1])
	same(t, 3*each, all...)
	same(t, 2*each, pair[0], pair[2])
	same(t, each, feed...)
	if lines := pair[1].read(); len(lines) > 0 {
		t.Errorf("node 2 is not in the pair and delivered %q", lines)
	}
}

func TestWhoIsNoSenderIsTold(t *testing.T) {
	groups := cluster(t, 2, func(_ int, c *squall.Config) {
		c.Subgroups = []squall.SubgroupConfig{
			{Name: "feed", Senders: []squall.NodeID{1}, Deliver: func(squall.Message) {}},
			{Name: "alone", Members: []squall.NodeID{1}, Deliver: func(squall.Message) {}},
		}
	})
	for _, name := range []string{"feed", "alone"} {
		s := must(groups[1].Subgroup(name))
		_, claim := s.Claim(t.Context(), 1)
		_, tryClaim := s.TryClaim(1)
		for what, err := range map[string]error{
			"Send": s.Send(t.Context(), nil), "TrySend": s.TrySend(nil), "Claim": claim, "TryClaim": tryClaim, "Skip": s.Skip(1),
		} {
			if !errors.Is(err, squall.ErrNotSender) {
				t.Errorf("%s in %q: %v", what, name, err)
			}
		}
	}
	if n := must(groups[1].Subgroup("alone")).Stats().Sent; n != 0 {
		t.Errorf("%d messages sent where this process is no member", n)
	}
}

func TestASubgroupThatIsNotDeclaredIsAnErrorThatNamesThoseThatAre(t *testing.T) {
	g := cluster(t, 1, func(_ int, c *squall.Config) {
		c.Subgroups = []squall.SubgroupConfig{{Name: "orders", Deliver: func(squall.Message) {}}, {Name: "prices", Deliver: func(squall.Message) {}}}
	})[0]
	s, err := g.Subgroup("order")
	if s != nil || !errors.Is(err, squall.ErrNoSubgroup) || err.Error() != `there is no subgroup "order": Config.Subgroups declares "orders", "prices"` {
		t.Errorf("%v, %v", s, err)
	}
	if s, err := g.Subgroup("prices"); err != nil || s.Name() != "prices" {
		t.Errorf("%v, %v", s, err)
	}
}

func TestUnorderedKeepsEachSendersOrder(t *testing.T) {
	const each = 300
	for _, fabric := range fabrics {
		t.Run(fabric.String(), func(t *testing.T) {
			js := newJournals(3)
			groups := cluster(t, 3, func(i int, c *squall.Config) {
				c.Fabric = fabric
				next := map[squall.NodeID]squall.Seq{}
				c.Subgroups = []squall.SubgroupConfig{{
					Name: "a", Mode: squall.Unordered, RingBytes: 4096, Window: 32,
					Deliver: func(m squall.Message) {
						if m.Seq != next[m.Sender] {
							t.Errorf("node %d: number %d of node %d in place of %d", i+1, m.Seq, m.Sender, next[m.Sender])
						}
						next[m.Sender] = m.Seq + 1
						js[i].deliver(m)
					},
				}}
			})
			everybodySends(t, "a", each, groups...)
			for i, j := range js {
				j.await(t, 3*each)
				for _, g := range groups {
					var want []string
					for k := range each {
						want = append(want, fmt.Sprintf("%d:%d", g.ID(), k))
					}
					if got := j.from(g.ID()); !slices.Equal(got, want) {
						t.Errorf("node %d, of node %d: %q", i+1, g.ID(), got)
					}
				}
			}
		})
	}
}

// Unordered messages wait for no member: a member whose loop stands still has not acknowledged
// them, and the others deliver.
func TestUnorderedDoesNotWaitForAMemberThatStandsStill(t *testing.T) {
	gate, js := make(chan struct{}), newJournals(3)
	groups := cluster(t, 3, func(i int, c *squall.Config) {
		c.Subgroups = []squall.SubgroupConfig{{Name: "a", Mode: squall.Unordered, Deliver: func(m squall.Message) {
			if i == 2 {
				<-gate
			}
			js[i].deliver(m)
		}}}
	})
	everybodySends(t, "a", 100, groups[:2]...)
	for _, j := range js[:2] {
		j.await(t, 200)
	}
	close(gate)
	js[2].await(t, 200)
}

// G7
func TestASilentMemberHoldsUpNobody(t *testing.T) {
	for _, fabric := range fabrics {
		t.Run(fabric.String(), func(t *testing.T) {
			js := newJournals(3)
			groups := cluster(t, 3, func(i int, c *squall.Config) {
				c.Fabric = fabric
				c.Subgroups = []squall.SubgroupConfig{{Name: "a", RingBytes: 4096, Window: 32, Deliver: js[i].deliver}}
			})
			everybodySends(t, "a", 500, groups[1:]...) // and the first of each round never does
			same(t, 1000, js...)
			if n := must(groups[0].Subgroup("a")).Stats().Sent; n != 0 {
				t.Errorf("the silent member sent %d messages", n)
			}
		})
	}
}

// Such a number of rounds is no matter of a message's size.
func TestSkipRefusesANumberOfRoundsThatItDoesNotTake(t *testing.T) {
	groups := cluster(t, 1, func(_ int, c *squall.Config) {
		c.Subgroups = []squall.SubgroupConfig{{Name: "a", Deliver: func(squall.Message) {}}}
	})
	s := must(groups[0].Subgroup("a"))
	for _, rounds := range []int{-1, math.MinInt, squall.MaxSkip + 1, math.MaxInt} {
		err := s.Skip(rounds)
		want := fmt.Sprintf("skip %d rounds: it takes 0 to %d at a time", rounds, squall.MaxSkip)
		if err == nil || errors.Is(err, squall.ErrTooLarge) || err.Error() != want {
			t.Errorf("Skip(%d): %v", rounds, err)
		}
	}
	for _, rounds := range []int{0, squall.MaxSkip} {
		if err := s.Skip(rounds); err != nil {
			t.Errorf("Skip(%d): %v", rounds, err)
		}
	}
}

func TestSkippedRoundsNeedNoNulls(t *testing.T) {
	const rounds = 500
	js := newJournals(2)
	seqs := make(chan squall.Seq, 1)
	groups := cluster(t, 2, func(i int, c *squall.Config) {
		c.Subgroups = []squall.SubgroupConfig{{Name: "a", Deliver: func(m squall.Message) {
			js[i].deliver(m)
			if i == 0 && m.Sender == 2 {
				seqs <- m.Seq
			}
		}}}
	})
	skipper := must(groups[1].Subgroup("a"))
	if err := skipper.Skip(rounds); err != nil {
		t.Fatal(err)
	}
	eventually(t, "node 1 knows of the skip", func() bool { return strings.Contains(dump(t, groups[0]), fmt.Sprintf("skipped=%d", rounds)) })
	everybodySends(t, "a", rounds, groups[0])
	same(t, rounds, js...)
	if nulls := skipper.Stats().NullsSent; nulls != 0 {
		t.Errorf("%d nulls in rounds that were skipped", nulls)
	}
	send(t, skipper, "behind")
	if lines := same(t, rounds+1, js...); lines[rounds] != "2:behind" {
		t.Errorf("at last: %s", lines[rounds])
	}
	if seq := <-seqs; seq != 2*rounds+1 {
		t.Errorf("the skipper's message has place %d, not that of round %d", seq, rounds)
	}
}
