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
func (nobody) Refuses() bool                       { return false }

// What a sender carried is sent in the shard in which it is now. A member of another shard was
// given some of it. It must not drop as much of what that sender sends when the two meet again, but
// only what was not sent by the end of the view.
func TestWhatWasSentInAnotherShardIsNotDroppedInThisOne(t *testing.T) {
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
	e, err := m.open(v)
	if err != nil {
		t.Fatal(err)
	}
	all := []multicast.Ahead{{Sender: 2, Indexes: 5}, {Sender: 3, Indexes: 4}, {Sender: 4, Indexes: 3}, {Sender: 9, Indexes: 2}}
	for sent, left := range []order.Index{5, 4, 3, 2, 1, 0, 0} { // by node 2; node 4 sends nowhere now, and keeps what it carries
		want := slices.Clone(all)
		if want[0].Indexes = left; left == 0 {
			want = want[1:]
		}
		if got := e.aheadAfter("a", all, [][]order.Index{{9, 9}, {order.Index(sent)}}); !slices.Equal(got, want) {
			t.Errorf("%d messages were sent: kept %v, want %v", sent, got, want)
		}
	}
	if got := e.aheadAfter("a", all, make([][]order.Index, 2)); !slices.Equal(got, all) {
		t.Errorf("no member went on: kept %v", got)
	}
}
