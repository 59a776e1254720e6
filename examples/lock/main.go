// Command lock is a replicated lock service: lock.go is the service, mutex.go a lock as a client
// uses it.
//
//	go run ./examples/lock member -id 1
//	go run ./examples/lock member -id 2
//	go run ./examples/lock member -id 3
//	go run ./examples/lock hold -name ann printer
//	go run ./examples/lock hold -name bob printer
//
// The second holder gets the lock when the first one ends: at once if it is interrupted, and after
// its lease if it is killed.
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

const cluster = "lock"

var errUsage = errors.New("usage: lock member -id N [flags] | lock hold -name HOLDER [flags] LOCK")

func run(ctx context.Context, args []string, out io.Writer) error {
	switch {
	case len(args) > 0 && args[0] == "member":
		return runMember(ctx, args[1:], out)
	case len(args) > 0 && args[0] == "hold":
		return hold(ctx, args[1:], out)
	}
	return errUsage
}

// runMember takes part in the service until ctx ends.
func runMember(ctx context.Context, args []string, out io.Writer) (err error) {
	f := flag.NewFlagSet("lock member", flag.ContinueOnError)
	id := f.Uint64("id", 0, "number of this member, from 1")
	members := f.String("members", "127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003", "addresses of all members by number, with commas between: the same list at each of them")
	listen := f.String("listen", "", "address for the other members; empty: the one in -members")
	clients := f.String("clients", "", "address for clients; empty: port 8000 and the number of the member")
	if err := f.Parse(args); err != nil {
		return err
	}
	locks := newObject()
	cfg := squall.Config{Cluster: cluster, ID: squall.NodeID(*id), Listen: *listen, Join: strings.Split(*members, ","), FailAfter: time.Second}
	if cfg.Listen == "" && *id > 0 && *id <= uint64(len(cfg.Join)) {
		cfg.Listen = cfg.Join[*id-1]
	}
	g, err := member.Open(ctx, cfg, locks)
	if err != nil {
		return err
	}
	defer func() {
		leaving, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err = errors.Join(err, g.Close(leaving))
	}()
	server, err := member.Serve(ctx, member.ServerConfig{Endpoint: ripc.Config{Listen: cmp.Or(*clients, fmt.Sprint("127.0.0.1:", 8000+*id))}}, locks)
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

// hold waits for a lock, prints the fence, and holds the lock until ctx ends.
func hold(ctx context.Context, args []string, out io.Writer) (err error) {
	f := flag.NewFlagSet("lock hold", flag.ContinueOnError)
	name := f.String("name", "", "name of the holder, which no other one has")
	lease := f.Duration("lease", 5*time.Second, "how long the lock stays held when the holder is killed")
	members := f.String("members", "127.0.0.1:8001,127.0.0.1:8002,127.0.0.1:8003", "addresses for clients, with commas between")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() != 1 || *name == "" {
		return errUsage
	}
	c, err := replicated.Dial(ctx, replicated.ClientConfig{Cluster: cluster, Addresses: strings.Split(*members, ",")})
	if err != nil {
		return err
	}
	defer c.Close()
	m := &Mutex{locks: c.Object("locks"), name: f.Arg(0), holder: *name, lease: *lease}
	fence, held, unlock, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s has %s with the fence %d\n", *name, f.Arg(0), fence)
	select {
	case <-ctx.Done():
		return unlock()
	case <-held.Done():
		return context.Cause(held)
	}
}
