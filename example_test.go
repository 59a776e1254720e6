package squall_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"strings"

	"github.com/squall-go/squall"
)

// A group of one member. In a larger group each process opens the group with an id of its own, with
// the address of the first process in Join, and with the number of processes in InitialMembers.
func ExampleOpen() {
	ctx := context.Background()
	group, err := squall.Open(ctx, squall.Config{
		Cluster: "example", ID: 1, Listen: "127.0.0.1:0", InitialMembers: 1, Logger: slog.New(slog.DiscardHandler),
		Subgroups: []squall.SubgroupConfig{{Name: "greetings", Deliver: func(m squall.Message) {
			fmt.Printf("%d: node %d says %s\n", m.Seq, m.Sender, m.Data)
		}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	greetings, err := group.Subgroup("greetings")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, text := range []string{"hello", "and good-bye"} {
		if err := greetings.Send(ctx, []byte(text)); err != nil {
			fmt.Println(err)
		}
	}
	if err := group.Close(ctx); err != nil { // waits until everything is delivered everywhere
		fmt.Println(err)
	}
	// Output:
	// 0: node 1 says hello
	// 1: node 1 says and good-bye
}

// A claim is filled in place, in the ring itself. What is aborted is never delivered.
func ExampleSubgroup_Claim() {
	ctx := context.Background()
	group, err := squall.Open(ctx, squall.Config{
		Cluster: "example", ID: 1, Listen: "127.0.0.1:0", InitialMembers: 1, Logger: slog.New(slog.DiscardHandler),
		Subgroups: []squall.SubgroupConfig{{Name: "numbers", DeliverBatch: func(run []squall.Message) {
			for _, m := range run {
				fmt.Println(binary.LittleEndian.Uint64(m.Data))
			}
		}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	numbers, err := group.Subgroup("numbers")
	if err != nil {
		fmt.Println(err)
		return
	}
	for n := range uint64(4) {
		c, err := numbers.Claim(ctx, 8)
		if err != nil {
			fmt.Println(err)
			return
		}
		binary.LittleEndian.PutUint64(c.Bytes, n*n)
		finish := c.Commit
		if n == 2 {
			finish = c.Abort
		}
		if err := finish(); err != nil {
			fmt.Println(err)
		}
	}
	if err := group.Close(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 0
	// 1
	// 9
}

// A message of any size has its place in the order. The reader could be a file. A handler that
// keeps a delivered message holds its body.
func ExampleSubgroup_SendFrom() {
	ctx := context.Background()
	var kept *squall.Body
	group, err := squall.Open(ctx, squall.Config{
		Cluster: "example", ID: 1, Listen: "127.0.0.1:0", InitialMembers: 1, Logger: slog.New(slog.DiscardHandler),
		Subgroups: []squall.SubgroupConfig{{Name: "images", MaxMessageBytes: 1 << 30, Deliver: func(m squall.Message) {
			fmt.Printf("%d bytes\n", len(m.Data))
			if m.Body() != nil {
				kept = m.Body().Hold()
			}
		}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	images, err := group.Subgroup("images")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := images.SendFrom(ctx, strings.NewReader(strings.Repeat("image ", 1<<20)), 6<<20); err != nil {
		fmt.Println(err)
	}
	if err := images.Send(ctx, []byte("small")); err != nil {
		fmt.Println(err)
	}
	if err := group.Close(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Printf("%s…\n", kept.Bytes()[:11])
	kept.Release()
	// Output:
	// 6291456 bytes
	// 5 bytes
	// image image…
}
