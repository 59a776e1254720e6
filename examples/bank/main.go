// Command bank is a replicated service with clients: bank.go is the service.
//
//	go run ./examples/bank member -id 1
//	go run ./examples/bank member -id 2
//	go run ./examples/bank member -id 3
//	go run ./examples/bank client deposit ann 100
//	go run ./examples/bank client transfer ann bob 30
//	go run ./examples/bank client balance bob
//
// The bank works as long as two of the members do, whichever of them is killed.
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
	"strconv"
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

const cluster = "bank"

var errUsage = errors.New("usage: bank member -id N [flags] | bank client [-members ADDRESSES] deposit ACCOUNT CENTS | transfer FROM TO CENTS | balance ACCOUNT")

func run(ctx context.Context, args []string, out io.Writer) error {
	switch {
	case len(args) > 0 && args[0] == "member":
		return runMember(ctx, args[1:], out)
	case len(args) > 0 && args[0] == "client":
		return client(ctx, args[1:], out)
	}
	return errUsage
}

// runMember takes part in the bank until ctx ends.
func runMember(ctx context.Context, args []string, out io.Writer) (err error) {
	f := flag.NewFlagSet("bank member", flag.ContinueOnError)
	id := f.Uint64("id", 0, "number of this member, from 1")
	members := f.String("members", "127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003", "addresses of all members by number, with commas between: the same list at each of them")
	listen := f.String("listen", "", "address for the other members; empty: the one in -members")
	clients := f.String("clients", "", "address for clients; empty: port 8000 and the number of the member")
	if err := f.Parse(args); err != nil {
		return err
	}
	bank := newObject()
	cfg := squall.Config{Cluster: cluster, ID: squall.NodeID(*id), Listen: *listen, Join: strings.Split(*members, ","), FailAfter: time.Second}
	if cfg.Listen == "" && *id > 0 && *id <= uint64(len(cfg.Join)) {
		cfg.Listen = cfg.Join[*id-1]
	}
	g, err := member.Open(ctx, cfg, bank)
	if err != nil {
		return err
	}
	defer func() {
		leaving, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err = errors.Join(err, g.Close(leaving))
	}()
	server, err := member.Serve(ctx, member.ServerConfig{Endpoint: ripc.Config{Listen: cmp.Or(*clients, fmt.Sprint("127.0.0.1:", 8000+*id))}}, bank)
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

// client does one thing and prints the balance.
func client(ctx context.Context, args []string, out io.Writer) error {
	f := flag.NewFlagSet("bank client", flag.ContinueOnError)
	members := f.String("members", "127.0.0.1:8001,127.0.0.1:8002,127.0.0.1:8003", "addresses for clients, with commas between")
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
	balance, err := do(ctx, c.Object("bank"), f.Args())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, balance)
	return err
}

func do(ctx context.Context, bank *replicated.RemoteObject, args []string) (int64, error) {
	cents := func() (int64, error) { return strconv.ParseInt(args[len(args)-1], 10, 64) }
	switch {
	case len(args) == 3 && args[0] == "deposit":
		n, err := cents()
		if err != nil {
			return 0, err
		}
		return Deposit.Call(ctx, bank, Amount{args[1], n})
	case len(args) == 4 && args[0] == "transfer":
		n, err := cents()
		if err != nil {
			return 0, err
		}
		return Transfer.Call(ctx, bank, Payment{args[1], args[2], n})
	case len(args) == 2 && args[0] == "balance":
		return Balance.Call(ctx, bank, args[1])
	}
	return 0, errUsage
}
