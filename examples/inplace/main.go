// Command inplace replicates a map of counters. Updates are written straight into the ring, without
// a buffer of their own, and applied in runs; since all members apply the same updates in the same
// order, they end with equal digests.
//
//	go run ./examples/inplace -updates 100000
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"github.com/squall-go/squall"
)

func main() {
	updates := flag.Int("updates", 100_000, "updates that each of the three members makes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, *updates); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const members = 3

var errDigestsDiffer = errors.New("the digests differ")

// An update is 16 bytes: a key and what its counter becomes, times three plus this. The result
// depends on the order.
//
//	0        8        16
//	| key    | add    |
const updateBytes = 16

// replica is one member's copy of the map. The loop writes; others read once all is closed.
type replica struct {
	id       squall.NodeID
	group    *squall.Group
	updates  *squall.Subgroup
	counters map[uint64]uint64
	applied  int
	runs     int
	expected int
	all      chan struct{} // closed when everything expected is applied
}

// apply takes a run of updates: all that could be delivered at once.
func (r *replica) apply(run []squall.Message) {
	for _, m := range run {
		key, add := binary.LittleEndian.Uint64(m.Data), binary.LittleEndian.Uint64(m.Data[8:])
		r.counters[key] = 3*r.counters[key] + add
	}
	r.runs++
	if r.applied += len(run); r.applied == r.expected {
		close(r.all)
	}
}

// update claims room in the ring and fills it in place.
func (r *replica) update(ctx context.Context, key, add uint64) error {
	c, err := r.updates.Claim(ctx, updateBytes)
	if err != nil {
		return err
	}
	binary.LittleEndian.PutUint64(c.Bytes, key)
	binary.LittleEndian.PutUint64(c.Bytes[8:], add)
	return c.Commit()
}

// work makes the updates and waits until the updates of all members are applied here.
func (r *replica) work(ctx context.Context, updates int) error {
	for k := range uint64(updates) {
		if err := r.update(ctx, k*k%1000, k+uint64(r.id)); err != nil {
			return err
		}
	}
	if r.expected == 0 {
		return nil
	}
	select {
	case <-r.all:
		return nil
	case <-r.group.Done():
		return r.group.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *replica) digest() uint64 {
	h := fnv.New64a()
	for _, key := range slices.Sorted(maps.Keys(r.counters)) {
		fmt.Fprintln(h, key, r.counters[key])
	}
	return h.Sum64()
}

func run(ctx context.Context, out io.Writer, updates int) error {
	replicas := make([]*replica, members)
	for i := range replicas {
		replicas[i] = &replica{
			id: squall.NodeID(i + 1), counters: map[uint64]uint64{}, expected: members * updates, all: make(chan struct{}),
		}
	}
	first := make(chan string, 1)
	err := each(ctx, replicas, func(ctx context.Context, r *replica) (err error) {
		if r.group, err = squall.Open(ctx, r.config(ctx, first)); err == nil {
			r.updates, err = r.group.Subgroup("counters")
		}
		return err
	})
	if err == nil {
		err = each(ctx, replicas, func(ctx context.Context, r *replica) error { return r.work(ctx, updates) })
	}
	for _, r := range replicas {
		if r.group != nil {
			err = errors.Join(err, r.group.Close(ctx)) // the others go on, until they leave too
		}
	}
	if err != nil {
		return err
	}
	for _, r := range replicas {
		fmt.Fprintf(out, "node %d: %d updates in %d runs, %d counters, digest %016x\n", r.id, r.applied, r.runs, len(r.counters), r.digest())
		if r.digest() != replicas[0].digest() {
			err = errDigestsDiffer
		}
	}
	return err
}

// each does something for all replicas at once. The first failure ends the others.
func each(ctx context.Context, replicas []*replica, do func(context.Context, *replica) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(replicas))
	var doing sync.WaitGroup
	for i, r := range replicas {
		doing.Go(func() {
			if errs[i] = do(ctx, r); errs[i] != nil {
				cancel()
			}
		})
	}
	doing.Wait()
	return errors.Join(errs...)
}

// config is a member's part. The first one bootstraps the group; the others must know where it
// listens.
func (r *replica) config(ctx context.Context, first chan string) squall.Config {
	c := squall.Config{
		Cluster: "inplace", ID: r.id, Listen: "127.0.0.1:0", InitialMembers: members, Logger: slog.New(slog.DiscardHandler),
		Subgroups: []squall.SubgroupConfig{{Name: "counters", DeliverBatch: r.apply}},
	}
	if r.id == 1 {
		c.Events = func(e squall.Event) {
			if l, ok := e.(squall.Listening); ok {
				first <- l.Addr
			}
		}
		return c
	}
	select {
	case addr := <-first:
		c.Join = []string{addr}
		first <- addr
	case <-ctx.Done(): // Open says so
	}
	return c
}
