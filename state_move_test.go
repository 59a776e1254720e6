package squall_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall"
)

// movesTo places node 3 in shard 0 with node 1, and with as many members as said in shard 1 with
// node 2, in which no node but node 2 can have been before.
func movesTo(members int) squall.Layout {
	return func(in squall.LayoutInput) ([]squall.ShardPlaces, error) {
		switch {
		case len(in.Members) >= members:
			return []squall.ShardPlaces{{Members: []squall.NodeID{1}}, {Members: []squall.NodeID{2, 3}}}, nil
		case len(in.Members) == 4 || members == 4:
			return []squall.ShardPlaces{{Members: []squall.NodeID{1, 3}}, {}}, nil
		}
		return []squall.ShardPlaces{{Members: []squall.NodeID{1}}, {}}, nil
	}
}

// awaitShard waits until members are in a shard of their only subgroup, as each of them knows.
func awaitShard(t *testing.T, shard int, groups ...*squall.Group) {
	t.Helper()
	for _, g := range groups {
		name := g.View().Subgroups[0].Name
		eventually(t, fmt.Sprintf("node %d is in shard %d", g.ID(), shard), func() bool { s, in := must(g.Subgroup(name)).Shard(); return in && s == shard })
	}
}

func sendNumbers(t *testing.T, n int, groups ...*squall.Group) {
	t.Helper()
	for k := range n {
		for _, g := range groups {
			if err := must(g.Subgroup("map")).Send(t.Context(), binary.LittleEndian.AppendUint32(nil, uint32(k))); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Node 3 is fresh in shard 0 and still reads its state when it is placed in shard 1, which begins.
func TestAMemberThatMovesBeforeItHasTheStateDeliversWhatItsNextShardDoes(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 1)
	replicas := []*replica{newReplica(), newReplica(), newReplica(), newReplica(), newReplica()}
	shards := func(sg *squall.SubgroupConfig) {
		sg.Shards, sg.LayoutName, sg.Layout = 2, "node 3 moves", movesTo(5)
		sg.Snapshot = func() func(io.Writer) error {
			return func(w io.Writer) error {
				select {
				case asked <- struct{}{}:
				default:
				}
				return untilItFails(w)
			}
		}
	}
	groups := cluster(t, 3, func(i int, c *squall.Config) { c.Subgroups = replicated(replicas[i], shards) })
	for _, id := range []squall.NodeID{4, 5} {
		joins(t, id, groups[0], func(c *squall.Config) { c.Subgroups = replicated(replicas[id-1], shards) })
		if id == 4 {
			<-asked
		}
	}
	awaitShard(t, 1, groups[1:3]...)
	sendNumbers(t, 20, groups[1], groups[2])
	awaitRestored(t, groups[2])
	agree(t, 40, replicas[1], replicas[2])
}

// Node 3 has the state of shard 0 and is placed in shard 1, which begins. Its copy of the object
// must not keep state that the other member of shard 1 never had. Members that were in no shard
// before get no call.
func TestAMemberThatEntersAShardThatBeginsBeginsWithIt(t *testing.T) {
	replicas := []*replica{newReplica(), newReplica(), newReplica(), newReplica()}
	var restored [4]atomic.Int32
	shards := func(sg *squall.SubgroupConfig) { sg.Shards, sg.LayoutName, sg.Layout = 2, "node 3 moves", movesTo(4) }
	begun := make(chan squall.StateBegun, 10)
	config := func(i int, c *squall.Config) {
		c.Subgroups = replicated(replicas[i], shards)
		restore := c.Subgroups[0].Restore
		c.Subgroups[0].Restore = func(r io.Reader) error {
			restored[i].Add(1)
			return restore(r)
		}
		c.Events = func(e squall.Event) {
			if b, ok := e.(squall.StateBegun); ok {
				begun <- b
			}
		}
	}
	groups := cluster(t, 3, config)
	sendNumbers(t, 10, groups[0])
	agree(t, 10, replicas[0], replicas[2])
	joins(t, 4, groups[0], func(c *squall.Config) { config(3, c) })
	awaitShard(t, 1, groups[1:3]...)
	awaitRestored(t, groups[2])
	sendNumbers(t, 5, groups[1])
	agree(t, 5, replicas[1], replicas[2])
	for i := range restored {
		want := int32(0)
		if i == 2 {
			want = 1
		}
		if n := restored[i].Load(); n != want {
			t.Errorf("node %d: Restore was called %d times, want %d", i+1, n, want)
		}
	}
	if b := <-begun; b != (squall.StateBegun{Subgroup: "map", Shard: 1}) || len(begun) > 0 {
		t.Errorf("told: %v, and %d more events", b, len(begun))
	}
}

// An application that cannot begin with nothing keeps no state that the others in its shard do not
// have: it halts.
func TestARestoreThatCannotBeginWithNothingHaltsItsProcess(t *testing.T) {
	own := errors.New("nothing to read")
	shards := func(sg *squall.SubgroupConfig) {
		sg.Shards, sg.LayoutName, sg.Layout = 2, "node 3 moves", movesTo(4)
		sg.Restore = func(io.Reader) error { return own }
	}
	groups := cluster(t, 3, func(i int, c *squall.Config) { c.Subgroups = replicated(newReplica(), shards) })
	joins(t, 4, groups[0], func(c *squall.Config) { c.Subgroups = replicated(newReplica(), shards) })
	select {
	case <-groups[2].Done():
	case <-time.After(20 * time.Second):
		t.Fatal("it goes on")
	}
	if !errors.Is(groups[2].Err(), own) {
		t.Error(groups[2].Err())
	}
}

// The only member that has the state leaves while a new one reads it.
func TestWhoLeavesHandsOverItsStateFirst(t *testing.T) {
	asked, goOn := make(chan struct{}), make(chan struct{})
	replicas := []*replica{newReplica(), newReplica()}
	slow := func(sg *squall.SubgroupConfig) {
		snapshot := sg.Snapshot
		sg.Snapshot = func() func(io.Writer) error {
			write := snapshot()
			return func(w io.Writer) error {
				close(asked)
				<-goOn
				return write(w)
			}
		}
	}
	groups := cluster(t, 1, func(i int, c *squall.Config) { c.Subgroups = replicated(replicas[i], slow) })
	sendNumbers(t, 100, groups[0])
	second := joins(t, 2, groups[0], func(c *squall.Config) { c.Subgroups = replicated(replicas[1], nil) })
	<-asked
	left := make(chan error)
	go func() { left <- groups[0].Leave(t.Context()) }()
	eventually(t, "node 1 leaves", func() bool {
		return errors.Is(must(groups[0].Subgroup("map")).TrySend(make([]byte, 4)), squall.ErrClosed)
	})
	for k := range 200 { // in which a view would change
		f, err := must(second.Subgroup("map")).SendFuture(t.Context(), binary.LittleEndian.AppendUint32(nil, uint32(k)))
		if err == nil {
			_, err = f.Wait(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	close(goOn)
	if err := <-left; err != nil {
		t.Error(err)
	}
	awaitRestored(t, second)
	agree(t, replicas[0].count(), replicas[1])
	if n := replicas[1].count(); n < 300 || second.Err() != nil {
		t.Errorf("the new member has the state of %d messages: %v", n, second.Err())
	}
}

// Restored tells that the application is where the others are: it comes behind what was delivered
// while the state was on its way.
func TestAStateIsRestoredWhenWhatCameMeanwhileIsHandedOver(t *testing.T) {
	nothing := func() func(io.Writer) error { return func(io.Writer) error { return nil } }
	groups := cluster(t, 1, func(_ int, c *squall.Config) {
		c.Subgroups = []squall.SubgroupConfig{{
			Name: "map", Deliver: func(squall.Message) {}, Snapshot: nothing, Restore: func(io.Reader) error { return nil },
		}}
	})
	restoring, letGo, handing, handed := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	joiner := joins(t, 2, groups[0], func(c *squall.Config) {
		c.Subgroups = []squall.SubgroupConfig{{
			Name: "map", Snapshot: nothing,
			Deliver: func(squall.Message) {
				close(handing)
				<-handed
			},
			Restore: func(in io.Reader) error {
				close(restoring)
				<-letGo
				_, err := io.Copy(io.Discard, in)
				return err
			},
		}}
	})
	<-restoring
	send(t, must(groups[0].Subgroup("map")), "meanwhile")
	eventually(t, "the message is kept for later", func() bool { return must(joiner.Subgroup("map")).Stats().Delivered == 1 })
	close(letGo)
	<-handing
	select {
	case <-must(joiner.Subgroup("map")).Restored():
		t.Error("restored, and a message that came before is being handed over")
	default:
	}
	close(handed)
	awaitRestored(t, joiner)
}
