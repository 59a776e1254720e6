package directory_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/ripc"
	"github.com/squall-go/squall/ripc/directory"
)

// A directory with one member, a service that registers in it, and a client that finds the service
// by its name.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	closing := func(c io.Closer) { must(c.Close()) }

	// A member of the group. Others have an ID and a Join of their own.
	dir := directory.New(directory.Config{})
	group, err := squall.Open(ctx, squall.Config{
		Cluster: "example", ID: 1, Listen: "127.0.0.1:0", InitialMembers: 1, Logger: slog.New(slog.DiscardHandler),
		Subgroups: []squall.SubgroupConfig{dir.Subgroup()},
	})
	must(err)
	defer group.Close(context.Background())
	member, err := ripc.Open(ctx, ripc.Config{Listen: "127.0.0.1:0", Resolver: dir})
	must(err)
	defer closing(member)
	go dir.Serve(ctx, group, member)

	// A process with a service. With a Key in its configuration, the name would stay its own.
	there, err := directory.Dial(ctx, directory.ClientConfig{Addresses: []string{member.Addr()}})
	must(err)
	defer closing(there)
	server, err := ripc.Open(ctx, ripc.Config{Listen: "127.0.0.1:0", Resolver: there})
	must(err)
	defer closing(server)
	greeter, err := server.Register(ctx, "greeter")
	must(err)
	go greeter.Serve(ctx, func(_ context.Context, m *ripc.Message) { m.Reply([]byte("hello, "), m.Data) })

	// A process that calls it.
	here, err := directory.Dial(ctx, directory.ClientConfig{Addresses: []string{member.Addr()}})
	must(err)
	defer closing(here)
	client, err := ripc.Open(ctx, ripc.Config{Resolver: here})
	must(err)
	defer closing(client)
	me, err := client.Register(ctx, "")
	must(err)
	reply, err := me.Call(ctx, me.To("greeter"), []byte("world"))
	must(err)
	fmt.Printf("%s\n", reply.Data)
	reply.Release()
	// Output: hello, world
}
