package member_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
	"github.com/squall-go/squall/ripc"
)

// shelf is the state of a shard of the tests' object.
type shelf struct {
	Counts map[string]int
	Heard  []string
}

type addition struct {
	Key string
	By  int
}

var (
	addTo   = replicated.NewCommand[addition, int]("add").Keyed(func(s addition) string { return s.Key })
	countOf = replicated.NewQuery[string, int]("count").Keyed(func(key string) string { return key })
	size    = replicated.NewQuery[struct{}, int]("size")
	pass    = replicated.NewCommand[addition, struct{}]("pass").Keyed(func(s addition) string { return s.Key })
	hear    = replicated.NewCommand[addition, struct{}]("hear").Keyed(func(s addition) string { return s.Key })
)

func (s *shelf) add(c *member.Context, a addition) (int, error) {
	s.Counts[a.Key] += a.By
	c.Emit(a.Key, []byte{byte(s.Counts[a.Key])})
	return s.Counts[a.Key], nil
}

func (s *shelf) count(_ *member.Context, key string) (int, error) { return s.Counts[key], nil }

func (s *shelf) size(*member.Context, struct{}) (int, error) { return len(s.Counts), nil }

// pass sends to the keys behind a key, most of which belong to other shards.
func (s *shelf) pass(c *member.Context, a addition) (none struct{}, err error) {
	for i := range a.By {
		if err := member.Send(c, "shelves", hear, addition{fmt.Sprint(a.Key, i), 1}); err != nil {
			return none, err
		}
	}
	return none, nil
}

func (s *shelf) hear(c *member.Context, a addition) (none struct{}, err error) {
	s.Heard = append(s.Heard, fmt.Sprint(c.Caller.Object, " ", c.Caller.Shard, " ", a.Key))
	s.Counts[a.Key] += a.By
	return none, nil
}

const testShards = 2

func shelves(sg squall.SubgroupConfig) *member.Object[*shelf] { return shelvesIn(sg, testShards) }

func shelvesIn(sg squall.SubgroupConfig, shards int) *member.Object[*shelf] {
	sg.Name, sg.Shards = "shelves", shards
	return member.New(sg, func() *shelf { return &shelf{Counts: map[string]int{}} },
		member.Handle(addTo, (*shelf).add),
		member.Handle(countOf, (*shelf).count),
		member.Handle(size, (*shelf).size),
		member.Handle(pass, (*shelf).pass),
		member.Handle(hear, (*shelf).hear))
}

// serveShelves serves the object at every member, and returns the addresses.
func serveShelves(t *testing.T, all []*node[*shelf]) (addresses []string) {
	t.Helper()
	for _, m := range all {
		s, err := member.Serve(t.Context(), member.ServerConfig{Endpoint: ripc.Config{Listen: "127.0.0.1:0"}}, m.bank)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		addresses = append(addresses, s.Addr())
	}
	return addresses
}

func dialShelves(t *testing.T, addresses ...string) *replicated.RemoteObject {
	t.Helper()
	c, err := replicated.Dial(t.Context(), replicated.ClientConfig{Cluster: "test", Addresses: addresses})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c.Object("shelves")
}

// What a handler sends to other shards of its object is executed there once, in the order of each
// sender.
func TestWhatAHandlerSendsToAnotherShardIsExecutedOnce(t *testing.T) {
	t.Parallel()
	all := open(t, testShards, func(int) *member.Object[*shelf] { return shelves(squall.SubgroupConfig{}) }, nil)
	serveShelves(t, all)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	const each = 20
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			if _, err := pass.Call(ctx, all[0].bank, addition{fmt.Sprint(i, "/"), each}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for ctx.Err() == nil {
		left := 0
		for _, m := range all {
			left += m.bank.Outgoing()
		}
		if left == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	heard := map[string]int{}
	for _, m := range all {
		m.bank.View(func(s *shelf) {
			for _, h := range s.Heard {
				heard[h]++
			}
		})
	}
	for i := range 6 {
		from := replicated.ShardOf(fmt.Sprint(i, "/"), testShards)
		for k := range each {
			if n := heard[fmt.Sprintf("shelves %d %d/%d", from, i, k)]; n != 1 {
				t.Fatalf("what %d sent to %d was executed %d times: %v", i, k, n, heard)
			}
		}
	}
}

// moving places the members so that the second and the third one are in the shards 0 and 1, and the
// other way round while there is a fifth one.
func moving(in squall.LayoutInput) ([]squall.ShardPlaces, error) {
	places := []squall.ShardPlaces{{Members: []squall.NodeID{1}}, {Members: []squall.NodeID{4}}}
	there := map[squall.NodeID]bool{}
	for _, m := range in.Members {
		there[m.ID] = true
	}
	if !there[1] || !there[4] {
		return nil, errors.New("the members that stay are not there")
	}
	at := 0
	if there[5] {
		at = 1
	}
	for i, id := range []squall.NodeID{2, 3} {
		if s := (at + i) % 2; there[id] {
			places[s].Members = append(places[s].Members, id)
		}
	}
	return places, nil
}

// Members go from shard to shard while clients and members add, in all ways to call: every addition
// is made once, and answered. Where deliveries wait for disks a member may lose the answer, and is
// told so.
func TestACommandIsExecutedOnceWhileMembersMoveBetweenShards(t *testing.T) {
	t.Parallel()
	t.Run("in memory", func(t *testing.T) { addWhileMoving(t, squall.SubgroupConfig{}) })
	t.Run("given when on every disk", func(t *testing.T) { addWhileMoving(t, durableShards) })
}

var durableShards = squall.SubgroupConfig{Mode: squall.Persistent}

func addWhileMoving(t *testing.T, sg squall.SubgroupConfig) {
	t.Parallel()
	sg.Layout, sg.LayoutName = moving, "moving"
	object := func(int) *member.Object[*shelf] { return shelvesIn(sg, 2) }
	dir := func() string {
		if sg.Mode == squall.Persistent {
			return t.TempDir()
		}
		return ""
	}
	all := open(t, 4, object, func(_ int, c *squall.Config) { c.Dir = dir() })
	addresses := serveShelves(t, all)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stop := make(chan struct{})
	var mu sync.Mutex
	least, most, answered := map[string]int{}, map[string]int{}, 0
	var wg sync.WaitGroup
	// add adds to a key until the end. Call makes an addition, and tells each outcome.
	add := func(key string, own bool, call func(addition, func(error))) {
		defer wg.Done()
		for {
			select {
			case <-stop:
				return
			default:
			}
			mu.Lock()
			most[key]++
			mu.Unlock()
			call(addition{key, 1}, func(err error) {
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					least[key]++
					answered++
				} else if !own || sg.Mode != squall.Persistent || !errors.Is(err, replicated.ErrOutcomeUnknown) {
					t.Errorf("%s: %v", key, err)
				}
			})
		}
	}
	begin := func(name string, target replicated.Target, own bool) {
		wg.Add(3)
		go add(name, own, func(a addition, told func(error)) {
			_, err := addTo.Call(ctx, target, a)
			told(err)
		})
		go add(name+", all replies", own, func(a addition, told func(error)) {
			told(func() error {
				for _, err := range addTo.Replies(ctx, target, a, 0) {
					if err != nil {
						return err
					}
				}
				return nil
			}())
		})
		places := make(chan struct{}, 16)
		go add(name+", futures", own, func(a addition, told func(error)) {
			places <- struct{}{}
			f, err := addTo.Go(ctx, target, a)
			if err != nil {
				told(err)
				<-places
				return
			}
			wg.Go(func() {
				_, err := f.Wait(ctx)
				told(err)
				<-places
			})
		})
	}
	for i := range 4 {
		begin(fmt.Sprint("client ", i), dialShelves(t, addresses[i]), false)
		begin(fmt.Sprint("member ", i), all[i].bank, true)
	}
	place := func() (shard int) { // of member 2
		if slices.Contains(all[0].bank.Subgroup().Members(1), 2) {
			return 1
		}
		return 0
	}
	await := func(want int) {
		t.Helper()
		for before := -1; ; time.Sleep(10 * time.Millisecond) {
			mu.Lock()
			n := answered
			mu.Unlock()
			if before < 0 && place() == want {
				before = n
			}
			if before >= 0 && n >= before+200 { // calls go on behind the move
				return
			}
			if ctx.Err() != nil {
				t.Fatalf("member 2 is in shard %d, and should be in %d", place(), want)
			}
		}
	}
	// settled waits until the members that move have the state of the shard that they are in. One that
	// leaves earlier does not learn where its commands for the shard before are.
	settled := func(want int) {
		t.Helper()
		for i, n := range all[1:3] {
			for shard := -1; shard != (want+i)%2; time.Sleep(time.Millisecond) {
				if shard, _ = n.bank.Subgroup().Shard(); ctx.Err() != nil {
					t.Fatalf("member %d is in shard %d", i+2, shard)
				}
			}
			<-n.bank.Subgroup().Restored()
		}
	}
	await(0)
	settled(0)
	for range 2 {
		extra := &node[*shelf]{bank: object(0)}
		var err error
		extra.group, err = member.Open(ctx, squall.Config{
			Cluster: "test", ID: 5, Listen: "127.0.0.1:0", InitialMembers: 1, Join: []string{all[0].group.Addr()}, Logger: quiet, Dir: dir(),
		}, extra.bank)
		if err != nil {
			t.Fatal(err)
		}
		await(1)
		settled(1)
		closeAll(t, []*node[*shelf]{extra})
		await(0)
		settled(0)
	}
	close(stop)
	wg.Wait()
	lost := 0
	for key := range most {
		n, err := countOf.Call(ctx, all[0].bank, key)
		if err != nil || n < least[key] || n > most[key] {
			t.Errorf("%s: %d additions were answered, %d made, %d called, %v", key, least[key], n, most[key], err)
		}
		lost += most[key] - least[key]
	}
	t.Logf("%d additions were answered, and %d not", answered, lost)
}
