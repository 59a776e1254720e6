//go:build linux

package verbs_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/fabric/verbs"
	"github.com/squall-go/squall/fabric/verbs/internal/fake"
	"github.com/squall-go/squall/internal/testutil"
)

// Three members send, each delivers the same sequence, and they leave one after the other.
func TestAGroupSendsAndLeavesOverRDMA(t *testing.T) {
	const each = 300
	network := fake.New(fake.Options{Seed: 1, Goroutine: true})
	defer network.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var addrs []string
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		addrs = append(addrs, l.Addr().String())
		l.Close()
	}
	var delivered [3][]string
	var members sync.WaitGroup
	leave := make([]chan struct{}, 4)
	for i := range leave {
		leave[i] = make(chan struct{})
	}
	var done sync.WaitGroup
	done.Add(3)
	for i := range 3 {
		members.Go(func() {
			all := make(chan struct{})
			group, err := squall.Open(ctx, squall.Config{
				Cluster: "rdma", ID: squall.NodeID(i + 1), Listen: addrs[i], Join: addrs, InitialMembers: 3,
				Fabric: squall.FabricTransport, Transport: verbs.New(network.Device()), Logger: slog.New(slog.DiscardHandler),
				Subgroups: []squall.SubgroupConfig{{Name: "all", Deliver: func(m squall.Message) {
					if delivered[i] = append(delivered[i], string(m.Data)); len(delivered[i]) == 3*each {
						close(all)
					}
				}}},
			})
			if err != nil {
				t.Error(err)
				done.Done()
				return
			}
			subgroup, err := group.Subgroup("all")
			for k := 0; k < each && err == nil; k++ {
				err = subgroup.Send(ctx, fmt.Appendf(nil, "%d from %d", k, i))
			}
			select {
			case <-all:
			case <-ctx.Done():
				t.Errorf("member %d delivered %d messages", i, len(delivered[i]))
			}
			done.Done()
			<-leave[i]
			if err == nil {
				err = group.Close(ctx)
			}
			if err != nil {
				t.Errorf("member %d: %v", i, err)
			}
			close(leave[i+1])
		})
	}
	done.Wait()
	close(leave[0])
	members.Wait()
	if !slices.Equal(delivered[0], delivered[1]) || !slices.Equal(delivered[0], delivered[2]) {
		t.Error("the members delivered different sequences")
	}
	if left := network.AwaitClosed(testutil.Within(t)); left > 0 {
		t.Fatalf("%d pairs and queues are left", left)
	}
}
