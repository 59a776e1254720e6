// Command kv is a key-value store in two shards, with clients: kv.go is the service. Members are
// placed in the shard that has fewer.
//
//	go run ./examples/kv member -id 1
//	go run ./examples/kv member -id 2
//	go run ./examples/kv member -id 3
//	go run ./examples/kv member -id 4
//	go run ./examples/kv client put colour blue
//	go run ./examples/kv client get colour
//	go run ./examples/kv client len
//
// With four members each shard has two, and goes on when one of them is killed.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
	"github.com/squall-go/squall/ripc"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const (
	cluster = "kv"
	shards  = 2
)

var errUsage = errors.New("usage: kv member -id N [flags] | kv client [-members ADDRESSES] put KEY VALUE | get KEY | len")

func run(ctx context.Context, args []string, out io.Writer) error {
	switch {
	case len(args) > 0 && args[0] == "member":
		return runMember(ctx, args[1:], out)
	case len(args) > 0 && args[0] == "client":
		return client(ctx, args[1:], out)
	}
	return errUsage
}

// runMember takes part in the store until ctx ends.
func runMember(ctx context.Context, args []string, out io.Writer) (err error) {
	f := flag.NewFlagSet("kv member", flag.ContinueOnError)
	id := f.Uint64("id", 0, "number of this member, from 1")
	members := f.String("members", "127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003,127.0.0.1:7004", "addresses of all members by number, with commas between: the same list at each of them")
	listen := f.String("listen", "", "address for the other members; empty: the one in -members")
	clients := f.String("clients", "", "address for clients; empty: port 8000 and the number of the member")
	if err := f.Parse(args); err != nil {
		return err
	}
	kv := newObject(shards)
	cfg := squall.Config{Cluster: cluster, ID: squall.NodeID(*id), Listen: *listen, Join: strings.Split(*members, ","), FailAfter: time.Second}
	if cfg.Listen == "" && *id > 0 && *id <= uint64(len(cfg.Join)) {
		cfg.Listen = cfg.Join[*id-1]
	}
	g, err := member.Open(ctx, cfg, kv)
	if err != nil {
		return err
	}
	defer func() {
		leaving, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err = errors.Join(err, g.Close(leaving))
	}()
	server, err := member.Serve(ctx, member.ServerConfig{Endpoint: ripc.Config{Listen: cmp.Or(*clients, fmt.Sprint("127.0.0.1:", 8000+*id))}}, kv)
	if err != nil {
		return err
	}
	defer server.Close()
	fmt.Fprintf(out, "member %d: members at %s, clients at %s\n", *id, g.Addr(), server.Addr())
	select {
	case <-ctx.Done():
		return nil
	case <-g.Done():
		return g.Err()
	}
}

// client does one thing and prints the result.
func client(ctx context.Context, args []string, out io.Writer) error {
	f := flag.NewFlagSet("kv client", flag.ContinueOnError)
	members := f.String("members", "127.0.0.1:8001,127.0.0.1:8002,127.0.0.1:8003,127.0.0.1:8004", "addresses for clients, with commas between")
	within := f.Duration("within", 10*time.Second, "how long it may take")
	if err := f.Parse(args); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, *within)
	defer cancel()
	c, err := replicated.Dial(ctx, replicated.ClientConfig{Cluster: cluster, Addresses: strings.Split(*members, ",")})
	if err != nil {
		return err
	}
	defer c.Close()
	return do(ctx, c.Object("kv"), f.Args(), out)
}

func do(ctx context.Context, kv *replicated.RemoteObject, args []string, out io.Writer) error {
	switch {
	case len(args) == 3 && args[0] == "put":
		revision, err := Put.Call(ctx, kv, Pair{args[1], args[2]})
		if err == nil {
			fmt.Fprintln(out, "revision", revision)
		}
		return err
	case len(args) == 2 && args[0] == "get":
		v, err := Get.Call(ctx, kv, args[1])
		if err == nil && v.Revision == 0 {
			err = fmt.Errorf("there is no key %q", args[1])
		}
		if err == nil {
			fmt.Fprintln(out, v.Value)
		}
		return err
	case len(args) == 1 && args[0] == "len":
		for r := range Len.EachShard(ctx, kv, struct{}{}) {
			if r.Err != nil {
				return r.Err
			}
			fmt.Fprintf(out, "shard %d: %d keys\n", r.Shard, r.Value)
		}
		return nil
	}
	return errUsage
}
