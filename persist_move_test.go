package squall_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/logwire"
	"github.com/squall-go/squall/persist"
)

// Node 2 goes from shard 0 to shard 1 while its application still has to take messages of shard 0.
// What both members of that one were to deliver is in the logs of both.
func TestTheEndOfAShardIsInTheLogOfWhoMovesAway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	layout := func(in squall.LayoutInput) ([]squall.ShardPlaces, error) {
		p := []squall.ShardPlaces{{Members: []squall.NodeID{1, 2}}, {Members: []squall.NodeID{3}}}
		if len(in.Members) == 4 {
			p = []squall.ShardPlaces{{Members: []squall.NodeID{1, 4}}, {Members: []squall.NodeID{2, 3}}}
		}
		return p, nil
	}
	full, release := make(chan struct{}), make(chan struct{})
	var filled sync.Once
	config := func(i int, c *squall.Config) {
		c.Cluster, c.Dir, c.OpenLogs = "durable", filepath.Join(dir, fmt.Sprint("node-", i+1)), true
		deliver := func(squall.Message) {}
		if i == 1 {
			deliver = func(squall.Message) {
				filled.Do(func() { close(full) })
				<-release
			}
		}
		c.Subgroups = []squall.SubgroupConfig{{
			Name: "log", Mode: squall.Persistent, RingBytes: 4 << 20, Window: 4096, Shards: 2, Layout: layout, LayoutName: "moves", AsyncQueueBytes: 8 << 10, Deliver: deliver,
		}}
	}
	groups := cluster(t, 3, config)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	sending, stop := context.WithCancel(ctx)
	var sender sync.WaitGroup
	sender.Go(func() {
		for sending.Err() == nil {
			if err := must(groups[0].Subgroup("log")).Send(sending, make([]byte, 1<<10)); err != nil {
				return
			}
		}
	})
	<-full
	eventually(t, "the ring of node 1 is nearly full", func() bool { return must(groups[0].Subgroup("log")).Stats().Sent >= 4000 })
	c := squall.Config{ID: 4, Listen: "127.0.0.1:0", Join: []string{groups[0].Addr()}, InitialMembers: 3, Logger: quiet}
	config(3, &c)
	opened := make(chan *squall.Group)
	go func() {
		g, err := squall.Open(ctx, c)
		if err != nil {
			t.Error(err)
		}
		opened <- g
	}()
	eventually(t, "node 2 has gone to the other shard", func() bool { return len(groups[1].View().Members) == 4 })
	close(release)
	four := <-opened
	stop()
	sender.Wait()
	if four == nil {
		t.FailNow()
	}
	sendHere(t, groups[0], 1) // of view 2: then node 1 has all of view 1 on its disk; node 2 may take longer
	closeAll(four)
	one, two := recordsOf(t, groups[0], 1), uint64(0)
	for end := time.Now().Add(20 * time.Second); two != one && time.Now().Before(end); time.Sleep(time.Millisecond) {
		two = recordsOf(t, groups[1], 1)
	}
	if one != two || one == 0 {
		t.Errorf("of view 1, node 1 has %d records of shard 0, and node 2 %d", one, two)
	}
}

// recordsOf counts the records of a view in a member's log of shard 0. The member may have left the
// shard.
func recordsOf(t *testing.T, g *squall.Group, v squall.ViewID) (n uint64) {
	t.Helper()
	c := logwire.Client{Dial: func(ctx context.Context) (net.Conn, error) { return port.Dial(ctx, g.Addr(), port.KindLog, nil) }}
	for r, err := range c.Range(t.Context(), persist.LogID{Name: "log"}, squall.Version{View: v}, squall.Version{View: v + 1}) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Version.View == v {
			n++
		}
	}
	return n
}
