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

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	writing, err := open(ctx, 1)
	if err != nil {
		return err
	}
	reading, err := open(ctx, 2, writing.Group().Addr())
	if err != nil {
		return errors.Join(err, writing.Close(ctx))
	}
	err = publish(ctx, writing)
	if err == nil {
		err = subscribe(ctx, reading, out)
	}
	return errors.Join(err, writing.Close(ctx), reading.Close(ctx))
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

// open opens a member of the group with the space "fleet": the first one bootstraps the group, the
// other one joins.
func open(ctx context.Context, id squall.NodeID, join ...string) (*member.Member, error) {
	return member.Open(ctx, member.Config{
		Group: squall.Config{
			Cluster: "topics", ID: id, Listen: "127.0.0.1:0", InitialMembers: 1, Join: join, Logger: slog.New(slog.DiscardHandler),
		},
		Subgroup: squall.SubgroupConfig{Name: "fleet"},
	})
}
