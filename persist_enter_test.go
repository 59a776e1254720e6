package squall_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall"
)

// recorded are the texts in a member's log of the shard that it is in.
func recorded(t *testing.T, g *squall.Group) (texts []string) {
	t.Helper()
	for r, err := range mustLog(t, g).Range(squall.Version{}, squall.Version{}) {
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(r.Data))
	}
	return texts
}

// Node 3 is fresh in shard 0 and its application still takes over the log when it is placed in
// shard 1, which begins. Nothing of shard 1 gets into the log of shard 0, and nothing counts as
// persisted that is not on node 3's disk.
func TestAMemberThatMovesBeforeItsLogIsWholeRecordsWhatItsNextShardDelivers(t *testing.T) {
	dir := t.TempDir()
	inRecover, release := make(chan struct{}, 1), make(chan struct{})
	keepers := make([]*keeper, 6)
	config := func(i int, c *squall.Config) {
		k := &keeper{}
		keepers[i] = k
		c.Cluster, c.Dir = "durable", filepath.Join(dir, fmt.Sprint("node-", i+1))
		c.Subgroups = []squall.SubgroupConfig{{
			Name: "log", Mode: squall.Persistent, RingBytes: 64 << 10, Window: 256, Shards: 2, Layout: movesTo(5), LayoutName: "moves", Deliver: k.deliver,
			Log: squall.LogConfig{Recover: func(l *squall.Log) error {
				if i == 2 {
					select {
					case inRecover <- struct{}{}:
						<-release
					default: // of another shard
					}
				}
				return k.recover(l)
			}},
		}}
	}
	groups := cluster(t, 3, config)
	persistSome(t, groups[:1], "x", 25)
	openAgain(t, 4, groups[0].Addr(), config)
	eventually(t, "node 3 recovers", func() bool { return len(inRecover) == 1 })
	openAgain(t, 5, groups[0].Addr(), config)
	awaitShard(t, 1, groups[1:3]...)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var want []string
	var last *squall.Future
	for k := range 20 {
		for _, g := range groups[1:3] {
			f, err := must(g.Subgroup("log")).SendFuture(ctx, fmt.Appendf(nil, "s1 %d", k))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Wait(ctx); err != nil {
				t.Fatal(err)
			}
			want, last = append(want, fmt.Sprint("s1 ", k)), f
		}
	}
	v, err := last.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := mustLog(t, groups[1]).WaitPersisted(ctx, squall.OnThisDisk, v); err != nil {
		t.Fatal(err)
	}
	if n, at := len(recorded(t, groups[2])), mustLog(t, groups[1]).Persisted(squall.OnEveryDisk); v.Before(at) && n < len(want) {
		t.Errorf("everything before %v is said to be on every disk, and node 3 has %d records of %d", at, n, len(want))
	}
	close(release)
	if _, err := last.Persisted(ctx, squall.OnEveryDisk); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its application has all", func() bool {
		keepers[2].mu.Lock()
		defer keepers[2].mu.Unlock()
		return len(keepers[2].delivered) == len(want)
	})
	for _, g := range groups[1:3] {
		if got := recorded(t, g); !slices.Equal(got, want) {
			t.Errorf("node %d: its log of shard 1 has %d records: %.60q", g.ID(), len(got), got)
		}
	}
	keepers[2].mu.Lock()
	defer keepers[2].mu.Unlock()
	if len(keepers[2].recovered) != 0 || !slices.Equal(keepers[2].delivered, want) {
		t.Errorf("the application of node 3 recovered %d records of shard 1 before it was given its %d messages", len(keepers[2].recovered), len(keepers[2].delivered))
	}
}

// Node 1 has the log of shard 0, which loses its members when node 1 is placed in shard 1 and takes
// over the log of that one. As it comes back, its application takes over its own log of shard 0;
// the second time it comes back while it still recovers from the log of shard 1.
func TestAMemberThatReturnsToItsShardRecoversFromItsLog(t *testing.T) {
	t.Parallel()
	for _, busy := range []bool{false, true} {
		t.Run(fmt.Sprint("recovering=", busy), func(t *testing.T) { returnsToItsShard(t, busy) })
	}
}

func returnsToItsShard(t *testing.T, busy bool) {
	layout := func(in squall.LayoutInput) ([]squall.ShardPlaces, error) {
		if len(in.Members) == 4 {
			return []squall.ShardPlaces{{}, {Members: []squall.NodeID{1, 2, 3}}}, nil
		}
		return []squall.ShardPlaces{{Members: []squall.NodeID{1}}, {Members: []squall.NodeID{2, 3}}}, nil
	}
	dir := t.TempDir()
	keepers := make([]*keeper, 4)
	inRecover, release := make(chan struct{}, 1), make(chan struct{})
	config := func(i int, c *squall.Config) {
		k := &keeper{}
		keepers[i] = k
		c.Cluster, c.Dir = "durable", filepath.Join(dir, fmt.Sprint("node-", i+1))
		c.Subgroups = []squall.SubgroupConfig{{
			Name: "log", Mode: squall.Persistent, RingBytes: 64 << 10, Window: 256, Shards: 2, Layout: layout, LayoutName: "moves", Deliver: k.deliver,
			Log: squall.LogConfig{Recover: func(l *squall.Log) error {
				if i == 0 && l.Info().ID.Shard == 1 {
					inRecover <- struct{}{}
					<-release
				}
				return k.recover(l)
			}},
		}}
	}
	groups := cluster(t, 3, config)
	persistSome(t, groups[:1], "S", 10)
	persistSome(t, groups[1:3], "T", 10)
	four := openAgain(t, 4, groups[1].Addr(), config)
	awaitShard(t, 1, groups[0])
	<-inRecover
	if !busy {
		close(release)
		<-must(groups[0].Subgroup("log")).Restored()
	}
	closeAll(four)
	awaitShard(t, 0, groups[0])
	if busy {
		close(release)
	}
	<-must(groups[0].Subgroup("log")).Restored()
	persistSome(t, groups[:1], "S again", 5)
	want := []string{}
	for k := range 10 {
		want = append(want, fmt.Sprintf("S 1 %d", k))
	}
	k := keepers[0]
	k.mu.Lock()
	if !slices.Equal(k.recovered, want) {
		t.Errorf("in shard 0 it recovered %q", k.recovered)
	}
	if n := len(k.delivered); n < 5 || k.delivered[n-1] != "S again 1 4" {
		t.Errorf("it was given %q", k.delivered)
	}
	k.mu.Unlock()
	for k := range 5 {
		want = append(want, fmt.Sprintf("S again 1 %d", k))
	}
	if got := recorded(t, groups[0]); !slices.Equal(got, want) {
		t.Errorf("its log has %q", got)
	}
}
