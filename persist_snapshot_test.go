package squall_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/persist/bolt"
	"github.com/squall-go/squall/persist/wal"
)

// book is an application that keeps its state as LogConfig.Recover says: every message, one behind
// the other.
type book struct{ keeper }

// recover replaces the state by the snapshot, and then by the records that Range yields.
func (b *book) recover(l *squall.Log) error {
	var state []string
	_, r, err := l.OpenSnapshot()
	switch {
	case err == nil:
		text, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			return err
		}
		state = strings.Split(string(text), "\n")
	case !errors.Is(err, squall.ErrNotInLog):
		return err
	}
	for r, err := range l.Range(squall.Version{}, squall.Version{}) {
		if err != nil {
			return err
		}
		state = append(state, string(r.Data))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.recovered, b.delivered = state, nil
	return nil
}

// config is that of a member whose application is the book.
func (b *book) config(dir string, engine squall.LogEngine) func(int, *squall.Config) {
	return func(i int, c *squall.Config) {
		c.Cluster, c.Dir = "durable", filepath.Join(dir, fmt.Sprint("node-", i+1))
		c.Subgroups = []squall.SubgroupConfig{{
			Name: "log", Mode: squall.Persistent, RingBytes: 64 << 10, Window: 256,
			Deliver: b.deliver, Log: squall.LogConfig{Engine: engine, Recover: b.recover},
		}}
	}
}

// snapshotOf keeps the whole state as it is behind a version, which is the last one so far.
func (b *book) snapshotOf(t *testing.T, g *squall.Group, last squall.Version) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	l := mustLog(t, g)
	if err := l.WaitPersisted(ctx, squall.OnEveryDisk, last); err != nil {
		t.Fatal(err)
	}
	err := l.Snapshot(last, func(w io.Writer) error {
		_, err := io.WriteString(w, strings.Join(b.all(), "\n"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// An application that takes a snapshot and recovers from it has every message once, however the
// process ended and whatever came behind the snapshot.
func TestAStateIsRecoveredFromASnapshotAndWhatIsBehindIt(t *testing.T) {
	t.Parallel()
	for _, engine := range []squall.LogEngine{bolt.Engine, wal.Engine} {
		for _, more := range []int{0, 7} {
			t.Run(fmt.Sprintf("%v/%d", engine, more), func(t *testing.T) {
				dir, crashed := t.TempDir(), t.TempDir()
				b := &book{}
				groups := cluster(t, 1, b.config(dir, engine))
				b.snapshotOf(t, groups[0], persistSome(t, groups, "first", 1000))
				if more > 0 {
					persistSome(t, groups, "second", more)
				}
				want := b.all()
				if len(want) != 1000+more {
					t.Fatalf("%d messages", len(want))
				}
				if err := os.CopyFS(crashed, os.DirFS(dir)); err != nil { // nothing is written: what is on disk is what a crash leaves
					t.Fatal(err)
				}
				closeAll(groups...)
				for how, dir := range map[string]string{"closed": dir, "crashed": crashed} {
					for range 2 {
						again := &book{}
						groups := cluster(t, 1, again.config(dir, engine))
						if got := again.all(); !slices.Equal(got, want) {
							t.Errorf("%s: it came back with %d messages, not %d", how, len(got), len(want))
						}
						closeAll(groups...)
					}
				}
			})
		}
	}
}

// A member that has lost its disk gets the snapshot of another member. A member that was away for a
// while gets the records behind its own snapshot. Both have the same state as the other members,
// and all members have the same state after a restart.
func TestStatesAreEqualWhereverTheirSnapshotsComeFrom(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	books := []*book{{}, {}, {}}
	config := func(i int, c *squall.Config) { books[i].config(dir, bolt.Engine)(i, c) }
	groups := cluster(t, 3, config)
	last := persistSome(t, groups, "first", 100)
	for i, b := range books {
		eventually(t, "everything is delivered", func() bool { return len(b.all()) == 300 })
		b.snapshotOf(t, groups[i], last)
	}
	want := books[0].all()
	for _, empty := range []bool{true, false} {
		closeWell(t, groups[2])
		if empty {
			if err := os.RemoveAll(filepath.Join(dir, "node-3")); err != nil {
				t.Fatal(err)
			}
		}
		books[2] = &book{}
		groups[2] = openAgain(t, 3, groups[0].Addr(), config)
		<-must(groups[2].Subgroup("log")).Restored()
		if got := books[2].all(); !slices.Equal(got, want) {
			t.Fatalf("empty %v: it came back with %d messages, not %d", empty, len(got), len(want))
		}
	}
	last = persistSome(t, groups, "second", 10)
	for i, b := range books {
		eventually(t, "everything is delivered", func() bool { return len(b.all()) == 330 })
		b.snapshotOf(t, groups[i], last)
	}
	want = books[0].all()
	addrs := []string{groups[0].Addr(), groups[1].Addr(), groups[2].Addr()}
	closeAll(groups...)
	groups = cluster(t, 3, func(i int, c *squall.Config) {
		books[i] = &book{}
		config(i, c)
		c.Listen = addrs[i]
	})
	for i, b := range books {
		<-must(groups[i].Subgroup("log")).Restored()
		if got := b.all(); !slices.Equal(got, want) {
			t.Errorf("node %d came back with %d messages, not %d", i+1, len(got), len(want))
		}
	}
}
