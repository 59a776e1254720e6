package rdmc_test

import (
	"context"
	"fmt"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/rdmc"
)

// Two nodes in one process; elsewhere each is a process of its own, and the list of members is what
// they agree on beforehand.
func ExampleNode_Open() {
	ctx := context.Background()
	var nodes []*rdmc.Node
	var members []rdmc.Peer
	for id := order.NodeID(1); id <= 2; id++ {
		n, err := rdmc.Open(ctx, rdmc.Config{Self: rdmc.Peer{ID: id, Addr: "127.0.0.1:0"}})
		if err != nil {
			fmt.Println(err)
			return
		}
		defer n.Close()
		nodes, members = append(nodes, n), append(members, n.Peer())
	}
	received := make(chan error)
	go func() { received <- receive(ctx, nodes[1], members) }()
	group, err := nodes[0].Open(ctx, rdmc.GroupConfig{Name: "images", Key: "a secret", Members: members})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := group.Send(ctx, make([]byte, 8<<20)); err != nil {
		fmt.Println(err)
	}
	fmt.Println("sent:", group.Close(ctx)) // nil: every member has every message
	fmt.Println("received:", <-received)
	// Output:
	// message 0 has 8388608 bytes
	// sent: <nil>
	// received: <nil>
}

// receive takes what comes until the root, the first of the members, closes the group.
func receive(ctx context.Context, n *rdmc.Node, members []rdmc.Peer) error {
	group, err := n.Open(ctx, rdmc.GroupConfig{
		Name: "images", Key: "a secret", Members: members,
		Completed: func(m rdmc.Message) { fmt.Printf("message %d has %d bytes\n", m.Index, len(m.Data)) },
	})
	if err != nil {
		return err
	}
	return group.Close(ctx)
}
