package member

import (
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
)

// A stay that is over takes no more commands, and rests when the last one that is being sent was.
func TestAStayRestsWhenNothingIsBeingSent(t *testing.T) {
	rests := func(s *stay) bool {
		select {
		case <-s.idle:
			return true
		default:
			return false
		}
	}
	s := &stay{shard: 1, idle: make(chan struct{}, 1)}
	for range 2 {
		if !s.begin() {
			t.Fatal("a stay that goes on takes no command")
		}
	}
	s.end()
	if s.close(); rests(s) {
		t.Fatal("a stay rests while a command is being sent")
	}
	if s.begin() || rests(s) {
		t.Fatal("a stay that is over takes a command, or rests before one that it took")
	}
	if s.end(); !rests(s) {
		t.Fatal("a stay does not rest after its last command")
	}
	if s.begin() {
		t.Fatal("a stay that rests takes a command")
	}
	if s = (&stay{idle: make(chan struct{}, 1)}); !s.begin() {
		t.Fatal("another stay takes no command")
	}
	if s.end(); rests(s) {
		t.Fatal("a stay rests before it is over")
	}
	if s.close(); !rests(s) {
		t.Fatal("a stay in which nothing is being sent does not rest as it ends")
	}
	if s = nil; !s.begin() {
		t.Fatal("an object without shards takes no command")
	}
	s.end()
}

// The end of a stay ends the commands of that stay and of those before it. A command of the next
// stay may not have been sent yet as the ones before it have passed the order.
func TestTheEndOfAStayEndsNoCommandOfALaterOne(t *testing.T) {
	o := New(squall.SubgroupConfig{Name: "shards", Shards: 2}, func() *struct{} { return &struct{}{} }).object
	var made [3]awaited
	var stays [3]*stay
	for i := range made {
		o.moved(1 + i%2)
		stays[i] = o.stay.Load()
		if _, _, err := o.calls.add(&made[i], stays[i]); err != nil {
			t.Fatal(err)
		}
	}
	o.settled(o.calls.once(stays[1]))
	for i, f := range made {
		if over := errors.Is(f.err, replicated.ErrOutcomeUnknown); over != (i < 2) {
			t.Errorf("stay %d: %v", i, f.err)
		}
	}
}

// A process that leaves its shard while it waits for a place in the order takes one in the shard
// that it is in then.
func TestAMoveDoesNotEndTheWaitForThePlaceOfARecord(t *testing.T) {
	t.Parallel()
	ctx := testutil.Within(t)
	entered, open := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(open) })
	step := replicated.NewCommand[int, int]("step").Keyed(func(int) string { return "a" })
	o := New(squall.SubgroupConfig{Name: "steps", Shards: 2, Layout: func(squall.LayoutInput) ([]squall.ShardPlaces, error) {
		places := make([]squall.ShardPlaces, 2)
		places[replicated.ShardOf("a", 2)].Members = []squall.NodeID{1}
		return places, nil
	}, LayoutName: "one"}, func() *struct{} { return &struct{}{} },
		Handle(step, func(_ *struct{}, _ *Context, n int) (int, error) { close(entered); <-open; return n, nil }))
	g, err := Open(ctx, squall.Config{Cluster: "test", ID: 1, Listen: testutil.FreeAddress(t), InitialMembers: 1, FailAfter: time.Hour, Logger: slog.New(slog.DiscardHandler)}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(testutil.Within(t)) })
	t.Cleanup(release)
	f, err := step.Go(ctx, o, 1) // it holds up what comes behind it
	if err != nil {
		t.Fatal(err)
	}
	<-entered
	passed := make(chan error, 1)
	go func() { passed <- o.object.passOrder(ctx) }()
	for n := 0; n == 0; time.Sleep(time.Millisecond) {
		o.object.calls.mu.Lock()
		n = o.object.calls.table.Len()
		o.object.calls.mu.Unlock()
		if ctx.Err() != nil {
			t.Fatal("no record waits after the command")
		}
	}
	o.object.turnAway()
	release()
	if err := <-passed; err != nil {
		t.Error(err)
	}
	if _, err := f.Wait(ctx); err != nil {
		t.Error(err)
	}
}

// A process is in no shard while the end of its stay looks for a place in the order, and in another
// shard when that is refused. The end of the stay in no shard settles nothing, so this one does.
func TestTheEndOfAStayEndsItsCommandsThoughAStayInNoShardFollows(t *testing.T) {
	t.Parallel()
	ctx := testutil.Within(t)
	steps := New(squall.SubgroupConfig{Name: "steps", Shards: 2, Layout: func(squall.LayoutInput) ([]squall.ShardPlaces, error) {
		return make([]squall.ShardPlaces, 2), nil // nobody is in a shard
	}, LayoutName: "none"}, func() *struct{} { return &struct{}{} })
	g, err := Open(ctx, squall.Config{Cluster: "test", ID: 1, Listen: testutil.FreeAddress(t), InitialMembers: 1, FailAfter: time.Hour, Logger: slog.New(slog.DiscardHandler)}, steps)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(testutil.Within(t)) })
	o := steps.object
	o.moved(1)
	from, f := o.stay.Load(), &awaited{}
	if _, _, err := o.calls.add(f, from); err != nil {
		t.Fatal(err)
	}
	o.moved(0)
	from.close()
	o.sending.mu.Lock()
	over := make(chan struct{})
	go func() { o.settle(from); close(over) }()
	for n := 0; n < 2; time.Sleep(time.Millisecond) { // its own record waits to be sent
		o.calls.mu.Lock()
		n = o.calls.table.Len()
		o.calls.mu.Unlock()
		if ctx.Err() != nil {
			t.Fatal("the end of the stay asks for no place in the order")
		}
	}
	o.moved(2)
	o.sending.mu.Unlock()
	<-over
	if !errors.Is(f.err, replicated.ErrOutcomeUnknown) {
		t.Errorf("the command of the stay ended with %v", f.err)
	}
}
