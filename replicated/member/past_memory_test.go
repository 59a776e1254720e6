package member

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/internal/invoke"
)

// TestFewCopiesOfThePastAreKept asks for more moments than copies are kept.
func TestFewCopiesOfThePastAreKept(t *testing.T) {
	t.Parallel()
	type counter struct{ N int }
	add, read := replicated.NewCommand[int, int]("add"), replicated.NewQuery[struct{}, int]("read")
	o := New(squall.SubgroupConfig{Name: "counter", Mode: squall.Persistent}, func() *counter { return &counter{} },
		Handle(add, func(c *counter, _ *Context, by int) (int, error) { c.N += by; return c.N, nil }),
		Handle(read, func(c *counter, _ *Context, _ struct{}) (int, error) { return c.N, nil }))
	g, err := Open(t.Context(), squall.Config{
		Cluster: "test", ID: 1, Listen: testutil.FreeAddress(t), InitialMembers: 1, Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler),
	}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(testutil.Within(t)) })
	var versions []squall.Version
	for range 3 * maxPast {
		f, err := add.Go(t.Context(), o, 1)
		if err != nil {
			t.Fatal(err)
		}
		_, v, err := f.WaitVersion(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		versions = append(versions, v)
	}
	for i := len(versions) - 1; i >= 0; i-- { // each one is before all that are kept
		if n, err := read.At(t.Context(), o, versions[i], struct{}{}); n != i+1 || err != nil {
			t.Errorf("at %v: %d, %v; want %d", versions[i], n, err, i+1)
		}
		if h := &o.object.history; len(h.copies) > maxPast || h.copies[len(h.copies)-1].upTo != versions[i] {
			t.Fatalf("%d copies are kept", len(h.copies))
		}
	}
	// The end of a view is behind all of its commands.
	log, err := o.Subgroup().Log()
	if err != nil {
		t.Fatal(err)
	}
	last := versions[len(versions)-1]
	for _, v := range []squall.Version{{View: last.View, Seq: math.MaxUint64}, {View: last.View + 1}} {
		c, release, err := o.object.copyAt(t.Context(), nil, log, v)
		if err != nil {
			t.Fatal(err)
		}
		if n := c.state.(*counter).N; n != len(versions) {
			t.Errorf("at %v: %d, want %d", v, n, len(versions))
		}
		release()
	}
}

// TestTheLogOfAnotherShardIsNotRead asks on behalf of a stay in another shard: the process has
// moved since the query began.
func TestTheLogOfAnotherShardIsNotRead(t *testing.T) {
	t.Parallel()
	type counter struct{ N int }
	add := replicated.NewCommand[int, int]("add").Keyed(func(int) string { return "a" })
	o := New(squall.SubgroupConfig{Name: "counter", Mode: squall.Persistent, Shards: 2, Layout: func(in squall.LayoutInput) ([]squall.ShardPlaces, error) {
		places := make([]squall.ShardPlaces, 2)
		places[replicated.ShardOf("a", 2)].Members = []squall.NodeID{1}
		return places, nil
	}, LayoutName: "one"}, func() *counter { return &counter{} },
		Handle(add, func(c *counter, _ *Context, by int) (int, error) { c.N += by; return c.N, nil }))
	g, err := Open(t.Context(), squall.Config{
		Cluster: "test", ID: 1, Listen: testutil.FreeAddress(t), InitialMembers: 1, Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler),
	}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(testutil.Within(t)) })
	f, err := add.Go(t.Context(), o, 1)
	if err != nil {
		t.Fatal(err)
	}
	_, v, err := f.WaitVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	log, err := o.Subgroup().Log()
	if err != nil {
		t.Fatal(err)
	}
	if err := log.WaitPersisted(t.Context(), squall.OnEveryDisk, v); err != nil {
		t.Fatal(err)
	}
	here := o.object.stay.Load()
	if c, _, err := o.object.copyAt(t.Context(), &stay{shard: 3 - here.shard}, log, v); !errors.Is(err, invoke.ErrElsewhere) {
		t.Fatalf("a copy of shard %d, and this is shard %d: %v", c.machine.Shard(), here.shard, err)
	}
	kept, release, err := o.object.copyAt(t.Context(), here, log, v)
	if err != nil {
		t.Fatal(err)
	}
	release()
	if again, release, err := o.object.copyAt(t.Context(), &stay{shard: here.shard}, log, v); err != nil {
		t.Error(err)
	} else {
		if release(); again == kept {
			t.Error("a later stay reads the copies of an earlier one")
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range 10 { // either end of the wait may be seen first
		if _, release, err := o.object.copyAt(over, here, log, v); err == nil {
			release()
		} else if !errors.Is(err, replicated.ErrNotFinal) {
			t.Error(err)
		}
	}
	if _, release, err := o.object.copyAt(t.Context(), here, log, v); err != nil { // what was given up has released the copies
		t.Error(err)
	} else {
		release()
	}
	o.object.mu.RLock()
	defer o.object.mu.RUnlock()
	for shard, want := range map[int]bool{0: true, here.shard: true, 3 - here.shard: false} {
		if d := (&desk{object: o.object, shard: shard}); d.has(here) != want {
			t.Errorf("shard %d is served: %v", shard, !want)
		}
	}
}
