package squall_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/restart"
	"github.com/squall-go/squall/persist"
)

// The log was at nodes 4 and 5, whose disks are gone for good; the group works on, and the shard
// waits for them. Node 4 is back with an empty directory, in which an operator gives up what both
// had, as squall log repair --give-up does: the shard goes on, empty.
func TestAShardThatWaitsForDisksThatAreGoneGoesOnWhenAnOperatorGivesThemUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := func(i int, c *squall.Config) {
		c.Cluster, c.Dir = "durable", filepath.Join(dir, fmt.Sprint("node-", i+1))
		c.Subgroups = []squall.SubgroupConfig{
			{Name: "log", Mode: squall.Persistent, RingBytes: 64 << 10, Window: 256, Members: []squall.NodeID{4, 5}, Deliver: func(squall.Message) {}},
			{Name: "plain", Deliver: func(squall.Message) {}},
		}
	}
	groups := cluster(t, 5, config)
	persistSome(t, groups[3:], "lost", 5)
	groups[0].ReportFailure(4)
	groups[0].ReportFailure(5)
	eventually(t, "they are out", func() bool { return len(groups[0].View().Members) == 3 })
	<-groups[3].Done()
	<-groups[4].Done()
	closeAll(groups[3:]...)
	for _, id := range []int{4, 5} {
		if err := os.RemoveAll(filepath.Join(dir, fmt.Sprint("node-", id))); err != nil {
			t.Fatal(err)
		}
	}
	again := func(id int) *squall.Group { return openAgain(t, id, groups[0].Addr(), config) }
	four, five := again(4), again(5)
	if sg := four.View().Subgroups[0]; sg.Provisioned() || len(sg.Holders) != 2 {
		t.Fatalf("the shard does not wait: members %v, keepers %v", sg.Members, sg.Holders)
	}
	closeAll(four)
	eventually(t, "node 4 is out", func() bool { return len(groups[0].View().Members) == 4 })

	s, err := persist.Open(t.Context(), persist.Config{Dir: filepath.Join(dir, "node-4"), Cluster: "durable", Node: 4})
	if err != nil {
		t.Fatal(err)
	}
	memory, err := restart.Load(s)
	if err != nil {
		t.Fatal(err)
	}
	if lost, err := memory.GiveUp(restart.LogID{Name: "log"}); err != nil || len(lost) != 2 {
		t.Fatalf("given up are %v: %v", lost, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	four = again(4)
	inShard(t, four, five)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, g := range []*squall.Group{four, five} {
		f, err := must(g.Subgroup("log")).SendFuture(ctx, []byte("after"))
		if err == nil {
			_, err = f.Persisted(ctx, squall.OnEveryDisk)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range []*squall.Group{four, five} {
		eventually(t, "the records are there", func() bool { return count(t, mustLog(t, g), "after") == 2 && count(t, mustLog(t, g), "lost") == 0 })
	}
}
