package squall_test

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall"
)

// An application that takes less than it is offered holds up the senders of its subgroup only.
// After Resume it is offered the rest, in order.
func TestAnApplicationWithoutRoomHoldsUpItsOwnSubgroupOnly(t *testing.T) {
	var mu sync.Mutex
	room, taken := 3, []uint64{}
	quick := make(chan struct{}, 100)
	g := cluster(t, 2, func(i int, c *squall.Config) {
		c.Subgroups = []squall.SubgroupConfig{
			{Name: "slow", RingBytes: 4096, Window: 16, Senders: []squall.NodeID{1}, DeliverSome: func(run []squall.Message) int {
				mu.Lock()
				defer mu.Unlock()
				if i == 0 {
					return len(run)
				}
				n := min(room, len(run))
				for _, m := range run[:n] {
					taken = append(taken, binary.LittleEndian.Uint64(m.Data))
				}
				room -= n
				return n
			}},
			{Name: "quick", Senders: []squall.NodeID{1}, Deliver: func(squall.Message) {
				if i == 1 {
					quick <- struct{}{}
				}
			}},
		}
	})
	slow := must(g[0].Subgroup("slow"))
	number := func(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
	next := uint64(0)
	for full := false; !full; {
		switch err := slow.TrySend(number(next)); {
		case err == nil:
			next++
		case errors.Is(err, squall.ErrWindowFull):
			mu.Lock()
			full = len(taken) == 3 && next == 3+16
			mu.Unlock()
			time.Sleep(time.Millisecond)
		default:
			t.Fatal(err)
		}
	}
	for range 20 {
		if err := must(g[0].Subgroup("quick")).Send(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		select {
		case <-quick:
		case <-time.After(20 * time.Second):
			t.Fatal("the other subgroup is held up too")
		}
	}
	mu.Lock()
	room = 1 << 30
	mu.Unlock()
	must(g[1].Subgroup("slow")).Resume()
	for range 300 {
		if err := slow.Send(t.Context(), number(next)); err != nil {
			t.Fatal(err)
		}
		next++
	}
	if err := g[0].Close(t.Context()); err != nil { // waits until node 2 has taken everything
		t.Error(err)
	}
	g[1].Close(t.Context())
	if uint64(len(taken)) != next || !slices.IsSorted(taken) {
		t.Errorf("%d of %d messages delivered, in order: %v", len(taken), next, slices.IsSorted(taken))
	}
}

func TestDeliverSomeStandsAloneAndHasNoQueue(t *testing.T) {
	some := func(run []squall.Message) int { return len(run) }
	for _, sg := range []squall.SubgroupConfig{
		{Name: "a", DeliverSome: some, DeliverBatch: func([]squall.Message) {}},
		{Name: "a", DeliverSome: some, AsyncQueueBytes: 4096},
	} {
		err := squall.Config{Cluster: "c", ID: 1, Listen: "127.0.0.1:0", InitialMembers: 1, Subgroups: []squall.SubgroupConfig{sg}}.Validate()
		if err == nil || !strings.Contains(err.Error(), "DeliverSome") {
			t.Errorf("accepted: %v", err)
		}
	}
}
