package squall

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/backlog"
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/internal/transfer"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
	"github.com/squall-go/squall/views"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// queued is an application that runs what is marked when it is told to.
type queued struct {
	application
	marks []func()
}

func (a *queued) mark(f func()) { a.marks = append(a.marks, f) }

// Where the deliveries of a view begin, members that are fresh in it take over the state: behind
// everything of earlier views, and nothing of the view.
func TestASnapshotIsTakenWhereTheViewBegins(t *testing.T) {
	view := &views.View{
		ID: 2, Members: []views.Member{{ID: 1}, {ID: 2}},
		Subgroups: []views.Subgroup{{Members: []order.Rank{0, 1}, Fresh: []order.Rank{1}, Partial: []order.Rank{1}}},
	}
	var events []string
	snapshot := func() func(io.Writer) error {
		events = append(events, "snapshot")
		return func(io.Writer) error { return nil }
	}
	for _, waits := range []bool{true, false} {
		events = nil
		app := &queued{}
		g := &Group{cfg: Config{Subgroups: []SubgroupConfig{{Snapshot: snapshot}}}, apps: []application{app}}
		s := &states{group: g, source: transfer.NewSource(transfer.SourceConfig{Self: 1, Keeps: func(string) bool { return true }})}
		s.source.Installed(view)
		r := &receiver{stays: newStays(s, 0)}
		b := backlog.New(backlog.Config{Bytes: 1 << 10, Wake: func() {}, Upcall: func([]multicast.Message) { events = append(events, "message") }})
		if waits {
			r.Hold(b, true)
		}
		b.Deliver([]multicast.Message{{View: 1}})
		r.offer(2, 0)
		b.Deliver([]multicast.Message{{View: 2}})
		if len(events) > 0 {
			t.Errorf("waiting %v: at once: %v", waits, events)
		}
		b.HandOver()
		for _, f := range app.marks {
			f()
		}
		want := []string{"message", "snapshot", "message"}
		if !waits {
			want = []string{"message", "snapshot"} // both messages in one run: the mark is with the application
		}
		if !slices.Equal(events, want) {
			t.Errorf("waiting %v: %v, want %v", waits, events, want)
		}
		s.source.Close()
	}
}

// logged is the configuration of a member of a group with a persistent subgroup.
func logged(dir string, id NodeID, sg SubgroupConfig) Config {
	sg.Name, sg.Mode, sg.RingBytes, sg.Window, sg.Deliver = "log", Persistent, 64<<10, 256, func(Message) {}
	return Config{
		Cluster: "durable", ID: id, Listen: "127.0.0.1:0", InitialMembers: 1, Dir: filepath.Join(dir, fmt.Sprint("node-", id)), Subgroups: []SubgroupConfig{sg},
		Logger: slog.New(slog.DiscardHandler),
	}
}

func opened(t *testing.T, c Config) *Group {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	g, err := Open(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close(context.Background()) })
	return g
}

// recorded sends messages and waits until they are on this disk.
func recorded(t *testing.T, g *Group, n int) {
	t.Helper()
	for range n {
		f, err := must(g.Subgroup("log")).SendFuture(t.Context(), []byte("message"))
		if err == nil {
			_, err = f.Persisted(t.Context(), OnThisDisk)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// The log of a member that is not in the shard does not count as the end of the shard.
func TestALogOfAShardThatWasLeftIsPartial(t *testing.T) {
	layout := func(LayoutInput) ([]ShardPlaces, error) { return []ShardPlaces{{Members: []NodeID{1}}, {}}, nil }
	g := opened(t, logged(t.TempDir(), 1, SubgroupConfig{Shards: 2, Layout: layout, LayoutName: "shard 0 alone"}))
	for shard, want := range []bool{false, true} {
		id := persist.LogID{Name: "log", Shard: shard}
		if _, err := g.durable.keep(id); err != nil {
			t.Fatal(err)
		}
		if got := g.durable.partial(id); got != want {
			t.Errorf("the log of shard %d is partial: %v, and its member is in shard 0", shard, got)
		}
	}
}

// A log does not count as the end of the shard while its member still gets records from other
// members.
func TestALogIsPartialUntilItIsWhole(t *testing.T) {
	t.Parallel()
	dir, release := t.TempDir(), make(chan struct{})
	first := opened(t, logged(dir, 1, SubgroupConfig{}))
	recorded(t, first, 3)
	c := logged(dir, 2, SubgroupConfig{Log: LogConfig{Recover: func(*Log) error { <-release; return nil }}})
	c.Join = []string{first.Addr()}
	second := opened(t, c)
	id := persist.LogID{Name: "log"}
	if !second.durable.partial(id) {
		t.Error("a log that others have more of is not partial")
	}
	close(release)
	for end := time.Now().Add(20 * time.Second); second.durable.partial(id); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a log that is whole stays partial")
		}
	}
}
