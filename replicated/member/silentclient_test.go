package member_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/proc"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
	"github.com/squall-go/squall/ripc"
)

const (
	greedyCalls = 64       // of a client at a time
	greedyReply = 32 << 10 // bytes
)

var (
	fetch  = replicated.NewQuery[int, []byte]("fetch")
	retain = replicated.NewCommand[int, []byte]("keep")
)

// greedySpec is what a client process is told.
type greedySpec struct {
	Addresses []string
	TCP       bool
}

// runGreedy is a client process that always has many calls under way, with long replies, half of
// them of commands. Its parent stops it, and it does not read what it asked for.
func runGreedy(ctx context.Context, p *proc.Parent) error {
	var spec greedySpec
	if err := p.Config(&spec); err != nil {
		return err
	}
	cfg := replicated.ClientConfig{Cluster: "test", Addresses: spec.Addresses}
	if spec.TCP {
		cfg.Endpoint.Transport = ripc.TransportTCP
	}
	c, err := replicated.Dial(context.Background(), cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	var once sync.Once
	var all sync.WaitGroup
	for i := range greedyCalls {
		all.Go(func() {
			for ctx.Err() == nil {
				var err error
				if i%2 == 0 {
					_, err = fetch.Call(ctx, c.Object("accounts"), greedyReply)
				} else {
					_, err = retain.Call(ctx, c.Object("accounts"), greedyReply/2)
				}
				if err != nil {
					return
				}
				once.Do(func() { err = p.Send("ready") })
			}
		})
	}
	all.Wait()
	return nil
}

// TestAClientThatDoesNotReadItsAnswersHarmsNoOther stops clients with SIGSTOP while they have many
// calls under way. Other clients go on. The memory that members keep for the stopped clients is
// bounded, and is freed when these clients end.
func TestAClientThatDoesNotReadItsAnswersHarmsNoOther(t *testing.T) {
	for name, transport := range map[string]ripc.Transport{"shm": ripc.TransportAuto, "tcp": ripc.TransportTCP} {
		t.Run(name, func(t *testing.T) {
			bytes := func(_ *bank, _ *member.Context, n int) ([]byte, error) { return make([]byte, n), nil }
			all := open(t, 3, func(int) *member.Object[*bank] {
				return member.New(squall.SubgroupConfig{Name: "accounts"}, newBank,
					member.Handle(deposit, (*bank).deposit), member.Handle(fetch, bytes), member.Handle(retain, bytes))
			}, nil)
			c, servers := serve(t, all, transport)
			bank := c.Object("accounts")
			calls := func(n int) {
				t.Helper()
				for range n {
					if _, err := deposit.Call(testutil.Within(t), bank, depositArgs{"ann", 1}); err != nil {
						t.Fatal(err)
					}
					if _, err := fetch.Call(testutil.Within(t), bank, 1); err != nil {
						t.Fatal(err)
					}
				}
			}
			heap := func() int {
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				return int(m.HeapAlloc)
			}
			calls(20)
			before, goroutines := heap(), runtime.NumGoroutine()
			const clients = 4
			var children []*proc.Child
			for i := range clients {
				spec := greedySpec{Addresses: []string{servers[i%3].Addr()}, TCP: transport == ripc.TransportTCP}
				child, err := proc.Start(context.Background(), "greedy", spec, proc.Options{ID: i + 1})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					child.Kill()
					_ = child.Wait()
				})
				children = append(children, child)
			}
			for _, child := range children {
				var word string
				if err := child.Receive(testutil.Within(t), &word); err != nil {
					t.Fatal(err)
				}
				if err := child.Stop(); err != nil {
					t.Fatal(err)
				}
			}
			calls(300)
			// A member has at most an answer for each call that is under way, and the replies that the
			// sessions keep.
			const most = clients * (greedyCalls*greedyReply + 3<<20)
			if got := heap() - before; got > 2*most {
				t.Errorf("the members keep %d bytes more than before, for calls that asked for %d", got, most)
			}
			if n := runtime.NumGoroutine() - goroutines; n > clients*(greedyCalls+16) {
				t.Errorf("%d goroutines more than before", n)
			}
			for _, child := range children {
				child.Kill()
				_ = child.Wait()
			}
			calls(20)
			for end := time.Now().Add(30 * time.Second); runtime.NumGoroutine() > goroutines+16; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%d goroutines are left, %d were there before", runtime.NumGoroutine(), goroutines)
				}
			}
		})
	}
}
