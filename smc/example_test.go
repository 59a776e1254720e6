package smc_test

import (
	"fmt"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/smc"
)

// A sender fills room in its ring, and a receiver finds the messages there. Here both look at the
// same memory; in a group, the receiver has a copy of it that the sender's pushes keep up to date.
func Example() {
	descriptors, bytes := make([]byte, 8*smc.DescriptorBytes), make([]byte, 4096)
	sender, receiver := smc.NewSender(descriptors, bytes), smc.NewReceiver(descriptors, bytes)

	for _, text := range []string{"first", "second"} {
		claim, ok := sender.Claim(len(text))
		if !ok {
			fmt.Println("the ring is full")
			return
		}
		copy(claim.Bytes, text) // in place: this is where receivers read it
		if err := sender.Commit(claim); err != nil {
			fmt.Println(err)
			return
		}
	}
	// The messages get the indexes from 2 on: the sender let its turns 0 and 1 go by.
	count, _ := sender.Publish(2, 100)
	sent := 2 + count

	for i := order.Index(0); i < sent; i++ {
		data, kind, err := receiver.Take(i)
		switch {
		case err != nil:
			fmt.Println(err)
		case kind == smc.Null:
			fmt.Printf("%d: null\n", i)
		default:
			fmt.Printf("%d: %s\n", i, data)
		}
	}
	// Once every member has delivered them, their room is free for other messages.
	fmt.Println("in use:", sender.InUse())
	sender.Release(sent)
	fmt.Println("in use:", sender.InUse())
	// Output:
	// 0: null
	// 1: null
	// 2: first
	// 3: second
	// in use: 2
	// in use: 0
}
