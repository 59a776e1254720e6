package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
	"github.com/squall-go/squall/replicated/squalltest"
)

// The test's program is the example, too, for members that are killed.
func TestMain(m *testing.M) {
	testutil.BecomeProgram(main)
	os.Exit(m.Run())
}

// process is a member in a process of its own.
type process struct {
	*testutil.Program
	clients string // its address for clients
}

// start starts the member with a number; one that is not in the list listens at an address of its
// own.
func start(t *testing.T, id int, list []string) *process {
	t.Helper()
	clients, listen := testutil.FreeAddress(t), testutil.FreeAddress(t)
	if id <= len(list) {
		listen = list[id-1]
	}
	return &process{testutil.StartProgram(t, "member", "-id", fmt.Sprint(id), "-members", strings.Join(list, ","), "-listen", listen, "-clients", clients), clients}
}

// TestClientsGoOnWhileMembersComeAndGo kills a member of each shard and has another one join, while
// clients put and get. Each key has one client, so that its revision tells whether a put was
// executed twice or not at all.
func TestClientsGoOnWhileMembersComeAndGo(t *testing.T) {
	var list, addresses []string
	for range 4 {
		list = append(list, testutil.FreeAddress(t))
	}
	var all []*process
	for id := 1; id <= 4; id++ {
		all = append(all, start(t, id, list))
	}
	for _, p := range all {
		p.Await("clients at " + p.clients)
		addresses = append(addresses, p.clients)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const clients, keys = 6, 4
	var puts atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range clients {
		c, err := replicated.Dial(ctx, replicated.ClientConfig{Cluster: cluster, Addresses: append(addresses[i%4:4:4], addresses[:i%4]...)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		kv := c.Object("kv")
		wg.Go(func() {
			for n := uint64(1); ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				for k := range keys {
					key, value := fmt.Sprintf("client %d key %d", i, k), fmt.Sprint("value ", n)
					if revision, err := Put.Call(ctx, kv, Pair{key, value}); err != nil || revision != n {
						t.Errorf("%s was put %d times, %d according to the store, %v", key, n, revision, err)
						return
					}
					puts.Add(1)
					if v, err := Get.Call(ctx, kv, key); err != nil || v != (Value{value, n}) {
						t.Errorf("%s is %+v after put %d, %v", key, v, n, err)
						return
					}
				}
			}
		})
	}
	goOn := func() {
		t.Helper()
		for want := puts.Load() + 10*clients*keys; puts.Load() < want && !t.Failed(); time.Sleep(time.Millisecond) {
			if ctx.Err() != nil {
				t.Fatal("the clients do not go on")
			}
		}
	}
	goOn()
	all[1].Kill()
	goOn()
	fifth := start(t, 5, list)
	fifth.Await("clients at " + fifth.clients)
	goOn()
	all[2].Kill()
	goOn()
	close(stop)
	wg.Wait()
	var out bytes.Buffer
	if err := run(ctx, []string{"client", "-members", strings.Join(addresses, ","), "len"}, &out); err != nil {
		t.Fatal(err)
	}
	var first, second int
	if _, err := fmt.Sscanf(out.String(), "shard 0: %d keys\nshard 1: %d keys\n", &first, &second); err != nil || first+second != clients*keys || first*second == 0 {
		t.Errorf("%s, %v", &out, err)
	}
}

// TestAShardIsLinearizable has clients put and get in simulated groups whose members fail. The
// simulated store is one shard.
func TestAShardIsLinearizable(t *testing.T) {
	squalltest.Run(t, squalltest.Config{}, func() *member.Object[*Store] { return newObject(1) }, func(c *squalltest.Client) {
		for i := range 10 {
			key := []string{"a", "b"}[c.Rand().IntN(2)]
			if c.Rand().IntN(2) == 0 {
				_, _ = Put.Call(c.Context(), c.Object(), Pair{key, fmt.Sprint(i)})
			} else {
				_, _ = Get.Call(c.Context(), c.Object(), key)
			}
		}
	})
}
