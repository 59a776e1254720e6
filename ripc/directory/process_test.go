package directory

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/ripc"
)

var (
	memberKills = flag.Int("kills", 3, "members of a directory that a test kills")
	killSeed    = flag.Uint64("seed", 0, "of the test that kills members of a directory; 0 is any")
)

// runMember is the main function of a process that is a member of a group with a directory. Its
// arguments are the cluster, its id, the addresses of members to join, or - for the first one, and
// the address of its endpoint. It prints the addresses of its group and of its endpoint when it is
// a member, then that it has the directory's state, and ends with its standard input.
func runMember(args []string) error {
	cluster, join, addr := args[0], args[2], args[3]
	id, err := strconv.ParseUint(args[1], 10, 32)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	d := New(Config{})
	cfg := squall.Config{
		Cluster: cluster, ID: squall.NodeID(id), Listen: "127.0.0.1:0", Heartbeat: 20 * time.Millisecond, FailAfter: 500 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler), Subgroups: []squall.SubgroupConfig{d.Subgroup()},
	}
	if join == "-" {
		cfg.InitialMembers = 1
	} else {
		cfg.Join = strings.Split(join, ",") // a majority of it would bootstrap the group
	}
	g, err := squall.Open(ctx, cfg)
	if err != nil {
		return err
	}
	e, err := ripc.Open(ctx, ripc.Config{Transport: ripc.TransportTCP, Listen: addr, Resolver: d})
	if err != nil {
		return err
	}
	own := ""
	for _, m := range g.View().Members {
		if m.ID == squall.NodeID(id) {
			own = m.Addr
		}
	}
	fmt.Println(own, e.Addr())
	orders, err := g.Subgroup(d.cfg.Name)
	if err != nil {
		return err
	}
	go func() {
		<-orders.Restored()
		fmt.Println(hasState)
	}()
	go func() {
		var b [1]byte
		os.Stdin.Read(b[:])
		os.Exit(0)
	}()
	return d.Serve(ctx, g, e)
}

// process is a member in a process of its own.
type process struct {
	*testutil.Program
	group, endpoint string // addresses
	restored        bool
}

// hasState is what a member prints when it has the directory's state.
const hasState = "restored"

// awaitState waits until a member has the directory's state.
func (p *process) awaitState() {
	if !p.restored {
		p.Await(hasState)
		p.restored = true
	}
}

func startMember(t *testing.T, cluster string, id int, join, addr string) *process {
	t.Helper()
	p := &process{Program: testutil.StartProgram(t, cluster, fmt.Sprint(id), join, addr)}
	_, err := fmt.Sscan(p.Next(), &p.group, &p.endpoint)
	must(t, err)
	return p
}

// Members of a directory are killed, and others take their addresses, while clients register, look
// for and call services: no name is lost that was registered, no call to a service that lives
// fails, and a name is never at a place that its owner did not say.
func TestClientsGoOnWhenMembersAreKilled(t *testing.T) {
	t.Parallel()
	ctx := testutil.Within(t)
	seed := *killSeed
	if seed == 0 {
		seed = testutil.Seed(t)
	}
	t.Logf("-seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	cluster := fmt.Sprintf("%s%d", t.Name(), os.Getpid())
	var members []*process
	start := func(id int, addr string) {
		join := "-"
		if len(members) > 0 {
			var all []string
			for _, p := range members {
				all = append(all, p.group)
			}
			join = strings.Join(all, ",")
		}
		members = append(members, startMember(t, cluster, id, join, addr))
	}
	const size = 3
	for id := range size {
		start(id+1, "127.0.0.1:0")
	}
	var addrs []string
	for _, p := range members {
		addrs = append(addrs, p.endpoint)
	}

	const services = 4
	var calls, registered atomic.Int64
	stop, end := context.WithCancel(ctx)
	defer end()
	var working sync.WaitGroup
	type user struct {
		c     *Client
		e     *ripc.Endpoint
		stays *ripc.Service
	}
	var users [services]user
	for k := range users { // each has a service that stays, and that all others call, and one that comes and goes
		c, e := client(t, ClientConfig{Addresses: addrs, Lease: 30 * time.Second, Hold: -1}, ripc.Config{Transport: ripc.TransportTCP})
		s, err := e.Register(ctx, ripc.ID(fmt.Sprint("stays", k)))
		must(t, err)
		users[k] = user{c, e, s}
	}
	for k, u := range users {
		c, e, s := u.c, u.e, u.stays
		working.Go(func() {
			s.Serve(stop, func(_ context.Context, m *ripc.Message) { m.Reply([]byte(s.ID())) })
		})
		me, err := e.Register(ctx, "")
		must(t, err)
		working.Go(func() {
			for n := 0; stop.Err() == nil; n++ {
				id := ripc.ID(fmt.Sprint("stays", n%services))
				if n%5 == 0 {
					if at, err := c.Resolve(stop, id); err == nil {
						c.Forget(id, at) // it is asked for again
					}
				}
				m, err := me.Call(stop, me.To(id))
				if err != nil {
					if stop.Err() == nil {
						t.Errorf("client %d calls %s: %v", k, id, err)
					}
					return
				}
				if string(m.Data) != string(id) {
					t.Errorf("%s was answered by %q", id, m.Data)
				}
				m.Release()
				calls.Add(1)
				time.Sleep(time.Millisecond) // the members have the cores, too
			}
		})
		working.Go(func() {
			for n := 0; stop.Err() == nil; n++ {
				id := ripc.ID(fmt.Sprintf("comes%d-%d", k, n%3))
				guest, err := e.Register(stop, id)
				if err != nil {
					if stop.Err() == nil {
						t.Errorf("client %d registers %s: %v", k, id, err)
					}
					return
				}
				at, err := c.Resolve(stop, id)
				if err == nil && at.Incarnation != e.Place().Incarnation {
					t.Errorf("%s is at %+v", id, at)
				} else if err != nil && stop.Err() == nil {
					t.Errorf("client %d looks for its own %s: %v", k, id, err)
				}
				if err := guest.Close(); err != nil && stop.Err() == nil {
					t.Errorf("client %d gives %s back: %v", k, id, err)
				}
				registered.Add(1)
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	progress := func(what string) {
		t.Helper()
		before, had := calls.Load(), registered.Load()
		for deadline := time.Now().Add(20 * time.Second); calls.Load() < before+20 || registered.Load() < had+3; time.Sleep(time.Millisecond) {
			if t.Failed() || time.Now().After(deadline) {
				t.Fatalf("%s: %d calls and %d registrations in 20 s", what, calls.Load()-before, registered.Load()-had)
			}
		}
	}
	progress("before any end")
	for k := range *memberKills {
		victim := rng.IntN(size)
		time.Sleep(time.Duration(rng.IntN(50)) * time.Millisecond) // any moment will do
		members[(victim+1)%size].awaitState()                      // one that has the state must be left
		addr := members[victim].endpoint
		members[victim].Kill()
		members = append(members[:victim], members[victim+1:]...)
		progress(fmt.Sprintf("after the end of member %d of round %d", victim, k))
		start(size+1+k, addr)
		progress(fmt.Sprintf("with a new member in round %d", k))
	}
	end()
	working.Wait()
}
