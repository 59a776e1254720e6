package member

import (
	"slices"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/replicated/internal/machine"
	"github.com/squall-go/squall/views"
)

// A member that has left the shard and come back since a command had its position may have sent its
// reply to another shard: it is not one of the members that have stayed, and Replies does not wait
// for it.
func TestAMemberThatComesBackHasNotStayed(t *testing.T) {
	stays, moves, other := machine.Peer{Node: 1}, machine.Peer{Node: 2}, machine.Peer{Node: 3}
	restarted := machine.Peer{Node: 1, Incarnation: 1}
	a := answering{layouts: []layout{ // newest first
		{7, []machine.Peer{restarted, moves}},
		{6, []machine.Peer{stays, moves, other}},
		{5, []machine.Peer{stays, other}},
		{4, []machine.Peer{stays, moves}},
	}}
	for view, want := range map[uint64][]machine.Peer{4: nil, 5: nil, 6: {moves}, 7: {restarted, moves}} {
		then, since, err := a.layout(0)
		if then != nil || since != nil || err == nil {
			t.Errorf("a view that is not remembered has the members %v, and %v stayed, %v", then, since, err)
		}
		if _, since, _ = a.layout(a.layouts[7-view].view); !slices.Equal(since, want) {
			t.Errorf("since view %d, %v have stayed; want %v", view, since, want)
		}
	}
	a.layouts = a.layouts[1:]
	for i, want := range [][]machine.Peer{{stays, moves, other}, {stays, other}, {stays}} {
		if _, since, _ := a.layout(a.layouts[i].view); !slices.Equal(since, want) {
			t.Errorf("since view %d, %v have stayed; want %v", a.layouts[i].view, since, want)
		}
	}
}

// The members of a view are remembered as long as its records are delivered, or replies to one of
// its commands are awaited, however many views follow.
func TestTheMembersOfAViewAreRememberedWhileRepliesAreAwaited(t *testing.T) {
	o := New(squall.SubgroupConfig{Name: "tally"}, func() *tally { return &tally{} }, Handle(tallied, func(s *tally, _ *Context, _ int) (int, error) { return s.N, nil }))
	view := func(id squall.ViewID) *squall.View {
		return &squall.View{ID: id, Members: []views.Member{{ID: 1}, {ID: 2}}, Subgroups: []views.Subgroup{{Name: "tally", Members: []order.Rank{0, 1}}}}
	}
	members := []machine.Peer{{Node: 1}, {Node: 2}}
	g := &gathering{changed: make(chan struct{}, 1), of: 7}
	o.object.answers.gathered[1] = g
	o.object.delivers.Store(9)
	for id := range squall.ViewID(100) {
		o.object.viewed(view(id + 1))
	}
	for of, known := range map[squall.ViewID]bool{6: false, 7: true, 8: true, 100: true} {
		then, since, err := o.object.answers.layout(of)
		if (err == nil) != known || known && (!slices.Equal(then, members) || !slices.Equal(since, members)) {
			t.Errorf("replies of a command in view 7 are awaited: view %d had %v, of which %v stayed, %v", of, then, since, err)
		}
	}
	g.of = 0
	o.object.viewed(view(101))
	for of, known := range map[squall.ViewID]bool{8: false, 9: true, 101: true} {
		if _, _, err := o.object.answers.layout(of); (err == nil) != known {
			t.Errorf("view 9 is delivered, and the command has no position: view %d: %v", of, err)
		}
	}
	for id := range squall.ViewID(2 * maxLayouts) {
		o.object.viewed(view(102 + id))
	}
	if n := len(o.object.answers.layouts); n != 1024 {
		t.Errorf("%d views are remembered", n)
	}
	delete(o.object.answers.gathered, 1)
	for id := range squall.ViewID(3) { // an object that delivers nothing
		last := 102 + 2*maxLayouts + id
		o.object.viewed(view(last))
		if n := len(o.object.answers.layouts); n != 1 || o.object.answers.layouts[0].view != last {
			t.Errorf("no replies are awaited, and %d views are remembered", n)
		}
	}
}
