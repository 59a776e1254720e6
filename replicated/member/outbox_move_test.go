package member_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
	"github.com/squall-go/squall/ripc"
)

// numberer sends the numbers 1, 2, 3 … to one shard of a sequence, which notes where they do not
// follow one another.
type (
	numberer struct{ Last uint64 }
	sequence struct {
		Last uint64
		Gaps []string
	}
)

var (
	sendSome = replicated.NewCommand[int, uint64]("send some")
	takeNext = replicated.NewCommand[uint64, struct{}]("take next").Keyed(func(uint64) string { return keyOfShard0 })
)

var keyOfShard0 = func() string {
	k := "a"
	for replicated.ShardOf(k, 2) != 0 {
		k += "a"
	}
	return k
}()

func (s *numberer) send(c *member.Context, n int) (uint64, error) {
	for range n {
		if err := member.Send(c, "sequence", takeNext, s.Last+1); errors.Is(err, member.ErrOutboxFull) {
			break
		} else if err != nil {
			return 0, err
		}
		s.Last++
	}
	return s.Last, nil
}

func (s *sequence) take(_ *member.Context, n uint64) (none struct{}, err error) {
	if n != s.Last+1 {
		s.Gaps = append(s.Gaps, fmt.Sprintf("%d follows %d", n, s.Last))
	}
	s.Last = n
	return none, nil
}

// relayMoves places the first of four members in shard 1, the last one in shard 0 and one of the
// other two in each of them; these change places while node 5 is a member. The one in shard 0 comes
// before the last member, so it is the relay.
func relayMoves(in squall.LayoutInput) ([]squall.ShardPlaces, error) {
	var ids []squall.NodeID
	at := 0
	for _, m := range in.Members {
		if m.ID == 5 {
			at = 1
		} else {
			ids = append(ids, m.ID)
		}
	}
	if len(ids) < 4 {
		return nil, errors.New("four members are needed")
	}
	return []squall.ShardPlaces{{Members: []squall.NodeID{ids[3], ids[1+at]}}, {Members: []squall.NodeID{ids[0], ids[2-at]}}}, nil
}

type numbering struct {
	group    *squall.Group
	numberer *member.Object[*numberer]
	sequence *member.Object[*sequence]
}

func newNumbering() *numbering {
	return &numbering{
		numberer: member.New(squall.SubgroupConfig{Name: "numberer"}, func() *numberer { return &numberer{} }, member.Handle(sendSome, (*numberer).send)),
		sequence: member.New(squall.SubgroupConfig{Name: "sequence", Shards: 2, RingBytes: 16 << 10, Window: 16, Layout: relayMoves, LayoutName: "relay moves"},
			func() *sequence { return &sequence{} }, member.Handle(takeNext, (*sequence).take)),
	}
}

// TestRO8WhatIsSentWhileItsRelayMovesIsNotLost has more sent than a ring takes, while the member
// that relays it moves to another shard and back. The records that the member had in its ring are
// refused by its next shard, and what it relays afterwards goes another way.
func TestRO8WhatIsSentWhileItsRelayMovesIsNotLost(t *testing.T) {
	ctx := testutil.Within(t)
	addr := testutil.FreeAddress(t)
	all := make([]*numbering, 4)
	var wg sync.WaitGroup
	for i := range all {
		all[i] = newNumbering()
		wg.Go(func() {
			c := squall.Config{Cluster: "test", ID: squall.NodeID(i + 1), Listen: "127.0.0.1:0", Join: []string{addr}, InitialMembers: 4, Logger: quiet}
			if i == 0 {
				c.Listen = addr
			}
			var err error
			if all[i].group, err = member.Open(ctx, c, all[i].numberer, all[i].sequence); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	for _, p := range all {
		s, err := member.Serve(ctx, member.ServerConfig{Endpoint: ripc.Config{Listen: "127.0.0.1:0"}}, p.numberer, p.sequence)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close(); _ = p.group.Close(testutil.Within(t)) })
	}
	v := all[0].group.View()
	steady := all[v.Members[3].ID-1].sequence // always in shard 0
	last := func() (n uint64) {
		steady.View(func(s *sequence) {
			if len(s.Gaps) > 0 {
				t.Fatalf("RO8: %d gaps: %s", len(s.Gaps), strings.Join(s.Gaps, ", "))
			}
			n = s.Last
		})
		return n
	}
	stop := make(chan struct{})
	var sent uint64
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if all[0].numberer.Outgoing() > 20_000 {
				time.Sleep(time.Millisecond) // polls
				continue
			}
			n, err := sendSome.Call(ctx, all[0].numberer, 100)
			if err != nil {
				t.Error(err)
				return
			}
			sent = n
		}
	})
	// progress waits until the shard has executed more in its present members.
	progress := func(members []squall.NodeID) {
		await(t, "the move", func() bool { return slices.Equal(all[3].sequence.Subgroup().Members(0), members) })
		n := last()
		await(t, "commands", func() bool { return last() > n+2000 })
	}
	first := all[3].sequence.Subgroup().Members(0)
	for range testutil.Seeds(2, 4) {
		extra := newNumbering()
		var err error
		extra.group, err = member.Open(ctx, squall.Config{Cluster: "test", ID: 5, Listen: "127.0.0.1:0", InitialMembers: 1, Join: []string{addr}, Logger: quiet}, extra.numberer, extra.sequence)
		if err != nil {
			t.Fatal(err)
		}
		progress(all[3].sequence.Subgroup().Members(0))
		if err := extra.group.Close(ctx); err != nil {
			t.Fatal(err)
		}
		progress(first)
	}
	close(stop)
	wg.Wait()
	await(t, "the end", func() bool { return all[0].numberer.Outgoing() == 0 })
	if n := last(); n != sent {
		t.Errorf("RO8: %d were sent, the last one executed is %d", sent, n)
	}
}
