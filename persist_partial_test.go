package squall_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/restart"
	"github.com/squall-go/squall/persist"
)

// openDurableMember opens one more member of a group with a persistent subgroup "log".
func openDurableMember(t *testing.T, dir string, id int, join string, more func(*squall.Config)) *squall.Group {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	j := &keeper{}
	c := squall.Config{
		Cluster: "durable", ID: squall.NodeID(id), Listen: "127.0.0.1:0", InitialMembers: 1, Logger: quiet, Dir: filepath.Join(dir, fmt.Sprint("node-", id)),
		Subgroups: []squall.SubgroupConfig{{
			Name: "log", Mode: squall.Persistent, RingBytes: 64 << 10, Window: 256, Deliver: j.deliver, Log: squall.LogConfig{Recover: j.recover},
		}},
	}
	if join != "" {
		c.Join = []string{join}
	}
	if more != nil {
		more(&c)
	}
	g, err := squall.Open(ctx, c)
	if err != nil {
		t.Errorf("node %d: %v", id, err)
		return nil
	}
	t.Cleanup(func() { closeAll(g) })
	return g
}

// sendHere sends messages and waits until this process's disk has them.
func sendHere(t *testing.T, g *squall.Group, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for m := range n {
		f, err := must(g.Subgroup("log")).SendFuture(ctx, fmt.Appendf(nil, "here %d", m))
		if err == nil {
			_, err = f.Persisted(ctx, squall.OnThisDisk)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// sameLogs checks that all members have the same records.
func sameLogs(t *testing.T, groups ...*squall.Group) {
	t.Helper()
	var first []string
	for i, g := range groups {
		l, err := must(g.Subgroup("log")).Log()
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for r, err := range l.Range(squall.Version{}, squall.Version{}) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, fmt.Sprintf("%v %d %d %s", r.Version, r.Time, r.Sender, r.Data))
		}
		if i == 0 {
			first = all
		}
		if !slices.Equal(all, first) {
			t.Errorf("node %d has %d records, node %d %d, or others", g.ID(), len(all), groups[0].ID(), len(first))
		}
	}
}

// held is a member whose log is not whole before it is let go.
func held(t *testing.T, dir string, id int, join string) (g *squall.Group, letGo func()) {
	hold := make(chan struct{})
	letGo = sync.OnceFunc(func() { close(hold) })
	t.Cleanup(letGo)
	return openDurableMember(t, dir, id, join, func(c *squall.Config) {
		c.Subgroups[0].Log.Recover = func(*squall.Log) error { <-hold; return nil }
	}), letGo
}

// A member whose log is not whole yet says where the log ends only when it knows.
func TestWhoComesInBehindAMemberThatCatchesUpLacksNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := openDurableMember(t, dir, 1, "", nil)
	persistSome(t, []*squall.Group{first}, "one", 10)
	second, letGo := held(t, dir, 2, first.Addr())
	sendHere(t, first, 10)
	groups := []*squall.Group{first, second, nil, nil, nil, nil, nil}
	var joining sync.WaitGroup
	for i := range groups[2:] { // the processes that enter in one view begin with different members
		joining.Go(func() { groups[2+i] = openDurableMember(t, dir, 3+i, second.Addr(), nil) })
	}
	joining.Wait()
	if t.Failed() {
		return
	}
	letGo()
	persistSome(t, groups, "all", 3)
	sameLogs(t, groups...)
}

// What a member has that one that catches up lacks is no end of its own that others do not have.
func TestALogIsNotCutToOneThatIsNotWhole(t *testing.T) {
	dir := t.TempDir()
	first := openDurableMember(t, dir, 1, "", nil)
	second := openDurableMember(t, dir, 2, first.Addr(), nil)
	persistSome(t, []*squall.Group{first, second}, "two", 10)
	third, letGo := held(t, dir, 3, first.Addr())
	sendHere(t, second, 10)
	closeAll(second)
	second = openDurableMember(t, dir, 2, third.Addr(), func(c *squall.Config) {
		c.Events = func(e squall.Event) {
			if r, ok := e.(squall.LogCaughtUp); ok && r.Cut > 0 {
				t.Errorf("%d records were cut, and all others have them: %v", r.Cut, r)
			}
		}
	})
	letGo()
	persistSome(t, []*squall.Group{first, second, third}, "all", 3)
	sameLogs(t, first, second, third)
}

// A member whose backlog is full takes nothing more until its log is whole. It leaves without that,
// although the others' messages, and one of its own, are not delivered yet.
func TestAMemberWithoutAllOfItsLogLeaves(t *testing.T) {
	dir := t.TempDir()
	small := func(c *squall.Config) { c.Subgroups[0].BacklogBytes = 1 } // that is: the largest message
	first := openDurableMember(t, dir, 1, "", small)
	sendHere(t, first, 1)
	hold := make(chan struct{})
	defer close(hold)
	second := openDurableMember(t, dir, 2, first.Addr(), func(c *squall.Config) {
		small(c)
		c.Subgroups[0].Log.Recover = func(*squall.Log) error { <-hold; return nil }
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var sending sync.WaitGroup
	sending.Go(func() {
		for range 40 { // more than all buffers hold
			if err := must(first.Subgroup("log")).Send(ctx, make([]byte, 8000)); err != nil {
				t.Error(err)
			}
		}
	})
	if err := must(second.Subgroup("log")).Send(ctx, []byte("own")); err != nil {
		t.Error(err)
	}
	if err := second.Leave(ctx); !errors.Is(second.Err(), squall.ErrClosed) { // its own message may not be delivered here
		t.Errorf("leaving: %v; it halted because of %v", err, second.Err())
	}
	select {
	case <-must(second.Subgroup("log")).Restored():
		t.Error("Restored is closed, and the log is not whole")
	default:
	}
	sending.Wait()
	persistSome(t, []*squall.Group{first}, "behind", 1)
	records := 0
	for _, err := range must(must(first.Subgroup("log")).Log()).Range(squall.Version{}, squall.Version{}) {
		if records++; err != nil {
			t.Fatal(err)
		}
	}
	if want := 1 + 40 + 1 + 1; records != want {
		t.Errorf("the log of the member that stays has %d records, want %d", records, want)
	}
}

// incomplete are the logs of which a member's directory says that they lack something.
func incomplete(t *testing.T, dir string, id squall.NodeID) []restart.IncompleteLog {
	t.Helper()
	store, err := persist.Open(t.Context(), persist.Config{Dir: filepath.Join(dir, fmt.Sprint("node-", id)), Cluster: "durable", Node: id})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	memory, err := restart.Load(store)
	if err != nil {
		t.Fatal(err)
	}
	return memory.State().Incomplete
}

// What a new member's log lacked is noted no more when the log is whole.
func TestALogThatIsWholeIsNotNotedToLackAnything(t *testing.T) {
	dir := t.TempDir()
	first := openDurableMember(t, dir, 1, "", nil)
	persistSome(t, []*squall.Group{first}, "one", 10)
	second := openDurableMember(t, dir, 2, first.Addr(), nil)
	persistSome(t, []*squall.Group{first, second}, "both", 1)
	closeAll(second)
	if list := incomplete(t, dir, 2); len(list) != 0 {
		t.Errorf("the log is whole, and noted to lack something: %v", list)
	}
}
