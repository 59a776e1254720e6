package member_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
	"github.com/squall-go/squall/ripc"
)

// What would wait for the handler that asks is refused at once, also where the shard of a key is
// looked up.
func TestAHandlerDoesNotWaitForAShard(t *testing.T) {
	t.Parallel()
	var objects [testShards]*member.Object[*shelf]
	try := replicated.NewCommand[string, []string]("try").Keyed(func(key string) string { return key })
	all := open(t, testShards, func(i int) *member.Object[*shelf] {
		objects[i] = member.New(squall.SubgroupConfig{Name: "shelves", Shards: testShards}, func() *shelf { return &shelf{Counts: map[string]int{}} },
			member.Handle(countOf, (*shelf).count),
			member.Handle(size, (*shelf).size),
			member.Handle(try, func(_ *shelf, _ *member.Context, key string) (waits []string, _ error) {
				asked := map[string]error{}
				_, asked["a local query"] = countOf.Local(context.Background(), objects[i], key)
				_, asked["a query"] = countOf.Call(context.Background(), objects[i], key)
				for r := range size.EachShard(context.Background(), objects[i], struct{}{}) {
					asked["a query at each shard"] = r.Err
				}
				for what, err := range asked {
					if !errors.Is(err, replicated.ErrInHandler) {
						waits = append(waits, fmt.Sprint(what, ": ", err))
					}
				}
				return waits, nil
			}))
		return objects[i]
	}, nil)
	serveShelves(t, all)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for k := range 4 {
		if waits, err := try.Call(ctx, all[0].bank, fmt.Sprint("key ", k)); err != nil || len(waits) > 0 {
			t.Fatal(waits, err)
		}
	}
}

// An object without shards is one with the shard 0, for members and for clients.
func TestAnObjectWithoutShardsIsItsShard0(t *testing.T) {
	t.Parallel()
	all := open(t, 1, func(int) *member.Object[*shelf] { return shelvesIn(squall.SubgroupConfig{}, 0) }, nil)
	remote := dialShelves(t, serveShelves(t, all)...)
	ctx := testutil.Within(t)
	for i, shard := range []func(int) replicated.Target{all[0].bank.Shard, remote.Shard} {
		if n, err := addTo.Call(ctx, shard(0), addition{"a", 1}); n != i+1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if n, err := size.Call(ctx, shard(0), struct{}{}); n != 1 || err != nil {
			t.Errorf("%d keys, %v", n, err)
		}
		if c, err := replicated.Now(ctx, shard(0)); c == (replicated.Cursor{}) || err != nil {
			t.Errorf("events up to %v, %v", c, err)
		}
		for e, err := range replicated.Watch(ctx, shard(0), replicated.Cursor{}, "") {
			if e.Topic != "a" || err != nil {
				t.Errorf("an event %+v, %v", e, err)
			}
			break
		}
		if _, err := size.Call(ctx, shard(1), struct{}{}); err == nil {
			t.Error("a shard that there is not answered")
		}
	}
}

// An object that is open goes on when a program opens it again by mistake, or serves it twice.
func TestShardsAreFoundAfterAMistake(t *testing.T) {
	t.Parallel()
	all := open(t, 1, func(int) *member.Object[*shelf] { return shelves(squall.SubgroupConfig{}) }, nil)
	remote := dialShelves(t, serveShelves(t, all)...)
	if _, err := member.Open(t.Context(), squall.Config{Cluster: "another"}, all[0].bank); err == nil {
		t.Error("an object was opened twice")
	}
	if s, err := member.Serve(t.Context(), member.ServerConfig{Endpoint: ripc.Config{Listen: "127.0.0.1:0"}}, all[0].bank); err == nil {
		t.Error("an object in shards is served twice")
		_ = s.Close()
	}
	key := "a"
	for replicated.ShardOf(key, testShards) != 0 { // where a single member is
		key += "a"
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if n, err := addTo.Call(ctx, remote, addition{key, 1}); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// A call to a shard that has lost its last member ends with its context, or with its client,
// whichever call looks for a member.
func TestACallToAShardWithoutMembersEnds(t *testing.T) {
	t.Parallel()
	all := open(t, 1, func(int) *member.Object[*shelf] { return shelves(squall.SubgroupConfig{}) }, nil)
	c, err := replicated.Dial(t.Context(), replicated.ClientConfig{Cluster: "test", Addresses: serveShelves(t, all)})
	if err != nil {
		t.Fatal(err)
	}
	key := "a"
	for replicated.ShardOf(key, testShards) == 0 { // where the single member is
		key += "a"
	}
	called := make(chan error, 1)
	go func() {
		_, err := countOf.Call(context.Background(), c.Object("shelves"), key) // a query does not wait for a session
		called <- err
	}()
	ends := func(what string, call func(context.Context) error) {
		for within := 20 * time.Millisecond; ; within *= 2 { // until there was time to find out
			ctx, cancel := context.WithTimeout(t.Context(), within)
			err := call(ctx)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("%s: %v", what, err)
			}
			if errors.Is(err, replicated.ErrUnreachable) {
				return
			}
		}
	}
	for _, at := range []replicated.Target{c.Object("shelves"), all[0].bank} {
		ends("a query", func(ctx context.Context) error {
			_, err := countOf.Call(ctx, at, key)
			return err
		})
		ends("a command", func(ctx context.Context) error {
			_, err := addTo.Call(ctx, at, addition{key, 1})
			return err
		})
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := <-called; !errors.Is(err, replicated.ErrUnreachable) {
		t.Errorf("a call without an end, at a client that was closed: %v", err)
	}
}

// The shards of a persistent object and their past are there again when all members were down.
func TestShardsSurviveTheEndOfAllMembers(t *testing.T) {
	t.Parallel()
	const members, keys = 2 * testShards, 6
	var dirs, addrs []string
	for range members {
		dirs, addrs = append(dirs, testutil.MemoryDir(t)), append(addrs, testutil.FreeAddress(t))
	}
	object := func(int) *member.Object[*shelf] { return shelves(squall.SubgroupConfig{Mode: squall.Persistent}) }
	configure := func(i int, c *squall.Config) { c.Dir, c.Listen, c.Join = dirs[i], addrs[i], addrs }
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	type instant struct {
		key     string
		version squall.Version
		count   int
	}
	var history []instant
	counts := map[string]int{}
	for lap := range 3 {
		all := open(t, members, object, configure)
		targets := []replicated.Target{dialShelves(t, serveShelves(t, all)...)}
		for _, m := range all {
			targets = append(targets, m.bank)
		}
		for i := range keys {
			key := fmt.Sprint("key ", i)
			f, err := addTo.Go(ctx, targets[(lap+i)%len(targets)], addition{key, 1})
			if err != nil {
				t.Fatal(err)
			}
			n, v, err := f.WaitVersion(ctx)
			if counts[key]++; n != counts[key] || err != nil {
				t.Fatalf("lap %d: %s has %d, %v; want %d", lap, key, n, err, counts[key])
			}
			history = append(history, instant{key, v, n})
		}
		for k, target := range targets {
			sum := 0
			for r := range size.EachShard(ctx, target, struct{}{}) {
				if sum += r.Value; r.Err != nil {
					t.Errorf("lap %d: shard %d: %v", lap, r.Shard, r.Err)
				}
			}
			if sum != keys {
				t.Errorf("lap %d: the shards have %d keys, want %d", lap, sum, keys)
			}
			for _, h := range history {
				if n, err := countOf.At(ctx, target, h.version, h.key); n != h.count || err != nil {
					t.Errorf("lap %d, target %d: %s had %d at %v, %v; want %d", lap, k, h.key, n, h.version, err, h.count)
				}
			}
		}
		if lap == 1 {
			for _, m := range all {
				if _, err := m.bank.Subgroup().TakeSnapshot(ctx); err != nil {
					t.Fatal(err)
				}
			}
			for _, target := range targets {
				if _, err := countOf.At(ctx, target, history[0].version, history[0].key); !errors.Is(err, replicated.ErrNotKept) {
					t.Errorf("after the snapshots: %v", err)
				}
			}
			history = nil
		}
		closeAll(t, all)
	}
}
