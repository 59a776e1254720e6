package replicated

import (
	"slices"
	"testing"

	"github.com/squall-go/squall/replicated/internal/machine"
)

// A member that has left the shard and come back since a command had its position may have sent its reply to another shard: it is
// not one of the members that have stayed, and Replies does not wait for it.
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
		then, since := a.layout(0)
		if then != nil || since != nil {
			t.Errorf("a view that is not remembered has the members %v, and %v stayed", then, since)
		}
		if _, since = a.layout(a.layouts[7-view].view); !slices.Equal(since, want) {
			t.Errorf("since view %d, %v have stayed; want %v", view, since, want)
		}
	}
	a.layouts = a.layouts[1:]
	for i, want := range [][]machine.Peer{{stays, moves, other}, {stays, other}, {stays}} {
		if _, since := a.layout(a.layouts[i].view); !slices.Equal(since, want) {
			t.Errorf("since view %d, %v have stayed; want %v", a.layouts[i].view, since, want)
		}
	}
}
