package squall_test

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall"
)

// A subgroup whose application stands still holds up its own senders and no other subgroup.
// Afterwards every message is delivered, in order, the last one before Close returns.
func TestAFullAsyncQueueHoldsUpItsOwnSubgroupOnly(t *testing.T) {
	gate := make(chan struct{})
	var slow []uint64 // the queue's goroutine only, until Close
	quick := make(chan struct{}, 100)
	g := cluster(t, 2, func(i int, c *squall.Config) {
		c.Fabric = squall.FabricTCP
		c.Subgroups = []squall.SubgroupConfig{
			{Name: "slow", RingBytes: 4096, Window: 16, AsyncQueueBytes: 4096, Senders: []squall.NodeID{1}, Deliver: func(m squall.Message) {
				if i == 1 {
					<-gate
					slow = append(slow, binary.LittleEndian.Uint64(m.Data))
				}
			}},
			{Name: "quick", Senders: []squall.NodeID{1}, Deliver: func(squall.Message) {
				if i == 1 {
					quick <- struct{}{}
				}
			}},
		}
	})
	next, full := uint64(0), false
	send := func() error {
		data := make([]byte, 256)
		binary.LittleEndian.PutUint64(data, next)
		err := must(g[0].Subgroup("slow")).TrySend(data)
		if err == nil {
			next++
		}
		return err
	}
	// The queue has two buffers, and the ring is behind it: with both full and no reader, no more
	// messages are accepted.
	for quiet, deadline := 0, time.Now().Add(20*time.Second); quiet < 50 && time.Now().Before(deadline); {
		switch err := send(); {
		case err == nil:
			quiet = 0
		case errors.Is(err, squall.ErrWindowFull):
			full = true
			quiet++
			time.Sleep(time.Millisecond)
		default:
			t.Fatal(err)
		}
	}
	if limit := uint64(3 * 4096 / 256); !full || next > limit {
		t.Errorf("%d messages of 256 bytes are in flight; the queue and the ring have room for %d", next, limit)
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
	close(gate)
	for range 300 {
		data := make([]byte, 256)
		binary.LittleEndian.PutUint64(data, next)
		if err := must(g[0].Subgroup("slow")).Send(t.Context(), data); err != nil {
			t.Fatal(err)
		}
		next++
	}
	if err := g[0].Close(t.Context()); err != nil { // waits until node 2 has taken everything
		t.Error(err)
	}
	g[1].Close(t.Context())
	if uint64(len(slow)) != next || !slices.IsSorted(slow) {
		t.Errorf("%d of %d messages delivered, in order: %v", len(slow), next, slices.IsSorted(slow))
	}
}

// An application's data in the queue is a copy: the ring goes on without it.
func TestAsyncDataStaysWhileTheRingGoesOn(t *testing.T) {
	bad := make(chan string, 1)
	var n int
	g := cluster(t, 1, func(_ int, c *squall.Config) {
		c.Subgroups = []squall.SubgroupConfig{{Name: "a", RingBytes: 4096, Window: 16, AsyncQueueBytes: 64 << 10, DeliverBatch: func(run []squall.Message) {
			for _, m := range run {
				if want := byte(n); len(m.Data) != n%200 || slices.ContainsFunc(m.Data, func(b byte) bool { return b != want }) {
					select {
					case bad <- string(m.Data):
					default:
					}
				}
				n++
			}
		}}}
	})
	for k := range 5000 {
		data := make([]byte, k%200)
		for i := range data {
			data[i] = byte(k)
		}
		if err := must(g[0].Subgroup("a")).Send(t.Context(), data); err != nil {
			t.Fatal(err)
		}
	}
	if err := g[0].Close(t.Context()); err != nil {
		t.Error(err)
	}
	if len(bad) > 0 || n != 5000 {
		t.Errorf("%d of 5000 delivered, a wrong one: %v", n, len(bad) > 0)
	}
}
