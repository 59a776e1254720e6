package squall_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/logwire"
	"github.com/squall-go/squall/persist"
	"github.com/squall-go/squall/persist/wal"
)

// The log is at nodes 4 and 5; both fail at once, and the group works on without them. Node 4 comes
// back first without its log: it waits for node 5, which has all of it.
func TestWhoComesBackWithoutItsLogIsNotTheKeeper(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"unreadable", "missing", "empty directory"} {
		t.Run(how, func(t *testing.T) {
			dir := t.TempDir()
			keepers := make([]*keeper, 6)
			var waits atomic.Pointer[string]
			config := func(i int, c *squall.Config) {
				keepers[i] = &keeper{}
				c.Events = func(e squall.Event) {
					if n, yes := e.(squall.NotProvisioned); yes {
						text := n.String()
						waits.Store(&text)
					}
				}
				c.Cluster, c.Dir, c.OpenLogs = "durable", filepath.Join(dir, fmt.Sprint("node-", i+1)), true
				c.Subgroups = []squall.SubgroupConfig{
					{Name: "log", Mode: squall.Persistent, RingBytes: 64 << 10, Window: 256, Members: []squall.NodeID{4, 5}, Deliver: keepers[i].deliver, Log: squall.LogConfig{Recover: keepers[i].recover}},
					{Name: "plain", Deliver: func(squall.Message) {}},
				}
			}
			groups := cluster(t, 5, config)
			persistSome(t, groups[3:], "x", 25)
			persistSome(t, groups[3:], "y", 25)
			groups[0].ReportFailure(4)
			groups[0].ReportFailure(5)
			eventually(t, "they are out", func() bool { return len(groups[0].View().Members) == 3 })
			<-groups[3].Done()
			<-groups[4].Done()
			closeAll(groups[3:]...)
			file := filepath.Join(dir, "node-4", "logs", "log.0", "log.db")
			switch how {
			case "unreadable":
				if err := os.Truncate(file, 3*4096); err != nil {
					t.Fatal(err)
				}
			case "missing":
				if err := os.RemoveAll(filepath.Dir(file)); err != nil {
					t.Fatal(err)
				}
			case "empty directory":
				if err := os.RemoveAll(filepath.Join(dir, "node-4")); err != nil {
					t.Fatal(err)
				}
			}
			again := func(id int) *squall.Group { return openAgain(t, id, groups[0].Addr(), config) }
			four := again(4)
			if err := takesAll(t, four.Addr()); err == nil {
				t.Error("a member that is not in the shard offers its log as the log of the group")
			}
			if told := waits.Load(); told == nil || !strings.Contains(*told, "waits for a member that has its log") || !strings.Contains(*told, "node 5") {
				t.Errorf("of the shard that waits it was said: %v", told)
			}
			five := again(5)
			inShard(t, four, five)
			for _, g := range []*squall.Group{four, five} {
				<-must(g.Subgroup("log")).Restored()
				eventually(t, "the records are there", func() bool { return mustLog(t, g).Info().Count == 100 })
			}
		})
	}
}

// The log is at node 4. Node 5 comes into the shard, and while it catches up node 4 fails. No disk
// is damaged. When both are back, nothing may be lost.
func TestWhoHadNotCaughtUpIsNoKeeper(t *testing.T) {
	if testing.Short() {
		t.Skip("100 MB of records, which two members get again")
	}
	t.Parallel()
	dir := t.TempDir()
	layout := func(in squall.LayoutInput) ([]squall.ShardPlaces, error) {
		p := make([]squall.ShardPlaces, 2)
		for _, m := range in.Members {
			if m.ID >= 4 {
				p[0].Members = append(p[0].Members, m.ID)
			}
		}
		return p, nil
	}
	config := func(i int, c *squall.Config) {
		c.Cluster, c.Dir = "durable", filepath.Join(dir, fmt.Sprint("node-", i+1))
		c.Subgroups = []squall.SubgroupConfig{
			{Name: "log", Mode: squall.Persistent, RingBytes: 1 << 20, Window: 256, Shards: 2, Layout: layout, LayoutName: "first", Deliver: func(squall.Message) {}, Log: squall.LogConfig{Engine: wal.Engine}},
			{Name: "plain", Deliver: func(squall.Message) {}},
		}
	}
	groups := cluster(t, 4, config)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	const records = 500 // of 100 MB in all: more than a member gets before the others see that another one is gone
	body := bytes.Repeat([]byte("x"), 200<<10)
	var last *squall.Future
	for range records {
		f, err := must(groups[3].Subgroup("log")).SendFuture(ctx, body)
		if err != nil {
			t.Fatal(err)
		}
		last = f
	}
	if v, err := last.Persisted(ctx, squall.OnEveryDisk); err != nil {
		t.Fatal(v, err)
	}
	again := func(id int) *squall.Group { return openAgain(t, id, groups[0].Addr(), config) }
	five := again(5)
	groups[0].ReportFailure(4)
	<-groups[3].Done()
	closeAll(groups[3])
	eventually(t, "the shard waits for node 4", func() bool {
		sg := groups[0].View().Subgroups[0]
		return len(sg.Members) == 0 && len(sg.Holders) == 1 && sg.Holders[0].ID == 4
	})
	closeAll(five)
	eventually(t, "node 5 is out", func() bool { return len(groups[0].View().Members) == 3 })
	five = again(5)
	four := again(4)
	inShard(t, four, five)
	for _, g := range []*squall.Group{four, five} {
		<-must(g.Subgroup("log")).Restored()
		eventually(t, "the records are there", func() bool { return mustLog(t, g).Info().Count == records })
	}
}

// openAgain opens a member of a group that works.
func openAgain(t *testing.T, id int, join string, config func(int, *squall.Config)) *squall.Group {
	t.Helper()
	c := squall.Config{ID: squall.NodeID(id), Listen: "127.0.0.1:0", Join: []string{join}, InitialMembers: 3, Logger: quiet}
	config(id-1, &c)
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	g, err := squall.Open(ctx, c)
	if err != nil {
		t.Fatalf("node %d: %v", id, err)
	}
	t.Cleanup(func() { closeAll(g) })
	return g
}

// inShard waits until the members of the first shard are these groups, in the view of each of them:
// a member may install a view later than another one.
func inShard(t *testing.T, groups ...*squall.Group) {
	t.Helper()
	for _, g := range groups {
		eventually(t, "all of them are in the shard", func() bool { return len(g.View().Subgroups[0].Members) == len(groups) })
	}
}

// takesAll asks a member for all of the log, as one does that comes back.
func takesAll(t *testing.T, addr string) error {
	t.Helper()
	s, err := persist.Open(t.Context(), persist.Config{Dir: t.TempDir(), Cluster: "durable", Node: 9})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l, err := s.Log(t.Context(), persist.LogConfig{ID: persist.LogID{Name: "log"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = logwire.CatchUp(t.Context(), logwire.CatchUpConfig{
		Cluster: "durable", ID: persist.LogID{Name: "log"}, Log: l,
		Dial: func(ctx context.Context) (net.Conn, error) {
			return port.Dial(ctx, addr, port.KindLog, nil)
		},
	})
	return err
}
