package squall

import (
	"io"
	"testing"

	"github.com/squall-go/squall/internal/transfer"
	"github.com/squall-go/squall/internal/trust"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// The member moved to another shard before its application, which is slow, came to the view in which node 2 entered its former
// shard: the application did not get all that was delivered before that view, and may have the state of the other shard already.
func TestAMemberThatMovedAwayGivesNoStateOfAViewThatItsApplicationDidNotReach(t *testing.T) {
	snapshots := 0
	cfg := SubgroupConfig{
		Name: "s", Deliver: func(Message) {}, Restore: func(io.Reader) error { return nil },
		Snapshot: func() func(io.Writer) error {
			snapshots++
			return func(io.Writer) error { return nil }
		},
	}
	for _, c := range []struct {
		phase phase
		want  int
	}{{live, 1}, {over, 0}} {
		snapshots = 0
		g := &Group{cfg: Config{ID: 1, Subgroups: []SubgroupConfig{cfg}}, identity: trust.NewIdentity()}
		g.states = &states{group: g, own: make([]*receiver, 1)}
		g.states.source = transfer.NewSource(transfer.SourceConfig{Self: 1, ID: g.identity, Keeps: func(string) bool { return true }})
		defer g.states.source.Close()
		v := &views.View{
			ID: 6, Members: []views.Member{{ID: 1}, {ID: 2}},
			Subgroups: []views.Subgroup{{Name: "s", Members: []order.Rank{0, 1}, Fresh: []order.Rank{1}, Partial: []order.Rank{1}}},
		}
		g.states.source.Installed(v)
		r := &receiver{group: g, subgroup: v.Subgroups[0], since: 5, last: 6, app: cfg.application(func() {}), phase: c.phase, begun: true}
		r.Begin(v, 0)
		if snapshots != c.want {
			t.Errorf("phase %d: %d snapshots, want %d", c.phase, snapshots, c.want)
		}
		if g.states.source.Wanted(6, 0) {
			t.Errorf("phase %d: a snapshot is still wanted", c.phase)
		}
		if waiting := g.states.source.Waiting(); len(waiting) != c.want {
			t.Errorf("phase %d: somebody waits for the state of subgroups %v", c.phase, waiting)
		}
	}
}
