package squall_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall"
)

// without is a list without one element.
func without[T comparable](list []T, one T) []T {
	return slices.DeleteFunc(slices.Clone(list), func(e T) bool { return e == one })
}

// join opens one more member through the address of one that is there.
func join(t testing.TB, id squall.NodeID, through *squall.Group, configure func(*squall.Config)) *squall.Group {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cfg := squall.Config{
		Cluster: through.View().Cluster, ID: id, Listen: "127.0.0.1:0", Join: []string{through.Addr()}, InitialMembers: len(through.View().Members), Logger: quiet,
	}
	configure(&cfg)
	g, err := squall.Open(ctx, cfg)
	if err != nil {
		t.Fatalf("node %d joins: %v", id, err)
	}
	t.Cleanup(func() { closeAll(g) })
	return g
}

// loaded is three members with a small ring, under load.
func loaded(t *testing.T, fabric squall.Fabric, events func(i int) func(squall.Event)) ([]*squall.Group, []*journal, *traffic) {
	t.Helper()
	js := newJournals(3)
	groups := cluster(t, 3, func(i int, c *squall.Config) {
		c.Fabric = fabric
		if events != nil {
			c.Events = events(i)
		}
		c.Subgroups = []squall.SubgroupConfig{{Name: "a", RingBytes: 4096, Window: 16, Deliver: js[i].deliver}}
	})
	return groups, js, newTraffic(t, "a", groups...)
}

// G3, G4
func TestSurvivorsOfAFailureDeliverTheSameAndLoseNothing(t *testing.T) {
	t.Parallel()
	for _, fabric := range fabrics {
		for failed := range 3 { // by rank: the leader too
			t.Run(fmt.Sprintf("%v/rank=%d", fabric, failed), func(t *testing.T) {
				groups, js, load := loaded(t, fabric, nil)
				v := awaitView(t, 3, groups...)
				gone := groups[v.Members[failed].ID-1]
				reporter := groups[v.Members[(failed+1)%3].ID-1]
				load.goesOn(100)
				reporter.ReportFailure(gone.ID())
				<-gone.Done()
				if err := gone.Err(); !errors.Is(err, squall.ErrEvicted) && !errors.Is(err, squall.ErrPartitioned) {
					t.Errorf("node %d halted with %v", gone.ID(), err)
				}
				staying := without(groups, gone)
				next := awaitView(t, 2, staying...)
				if want := without(ids(v), gone.ID()); !slices.Equal(ids(next), want) {
					t.Errorf("members are %v, not %v", ids(next), want)
				}
				load.goesOn(100)
				load.stop()
				last := make([]*journal, 0, 2)
				for _, g := range staying {
					send(t, must(g.Subgroup("a")), "over") // behind everything that it sent
					last = append(last, js[g.ID()-1])
				}
				for _, j := range last {
					eventually(t, "everything", func() bool { return strings.Count(strings.Join(j.read(), " "), "over") == 2 })
				}
				lines := last[0].read()
				load.check(lines)
				same(t, len(lines), last...)
				closeWell(t, staying...)
			})
		}
	}
}

// What the failed one delivered is the beginning of what the others did.
func TestWhatAFailedMemberDeliveredTheOthersDoToo(t *testing.T) {
	groups, js, load := loaded(t, squall.FabricTCP, nil)
	v := awaitView(t, 3, groups...)
	gone := groups[v.Members[2].ID-1]
	groups[v.Members[0].ID-1].ReportFailure(gone.ID())
	<-gone.Done()
	load.stop()
	there := js[gone.ID()-1].read()
	for _, g := range without(groups, gone) {
		if got := js[g.ID()-1].await(t, len(there)); !slices.Equal(got[:len(there)], there) {
			t.Errorf("node %d does not begin with what the failed one delivered", g.ID())
		}
	}
}

// G5: of two, the senior one goes on alone.
func TestOfTwoTheSeniorOneGoesOnAlone(t *testing.T) {
	for _, evicts := range []bool{true, false} {
		t.Run(fmt.Sprintf("senior reports=%v", evicts), func(t *testing.T) {
			js := newJournals(2)
			groups := cluster(t, 2, func(i int, c *squall.Config) {
				c.Subgroups = []squall.SubgroupConfig{{Name: "a", Deliver: js[i].deliver}}
			})
			v := awaitView(t, 2, groups...)
			senior, junior := groups[v.Members[0].ID-1], groups[v.Members[1].ID-1]
			send(t, must(senior.Subgroup("a")), "before")
			same(t, 1, js...)
			want := squall.ErrEvicted
			if evicts {
				senior.ReportFailure(junior.ID())
			} else {
				junior.ReportFailure(senior.ID()) // it has to halt itself: the other one may live
				want = squall.ErrPartitioned
			}
			<-junior.Done()
			if err := junior.Err(); !errors.Is(err, want) {
				t.Errorf("the junior one halted with %v", err)
			}
			if err := must(junior.Subgroup("a")).Send(t.Context(), nil); !errors.Is(err, want) {
				t.Errorf("Send at the junior one: %v", err)
			}
			junior.Close(t.Context()) // until then its connections stand
			awaitView(t, 1, senior)
			send(t, must(senior.Subgroup("a")), "after")
			js[senior.ID()-1].await(t, 2)
			if err := senior.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAMemberJoinsUnderLoadThroughAnyOther(t *testing.T) {
	t.Parallel()
	for through := range 3 {
		t.Run(fmt.Sprintf("through rank %d", through), func(t *testing.T) {
			groups, js, load := loaded(t, squall.FabricAuto, func(i int) func(squall.Event) { return noFailure(t, i) })
			v := awaitView(t, 3, groups...)
			came, late := &journal{}, make(chan *squall.View, 10)
			fourth := join(t, 4, groups[v.Members[through].ID-1], func(c *squall.Config) {
				c.OnView = func(v *squall.View) { late <- v }
				c.Subgroups = []squall.SubgroupConfig{{Name: "a", RingBytes: 4096, Window: 16, Deliver: came.deliver}}
			})
			first := <-late
			if !slices.Equal(ids(first), append(ids(v), 4)) {
				t.Errorf("its first view is %v", ids(first))
			}
			load.goesOn(100)
			send(t, must(fourth.Subgroup("a")), "here I am")
			load.stop()
			all := same(t, load.total()+1, js...)
			load.check(all)
			same(t, len(js[0].since(first.ID)), came)
			if got, want := came.read(), js[0].since(first.ID); !slices.Equal(got, want) {
				t.Errorf("from its first view on the joiner delivered\n%q\nand the others\n%q", got, want)
			}
			closeWell(t, append(groups, fourth)...)
		})
	}
}

// A process with the id of one that failed is another one: it is taken in behind the others.
func TestAProcessThatComesBackIsANewIncarnation(t *testing.T) {
	js := newJournals(3)
	groups := cluster(t, 3, func(i int, c *squall.Config) {
		c.Subgroups = []squall.SubgroupConfig{{Name: "a", Deliver: js[i].deliver}}
	})
	v := awaitView(t, 3, groups...)
	gone := groups[v.Members[1].ID-1]
	staying := without(groups, gone)
	groups[v.Members[0].ID-1].ReportFailure(gone.ID())
	<-gone.Done()
	gone.Close(t.Context())
	back := &journal{}
	again := join(t, gone.ID(), staying[0], func(c *squall.Config) {
		c.Subgroups = []squall.SubgroupConfig{{Name: "a", Deliver: back.deliver}}
	})
	next := awaitView(t, 3, append(staying, again)...)
	if m := next.Members[2]; m.ID != gone.ID() || m.Incarnation == v.Members[1].Incarnation {
		t.Errorf("the last member is %+v, and was %+v", m, v.Members[1])
	}
	send(t, must(again.Subgroup("a")), "back")
	for _, j := range append([]*journal{back}, js[staying[0].ID()-1], js[staying[1].ID()-1]) {
		j.await(t, 1)
	}
}

func TestManyMembersCloseAtTheSameTime(t *testing.T) {
	const members = 10
	for _, fabric := range []squall.Fabric{squall.FabricSHM, squall.FabricTCP} {
		t.Run(fabric.String(), func(t *testing.T) {
			groups := cluster(t, members, func(i int, c *squall.Config) {
				c.Fabric, c.Events = fabric, noFailure(t, i)
				c.Subgroups = []squall.SubgroupConfig{{Name: "a", RingBytes: 4096, Window: 16, Deliver: func(squall.Message) {}}}
			})
			everybodySends(t, "a", 20, groups...)
			errs := make([]error, members)
			var closing sync.WaitGroup
			for i, g := range groups {
				closing.Go(func() { errs[i] = g.Close(t.Context()) })
			}
			closing.Wait()
			if err := errors.Join(errs...); err != nil {
				t.Error(err)
			}
		})
	}
}

// Three idle members close without one being taken for failed: that would take an hour here.
func TestThreeMembersCloseQuickly(t *testing.T) {
	for range 10 {
		groups := cluster(t, 3, func(i int, c *squall.Config) {
			c.Events, c.FailAfter = noFailure(t, i), time.Hour
			c.Subgroups = []squall.SubgroupConfig{{Name: "a", Deliver: func(squall.Message) {}}}
		})
		closeWell(t, groups...)
	}
}

func TestViewsYieldsEachViewOnceInOrder(t *testing.T) {
	groups := cluster(t, 4, func(int, *squall.Config) {})
	awaitView(t, 4, groups...)
	seen := make([][]squall.ViewID, 4)
	var following sync.WaitGroup
	var begun sync.WaitGroup
	for i, g := range groups {
		begun.Add(1)
		following.Go(func() {
			for v := range g.Views(context.Background()) { // ends as the group halts
				if seen[i] = append(seen[i], v.ID); len(seen[i]) == 1 {
					begun.Done()
				}
			}
		})
	}
	begun.Wait()
	v := groups[0].View()
	for k, m := range v.Members {
		if err := groups[m.ID-1].Close(t.Context()); err != nil {
			t.Error(err)
		}
		if k < 3 {
			var rest []*squall.Group
			for _, m := range v.Members[k+1:] {
				rest = append(rest, groups[m.ID-1])
			}
			awaitView(t, 3-k, rest...)
		}
	}
	following.Wait()
	for k, m := range v.Members {
		if want := []squall.ViewID{1, 2, 3, 4}[:k+1]; !slices.Equal(seen[m.ID-1], want) {
			t.Errorf("rank %d saw views %v, not %v", k, seen[m.ID-1], want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for v := range groups[0].Views(ctx) {
		if v.ID != groups[0].View().ID {
			t.Errorf("after the end: view %d", v.ID)
		}
	}
}

func TestOnViewComesBeforeTheViewsFirstDelivery(t *testing.T) {
	var current, wrong [3]atomic.Uint64
	groups := cluster(t, 3, func(i int, c *squall.Config) {
		c.OnView = func(v *squall.View) {
			if !current[i].CompareAndSwap(uint64(v.ID)-1, uint64(v.ID)) {
				wrong[i].Add(1)
			}
		}
		c.Subgroups = []squall.SubgroupConfig{{Name: "a", RingBytes: 4096, Window: 16, Deliver: func(m squall.Message) {
			if uint64(m.View) != current[i].Load() {
				wrong[i].Add(1)
			}
		}}}
	})
	load := newTraffic(t, "a", groups...)
	leaver := groups[awaitView(t, 3, groups...).Members[1].ID-1]
	if err := leaver.Close(t.Context()); err != nil {
		t.Error(err)
	}
	awaitView(t, 2, without(groups, leaver)...)
	load.goesOn(100)
	load.stop()
	closeAll(groups...)
	for i := range wrong {
		if n := wrong[i].Load(); n > 0 {
			t.Errorf("node %d: %d callbacks out of their view", i+1, n)
		}
	}
}

func TestMembersAndSendersFollowTheView(t *testing.T) {
	groups := cluster(t, 3, func(_ int, c *squall.Config) {
		c.Subgroups = []squall.SubgroupConfig{
			{Name: "a", Deliver: func(squall.Message) {}},
			{Name: "feed", Senders: []squall.NodeID{1, 2}, Deliver: func(squall.Message) {}},
		}
	})
	v := awaitView(t, 3, groups...)
	s, feed := must(groups[0].Subgroup("a")), must(groups[0].Subgroup("feed"))
	if !slices.Equal(s.Members(0), ids(v)) || !slices.Equal(s.Senders(0), ids(v)) || !slices.Equal(feed.Senders(0), without(ids(v), 3)) {
		t.Errorf("members %v, senders %v and %v, in a view of %v", s.Members(0), s.Senders(0), feed.Senders(0), ids(v))
	}
	if s.Members(1) != nil || s.Senders(-1) != nil {
		t.Error("there is only shard 0")
	}
	if shard, ok := s.Shard(); shard != 0 || !ok {
		t.Errorf("shard %d, %v", shard, ok)
	}
	if err := groups[1].Close(t.Context()); err != nil {
		t.Error(err)
	}
	v = awaitView(t, 2, groups[0], groups[2])
	if !slices.Equal(s.Members(0), ids(v)) || !slices.Equal(feed.Members(0), ids(v)) || !slices.Equal(feed.Senders(0), []squall.NodeID{1}) {
		t.Errorf("without node 2: members %v, senders %v", s.Members(0), feed.Senders(0))
	}
}

func TestAMemberStopsSendingAndBeginsAgain(t *testing.T) {
	js := newJournals(2)
	groups := cluster(t, 2, func(i int, c *squall.Config) {
		c.Subgroups = []squall.SubgroupConfig{{Name: "a", Deliver: js[i].deliver}}
	})
	awaitView(t, 2, groups...)
	s, other := must(groups[1].Subgroup("a")), must(groups[0].Subgroup("a"))
	send(t, s, "before")
	done(t, func() error { return s.SetSender(false) })
	for _, g := range groups {
		eventually(t, "node 2 is no sender", func() bool { return slices.Equal(must(g.Subgroup("a")).Senders(0), []squall.NodeID{1}) })
	}
	if err := s.TrySend([]byte("not now")); !errors.Is(err, squall.ErrNotSender) {
		t.Errorf("TrySend of no sender: %v", err)
	}
	send(t, other, "alone")
	done(t, func() error { return s.SetSender(true) })
	eventually(t, "node 2 is a sender again", func() bool { return len(s.Senders(0)) == 2 })
	send(t, s, "after")
	if got := same(t, 3, js...); !slices.Equal(got, []string{"2:before", "1:alone", "2:after"}) {
		t.Errorf("%q", got)
	}
	if v := groups[0].View(); v.ID != 3 || len(v.Members) != 2 {
		t.Errorf("view %d of %v", v.ID, ids(v))
	}
}

// A future tells the place of its message also if the view that it was sent in ended before.
func TestAFutureSurvivesItsView(t *testing.T) {
	type place struct {
		version squall.Version
		text    string
	}
	var mu sync.Mutex
	var places []place
	groups := cluster(t, 3, func(i int, c *squall.Config) {
		c.Subgroups = []squall.SubgroupConfig{{Name: "a", RingBytes: 4096, Window: 16, Deliver: func(m squall.Message) {
			if i == 0 && m.Sender == 1 {
				mu.Lock()
				places = append(places, place{squall.Version{View: m.View, Seq: m.Seq}, string(m.Data)})
				mu.Unlock()
			}
		}}}
	})
	awaitView(t, 3, groups...)
	var futures []*squall.Future
	change := make(chan error, 1)
	for k := range 2000 {
		if k == 500 {
			go func() { change <- groups[2].Close(context.Background()) }()
		}
		f, err := must(groups[0].Subgroup("a")).SendFuture(t.Context(), fmt.Appendf(nil, "%d", k))
		if err != nil {
			t.Fatal(err)
		}
		futures = append(futures, f)
		if k == 1000 { // later messages are of the next view
			if err := <-change; err != nil {
				t.Error(err)
			}
			awaitView(t, 2, groups[:2]...)
		}
	}
	for k, f := range futures {
		version, err := f.Wait(t.Context())
		mu.Lock()
		if want := (place{version, fmt.Sprint(k)}); err != nil || places[k] != want {
			t.Fatalf("message %d: future %v, %v; delivered as %v", k, version, err, places[k])
		}
		mu.Unlock()
	}
	if first, last := places[0].version.View, places[1999].version.View; first != 1 || last != 2 {
		t.Errorf("from view %d to %d", first, last)
	}
}

func TestAFutureOfAHaltedMemberSaysWhy(t *testing.T) {
	gate := make(chan struct{})
	groups := cluster(t, 2, func(_ int, c *squall.Config) {
		c.Subgroups = []squall.SubgroupConfig{{Name: "a", AsyncQueueBytes: 4096, Deliver: func(squall.Message) { <-gate }}}
	})
	defer close(gate)
	v := awaitView(t, 2, groups...)
	junior := groups[v.Members[1].ID-1]
	c := claim(t, must(junior.Subgroup("a")), "too late")
	f, err := must(junior.Subgroup("a")).SendFuture(t.Context(), []byte("after it"))
	if err != nil {
		t.Fatal(err)
	}
	groups[v.Members[0].ID-1].ReportFailure(junior.ID())
	if _, err := f.Wait(t.Context()); !errors.Is(err, squall.ErrEvicted) {
		t.Errorf("the future says %v", err)
	}
	if err := c.Commit(); !errors.Is(err, squall.ErrEvicted) {
		t.Errorf("Commit says %v", err)
	}
}

func TestAClaimThatIsHeldAcrossAViewIsDelivered(t *testing.T) {
	for _, fabric := range fabrics {
		t.Run(fabric.String(), func(t *testing.T) {
			js := newJournals(3)
			groups := cluster(t, 3, func(i int, c *squall.Config) {
				c.Fabric = fabric
				c.Subgroups = []squall.SubgroupConfig{{Name: "a", Deliver: js[i].deliver}}
			})
			awaitView(t, 3, groups...)
			s := must(groups[0].Subgroup("a"))
			held, dropped := claim(t, s, "held"), claim(t, s, "dropped")
			send(t, s, "behind")
			if err := groups[1].Close(t.Context()); err != nil {
				t.Error(err)
			}
			awaitView(t, 2, groups[0], groups[2])
			copy(held.Bytes, "HELD") // its memory is still there
			done(t, held.Commit)
			done(t, dropped.Abort)
			if got := same(t, 2, js[0], js[2]); !slices.Equal(got, []string{"1:HELD", "1:behind"}) {
				t.Errorf("%q", got)
			}
			if err := held.Commit(); !errors.Is(err, squall.ErrClaimDone) {
				t.Errorf("a second Commit: %v", err)
			}
		})
	}
}

func TestASubgroupWithTooFewMembersWaitsForMore(t *testing.T) {
	var js [3]*journal
	var unmet [3]atomic.Int64
	configure := func(i int, c *squall.Config) {
		js[i] = &journal{}
		c.Events = func(e squall.Event) {
			if n, ok := e.(squall.NotProvisioned); ok && n.Subgroup == "three" {
				unmet[i].Add(1)
			}
		}
		c.Subgroups = []squall.SubgroupConfig{
			{Name: "three", MinMembers: 3, Deliver: js[i].deliver},
			{Name: "any", Deliver: func(squall.Message) {}},
		}
	}
	groups := cluster(t, 2, configure)
	v := awaitView(t, 2, groups...)
	for _, g := range groups {
		s := must(g.Subgroup("three"))
		if err := s.Send(t.Context(), nil); !errors.Is(err, squall.ErrNotProvisioned) || s.Members(0) != nil {
			t.Errorf("node %d: %v, members %v", g.ID(), err, s.Members(0))
		}
		if c, _ := s.TryClaim(1); !errors.Is(c.Commit(), squall.ErrClaimDone) || !errors.Is(c.Abort(), squall.ErrClaimDone) {
			t.Errorf("node %d: a claim that was refused can be finished", g.ID())
		}
		send(t, must(g.Subgroup("any")), "this one is there")
	}
	for i := range groups {
		if got := unmet[i].Load(); got != 1 {
			t.Errorf("node %d was told %d times that the subgroup is not provisioned in the first view", i+1, got)
		}
	}
	third := join(t, 3, groups[v.Members[1].ID-1], func(c *squall.Config) { configure(2, c) })
	awaitView(t, 3, append(groups, third)...)
	for _, g := range append(groups, third) {
		send(t, must(g.Subgroup("three")), "now")
	}
	same(t, 3, js[:]...)
	if err := third.Close(t.Context()); err != nil {
		t.Error(err)
	}
	awaitView(t, 2, groups...)
	if err := must(groups[0].Subgroup("three")).TrySend(nil); !errors.Is(err, squall.ErrNotProvisioned) {
		t.Errorf("after it left: %v", err)
	}
	for i := range groups {
		eventually(t, fmt.Sprintf("node %d is told again", i+1), func() bool { return unmet[i].Load() == 2 })
	}
}

// An application's own layout that cannot be met is told by every member, in the first view too,
// and its reason where the view was made: also after the leader has looked whether the shard could
// get members now.
func TestALayoutThatCannotBeMetIsToldByEveryMember(t *testing.T) {
	var told [2]atomic.Pointer[string]
	var reasons, layouts atomic.Int64
	groups := cluster(t, 2, func(i int, c *squall.Config) {
		c.Events = func(e squall.Event) {
			if n, ok := e.(squall.NotProvisioned); ok {
				text := n.String()
				if told[i].Store(&text); strings.Contains(text, "no room anywhere") {
					reasons.Add(1)
				}
			}
		}
		c.Subgroups = []squall.SubgroupConfig{{
			Name: "placed", LayoutName: "picky", Deliver: func(squall.Message) {},
			Layout: func(squall.LayoutInput) ([]squall.ShardPlaces, error) {
				layouts.Add(1)
				return nil, errors.New("no room anywhere")
			},
		}}
	})
	awaitView(t, 2, groups...)
	for i := range told {
		if text := told[i].Load(); text == nil || !strings.Contains(*text, `"placed"`) || !strings.Contains(*text, `"picky"`) {
			t.Errorf("node %d: %v", i+1, text)
		}
	}
	if reasons.Load() != 1 {
		t.Errorf("the layout's reason was told %d times", reasons.Load())
	}
	eventually(t, "the leader looks for members", func() bool { return layouts.Load() > 1 })
	var known int
	for _, g := range groups {
		status, err := g.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(status.Subgroups[0].Reason, "no room anywhere") {
			known++
		}
	}
	if known != 1 {
		t.Errorf("%d members know the layout's reason", known)
	}
}

// blocked opens three members, one of which stands still in an upcall of subgroup "slow" for as
// long as the gate is closed.
func blocked(t *testing.T, async int) (groups []*squall.Group, open func()) {
	t.Helper()
	gate := make(chan struct{})
	open = sync.OnceFunc(func() { close(gate) })
	groups = cluster(t, 3, func(i int, c *squall.Config) {
		c.Heartbeat, c.FailAfter = 20*time.Millisecond, 300*time.Millisecond
		c.Subgroups = []squall.SubgroupConfig{{Name: "slow", AsyncQueueBytes: async, Deliver: func(squall.Message) {
			if i == 2 {
				<-gate
			}
		}}}
	})
	t.Cleanup(open)
	return groups, open
}

func TestAMemberThatStandsStillInAnUpcallIsEvictedAndToldWhich(t *testing.T) {
	t.Parallel()
	groups, open := blocked(t, 0)
	send(t, must(groups[0].Subgroup("slow")), "wait")
	awaitView(t, 2, groups[:2]...)
	send(t, must(groups[0].Subgroup("slow")), "no member is waited for")
	open()
	<-groups[2].Done()
	if err := groups[2].Err(); !errors.Is(err, squall.ErrEvicted) || !strings.Contains(err.Error(), `"slow"`) || !strings.Contains(err.Error(), "AsyncQueueBytes") {
		t.Errorf("%v", err)
	}
}

func TestAsyncUpcallsMayTakeAsLongAsTheyLike(t *testing.T) {
	t.Parallel()
	groups, open := blocked(t, 4096)
	s := must(groups[0].Subgroup("slow"))
	turns := time.NewTicker(10 * time.Millisecond)
	defer turns.Stop()
	for range 90 { // three times FailAfter, and not more messages than the queue takes
		<-turns.C
		send(t, s, "on")
		eventually(t, "nodes 1 and 2 go on", func() bool { return must(groups[1].Subgroup("slow")).Stats().Delivered == s.Stats().Sent })
	}
	open()
	for _, g := range groups {
		if err := g.Err(); err != nil || len(g.View().Members) != 3 {
			t.Errorf("node %d: %v, %d members", g.ID(), err, len(g.View().Members))
		}
	}
}

func TestAGeneratedIdIsKeptInItsDirectory(t *testing.T) {
	cfg := goodConfig()
	cfg.ID, cfg.Dir, cfg.Logger = 0, t.TempDir(), quiet
	var first squall.NodeID
	incarnations := map[uint64]bool{}
	for range 3 {
		g, err := squall.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if first == 0 {
			first = g.ID()
		}
		if g.ID() == 0 || g.ID() != first {
			t.Errorf("id %d, and %d before", g.ID(), first)
		}
		incarnations[g.View().Members[0].Incarnation] = true
		if _, err := squall.Open(t.Context(), cfg); err == nil {
			t.Error("two processes with one id")
		}
		if err := g.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if len(incarnations) != 3 {
		t.Errorf("%d incarnations of 3 processes", len(incarnations))
	}
}
