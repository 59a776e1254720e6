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
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/persist/wal"
)

// story is an application whose state is every message, one behind the other. It takes the state
// over with Restore and replayed messages.
type story struct {
	t *testing.T

	mu       sync.Mutex
	state    []string
	restored int // calls of Restore
	replayed int // messages, since the last one
	live     bool
}

func (j *story) deliver(run []squall.Message) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, m := range run {
		switch {
		case m.Body() != nil:
			j.t.Errorf("message %v has a body", m.Version())
		case !m.Replayed():
			j.live = true
		case j.live:
			j.t.Errorf("message %v is replayed after a new one", m.Version())
		case m.Sender == 0 || m.Time == 0 || m.View == 0:
			j.t.Errorf("replayed: %+v", m)
		default:
			j.replayed++
		}
		j.state = append(j.state, string(m.Data))
	}
}

func (j *story) snapshot() func(io.Writer) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	text := strings.Join(j.state, "\n")
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

func (j *story) restore(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.restored, j.replayed, j.live, j.state = j.restored+1, 0, false, nil
	if len(text) > 0 {
		j.state = strings.Split(string(text), "\n")
	}
	return nil
}

func (j *story) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.state)
}

// config is that of a member in a directory of its own, whose application is the story.
func (j *story) config(dir string, change func(*squall.SubgroupConfig)) func(int, *squall.Config) {
	return func(i int, c *squall.Config) {
		c.Cluster, c.Dir = "durable", filepath.Join(dir, fmt.Sprint("node-", i+1))
		sg := squall.SubgroupConfig{
			Name: "log", Mode: squall.Persistent, RingBytes: 64 << 10, Window: 256,
			DeliverBatch: j.deliver, Snapshot: j.snapshot, Restore: j.restore,
		}
		if change != nil {
			change(&sg)
		}
		c.Subgroups = []squall.SubgroupConfig{sg}
	}
}

// stories is a group of members with an application each.
func stories(t *testing.T, dir string, n int, change func(*squall.SubgroupConfig)) (all []*story, groups []*squall.Group) {
	for range n {
		all = append(all, &story{t: t})
	}
	return all, cluster(t, n, func(i int, c *squall.Config) { all[i].config(dir, change)(i, c) })
}

func takeSnapshot(t *testing.T, g *squall.Group) squall.Version {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	v, err := must(g.Subgroup("log")).TakeSnapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A process that starts again restores the snapshot and gets each message behind it once, marked,
// before anything new, however the process before it ended.
func TestAStateIsRestoredFromASnapshotAndReplayedMessages(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*squall.SubgroupConfig){
		"bolt": nil,
		"wal":  func(sg *squall.SubgroupConfig) { sg.Log.Engine = wal.Engine },
		"one by one": func(sg *squall.SubgroupConfig) {
			batch := sg.DeliverBatch
			sg.DeliverBatch, sg.Deliver = nil, func(m squall.Message) { batch([]squall.Message{m}) }
		},
		"queued":        func(sg *squall.SubgroupConfig) { sg.AsyncQueueBytes = 1 << 20 },
		"after persist": func(sg *squall.SubgroupConfig) { sg.Log.DeliverAfterPersist = true },
	} {
		t.Run(name, func(t *testing.T) {
			dir, crashed := t.TempDir(), t.TempDir()
			all, groups := stories(t, dir, 1, change)
			if j := all[0]; j.restored != 1 || j.replayed != 0 || len(j.all()) != 0 {
				t.Errorf("at first it restored %d times, %d messages were replayed, and it has %d", j.restored, j.replayed, len(j.all()))
			}
			if v := takeSnapshot(t, groups[0]); v != (squall.Version{}) {
				t.Errorf("a snapshot of nothing, at %v", v)
			}
			last := persistSome(t, groups, "first", 500)
			if v := takeSnapshot(t, groups[0]); v != last {
				t.Errorf("the snapshot is of %v, the last message was %v", v, last)
			}
			persistSome(t, groups, "second", 300)
			eventually(t, "everything is delivered", func() bool { return len(all[0].all()) == 800 })
			want := all[0].all()
			if err := os.CopyFS(crashed, os.DirFS(dir)); err != nil { // nothing is written: what is on disk is what a crash leaves
				t.Fatal(err)
			}
			closeAll(groups...)
			for how, dir := range map[string]string{"closed": dir, "crashed": crashed} {
				for k := range 2 {
					again, groups := stories(t, dir, 1, change)
					if j := again[0]; !slices.Equal(j.all(), append(slices.Clone(want), j.all()[min(800, len(j.all())):]...)) || j.restored != 1 || j.replayed != 300+k {
						t.Errorf("%s: it came back with %d messages, not %d, %d replayed, after %d calls of Restore", how, len(j.all()), len(want)+k, j.replayed, j.restored)
					}
					persistSome(t, groups, "new", 1)
					closeAll(groups...)
				}
			}
		})
	}
}

// A member that joins, one that comes back, and one whose disk was replaced have the state of the
// others, with and without a snapshot there, while the others send and take snapshots.
func TestStatesAreEqualInABusyGroup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	all, groups := stories(t, dir, 3, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var busy sync.WaitGroup
	var sent [2]int
	for i, g := range groups[:2] {
		log := must(g.Subgroup("log"))
		busy.Go(func() {
			for ; ctx.Err() == nil; sent[i]++ {
				if err := log.Send(context.Background(), fmt.Appendf(nil, "%d of %d", sent[i], i+1)); err != nil {
					t.Error(err)
					return
				}
			}
		})
		busy.Go(func() {
			for ctx.Err() == nil {
				before := mustLog(t, g).Info().Snapshot
				v, err := log.TakeSnapshot(ctx)
				if ctx.Err() == nil && (err != nil || v.Before(before)) {
					t.Errorf("a snapshot at %v, after one at %v: %v", v, before, err)
				}
			}
		})
	}
	snapshotOf := func(g *squall.Group) squall.Version { return mustLog(t, g).Info().Snapshot }
	for _, empty := range []bool{false, true, false, true}[:testutil.Seeds(2, 4)] {
		closeWell(t, groups[2])
		if empty {
			if err := os.RemoveAll(filepath.Join(dir, "node-3")); err != nil {
				t.Fatal(err)
			}
		}
		before := snapshotOf(groups[0])
		eventually(t, "there is another snapshot", func() bool { return before.Before(snapshotOf(groups[0])) })
		all[2] = &story{t: t}
		groups[2] = openAgain(t, 3, groups[0].Addr(), func(i int, c *squall.Config) { all[2].config(dir, nil)(i, c) })
		<-must(groups[2].Subgroup("log")).Restored()
		if all[2].restored == 0 {
			t.Error("nothing was restored")
		}
	}
	cancel()
	busy.Wait()
	for i, j := range all {
		eventually(t, fmt.Sprint("all is delivered at node ", i+1), func() bool { return len(j.all()) == sent[0]+sent[1] })
		if got := j.all(); !slices.Equal(got, all[0].all()) {
			t.Errorf("node %d has another state of %d messages", i+1, len(got))
		}
	}
}

// Whatever goes wrong while the application takes over the log, the next process takes over all of
// it.
func TestARestoreThatDoesNotEndIsDoneAgainAsAWhole(t *testing.T) {
	dir := t.TempDir()
	all, groups := stories(t, dir, 1, nil)
	persistSome(t, groups, "first", 200)
	takeSnapshot(t, groups[0])
	persistSome(t, groups, "second", 300)
	want := all[0].all()
	closeAll(groups...)
	own := errors.New("no space")
	crashed := t.TempDir()
	for name, change := range map[string]func(*squall.SubgroupConfig, context.CancelCauseFunc){
		"the application fails": func(sg *squall.SubgroupConfig, _ context.CancelCauseFunc) {
			sg.Restore = func(r io.Reader) error {
				_, _ = io.CopyN(io.Discard, r, 10)
				return own
			}
		},
		"the wait ends in a replayed message": func(sg *squall.SubgroupConfig, cancel context.CancelCauseFunc) {
			deliver := sg.DeliverBatch
			sg.DeliverBatch = func(run []squall.Message) {
				if deliver(run); run[0].Replayed() {
					if err := errors.Join(os.RemoveAll(crashed), os.CopyFS(crashed, os.DirFS(dir))); err != nil { // what a crash would leave
						t.Error(err)
					}
					cancel(own)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			c := squall.Config{ID: 1, Listen: "127.0.0.1:0", InitialMembers: 1, Logger: quiet}
			(&story{t: t}).config(dir, func(sg *squall.SubgroupConfig) { change(sg, cancel) })(0, &c)
			g, err := squall.Open(ctx, c)
			if err == nil {
				closeAll(g)
			}
			if !errors.Is(err, own) || !strings.Contains(err.Error(), "recovering from its log") {
				t.Errorf("it opened with %v", err)
			}
		})
	}
	for _, dir := range []string{dir, crashed} {
		again, groups := stories(t, dir, 1, nil)
		if got := again[0].all(); !slices.Equal(got, want) {
			t.Errorf("it came back with %d messages, not %d", len(got), len(want))
		}
		closeAll(groups...)
	}
}

// An application that does not look at the end of the snapshot, or at the errors of its reader, is
// not given a damaged one.
func TestADamagedSnapshotIsNotRestored(t *testing.T) {
	dir := t.TempDir()
	_, groups := stories(t, dir, 1, nil)
	persistSome(t, groups, "first", 200)
	takeSnapshot(t, groups[0])
	closeAll(groups...)
	name := filepath.Join(dir, "node-1", "logs", "log.0", "snapshot")
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)/2] ^= 1
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	for how, restore := range map[string]func(io.Reader) error{
		"reads a part": func(r io.Reader) error { _, err := r.Read(make([]byte, 1)); return err },
		"hides errors": func(r io.Reader) error { _, _ = io.Copy(io.Discard, r); return nil },
	} {
		t.Run(how, func(t *testing.T) {
			c := squall.Config{ID: 1, Listen: "127.0.0.1:0", InitialMembers: 1, Logger: quiet}
			(&story{t: t}).config(dir, func(sg *squall.SubgroupConfig) { sg.Restore = restore })(0, &c)
			g, err := squall.Open(t.Context(), c)
			if err == nil {
				closeAll(g)
			}
			if !errors.Is(err, squall.ErrLogDamaged) {
				t.Errorf("it opened with %v", err)
			}
		})
	}
}

// A snapshot that the application does not write leaves the log as it was.
func TestASnapshotThatFailsChangesNothing(t *testing.T) {
	own := errors.New("the application's own")
	var g *squall.Group
	var inWrite error
	fail, none := true, false
	all := []*story{{t: t}}
	g = cluster(t, 1, all[0].config(t.TempDir(), func(sg *squall.SubgroupConfig) {
		snapshot := sg.Snapshot
		sg.Snapshot = func() func(io.Writer) error {
			write := snapshot()
			switch {
			case none:
				return nil
			case fail:
				return func(w io.Writer) error {
					_, inWrite = must(g.Subgroup("log")).TakeSnapshot(t.Context())
					return errors.Join(write(w), own)
				}
			}
			return write
		}
	}))[0]
	last := persistSome(t, []*squall.Group{g}, "first", 200)
	before := mustLog(t, g).Info()
	log := must(g.Subgroup("log"))
	if v, err := log.TakeSnapshot(t.Context()); v != (squall.Version{}) || !errors.Is(err, own) || !errors.Is(inWrite, squall.ErrInCallback) {
		t.Errorf("a snapshot that fails: %v, %v, %v", v, err, inWrite)
	}
	none = true
	if v, err := log.TakeSnapshot(t.Context()); v != (squall.Version{}) || err == nil || !strings.Contains(err.Error(), "returned nil") {
		t.Errorf("no function: %v, %v", v, err)
	}
	if after := mustLog(t, g).Info(); after.Snapshot != before.Snapshot || after.Count != before.Count {
		t.Errorf("the log was %+v and is %+v", before, after)
	}
	none, fail = false, false
	if v := takeSnapshot(t, g); v != last {
		t.Errorf("the snapshot is of %v, the last message was %v", v, last)
	}
	closeAll(g)
}

func TestASnapshotIsTakenOutsideOfUpcallsAndWhereThereIsALog(t *testing.T) {
	var g *squall.Group
	opened, told := make(chan struct{}), make(chan error, 2)
	take := func(name string) error {
		_, err := must(g.Subgroup(name)).TakeSnapshot(t.Context())
		return err
	}
	inUpcall := func(name string) func(squall.Message) {
		return func(squall.Message) {
			<-opened
			told <- take(name)
		}
	}
	snapshot := func() func(io.Writer) error { return func(io.Writer) error { return nil } }
	restore := func(io.Reader) error { return nil }
	g = cluster(t, 1, func(_ int, c *squall.Config) {
		c.Dir = t.TempDir()
		c.Subgroups = []squall.SubgroupConfig{
			{Name: "direct", Mode: squall.Persistent, Deliver: inUpcall("direct"), Snapshot: snapshot, Restore: restore},
			{Name: "queued", Mode: squall.Persistent, Deliver: inUpcall("queued"), Snapshot: snapshot, Restore: restore, AsyncQueueBytes: 4096},
			{Name: "ordered", Deliver: func(squall.Message) {}, Snapshot: snapshot, Restore: restore},
			{Name: "alone", Mode: squall.Persistent, Deliver: func(squall.Message) {}, Restore: restore},
		}
	})[0]
	close(opened)
	for _, name := range []string{"direct", "queued"} {
		send(t, must(g.Subgroup(name)), "x")
		if err := <-told; !errors.Is(err, squall.ErrInCallback) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := take("ordered"); !errors.Is(err, squall.ErrNotPersistent) {
		t.Errorf("ordered: %v", err)
	}
	if err := take("alone"); err == nil || errors.Is(err, squall.ErrNotPersistent) || !strings.Contains(err.Error(), "Snapshot is not set") {
		t.Errorf("without Snapshot: %v", err)
	}
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(os.ErrDeadlineExceeded)
	if _, err := must(g.Subgroup("direct")).TakeSnapshot(ended); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	closeAll(g)
	if err := take("direct"); !errors.Is(err, squall.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
