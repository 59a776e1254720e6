package member

import (
	"slices"
	"testing"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/fabrictest"
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// nobody is an application that accepts every message.
type nobody struct{}

func (nobody) Deliver(run []multicast.Message) int { return len(run) }
func (nobody) MaxRun() int                         { return 0 }
func (nobody) Begin(*views.View, int)              {}
func (nobody) Whole() bool                         { return true }
func (nobody) Given(func()) bool                   { return true }
func (nobody) HasAll() bool                        { return true }

// What a sender carried is sent in the shard in which it is now. A member of another shard was
// given some of it, and must not drop as much of what that sender sends when the two meet again.
func TestWhatWasDeliveredAheadIsForgottenOfASenderThatIsInAnotherShard(t *testing.T) {
	shard := func(n int, members, senders []order.Rank) views.Subgroup {
		return views.Subgroup{Name: "a", Shard: n, Mode: views.Unordered, Members: members, Senders: senders, RingBytes: 4096, Window: 16}
	}
	v := &views.View{
		ID: 2, Cluster: "test", Members: []views.Member{{ID: 1}, {ID: 2}, {ID: 3}, {ID: 4}},
		Subgroups: []views.Subgroup{shard(0, []order.Rank{0, 2}, []order.Rank{0, 2}), shard(1, []order.Rank{1, 3}, []order.Rank{1})},
	}
	m := &Member{cfg: Config{
		Self:     1,
		Receiver: func(*views.View, int) Receiver { return nobody{} },
		Open: func(_ *views.View, self order.Rank, l *Layout) (*fabric.Table, error) {
			var shapes []fabric.RowShape
			for r := range v.Members {
				shapes = append(shapes, l.Shape(order.Rank(r)))
			}
			return fabrictest.NewMemory(shapes...).Tables[self], nil
		},
	}}
	o := m.outbox(v.Subgroups[0])
	o.ahead = []multicast.Ahead{{Sender: 2, Messages: 5}, {Sender: 3, Messages: 4}, {Sender: 4, Messages: 3}, {Sender: 9, Messages: 2}}
	if _, err := m.open(v); err != nil {
		t.Fatal(err)
	}
	var kept []order.NodeID // node 4 sends nowhere now, and keeps what it carries
	for _, a := range o.ahead {
		kept = append(kept, a.Sender)
	}
	if !slices.Equal(kept, []order.NodeID{3, 4, 9}) {
		t.Errorf("kept of nodes %v", kept)
	}
}
