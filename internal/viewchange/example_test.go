package viewchange_test

import (
	"fmt"

	"github.com/squall-go/squall/internal/viewchange"
	"github.com/squall-go/squall/order"
)

// A majority of a view may decide for it, and of two halves the one with the senior member, rank 0.
func ExampleQuorum() {
	set := func(ranks ...order.Rank) (s viewchange.Ranks) {
		for _, r := range ranks {
			s = s.With(r, true)
		}
		return s
	}
	fmt.Println(viewchange.Quorum(5, set(2, 3, 4)), viewchange.Quorum(5, set(0, 1)))
	fmt.Println(viewchange.Quorum(4, set(0, 3)), viewchange.Quorum(4, set(1, 2)))
	// Output:
	// true false
	// true false
}
