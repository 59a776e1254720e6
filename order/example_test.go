package order_test

import (
	"fmt"

	"github.com/squall-go/squall/order"
)

// Three senders take turns: message i of sender s has a place in the total order, and back.
func ExampleTurns() {
	const turns = order.Turns(3)
	fmt.Println("message 2 of sender 1 has place", turns.Seq(2, 1))
	index, sender := turns.Split(7)
	fmt.Printf("place 7 is message %d of sender %d\n", index, sender)

	// Of senders 0 and 2 two messages each have come, and of sender 1 three. The first that is
	// missing is message 2 of sender 0, so that the places 0 to 5 can be delivered.
	fmt.Println("received in order:", turns.Received([]order.Index{2, 3, 2}))
	// Output:
	// message 2 of sender 1 has place 7
	// place 7 is message 2 of sender 1
	// received in order: 6
}

// Places begin anew in each view, versions grow over all of them.
func ExampleVersion() {
	last := order.Version{View: 1, Seq: 900}
	next := order.Version{View: 2, Seq: 3}
	fmt.Println(last.Before(next), next.Compare(last))
	// Output: true 1
}
