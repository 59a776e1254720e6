package squall_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/squall-go/squall"
)

// Every member takes snapshots as its policy says, drops what they stand for, and starts again from
// the last one.
func TestSnapshotsAreTakenByPolicy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	change := func(sg *squall.SubgroupConfig) { sg.Log.Snapshots = squall.SnapshotPolicy{Records: 100} }
	taken := make(chan squall.NodeID, 64)
	all := []*story{{t: t}, {t: t}}
	config := func(i int, c *squall.Config) {
		all[i].config(dir, change)(i, c)
		c.Events = func(e squall.Event) {
			if _, ok := e.(squall.SnapshotTaken); ok {
				taken <- squall.NodeID(i + 1)
			}
		}
	}
	groups := cluster(t, 2, config)
	for k := range 150 {
		send(t, must(groups[0].Subgroup("log")), fmt.Sprint("message ", k))
	}
	if first, second := <-taken, <-taken; first == second {
		t.Errorf("member %d took two snapshots, and the other one none", first)
	}
	send(t, must(groups[1].Subgroup("log")), "the last one")
	eventually(t, "everything is delivered", func() bool { return len(all[0].all()) == 151 && len(all[1].all()) == 151 })
	for _, g := range groups {
		if s := must(g.Subgroup("log")).Stats().Log; s.KeptRecords > 100 {
			t.Errorf("member %d keeps %d records of 151", g.ID(), s.KeptRecords)
		}
	}
	want := all[0].all()
	closeWell(t, groups...)
	all[0], all[1] = &story{t: t}, &story{t: t}
	groups = cluster(t, 2, config)
	for i, j := range all {
		<-must(groups[i].Subgroup("log")).Restored()
		if got := j.all(); !slices.Equal(got, want) || j.replayed >= 150 {
			t.Errorf("member %d has %d messages of %d after it started again, of which %d were replayed", i+1, len(got), len(want), j.replayed)
		}
	}
}

// A snapshot that cannot be taken is reported, and ends nothing.
func TestASnapshotByPolicyThatFailsIsReported(t *testing.T) {
	t.Parallel()
	own := errors.New("the state cannot be written")
	failed := make(chan error, 64)
	dir, j := t.TempDir(), &story{t: t}
	groups := cluster(t, 1, func(i int, c *squall.Config) {
		j.config(dir, func(sg *squall.SubgroupConfig) {
			sg.Log.Snapshots = squall.SnapshotPolicy{Records: 1}
			sg.Snapshot = func() func(io.Writer) error { return func(io.Writer) error { return own } }
		})(i, c)
		c.Events = func(e squall.Event) {
			if f, ok := e.(squall.SnapshotFailed); ok {
				failed <- f.Err
			}
		}
	})
	send(t, must(groups[0].Subgroup("log")), "one")
	if err := <-failed; !errors.Is(err, own) {
		t.Errorf("got %v", err)
	}
	send(t, must(groups[0].Subgroup("log")), "two")
	eventually(t, "messages are delivered", func() bool { return len(j.all()) == 2 })
}

// A group that closes does not wait for the state that is being written.
func TestClosingEndsASnapshotByPolicy(t *testing.T) {
	t.Parallel()
	writing, written := make(chan struct{}, 64), make(chan error, 64)
	dir, j := t.TempDir(), &story{t: t}
	groups := cluster(t, 1, func(i int, c *squall.Config) {
		j.config(dir, func(sg *squall.SubgroupConfig) {
			sg.Log.Snapshots = squall.SnapshotPolicy{Records: 1}
			sg.Snapshot = func() func(io.Writer) error {
				return func(w io.Writer) error {
					writing <- struct{}{}
					for { // it would never end by itself
						if _, err := w.Write(make([]byte, 16)); err != nil {
							written <- err
							return err
						}
					}
				}
			}
		})(i, c)
	})
	send(t, must(groups[0].Subgroup("log")), "one")
	<-writing
	if err := groups[0].Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := <-written; !errors.Is(err, context.Canceled) {
		t.Errorf("writing ended with %v", err)
	}
}

func TestAPolicyNeedsASnapshot(t *testing.T) {
	c := squall.Config{Cluster: "c", ID: 1, Dir: t.TempDir(), Listen: "127.0.0.1:0", InitialMembers: 1, Subgroups: []squall.SubgroupConfig{{
		Name: "log", Mode: squall.Persistent, Deliver: func(squall.Message) {}, Log: squall.LogConfig{Snapshots: squall.SnapshotPolicy{Records: 1}},
	}}}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "Log.Snapshots") {
		t.Errorf("got %v", err)
	}
}
