package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
)

// The test's program is the example, too, for holders that are killed.
func TestMain(m *testing.M) {
	testutil.BecomeProgram(main)
	os.Exit(m.Run())
}

// service begins three members, which run until the test ends, and returns their addresses for
// clients.
func service(t *testing.T) string {
	t.Helper()
	list := strings.Join([]string{testutil.FreeAddress(t), testutil.FreeAddress(t), testutil.FreeAddress(t)}, ",")
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		done.Wait()
	})
	var clients []string
	var said []*bufio.Reader
	for id := 1; id <= 3; id++ {
		r, w := io.Pipe()
		addr := testutil.FreeAddress(t)
		done.Go(func() {
			err := run(ctx, []string{"member", "-id", fmt.Sprint(id), "-members", list, "-clients", addr}, w)
			w.CloseWithError(err)
			if err != nil {
				t.Error(err)
			}
		})
		clients, said = append(clients, addr), append(said, bufio.NewReader(r))
	}
	for _, r := range said {
		if line, err := r.ReadString('\n'); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
	}
	return strings.Join(clients, ",")
}

func mutex(t *testing.T, members, holder string, lease time.Duration) *Mutex {
	c, err := replicated.Dial(t.Context(), replicated.ClientConfig{Cluster: cluster, Addresses: strings.Split(members, ",")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &Mutex{locks: c.Object("locks"), name: "printer", holder: holder, lease: lease}
}

func TestALockHasOneHolderAndItsFencesGrow(t *testing.T) {
	t.Parallel()
	members := service(t)
	var mu sync.Mutex // of the test: what it counts is not protected by the lock, so that a lock that fails shows
	holders, last := 0, uint64(0)
	var wg sync.WaitGroup
	for i := range 4 {
		m := mutex(t, members, fmt.Sprint("holder ", i), 10*time.Second)
		wg.Go(func() {
			for range 5 {
				fence, held, unlock, err := m.Lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if holders++; holders != 1 || fence <= last || held.Err() != nil {
					t.Errorf("%d holders, the fence %d behind %d, %v", holders, fence, last, held.Err())
				}
				last = fence
				mu.Unlock()
				mu.Lock()
				holders--
				mu.Unlock()
				if err := unlock(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if last != 20 {
		t.Errorf("the last fence is %d", last)
	}
}

// A holder that is killed keeps the lock for the rest of its lease, and the next one has a larger
// fence.
func TestTheLockOfAHolderThatIsKilledIsFreeAfterItsLease(t *testing.T) {
	t.Parallel()
	const lease = time.Second
	members := service(t)
	holder := testutil.StartProgram(t, "hold", "-name", "ann", "-lease", lease.String(), "-members", members, "printer")
	if line := holder.Next(); line != "ann has printer with the fence 1" {
		t.Fatal(line)
	}
	bob := mutex(t, members, "bob", lease)
	for range 2 { // leases, in which ann renews hers
		waiting, cancel := context.WithTimeout(t.Context(), lease)
		if _, _, _, err := bob.Lock(waiting); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("bob has the lock beside ann, or %v", err)
		}
		cancel()
	}
	holder.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	fence, held, unlock, err := bob.Lock(ctx)
	if err != nil || fence != 2 || held.Err() != nil {
		t.Fatalf("the fence %d, %v", fence, err)
	}
	if g, err := Holder.Call(ctx, bob.locks, "printer"); err != nil || g.Holder != "bob" || g.Fence != 2 {
		t.Errorf("the holder is %+v, %v", g, err)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
	if g, err := Holder.Call(ctx, bob.locks, "printer"); err != nil || g.Holder != "" {
		t.Errorf("the holder is %+v, %v", g, err)
	}
}

// A holder that finds its lease ended is told.
func TestAHolderLearnsThatItsLeaseHasEnded(t *testing.T) {
	t.Parallel()
	members := service(t)
	ann := mutex(t, members, "ann", 600*time.Millisecond)
	_, held, _, err := ann.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if freed, err := Release.Call(t.Context(), ann.locks, Request{Lock: "printer", Holder: "ann"}); !freed || err != nil {
		t.Fatalf("%v, %v", freed, err)
	}
	select {
	case <-held.Done():
	case <-time.After(30 * time.Second):
		t.Fatal("a holder that has lost the lock goes on")
	}
	if !errors.Is(context.Cause(held), errLost) {
		t.Errorf("the reason is %v", context.Cause(held))
	}
	bad := mutex(t, members, "bob", 0)
	if _, _, _, err := bad.Lock(t.Context()); err == nil || err.Error() != errLease.Error() {
		t.Errorf("a lease of no time: %v", err)
	}
}
