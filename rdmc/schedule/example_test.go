package schedule_test

import (
	"fmt"

	"github.com/squall-go/squall/rdmc/schedule"
)

// Two blocks go from node 0 to three others. Each node computes what it has to send, without asking
// another node: node 1 sends on the block that it got, while the root sends the next block.
func ExampleNew() {
	plan, err := schedule.New(schedule.Pipeline, 4, 2, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for rank := range plan.Nodes() {
		for _, m := range plan.Sends(rank) {
			fmt.Printf("node %d, step %d: block %d to node %d\n", rank, m.Step, m.Block, m.To)
		}
	}
	fmt.Println("steps:", plan.Steps())
	// Output:
	// node 0, step 0: block 0 to node 1
	// node 0, step 1: block 1 to node 2
	// node 0, step 2: block 1 to node 1
	// node 1, step 1: block 0 to node 3
	// node 2, step 2: block 1 to node 3
	// node 3, step 2: block 0 to node 2
	// steps: 3
}
