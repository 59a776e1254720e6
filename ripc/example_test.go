package ripc_test

import (
	"context"
	"fmt"

	"github.com/squall-go/squall/ripc"
)

// A service that answers, and a client that calls it. On one host neither Addr nor a list of
// services is needed: a service is found by its name, and the processes share memory.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	server, err := ripc.Open(ctx, ripc.Config{Listen: "127.0.0.1:0", Resolver: ripc.Static{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	greeter, err := server.Register(ctx, "greeter")
	if err != nil {
		fmt.Println(err)
		return
	}
	go greeter.Serve(ctx, func(_ context.Context, m *ripc.Message) {
		m.Reply([]byte("hello, "), m.Data)
	})

	client, err := ripc.Open(ctx, ripc.Config{Listen: "127.0.0.1:0", Resolver: ripc.Static{"greeter": server.Place()}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	me, err := client.Register(ctx, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	reply, err := me.Call(ctx, me.To("greeter"), []byte("world"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", reply.Data)
	reply.Release()
	// Output: hello, world
}
