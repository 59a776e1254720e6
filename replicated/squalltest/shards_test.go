package squalltest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
)

var shardSeeds = flag.Int("shard-seeds", testutil.Seeds(6, 30), "seeds of the scenario of shards")

// shelf is the state of a shard. Clients see what they put there; what other shards and members put
// there is apart.
type shelf struct {
	Counts map[string]int64
	Heard  []string
	Own    map[string]int64
}

type item struct {
	Key string
	To  string // of pass: the key to which it goes
}

var (
	putOn  = replicated.NewCommand[string, int64]("put").Keyed(func(key string) string { return key })
	pass   = replicated.NewCommand[item, int64]("pass").Keyed(func(i item) string { return i.Key })
	hear   = replicated.NewCommand[item, int]("hear").Keyed(func(i item) string { return i.Key })
	keep   = replicated.NewCommand[string, int64]("keep").Keyed(func(key string) string { return key })
	count1 = replicated.NewQuery[string, int64]("count").Keyed(func(key string) string { return key })
	heard  = replicated.NewQuery[item, int]("heard").Keyed(func(i item) string { return i.Key })
)

func (s *shelf) put(c *member.Context, key string) (int64, error) {
	s.Counts[key]++
	c.Emit(key, []byte{byte(s.Counts[key])})
	return s.Counts[key], nil
}

func (s *shelf) pass(c *member.Context, i item) (int64, error) {
	s.Counts[i.Key]++
	c.Emit(i.Key, []byte{byte(s.Counts[i.Key])})
	for n := range heardEach {
		if err := member.Send(c, "shelves", hear, item{Key: i.To, To: fmt.Sprint(uint64(c.Version.View), " ", uint64(c.Version.Seq), " ", c.Index, " ", n)}); err != nil {
			return 0, err
		}
	}
	return s.Counts[i.Key], nil
}

// heardEach is how many commands pass sends.
const heardEach = 3

func (s *shelf) hear(c *member.Context, i item) (int, error) {
	s.Heard = append(s.Heard, fmt.Sprint(i.Key, " from ", c.Caller.Shard, " at ", i.To))
	return len(s.Heard), nil
}

func (s *shelf) keep(_ *member.Context, key string) (int64, error) {
	s.Own[key]++
	return s.Own[key], nil
}

func (s *shelf) count(_ *member.Context, key string) (int64, error) { return s.Counts[key], nil }

func (s *shelf) heard(_ *member.Context, i item) (n int, err error) {
	for _, h := range s.Heard {
		var key string
		if _, err := fmt.Sscan(h, &key); err == nil && key == i.Key {
			n++
		}
	}
	return n, nil
}

// newShelves returns an object in shards.
func newShelves(sg squall.SubgroupConfig, shards int) func() simulated {
	sg.Name, sg.Shards = "shelves", shards
	return func() simulated {
		return member.New(sg, func() *shelf { return &shelf{Counts: map[string]int64{}, Own: map[string]int64{}} },
			member.Handle(putOn, (*shelf).put), member.Handle(pass, (*shelf).pass), member.Handle(hear, (*shelf).hear),
			member.Handle(keep, (*shelf).keep), member.Handle(count1, (*shelf).count), member.Handle(heard, (*shelf).heard))
	}
}

// keyIn returns a key that belongs to a shard.
func keyIn(prefix string, shard, shards int) string {
	for k := 0; ; k++ {
		if key := fmt.Sprint(prefix, k); replicated.ShardOf(key, shards) == shard {
			return key
		}
	}
}

// tidy checks that a shard has its own keys only, and has heard what another shard sent in its
// order, and nothing twice (RO8).
func tidy(shards int) func(any) error {
	return func(state any) error {
		s := state.(*shelf)
		at := -1
		for _, keys := range []map[string]int64{s.Counts, s.Own} {
			for key := range keys {
				if n := replicated.ShardOf(key, shards); at >= 0 && n != at {
					return fmt.Errorf("keys of the shards %d and %d", at, n)
				} else {
					at = n
				}
			}
		}
		if all := slices.Sorted(slices.Values(s.Heard)); len(slices.Compact(all)) != len(s.Heard) {
			return fmt.Errorf("something was heard twice: %v", s.Heard)
		}
		last := map[int][]uint64{}
		for _, h := range s.Heard {
			var key, from, in string
			var source int
			sent := make([]uint64, 4)
			if _, err := fmt.Sscan(h, &key, &from, &source, &in, &sent[0], &sent[1], &sent[2], &sent[3]); err != nil || at >= 0 && replicated.ShardOf(key, shards) != at {
				return fmt.Errorf("shard %d has heard %q: %v", at, h, err)
			}
			if slices.Compare(last[source], sent) >= 0 {
				return fmt.Errorf("shard %d has heard %q after %v", at, h, last[source])
			}
			last[source] = sent
		}
		return nil
	}
}

var errGap = errors.New("a watch has a gap, or an event twice")

// usesShards has a client put, look and pass with several calls at the same time, and watch a shard
// meanwhile.
func usesShards(shards int) func(*Client) {
	return func(c *Client) {
		ctx, cancel := context.WithCancel(c.Context())
		at := c.Rand().IntN(shards)
		end := keyIn(fmt.Sprint("end of ", c.Number(), " is "), at, shards)
		seen := false
		c.Go(func() { seen = c.watches(ctx, at, end) })
		passed, lanes := map[string]int{}, 2
		one := func() {
			for range 6 {
				if c.Rand().IntN(8) == 0 {
					c.Sleep(time.Duration(c.Rand().Int64N(int64(200 * time.Millisecond))))
				}
				key := fmt.Sprint("key", c.Rand().IntN(5))
				switch c.Rand().IntN(8) {
				case 0, 1, 2:
					_, _ = count1.Call(c.Context(), c.Object(), key)
				case 3:
					to := fmt.Sprint("to", c.Number(), ",", c.Rand().IntN(3))
					if _, err := pass.Call(c.Context(), c.Object(), item{key, to}); err == nil {
						passed[to] += heardEach
					}
				default:
					if _, err := putOn.Call(c.Context(), c.Object(), key); err == nil {
						c.looksElsewhere(key)
					}
				}
			}
			if lanes--; lanes > 0 {
				return
			}
			c.awaitsHeard(passed, shards)
			_, err := putOn.Call(c.Context(), c.Object(), end)
			for began := c.run.world.Now(); err == nil && !seen && c.over == nil && !c.run.lost[at]; {
				if c.run.works(c.patience) && c.run.world.Now()-began > c.patience {
					c.Fail(fmt.Errorf("%w: it does not come to %q", errGap, end))
					break
				}
				c.Sleep(c.run.world.Plan().FailAfter() / 2)
			}
			cancel() // a shard that began anew has not got the event
		}
		c.Go(one)
		one()
	}
}

// looksElsewhere reads a key by way of another client, which may use another member.
func (c *Client) looksElsewhere(key string) {
	other := c.run.clients[c.Rand().IntN(len(c.run.clients))]
	if other.lanes == 0 {
		return
	}
	other.lanes++
	_, _ = count1.Call(c.Context(), other.Object(), key)
	other.laneDone()
}

// watches watches a shard until its last event. It reports whether that came.
func (c *Client) watches(ctx context.Context, shard int, end string) bool {
	last := map[string]byte{}
	for e, err := range replicated.Watch(ctx, c.Object().Shard(shard), replicated.Cursor{}, "") {
		if err != nil {
			return false
		}
		if last[e.Topic]++; e.Data[0] != last[e.Topic] && !c.run.lost[shard] {
			c.Fail(fmt.Errorf("%w: %q comes with %d, want %d", errGap, e.Topic, e.Data[0], last[e.Topic]))
			return false
		}
		if e.Topic == end {
			return true
		}
	}
	return false
}

// awaitsHeard waits until what was passed is heard.
func (c *Client) awaitsHeard(passed map[string]int, shards int) {
	for i := range 3 {
		to := fmt.Sprint("to", c.Number(), ",", i)
		for began := c.run.world.Now(); passed[to] > 0; {
			n, err := heard.Local(c.Context(), c.Object(), item{Key: to})
			if err == nil && n >= passed[to] || len(c.run.lost) > 0 || c.over != nil {
				break
			}
			if c.run.works(c.patience) && c.run.world.Now()-began > c.patience {
				c.Fail(fmt.Errorf("%d were passed to %s, and %d heard, %v", passed[to], to, n, err))
				return
			}
			c.Sleep(c.run.world.Plan().FailAfter() / 2)
		}
	}
}

// shardsOf draws how many shards a seed has.
func shardsOf(seed uint64) int { return 2 + int(seed%2) }

func playShards(sg squall.SubgroupConfig, seed uint64, trace bool) (*run, error) {
	n := shardsOf(seed)
	own := func(random *rand.Rand, shard int) (string, []byte) {
		key := keyIn(fmt.Sprint("own", random.IntN(3), "."), shard, n)
		args, _ := replicated.CBOR[string]().Append(nil, &key)
		return "keep", args
	}
	return play(Config{own: own}, seed, newShelves(sg, n), usesShards(n), tidy(n), trace)
}

// TestCommandsAreExecutedOnceWhileShardsMove plays an object in two and three shards, between which
// members move, with clients that go on with other members, members that call commands themselves,
// handlers that send to other shards, and watches.
func TestCommandsAreExecutedOnceWhileShardsMove(t *testing.T) {
	for _, c := range []struct {
		name string
		sg   squall.SubgroupConfig
	}{
		{"in memory", squall.SubgroupConfig{}},
		{"given when on every disk", squall.SubgroupConfig{Mode: squall.Persistent}},
	} {
		t.Run(c.name, func(t *testing.T) {
			first, count := uint64(1), *shardSeeds
			if *oneSeed > 0 {
				first, count = *oneSeed, 1
			}
			var all total
			var outcomes [3]int
			lost, forwarded := 0, 0
			for seed := first; seed < first+uint64(count); seed++ {
				r, err := playShards(c.sg, seed, *traces)
				if err != nil {
					t.Fatalf("seed %d: %v\n%s", seed, err, r)
				}
				all.add(r)
				forwarded += r.forwarded
				lost += len(r.lost)
				for i, n := range r.outcomes {
					outcomes[i] += n
				}
			}
			t.Logf("%s; of members' own commands %v were executed, not executed, and perhaps; %d handed over, %d shards began anew", &all, outcomes, forwarded, lost)
		})
	}
}
