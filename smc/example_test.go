package smc_test

import (
	"fmt"

	"github.com/squall-go/squall/smc"
)

// A sender puts messages into its ring, and a receiver finds them there. Here both look at the same
// memory; in a group, the receiver has a copy of it that the sender's pushes keep up to date.
func Example() {
	const window, ringBytes = 8, 4096
	area := make([]byte, smc.AreaBytes(ringBytes, window))
	sender, receiver := smc.NewSender(window, area), smc.NewReceiver(window, area)

	sender.Send([]byte("first"), smc.Small)
	claim, ok := sender.Claim(len("second"))
	if !ok {
		fmt.Println("the ring is full")
		return
	}
	copy(claim.Bytes, "second") // in place: this is where receivers read it
	if err := sender.Commit(claim); err != nil {
		fmt.Println(err)
		return
	}
	// The messages get the indexes from 2 on: the sender let its turns 0 and 1 go by.
	batch, _ := sender.Publish(2, 100)

	if err := receiver.See(batch.Position); err != nil {
		fmt.Println(err)
		return
	}
	for receiver.Next() < batch.Next {
		data, _, err := receiver.Take()
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%d: %s\n", receiver.Next(), data)
		receiver.Pass()
	}
	// Once every member has delivered them, their space is free for other messages.
	fmt.Println("in use:", sender.InUse())
	sender.Release(batch.Next)
	fmt.Println("in use:", sender.InUse())
	// Output:
	// 2: first
	// 3: second
	// in use: 2
	// in use: 0
}
