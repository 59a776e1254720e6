package member

import (
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/replicated/internal/machine"
)

// alone opens an object as the only member of its group, in one of two shards or, of 0, without
// shards.
func alone(t *testing.T, shards int) (*Object[*struct{}], *replicated.Command[int, int]) {
	t.Helper()
	step := replicated.NewCommand[int, int]("step")
	cfg := squall.SubgroupConfig{Name: "steps"}
	if shards > 0 {
		step = step.Keyed(func(int) string { return "a" })
		cfg.Shards, cfg.LayoutName = shards, "one"
		cfg.Layout = func(squall.LayoutInput) ([]squall.ShardPlaces, error) {
			places := make([]squall.ShardPlaces, shards)
			places[replicated.ShardOf("a", shards)].Members = []squall.NodeID{1}
			return places, nil
		}
	}
	o := New(cfg, func() *struct{} { return &struct{}{} }, Handle(step, func(_ *struct{}, _ *Context, n int) (int, error) { return n, nil }))
	g, err := Open(testutil.Within(t), squall.Config{Cluster: "test", ID: 1, Listen: testutil.FreeAddress(t), InitialMembers: 1, Logger: slog.New(slog.DiscardHandler)}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(testutil.Within(t)) })
	return o, step
}

// Clients and watchers of a shard turn to its members as soon as a process leaves it.
func TestAProcessThatLeavesAShardServesItNoMore(t *testing.T) {
	t.Parallel()
	ctx := testutil.Within(t)
	o, step := alone(t, 2)
	if _, err := step.Call(ctx, o, 1); err != nil {
		t.Fatal(err)
	}
	here := o.object.stay.Load().shard
	for shard, served := range map[int]bool{here: true, 3 - here: false} {
		d := &desk{object: o.object, shard: shard, most: 1000}
		if answer, _ := d.watched(&watching{}); (answer[0] == byte(client.Done)) != served {
			t.Errorf("a watcher of shard %d, and this is shard %d: %v", shard, here, answer)
		}
	}
	g := &gathering{o: o.object, changed: make(chan struct{}, 1), done: make(chan struct{})}
	if _, _, err := o.object.calls.add(g, nil); err != nil {
		t.Fatal(err)
	}
	o.object.leave(&stay{idle: make(chan struct{}, 1)})
	select {
	case <-g.done:
		if !errors.Is(g.out.Err, squall.ErrLeftShard) {
			t.Error(g.out.Err)
		}
	default:
		t.Error("a client waits for a process that has left the shard")
	}
}

// A callback of another subgroup runs on the goroutine that executes the commands of an object.
// While the object is locked because a shard is left, it is no handler, and sends a command.
func TestACallbackWhileAShardIsLeftIsNoHandler(t *testing.T) {
	t.Parallel()
	ctx := testutil.Within(t)
	step := replicated.NewCommand[int, int]("step")
	o := New(squall.SubgroupConfig{Name: "steps"}, func() *struct{} { return &struct{}{} },
		Handle(step, func(_ *struct{}, _ *Context, n int) (int, error) { return n, nil }))
	type sent struct {
		f   *replicated.Future[int]
		err error
	}
	called := make(chan sent, 1)
	other := squall.SubgroupConfig{Name: "other", Deliver: func(squall.Message) {
		f, err := step.Go(ctx, o, 2)
		called <- sent{f, err}
	}}
	g, err := Open(ctx, squall.Config{
		Cluster: "test", ID: 1, Listen: testutil.FreeAddress(t), InitialMembers: 1, Logger: slog.New(slog.DiscardHandler), Subgroups: []squall.SubgroupConfig{other},
	}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(testutil.Within(t)) })
	if _, err := step.Call(ctx, o, 1); err != nil { // the goroutine that executes is known
		t.Fatal(err)
	}
	sub, err := g.Subgroup("other")
	if err != nil {
		t.Fatal(err)
	}
	o.object.lock() // as leave does
	err = sub.Send(ctx, []byte("x"))
	if err != nil {
		o.object.unlock()
		t.Fatal(err)
	}
	c := <-called
	o.object.unlock()
	if c.err != nil {
		t.Fatalf("a callback that is no handler: %v", c.err)
	}
	if n, err := c.f.Wait(ctx); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// A reply that a member sent before it left counts, also if its caller has not taken it when it
// learns that the member has left.
func TestAReplyOfAMemberThatHasLeftCounts(t *testing.T) {
	t.Parallel()
	ctx := testutil.Within(t)
	o, step := alone(t, 0)
	if _, err := step.Call(ctx, o, 1); err != nil {
		t.Fatal(err)
	}
	a := &o.object.answers
	a.mu.Lock()
	now := a.layouts[0]
	a.layouts[0].members = slices.Concat(now.members, []machine.Peer{{Node: 2}, {Node: 3}})
	a.mu.Unlock()
	said := map[uint64]invoke.Answered{}
	args, err := replicated.CBOR[int]().Append(nil, new(1))
	if err != nil {
		t.Fatal(err)
	}
	err = o.object.repliesTo(ctx, nil, step.Name(), invoke.Encoded(args), 0, func(r invoke.Reply) bool {
		if said[r.Member] = r.Said; len(said) == 1 { // members 2 and 3 leave, and one of them has sent its reply
			a.mu.Lock()
			a.layouts = slices.Insert(a.layouts, 0, layout{now.view + 1, now.members})
			var g *gathering
			for _, g = range a.gathered {
			}
			a.mu.Unlock()
			g.add(invoke.Reply{Member: 2, Said: invoke.Returned})
		}
		return true
	})
	if want := invoke.Answered(invoke.Silent); err != nil || len(said) != 3 || said[1] != invoke.Returned || said[2] != invoke.Returned || said[3] != want {
		t.Errorf("the members said %v, %v", said, err)
	}
}
