package squall_test

import (
	"context"
	"encoding/binary"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall"
)

// Nodes 3 and 4 come into the shard of node 1 in one view. Node 1 gives its state to one of them,
// and ends before the other one has the state. The other one gets it from the first.
func TestAFreshMemberGivesTheStateToAnotherOne(t *testing.T) {
	t.Parallel()
	layout := func(in squall.LayoutInput) ([]squall.ShardPlaces, error) {
		var places squall.ShardPlaces
		for _, m := range in.Members {
			if m.ID == 1 || len(in.Members) < 5 && (m.ID == 3 || m.ID == 4) {
				places.Members = append(places.Members, m.ID)
			}
		}
		return []squall.ShardPlaces{places}, nil
	}
	var replicas []*replica
	var given atomic.Int32
	second := make(chan struct{}, 1)
	groups := cluster(t, 5, func(i int, c *squall.Config) {
		r := newReplica()
		replicas = append(replicas, r)
		c.Subgroups = replicated(r, func(sg *squall.SubgroupConfig) {
			sg.Layout, sg.LayoutName = layout, "node 1, and then 3 and 4"
			if i > 0 {
				return
			}
			sg.Snapshot = func() func(io.Writer) error {
				write := r.snapshot()
				return func(w io.Writer) error {
					if given.Add(1) == 1 {
						return write(w)
					}
					select {
					case second <- struct{}{}:
					default:
					}
					return untilItFails(w)
				}
			}
		})
	})
	for k := range 100 {
		if err := must(groups[0].Subgroup("map")).Send(t.Context(), binary.LittleEndian.AppendUint32(nil, uint32(k))); err != nil {
			t.Fatal(err)
		}
	}
	closeWell(t, groups[4])
	awaitView(t, 4, groups[:4]...)
	three, four := must(groups[2].Subgroup("map")).Restored(), must(groups[3].Subgroup("map")).Restored()
	var other <-chan struct{}
	select {
	case <-three:
		other = four
	case <-four:
		other = three
	case <-time.After(20 * time.Second):
		t.Fatal("node 1 does not give its state to another node")
	}
	<-second
	select {
	case <-other:
		t.Fatal("the other one has the state, though node 1 does not end giving it")
	default:
	}
	now, cancel := context.WithCancel(context.Background())
	cancel()
	groups[0].Close(now)
	for _, g := range groups[2:4] {
		awaitRestored(t, g)
	}
	if err := must(groups[2].Subgroup("map")).Send(t.Context(), make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	agree(t, 101, replicas[2:4]...)
}

// A snapshot that is no function fails for the new member, and does not end the old one.
func TestASnapshotThatIsNilIsAnError(t *testing.T) {
	given := make(chan squall.StateGiven, 1)
	groups := cluster(t, 1, func(i int, c *squall.Config) {
		c.Subgroups = replicated(newReplica(), func(sg *squall.SubgroupConfig) {
			sg.Snapshot = func() func(io.Writer) error { return nil }
		})
		c.Events = func(e squall.Event) {
			if e, ok := e.(squall.StateGiven); ok {
				select {
				case given <- e:
				default: // it asks again
				}
			}
		}
	})
	g := joins(t, 2, groups[0], func(c *squall.Config) { c.Subgroups = replicated(newReplica(), nil) })
	select {
	case e := <-given:
		if e.To != g.ID() || e.Err == nil || !strings.Contains(e.Err.Error(), "returned nil") {
			t.Errorf("node %d got the state: %v", e.To, e.Err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the new member did not ask")
	}
	closeAll(g, groups[0])
}
