// Command topics has two members of a space in one process: one writes positions of vehicles, the
// other one reads them, and a reader that comes later begins with the last position of each.
//
//	go run ./examples/topics
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/member"
	"github.com/squall-go/squall/dds/qos"
)

// Position is a sample: the last one of each vehicle is kept.
type Position struct {
	Vehicle int32 `dds:"key"`
	X, Y    float64
}

// addrs are the addresses of the members.
var addrs = []string{"127.0.0.1:7001", "127.0.0.1:7002"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, addrs, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, addrs []string, out io.Writer) error {
	all, err := open(ctx, addrs)
	if err == nil {
		err = publish(ctx, all[0])
	}
	if err == nil {
		err = subscribe(ctx, all[1], out)
	}
	for _, m := range all {
		if m != nil {
			err = errors.Join(err, m.Close(ctx))
		}
	}
	return err
}

func publish(ctx context.Context, m *member.Member) error {
	positions, err := dds.NewTopic(ctx, m, "positions", dds.CBOR[Position](), dds.QoS{Durability: qos.Transient})
	if err != nil {
		return err
	}
	w, err := positions.Writer(ctx, dds.QoS{Durability: qos.Transient})
	if err != nil {
		return err
	}
	for i := range 9 {
		err = errors.Join(err, w.Write(ctx, Position{Vehicle: int32(i % 3), X: float64(i)}))
	}
	return err
}

func subscribe(ctx context.Context, m *member.Member, out io.Writer) error {
	positions, err := dds.NewTopic(ctx, m, "positions", dds.CBOR[Position](), dds.QoS{Durability: qos.Transient})
	if err != nil {
		return err
	}
	r, err := positions.Reader(ctx, dds.QoS{Durability: qos.Transient})
	if err != nil {
		return err
	}
	for s, err := range r.All(ctx) {
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "vehicle %d is at %v, %v\n", s.Value.Vehicle, s.Value.X, s.Value.Y)
		if s.Value.X == 8 {
			break
		}
	}
	return nil
}

// open opens the members of the group with the space "fleet". All have the same list in Join. Each
// needs a goroutine: Open returns when a majority of them, here both, is there.
func open(ctx context.Context, addrs []string) ([]*member.Member, error) {
	ctx, cancel := context.WithCancel(ctx) // if one cannot open, the other one need not wait for it
	defer cancel()
	all, errs := make([]*member.Member, len(addrs)), make([]error, len(addrs))
	var opening sync.WaitGroup
	for i := range addrs {
		opening.Go(func() {
			all[i], errs[i] = member.Open(ctx, member.Config{
				Group: squall.Config{
					Cluster: "topics", ID: squall.NodeID(i + 1), Listen: addrs[i], Join: addrs, Logger: slog.New(slog.DiscardHandler),
				},
				Subgroup: squall.SubgroupConfig{Name: "fleet"},
			})
			if errs[i] != nil {
				cancel()
			}
		})
	}
	opening.Wait()
	return all, errors.Join(errs...)
}
