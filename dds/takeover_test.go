package dds_test

import (
	"context"
	"flag"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/member"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/proc"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/ripc"
)

var (
	takeovers = flag.Int("takeovers", 3, "owners that are killed")
	within    = flag.Duration("takeover-within", 2*time.Second, "the median of the times until another writer owns the instance at all readers")
)

func TestMain(m *testing.M) {
	proc.Become(proc.Program{Name: "member", Run: runMember})
	testutil.Overlap(4)
	os.Exit(m.Run())
}

// memberSpec is what a member process is told.
type memberSpec struct {
	ID       squall.NodeID
	Listen   string
	Join     string
	Strength int32 // of its writer
	Members  int   // of the group when it begins
	Relay    bool  // it serves clients, and does nothing else
	Late     bool  // another process joins late
	Samples  uint64
}

// change is what a reader sees when another writer owns the instance.
type change struct {
	Owner    uint64 // node; 0: the process is ready
	Position uint64
	At       time.Time
}

// runMember is a process that writes one instance of an exclusive topic again and again, and tells
// its parent whose samples its reader gets.
func runMember(ctx context.Context, p *proc.Parent) error {
	var spec memberSpec
	if err := p.Config(&spec); err != nil {
		return err
	}
	participant, err := member.Open(ctx, member.Config{
		Group:    squall.Config{Cluster: "test", ID: spec.ID, Listen: spec.Listen, Join: []string{spec.Join}, InitialMembers: spec.Members, Logger: quiet},
		Subgroup: squall.SubgroupConfig{Name: "fleet"},
	})
	if err != nil {
		return err
	}
	if spec.Late {
		return runLate(ctx, p, spec, participant)
	}
	if spec.Relay {
		relay, err := member.Serve(ctx, member.RelayConfig{Member: participant, Endpoint: ripc.Config{Listen: "127.0.0.1:0"}})
		if err == nil {
			err = p.Send(relay.Addr())
		}
		<-ctx.Done()
		return err
	}
	exclusive := dds.QoS{Ownership: qos.Exclusive}
	tp, err := dds.NewTopic(ctx, participant, "positions", dds.CBOR[position](), exclusive)
	if err != nil {
		return err
	}
	changes := make(chan change, 100)
	owner := uint64(0)
	_, err = tp.Reader(ctx, exclusive, dds.Listen(func(s *dds.Sample[position], _ error) {
		if s.Info.Valid && s.Info.Writer.Node != owner {
			owner = s.Info.Writer.Node
			changes <- change{owner, s.Info.Position, time.Now()}
		}
	}))
	if err != nil {
		return err
	}
	exclusive.Strength = spec.Strength
	w, err := tp.Writer(ctx, exclusive)
	if err != nil {
		return err
	}
	if err := p.Send(change{}); err != nil {
		return err
	}
	pause := time.NewTicker(time.Millisecond)
	defer pause.Stop()
	for {
		select {
		case c := <-changes:
			if err := p.Send(c); err != nil {
				return err
			}
		case <-pause.C:
			if err := w.Write(ctx, position{Vehicle: 1}); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// The process of the owner is killed. The weaker writer takes over at one position at all readers,
// and soon.
func TestAKilledOwnerIsReplacedAtOnePosition(t *testing.T) {
	addr := testutil.FreeAddress(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	start := func(s memberSpec) *proc.Child {
		c, err := proc.Start(context.Background(), "member", s, proc.Options{ID: int(s.ID), Env: []string{"GOMAXPROCS=1"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			c.Kill()
			_ = c.Wait() // it was killed
		})
		return c
	}
	receive := func(c *proc.Child) (got change) {
		t.Helper()
		if err := c.Receive(ctx, &got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	// until waits until a process sees an owner.
	until := func(c *proc.Child, owner uint64) change {
		t.Helper()
		for {
			if got := receive(c); got.Owner == owner {
				return got
			}
		}
	}
	owner := start(memberSpec{Members: 3, ID: 3, Listen: "127.0.0.1:0", Join: addr, Strength: 9})
	stay := []*proc.Child{start(memberSpec{Members: 3, ID: 1, Listen: addr, Join: addr, Strength: 2}), start(memberSpec{Members: 3, ID: 2, Listen: "127.0.0.1:0", Join: addr, Strength: 1})}
	var times []time.Duration
	for id := uint64(3); len(times) < *takeovers; id++ {
		if len(times) > 0 {
			owner = start(memberSpec{Members: 3, ID: squall.NodeID(id), Listen: "127.0.0.1:0", Join: addr, Strength: 9})
		}
		receive(owner) // it is ready
		for _, c := range stay {
			until(c, id)
		}
		killed := time.Now()
		owner.Kill()
		one, other := until(stay[0], 1), until(stay[1], 1)
		if one.Position != other.Position {
			t.Errorf("takeover %d: at position %d of one reader and %d of another one", len(times), one.Position, other.Position)
		}
		times = append(times, max(one.At.Sub(killed), other.At.Sub(killed)))
	}
	slices.Sort(times)
	median := times[len(times)/2]
	t.Logf("another writer owns the instance at all readers after %v (%v)", median, times)
	if median > *within {
		t.Errorf("that is more than %v", *within)
	}
}
