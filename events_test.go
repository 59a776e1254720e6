package squall_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
)

// happenings keeps the events of one member.
type happenings struct {
	mu     sync.Mutex
	events []squall.Event
}

func (h *happenings) add(e squall.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

// kinds are the types of the events, those that come several times in a row once, and without
// rejected connections.
func (h *happenings) kinds() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var kinds []string
	for _, e := range h.events {
		if kind := strings.TrimPrefix(fmt.Sprintf("%T", e), "squall."); !strings.HasPrefix(kind, "Connection") {
			kinds = append(kinds, kind)
		}
	}
	return slices.Compact(kinds)
}

func (h *happenings) all() []squall.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.events)
}

// drop forgets the events of a type.
func (h *happenings) drop(kind string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = slices.DeleteFunc(h.events, func(e squall.Event) bool { return fmt.Sprintf("%T", e) == "squall."+kind })
}

func TestEventsTellTheLifeOfAGroup(t *testing.T) {
	const members = 4
	told := make([]happenings, members)
	groups := cluster(t, members, func(i int, c *squall.Config) {
		c.Fabric, c.Events = squall.FabricTCP, told[i].add
		c.Subgroups = []squall.SubgroupConfig{{Name: "a", Deliver: func(squall.Message) {}}}
	})
	check := func(when string, i int, want []string) {
		t.Helper()
		if i == 0 { // the first member
			want = slices.Insert(slices.Clone(want), 2, "GroupBootstrapped")
		}
		if got := told[i].kinds(); !slices.Equal(got, want) {
			t.Errorf("node %d %s: %v", i+1, when, got)
		}
	}
	formed := []string{"Listening", "Joining", "ViewInstalled"}
	for i := range told {
		check("as the group has formed", i, formed)
	}
	if err := groups[1].Close(t.Context()); err != nil {
		t.Error(err)
	}
	check("which left", 1, append(slices.Clone(formed), "ViewChanging"))
	awaitView(t, 3, groups[0], groups[2], groups[3])
	left := append(slices.Clone(formed), "ViewChanging", "ViewInstalled")
	for _, i := range []int{0, 2, 3} {
		check("after node 2 left", i, left)
	}
	groups[0].ReportFailure(4)
	<-groups[3].Done()
	awaitView(t, 2, groups[0], groups[2])
	check("which was evicted", 3, append(slices.Clone(left), "Halted"))
	for _, i := range []int{0, 2} {
		// A member may hear of the proposal before it hears of the failure for which it was made.
		down := 0
		for _, e := range told[i].all() {
			if e, ok := e.(squall.MemberDown); ok {
				down++
				if e.Member.ID != 4 || e.Err == nil || !strings.Contains(e.String(), "node 4") {
					t.Errorf("%v", e)
				}
			}
		}
		if down != 1 {
			t.Errorf("node %d was told of %d failures", i+1, down)
		}
		told[i].drop("MemberDown")
		check("after node 4 was reported", i, append(slices.Clone(left), "ViewChanging", "ViewInstalled"))
	}
	for _, e := range slices.Concat(told[0].events, told[3].events) {
		switch e := e.(type) {
		case squall.ViewInstalled:
			if len(e.Links) != len(e.View.Members) || !slices.Contains(e.Links, "self") {
				t.Errorf("%v", e)
			}
		case squall.Halted:
			if !errors.Is(e.Reason, squall.ErrEvicted) || e.Reason != groups[3].Err() {
				t.Errorf("%v", e)
			}
		}
		if e.String() == "" {
			t.Errorf("%T says nothing", e)
		}
	}
	if l, ok := told[0].events[0].(squall.Listening); !ok || l.Addr != groups[0].Addr() {
		t.Errorf("%v, and the group is at %s", told[0].events[0], groups[0].Addr())
	}
}

// A member that closes never looks like one that failed, whatever the others are doing then; they
// go on, and lose nothing.
func TestAMemberThatClosesHasLeftAndNotFailed(t *testing.T) {
	t.Parallel()
	runs := testutil.Seeds(10, 50)
	for _, fabric := range []squall.Fabric{squall.FabricSHM, squall.FabricTCP} {
		t.Run(fabric.String(), func(t *testing.T) {
			t.Parallel()
			for run := range runs {
				oneLeaves(t, fabric, run)
			}
		})
	}
}

func oneLeaves(t *testing.T, fabric squall.Fabric, run int) {
	t.Helper()
	js := newJournals(3)
	groups := cluster(t, 3, func(i int, c *squall.Config) {
		c.Fabric, c.Events = fabric, noFailure(t, i)
		c.Subgroups = []squall.SubgroupConfig{{Name: "a", RingBytes: 4096, Window: 16, Deliver: js[i].deliver}}
	})
	leaver := run % 3
	others := slices.Delete(slices.Clone(groups), leaver, leaver+1)
	load := newTraffic(t, "a", others...)
	for range 10 {
		send(t, must(groups[leaver].Subgroup("a")), "the last words")
	}
	if err := groups[leaver].Close(t.Context()); err != nil {
		t.Errorf("run %d: %v", run, err)
	}
	awaitView(t, 2, others...)
	load.stop()
	staying := slices.Delete(slices.Clone(js), leaver, leaver+1)
	got := same(t, load.total()+10, staying...)
	load.check(got)
	if words := staying[0].from(groups[leaver].ID()); len(words) != 10 {
		t.Errorf("run %d: %d of the last words of node %d", run, len(words), groups[leaver].ID())
	}
	closeWell(t, others...)
}

func dump(t testing.TB, g *squall.Group) string {
	t.Helper()
	var b bytes.Buffer
	if err := g.Debug().Dump(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestDumpShowsAMemberOnEachLine(t *testing.T) {
	js := newJournals(2)
	groups := cluster(t, 2, func(i int, c *squall.Config) {
		c.Subgroups = []squall.SubgroupConfig{{Name: "prices", Deliver: js[i].deliver}}
	})
	send(t, must(groups[0].Subgroup("prices")), "x")
	same(t, 1, js...)
	lines := strings.Split(strings.TrimSpace(dump(t, groups[0])), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines for two members: %q", len(lines), lines)
	}
	for line, parts := range map[string][]string{
		lines[0]: {"rank 0 (self): ", " member{heartbeat=", " prices{skipped=0 sent=1 "}, lines[1]: {"rank 1: ", " member{heartbeat=", " prices{skipped=0 sent=0 "},
	} {
		for _, part := range parts {
			if !strings.Contains(line, part) {
				t.Errorf("%q is not in %q", part, line)
			}
		}
	}
}
