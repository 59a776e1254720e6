// Command ledger has three members of a group in one process, which keep an account in a persistent
// subgroup. Every run deposits something; run it again with the same directory, and the account has
// what all runs deposited.
//
//	go run ./examples/ledger -dir /tmp/ledger
//	go run ./examples/ledger -dir /tmp/ledger
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"github.com/squall-go/squall"
	_ "github.com/squall-go/squall/persist/bolt"
)

const (
	members  = 3
	deposits = 10 // of each member, of 1 each
)

func main() {
	dir := flag.String("dir", "ledger", "where the members keep their logs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *dir, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// account is one member's copy of the account. Its upcalls are never called at the same time.
type account struct {
	mu      sync.Mutex
	balance int
	applied int // deposits of this run
}

// apply is called for each deposit, in the order that is the same everywhere; first for the
// deposits of earlier runs, which are in the log.
func (a *account) apply(m squall.Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	amount, _ := strconv.Atoi(string(m.Data))
	a.balance += amount
	if !m.Replayed() {
		a.applied++
	}
}

// restore empties the account. Its log has no snapshot, so there is nothing to read: all deposits
// are replayed.
func (a *account) restore(io.Reader) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.balance = 0
	return nil
}

func run(ctx context.Context, dir string, out io.Writer) error {
	accounts := make([]*account, members)
	groups := make([]*squall.Group, members)
	errs := make([]error, members)
	addrs, err := addresses()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx) // if one cannot open, the others need not wait for it
	defer cancel()
	var opening sync.WaitGroup
	for i := range members {
		accounts[i] = &account{}
		opening.Go(func() {
			if groups[i], errs[i] = squall.Open(ctx, config(dir, addrs, i, accounts[i])); errs[i] != nil {
				cancel()
			}
		})
	}
	opening.Wait()
	if err = errors.Join(errs...); err == nil {
		err = work(ctx, groups, accounts[0], out)
	}
	var closing sync.WaitGroup
	for i, g := range groups {
		if g != nil {
			closing.Go(func() { errs[i] = g.Close(ctx) })
		}
	}
	closing.Wait()
	if err = errors.Join(append(errs, err)...); err == nil {
		fmt.Fprintf(out, "%d deposits later it has %d\n", accounts[0].applied, accounts[0].balance)
	}
	return err
}

// addresses returns an address of this host for each member. Members that have fixed addresses, and
// know them all, find each other after a restart, whichever of them was the last to leave.
func addresses() (addrs []string, err error) {
	for range members {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // after all have one, so that they differ
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

// config is a member's part. Each has a directory of its own. The first one bootstraps the group,
// if there was none.
func config(dir string, addrs []string, i int, a *account) squall.Config {
	return squall.Config{
		Cluster: "ledger", ID: squall.NodeID(i + 1), Listen: addrs[i], Join: addrs, InitialMembers: members,
		Logger: slog.New(slog.DiscardHandler), Dir: filepath.Join(dir, strconv.Itoa(i+1)),
		Subgroups: []squall.SubgroupConfig{{
			Name: "account", Mode: squall.Persistent, Deliver: a.apply, Restore: a.restore,
		}},
	}
}

// work waits until all members have the account, and has them deposit.
func work(ctx context.Context, groups []*squall.Group, a *account, out io.Writer) error {
	var subgroups []*squall.Subgroup
	for _, g := range groups {
		s, err := g.Subgroup("account")
		if err != nil {
			return err
		}
		<-s.Restored() // a member that was not among the last to leave gets what its log lacks from the others
		subgroups = append(subgroups, s)
	}
	fmt.Fprintf(out, "the account has %d\n", a.balance)
	return deposit(ctx, subgroups)
}

// deposit has every member deposit, and waits until all of that is on every disk: from then on no
// failure takes it away.
func deposit(ctx context.Context, subgroups []*squall.Subgroup) error {
	var futures []*squall.Future
	for _, s := range subgroups {
		for range deposits {
			f, err := s.SendFuture(ctx, []byte("1"))
			if err != nil {
				return err
			}
			futures = append(futures, f)
		}
	}
	for _, f := range futures {
		if _, err := f.Persisted(ctx, squall.OnEveryDisk); err != nil {
			return err
		}
	}
	return nil
}
