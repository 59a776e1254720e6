package member_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/proc"
	"github.com/squall-go/squall/internal/testutil"
	_ "github.com/squall-go/squall/persist/bolt"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
	"github.com/squall-go/squall/ripc"
)

var kills = flag.Int("kills", 4, "members that are killed in a run of each kind")

func TestMain(m *testing.M) {
	proc.Become(proc.Program{Name: "member", Run: runMember}, proc.Program{Name: "greedy", Run: runGreedy})
	testutil.Overlap(4)
	os.Exit(m.Run())
}

// memberSpec is what a member process is told.
type memberSpec struct {
	ID      squall.NodeID
	Listen  string
	Clients string // where it serves clients
	// Advertise is where the other members dial it, if that is not Listen.
	Advertise string
	Join      []string
	TCP       bool
	Trade     bool // it has a shop and a book in place of the bank
	Reads     bool // it tells its parent of queries that it runs
	// FailAfter is for how long a member may be silent.
	FailAfter time.Duration
	Dir       string   // if not empty, the bank is persistent
	TLS       []string // files of its certificate, its key and the authority's certificate
}

// runMember is a member process: it has a bank and serves clients until its parent ends it.
func runMember(ctx context.Context, p *proc.Parent) error {
	var spec memberSpec
	if err := p.Config(&spec); err != nil {
		return err
	}
	bank := ordered(0)
	objects := []member.AnyObject{bank}
	if spec.Trade {
		objects = []member.AnyObject{newShop(squall.Ordered), newBook(squall.Ordered)}
	}
	if spec.Dir != "" {
		objects = []member.AnyObject{accounts(squall.SubgroupConfig{Mode: squall.Persistent})}
	}
	cfg := squall.Config{
		Cluster: "test", ID: spec.ID, Listen: spec.Listen, Join: spec.Join, InitialMembers: 3, Logger: quiet,
		Heartbeat: 50 * time.Millisecond, FailAfter: spec.FailAfter, Dir: spec.Dir, Advertise: spec.Advertise,
	}
	serving := ripc.Config{Listen: spec.Clients}
	if spec.TCP {
		cfg.Fabric, serving.Transport = squall.FabricTCP, ripc.TransportTCP
	}
	if len(spec.TLS) > 0 {
		certificates, err := loadTLS(spec.TLS)
		if err != nil {
			return err
		}
		cfg.TLS, serving.TLS = certificates, certificates
	}
	g, err := member.Open(ctx, cfg, objects...)
	if err != nil {
		return err
	}
	s, err := member.Serve(ctx, member.ServerConfig{Endpoint: serving}, objects...)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := p.Send("ready"); err != nil {
		return err
	}
	if spec.Reads {
		readOn(ctx, p, bank)
	}
	select {
	case <-ctx.Done():
	case <-g.Done():
		return g.Err()
	}
	ending, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return g.Close(ending)
}

// fleet is the members of a run, some of which are killed.
type fleet struct {
	t     testing.TB
	all   []*proc.Child
	specs []memberSpec
}

func (f *fleet) start(i int) {
	f.t.Helper()
	c, err := proc.Start(context.Background(), "member", f.specs[i], proc.Options{ID: int(f.specs[i].ID), Env: []string{"GOMAXPROCS=1"}})
	if err != nil {
		f.t.Fatal(err)
	}
	f.all[i] = c
}

func (f *fleet) ready(i int) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	var word string
	if err := f.all[i].Receive(ctx, &word); err != nil {
		f.t.Fatal(err)
	}
}

// newFleet starts three members. A trade's member can be replaced whichever it is: each has its
// address, and joins at any.
func newFleet(t testing.TB, tcp, trade bool, change ...func(*memberSpec)) *fleet {
	f := &fleet{t: t, all: make([]*proc.Child, 3)}
	addrs := []string{testutil.FreeAddress(t), testutil.FreeAddress(t), testutil.FreeAddress(t)}
	for i := range f.all {
		spec := memberSpec{ID: squall.NodeID(i + 1), Listen: "127.0.0.1:0", Clients: testutil.FreeAddress(t), Join: addrs[:1], TCP: tcp, Trade: trade, FailAfter: 2 * time.Second}
		if i == 0 || trade {
			spec.Listen = addrs[i]
		}
		if trade {
			spec.Join = addrs
		}
		for _, f := range change {
			f(&spec)
		}
		f.specs = append(f.specs, spec)
		f.start(i)
	}
	t.Cleanup(func() {
		for _, c := range f.all {
			c.Kill()
			_ = c.Wait()
		}
	})
	for i := range f.all {
		f.ready(i)
	}
	return f
}

func (f *fleet) clients() (addrs []string) {
	for _, s := range f.specs {
		addrs = append(addrs, s.Clients)
	}
	return addrs
}

// TestEachCommandIsExecutedOnceWhateverIsKilled has clients deposit while members are killed with
// SIGKILL and replaced. The balance of an account tells how often its client's commands were
// executed.
func TestEachCommandIsExecutedOnceWhateverIsKilled(t *testing.T) {
	t.Parallel()
	for _, tcp := range []bool{false, true} {
		name := "shm"
		if tcp {
			name = "tcp"
		}
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, tcp, false)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			const clients = 6
			var wg sync.WaitGroup
			var mu sync.Mutex
			var gaps []time.Duration // the longest time of a call in each kill's lap, of all clients
			longest := time.Duration(0)
			calls := 0
			for i := range clients {
				addrs := f.clients()
				rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
				c := dial(t, replicated.ClientConfig{Addresses: addrs})
				account := fmt.Sprint("account ", i)
				wg.Go(func() {
					for n := int64(1); ctx.Err() == nil; n++ {
						began := time.Now()
						calling, cancel := context.WithTimeout(context.Background(), 30*time.Second)
						got, err := deposit.Call(calling, c.Object("accounts"), depositArgs{account, 1})
						cancel()
						if err != nil || got != n {
							t.Errorf("%s: deposit %d returned %d, %v", account, n, got, err)
							return
						}
						mu.Lock()
						longest = max(longest, time.Since(began))
						calls++
						mu.Unlock()
					}
				})
			}
			for lap := range *kills {
				victim := 1 + lap%2 // the first address stays, for the others to join
				awaitCalls(t, &mu, &calls, 100)
				f.all[victim].Kill()
				_ = f.all[victim].Wait()
				awaitCalls(t, &mu, &calls, 100)
				mu.Lock()
				gaps = append(gaps, longest)
				longest = 0
				mu.Unlock()
				f.specs[victim].ID += 10
				f.start(victim)
				f.ready(victim)
			}
			stop()
			wg.Wait()
			slices.Sort(gaps)
			t.Logf("%d calls; the longest wait of a kill: p50 %v, at most %v", calls, gaps[len(gaps)/2], gaps[len(gaps)-1])
		})
	}
}

// awaitCalls waits until clients have made more calls.
func awaitCalls(t *testing.T, mu *sync.Mutex, calls *int, more int) {
	t.Helper()
	mu.Lock()
	goal := *calls + more
	mu.Unlock()
	for end := time.Now().Add(40 * time.Second); ; {
		mu.Lock()
		reached := *calls >= goal
		mu.Unlock()
		if reached {
			return
		}
		if time.Now().After(end) || t.Failed() {
			t.Fatal(errors.New("the clients make no progress"))
		}
		time.Sleep(time.Millisecond) // polls; the loop ends with the clients' progress
	}
}
