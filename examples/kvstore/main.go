// Command kvstore is one replica of a map. Three of them keep it as long as two are there; one that
// was killed and is started again gets the map from the others. In three terminals:
//
//	go run ./examples/kvstore -id 1
//	go run ./examples/kvstore -id 2
//	go run ./examples/kvstore -id 3
//
// "color=blue" sets a value, everywhere; "color" reads it here; "*" lists all. Kill one (kill -9,
// too), go on with the others, and start it again. With -dir DIRECTORY the map also survives the
// end of all replicas: give each a directory of its own.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/squall-go/squall"
	_ "github.com/squall-go/squall/persist/bolt"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "kvstore:", err)
		os.Exit(1)
	}
}

// store is the replicated map. All replicas apply the same changes in the same order.
type store struct {
	changes *squall.Subgroup

	mu     sync.Mutex
	values map[string]string
}

// apply is the upcall: a message is "key=value".
func (s *store) apply(m squall.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, value, _ := strings.Cut(string(m.Data), "=")
	s.values[key] = value
}

// snapshot captures the map where a new replica comes in, or a snapshot takes the place of a log,
// and returns what writes it.
func (s *store) snapshot() func(io.Writer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	values := maps.Clone(s.values)
	return func(w io.Writer) error { return json.NewEncoder(w).Encode(values) }
}

// restore replaces the map by another replica's, or by the log's snapshot.
func (s *store) restore(r io.Reader) error {
	values := map[string]string{}
	if err := json.NewDecoder(r).Decode(&values); err != nil && err != io.EOF { // nothing: it begins empty
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values = values
	return nil
}

// read answers "key" and "*".
func (s *store) read(what string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if what != "*" {
		return fmt.Sprintf("%s=%s", what, s.values[what])
	}
	var all []string
	for _, key := range slices.Sorted(maps.Keys(s.values)) {
		all = append(all, key+"="+s.values[key])
	}
	return fmt.Sprintf("%d: %s", len(all), strings.Join(all, " "))
}

// leaveWithin bounds how long a farewell may take.
const leaveWithin = 5 * time.Second

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	cfg, err := parse(args)
	if err != nil {
		return err
	}
	cfg.Events = func(e squall.Event) {
		switch e.(type) {
		case squall.Listening, squall.ViewInstalled, squall.MemberDown, squall.StateRestored:
			fmt.Fprintln(out, "*", e)
		}
	}
	s := &store{values: map[string]string{}}
	mode := squall.Ordered
	if cfg.Dir != "" {
		mode = squall.Persistent
	}
	cfg.Subgroups = []squall.SubgroupConfig{{Name: "map", Mode: mode, Deliver: s.apply, Snapshot: s.snapshot, Restore: s.restore}}
	group, err := squall.Open(ctx, cfg)
	if err != nil {
		return err
	}
	if s.changes, err = group.Subgroup("map"); err == nil {
		err = serve(ctx, group, s, in, out)
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWithin)
	defer cancel()
	return errors.Join(err, group.Close(closing))
}

func parse(args []string) (squall.Config, error) {
	flags := flag.NewFlagSet("kvstore", flag.ContinueOnError)
	id := flags.Int("id", 0, "number of this replica, from 1 up")
	peers := flags.String("peers", "127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003", "`addresses` of all replicas, by number")
	dir := flags.String("dir", "", "`directory` for the log of all changes; none: the map lives in memory")
	if err := flags.Parse(args); err != nil {
		return squall.Config{}, err
	}
	addrs := strings.Split(*peers, ",")
	if *id < 1 || *id > len(addrs) {
		return squall.Config{}, fmt.Errorf("-id is %d: give a number from 1 to %d", *id, len(addrs))
	}
	return squall.Config{
		Cluster: "kvstore", ID: squall.NodeID(*id), Dir: *dir, Listen: addrs[*id-1], Join: addrs, InitialMembers: len(addrs),
		Logger: slog.New(slog.DiscardHandler),
	}, nil
}

// serve does what the lines ask for until there are no more, or the group ends.
func serve(ctx context.Context, group *squall.Group, s *store, in io.Reader, out io.Writer) error {
	select {
	case <-s.changes.Restored(): // before that, reads would show an old map, or none
	case <-group.Done():
		return group.Err()
	case <-ctx.Done():
		return nil
	}
	lines := make(chan string)
	go func() { // a read cannot be interrupted: this goroutine ends with the process
		defer close(lines)
		for scanner := bufio.NewScanner(in); scanner.Scan(); {
			select {
			case lines <- scanner.Text():
			case <-group.Done():
				return
			}
		}
	}()
	for {
		select {
		case line, more := <-lines:
			if !more {
				return group.Err()
			}
			if err := do(ctx, s, line, out); err != nil {
				return err
			}
		case <-group.Done():
			return group.Err()
		case <-ctx.Done():
			return nil
		}
	}
}

// do sets a value and waits until that is done here, or reads.
func do(ctx context.Context, s *store, line string, out io.Writer) error {
	if !strings.Contains(line, "=") {
		fmt.Fprintln(out, s.read(line))
		return nil
	}
	change, err := s.changes.SendFuture(ctx, []byte(line))
	if err != nil {
		return err
	}
	version, err := change.Wait(ctx)
	if err == nil {
		fmt.Fprintf(out, "%s, change %v\n", line, version)
	}
	return err
}
