// Command chat is one member of a group that chats: it sends the lines that it reads, and prints
// the lines of all members, in the same order everywhere. In three terminals:
//
//	go run ./examples/chat -id 1
//	go run ./examples/chat -id 2
//	go run ./examples/chat -id 3
//
// The conversation goes on when a member leaves (Control-D). A further member is not in the list of
// -members, and listens at an address of its own:
//
//	go run ./examples/chat -id 4 -listen 127.0.0.1:7004
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/squall-go/squall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "chat:", err)
		os.Exit(1)
	}
}

// leaveWithin bounds how long the last messages may take to reach all members.
const leaveWithin = 5 * time.Second

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	cfg, err := parse(args)
	if err != nil {
		return err
	}
	cfg.Events = func(e squall.Event) {
		switch e.(type) {
		case squall.Listening, squall.ViewInstalled, squall.MemberDown:
			fmt.Fprintln(out, "*", e)
		}
	}
	cfg.Subgroups = []squall.SubgroupConfig{{
		Name:            "chat",
		Deliver:         func(m squall.Message) { fmt.Fprintf(out, "%d: %s\n", m.Sender, m.Data) },
		AsyncQueueBytes: 64 << 10, // a terminal may stand still; the group shall not
	}}
	group, err := squall.Open(ctx, cfg)
	if err != nil {
		return err
	}
	chat, err := group.Subgroup("chat")
	if err == nil {
		err = talk(ctx, group, chat, in)
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWithin)
	defer cancel()
	if halted := group.Close(closing); err == nil {
		err = halted
	}
	return err
}

func parse(args []string) (squall.Config, error) {
	flags := flag.NewFlagSet("chat", flag.ContinueOnError)
	id := flags.Uint64("id", 0, "number of this member, from 1 up")
	members := flags.String("members", "127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003", "`addresses` of the members by number, with commas between: the same list at each of them")
	listen := flags.String("listen", "", "`host:port` to listen on; empty: the one in -members")
	if err := flags.Parse(args); err != nil {
		return squall.Config{}, err
	}
	cfg := squall.Config{
		Cluster: "chat", ID: squall.NodeID(*id), Listen: *listen, Join: strings.Split(*members, ","), Logger: slog.New(slog.DiscardHandler),
	}
	cfg.InitialMembers = len(cfg.Join) // so that none of them misses the first lines
	if cfg.Listen == "" && *id > 0 && *id <= uint64(len(cfg.Join)) {
		cfg.Listen = cfg.Join[*id-1]
	}
	return cfg, nil
}

// talk sends lines until there are no more, or the group ends.
func talk(ctx context.Context, group *squall.Group, chat *squall.Subgroup, in io.Reader) error {
	lines, failed := make(chan string), make(chan error, 1)
	go func() { // a read cannot be interrupted: this goroutine ends with the process
		defer close(lines)
		scanner := bufio.NewScanner(in)
		for scanner.Scan() {
			select {
			case lines <- scanner.Text():
			case <-group.Done():
				return
			}
		}
		failed <- scanner.Err()
	}()
	for {
		select {
		case line, more := <-lines:
			if !more {
				select {
				case err := <-failed:
					return err
				default:
					return nil // the group ended, and Close says why
				}
			}
			if err := chat.Send(ctx, []byte(line)); err != nil {
				return err
			}
		case <-group.Done():
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}
