package nullsend_test

import (
	"fmt"

	"github.com/squall-go/squall/nullsend"
	"github.com/squall-go/squall/order"
)

// Three senders take turns. Sender 1 has sent two messages and the others none, so that the others
// owe nulls: sender 0 has its turn before sender 1 in both rounds, sender 2 in the second one only.
func ExampleOwed() {
	got := []order.Index{0, 2, 0} // of each sender, how many messages arrived
	for self := range order.SenderRank(3) {
		fmt.Printf("sender %d owes %d\n", self, nullsend.Owed(self, got[self], got))
	}

	// With these nulls, everything up to the second message of sender 1 can be delivered.
	got = []order.Index{2, 2, 1}
	fmt.Println("positions that can be delivered:", order.Turns(3).Received(got))
	fmt.Println("sender 0 owes", nullsend.Owed(0, got[0], got))
	// Output:
	// sender 0 owes 2
	// sender 1 owes 0
	// sender 2 owes 1
	// positions that can be delivered: 5
	// sender 0 owes 0
}

// A sender that skips turns has taken them without sending anything, and owes no nulls for them.
func ExampleCount() {
	sent, skipped := order.Index(1), order.Index(5)
	got := []order.Index{0, 3} // the other sender is ahead
	fmt.Println("owed without the skip:", nullsend.Owed(0, sent, got))
	fmt.Println("owed with it:", nullsend.Owed(0, nullsend.Count(sent, skipped), got))
	fmt.Println("index of the next message:", nullsend.Count(sent, skipped))
	// Output:
	// owed without the skip: 2
	// owed with it: 0
	// index of the next message: 5
}
