// Command hello has three members of a group in one process. Each says hello, and all of them hear
// it in the same order.
//
//	go run ./examples/hello
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/squall-go/squall"
)

// addrs are the addresses of the members.
var addrs = []string{"127.0.0.1:7001", "127.0.0.1:7002", "127.0.0.1:7003"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, addrs, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// member is one member and what it heard, in order.
type member struct {
	id    squall.NodeID
	group *squall.Group
	heard []string
	all   chan struct{} // closed when it has heard all members
}

func run(ctx context.Context, addrs []string, out io.Writer) error {
	all := make([]*member, len(addrs))
	for i := range all {
		all[i] = &member{id: squall.NodeID(i + 1), all: make(chan struct{})}
	}
	err := open(ctx, addrs, all)
	for _, m := range all {
		if err == nil {
			err = m.greet(ctx)
		}
	}
	for _, m := range all {
		if err == nil {
			err = m.wait(ctx)
		}
	}
	for _, m := range all {
		if m.group != nil {
			err = errors.Join(err, m.group.Close(ctx)) // the others go on, until they leave too
		}
		if err == nil {
			fmt.Fprintf(out, "node %d heard: %s\n", m.id, strings.Join(m.heard, ", "))
		}
	}
	return err
}

// open forms the group. Open returns when all members are there, so that each needs a goroutine.
func open(ctx context.Context, addrs []string, all []*member) error {
	ctx, cancel := context.WithCancel(ctx) // if one cannot open, the others need not wait for it
	defer cancel()
	errs := make([]error, len(all))
	var opening sync.WaitGroup
	for i, m := range all {
		opening.Go(func() {
			if m.group, errs[i] = squall.Open(ctx, m.config(addrs)); errs[i] != nil {
				cancel()
			}
		})
	}
	opening.Wait()
	return errors.Join(errs...)
}

// config is a member's part. All have the same list in Join.
func (m *member) config(addrs []string) squall.Config {
	return squall.Config{
		Cluster: "hello", ID: m.id, Listen: addrs[m.id-1], Join: addrs, InitialMembers: len(addrs), Logger: slog.New(slog.DiscardHandler),
		Subgroups: []squall.SubgroupConfig{{Name: "greetings", Deliver: func(message squall.Message) { m.hear(message, len(addrs)) }}},
	}
}

// hear is called for each message, in the order that is the same everywhere.
func (m *member) hear(message squall.Message, members int) {
	m.heard = append(m.heard, string(message.Data)) // a copy: the data belongs to the ring
	if len(m.heard) == members {
		close(m.all)
	}
}

func (m *member) greet(ctx context.Context) error {
	greetings, err := m.group.Subgroup("greetings")
	if err != nil {
		return err
	}
	return greetings.Send(ctx, fmt.Appendf(nil, "hello from %d", m.id))
}

func (m *member) wait(ctx context.Context) error {
	select {
	case <-m.all:
		return nil
	case <-m.group.Done():
		return m.group.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
