package views_test

import (
	"fmt"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// Four members share out two shards of a store, and all of them are in a subgroup for news, in
// which only node 1 sends.
func ExamplePlace() {
	declarations := []views.Declaration{
		{Name: "store", Shards: 2, MinMembers: 2, RingBytes: 1 << 16, Window: 64},
		{Name: "news", Senders: []order.NodeID{1}, RingBytes: 1 << 16, Window: 64},
	}
	var members []views.Member // by seniority
	for id := order.NodeID(1); id <= 4; id++ {
		members = append(members, views.Member{ID: id, Addr: fmt.Sprintf("host%d:7000", id)})
	}
	first := place(views.Placement{ID: 1, Cluster: "shop", Members: members, Declarations: declarations})

	// Node 4 has failed. Its shard has too few members until another node comes, and the others
	// stay where they are.
	place(views.Placement{ID: 2, Cluster: "shop", Members: members[:3], Declarations: declarations, Previous: first})
	// Output:
	// view 1: store, shard 0: ranks [0 2], of which [0 2] send
	// view 1: store, shard 1: ranks [1 3], of which [1 3] send
	// view 1: news, shard 0: ranks [0 1 2 3], of which [0] send
	// view 2: store, shard 0: ranks [0 2], of which [0 2] send
	// view 2: store, shard 1: ranks [], of which [] send
	// view 2: news, shard 0: ranks [0 1 2], of which [0] send
	// shard 1 of "store" needs 2 members, 1 is left
}

// place prints the role of each member in a view.
func place(p views.Placement) *views.View {
	v, unmet, err := views.Place(p)
	if err != nil {
		panic(err)
	}
	for _, s := range v.Subgroups {
		fmt.Printf("view %d: %s, shard %d: ranks %v, of which %v send\n", v.ID, s.Name, s.Shard, s.Members, s.Senders)
	}
	for _, u := range unmet {
		fmt.Println(u)
	}
	return v
}
