package squall

import (
	"io"
	"testing"

	"github.com/squall-go/squall/internal/transfer"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/trust"
	"github.com/squall-go/squall/views"
)

// The member moved to another shard before its application, which is slow, came to the view in
// which node 2 entered its former shard: the application did not get all that was delivered before
// that view, and may have the state of the other shard already.
func TestAMemberThatMovedAwayGivesNoStateOfAViewThatItsApplicationDidNotReach(t *testing.T) {
	snapshots := 0
	cfg := SubgroupConfig{
		Name: "s", Deliver: func(Message) {}, Restore: func(io.Reader) error { return nil },
		Snapshot: func() func(io.Writer) error {
			snapshots++
			return func(io.Writer) error { return nil }
		},
	}
	for _, moved := range []bool{false, true} {
		snapshots = 0
		g := &Group{cfg: Config{ID: 1, Subgroups: []SubgroupConfig{cfg}}, presence: presence{identity: trust.NewIdentity()}, apps: []application{cfg.application(&upcalls{}, newSlices(&Config{}), func() {})}}
		g.subs = []*Subgroup{{group: g}}
		s := &states{group: g}
		s.source = transfer.NewSource(transfer.SourceConfig{Self: 1, ID: g.identity, Taken: func() {}, Keeps: func(string) bool { return true }})
		defer s.source.Close()
		h := newStays(s, 0)
		v := &views.View{
			ID: 6, Members: []views.Member{{ID: 1}, {ID: 2}}, Subgroups: []views.Subgroup{
				{Name: "s", Members: []order.Rank{0, 1}, Fresh: []order.Rank{1}, Partial: []order.Rank{1}}, {Name: "s", Shard: 1},
			},
		}
		s.source.Installed(v)
		r := h.enter(v, 0)
		if moved {
			h.enter(&views.View{ID: 7, Members: v.Members, Subgroups: []views.Subgroup{
				{Name: "s", Members: []order.Rank{1}}, {Name: "s", Shard: 1, Members: []order.Rank{0}},
			}}, 1)
		}
		r.Begin(v, 0)
		want := 1
		if moved {
			want = 0
		}
		if snapshots != want {
			t.Errorf("moved %v: %d snapshots, want %d", moved, snapshots, want)
		}
		if s.source.Wanted(6, 0) {
			t.Errorf("moved %v: a snapshot is still wanted", moved)
		}
		if waiting := s.source.Waiting(); len(waiting) != want {
			t.Errorf("moved %v: a member waits for the state of subgroups %v", moved, waiting)
		}
	}
}
