package member_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
	_ "github.com/squall-go/squall/persist/bolt" // the engine of the bank's log
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
	"github.com/squall-go/squall/ripc"
)

// A world compares members and clients of replicated objects with a model of them. It has members
// with three objects: a bank with a log, a mirror to which the bank's handlers send, and shelves in
// shards. One goroutine draws operations from a seed, calls them at members and clients, and knows
// what each has to return. Meanwhile servers are closed, a member leaves and another one joins.

// Whatever members and clients call: each call returns what the model has.
func TestCallsReturnWhatTheModelHas(t *testing.T) {
	t.Parallel()
	for seed := range testutil.Seeds[uint64](3, 10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { play(testutil.Within(t), t, seed, 150) })
	}
}

// adding is what is added to a key. With Tells, the handler sends it to the mirror, and starts a
// task.
type adding struct {
	Key   string
	By    int64
	Tells bool
}

// added is what a command returns, with what its handler's context says.
type added struct {
	Value   int64
	Version squall.Version
	Index   uint64
	Time    squall.Time
	Member  squall.NodeID
	Session uint64
	Random  uint64
}

type worldBank struct {
	Values map[string]int64
	Blob   []byte
}

type mirror struct{ Told map[string]int64 }

type worldShelf struct{ Values map[string]int64 }

var (
	add    = replicated.NewCommand[adding, added]("add")
	store  = replicated.NewCommand[[]byte, []byte]("store")
	get    = replicated.NewQuery[string, added]("get")
	blob   = replicated.NewQuery[struct{}, []byte]("blob")
	tell   = replicated.NewCommand[adding, int64]("tell")
	told   = replicated.NewQuery[string, int64]("told")
	put    = replicated.NewCommand[adding, int64]("put").Keyed(func(a adding) string { return a.Key })
	find   = replicated.NewQuery[string, int64]("find").Keyed(func(key string) string { return key })
	sum    = replicated.NewQuery[struct{}, int64]("sum")
	absent = replicated.NewCommand[adding, int64]("absent")
)

const tooLittle = "no value may be negative"

func (b *worldBank) add(c *member.Context, a adding) (r added, err error) {
	if b.Values[a.Key]+a.By < 0 {
		return r, errors.New(tooLittle)
	}
	b.Values[a.Key] += a.By
	r = added{b.Values[a.Key], c.Version, c.Index, c.Time, c.Caller.Member, c.Caller.Session, c.Rand().Uint64()}
	c.Emit(a.Key, []byte(fmt.Sprint(r.Value)))
	if a.Tells {
		err = errors.Join(member.Send(c, "mirror", tell, a), c.Start("task", []byte(a.Key)))
	}
	return r, err
}

// store keeps data, and returns it doubled.
func (b *worldBank) store(_ *member.Context, data []byte) ([]byte, error) {
	b.Blob = bytes.Clone(data)
	return append(data[:len(data):len(data)], data...), nil
}

func (b *worldBank) get(c *member.Context, key string) (added, error) {
	n, ok := b.Values[key]
	if !ok {
		return added{}, fmt.Errorf("there is no %q", key)
	}
	return added{Value: n, Version: c.Version, Time: c.Time}, nil
}

func (m *mirror) tell(c *member.Context, a adding) (int64, error) {
	if a.Tells && c.Caller.Object != "bank" {
		return 0, fmt.Errorf("it comes from %q", c.Caller.Object)
	}
	m.Told[a.Key] += a.By
	return m.Told[a.Key], nil
}

func (s *worldShelf) put(_ *member.Context, a adding) (int64, error) {
	s.Values[a.Key] += a.By
	return s.Values[a.Key], nil
}

func (s *worldShelf) sum(*member.Context, struct{}) (n int64, err error) {
	for _, v := range s.Values {
		n += v
	}
	return n, nil
}

// Each shard has a copy at two members, so that it survives the end of one.
const (
	shards  = 2
	initial = 2 * shards
)

// worldNode is a member of the world.
type worldNode struct {
	id       squall.NodeID
	group    *squall.Group
	bank     *member.Object[*worldBank]
	mirror   *member.Object[*mirror]
	shelves  *member.Object[*worldShelf]
	server   *member.Server
	snapshot squall.Version // versions before it are not kept
	joined   bool           // its log has not got all
}

// target is a member or a client.
type target struct {
	name                  string
	bank, mirror, shelves replicated.Target
	node                  *worldNode // nil: a client
	client                *replicated.Client
	session               uint64
}

// moment is what the bank had behind a command.
type moment struct {
	version squall.Version
	index   uint64
	time    squall.Time
	values  map[string]int64
}

type event struct {
	topic, data string
}

type world struct {
	t       testing.TB
	ctx     context.Context
	rng     *rand.Rand
	nodes   []*worldNode
	started int
	targets []*target
	history []string

	values  map[string]int64 // of the bank
	mirrors map[string]int64
	tasks   map[string]int64 // how often a task ran
	shelves map[string]int64
	blob    []byte
	past    []moment
	events  []event
	random  map[uint64]bool
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	for _, line := range w.history[max(0, len(w.history)-30):] {
		w.t.Log(line)
	}
	w.t.Fatalf(format, args...)
}

func (w *world) check(ok bool, format string, args ...any) {
	w.t.Helper()
	if !ok {
		w.fail(format, args...)
	}
}

func (w *world) log(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf(format, args...))
}

// until waits until something is so.
func (w *world) until(is func() bool, format string, args ...any) {
	w.t.Helper()
	for !is() {
		if w.ctx.Err() != nil {
			w.fail("this does not come: "+format, args...)
		}
		time.Sleep(time.Millisecond)
	}
}

// play plays a seed.
func play(ctx context.Context, t testing.TB, seed uint64, steps int) {
	w := &world{
		t: t, ctx: ctx, rng: rand.New(rand.NewPCG(seed, 2)), values: map[string]int64{}, mirrors: map[string]int64{}, tasks: map[string]int64{},
		shelves: map[string]int64{}, random: map[uint64]bool{},
	}
	for range initial {
		w.addMember()
	}
	for k := range 2 {
		cfg := replicated.ClientConfig{Cluster: "world", Seed: uint64(k + 1)}
		for _, n := range w.nodes {
			cfg.Addresses = append(cfg.Addresses, n.server.Addr())
		}
		if k == 1 {
			cfg.Endpoint.Transport = ripc.TransportTCP
		}
		c, err := replicated.Dial(w.ctx, cfg)
		w.must(err)
		t.Cleanup(func() { _ = c.Close() })
		w.targets = append(w.targets, &target{name: fmt.Sprint("client ", k), bank: c.Object("bank"), mirror: c.Object("mirror"), shelves: c.Object("shelves"), client: c})
	}
	for k := range steps {
		switch k {
		case steps / 3:
			w.removeMember()
		case 2 * steps / 3:
			w.addMember()
		}
		w.step()
	}
	w.audit()
}

func (w *world) must(err error) {
	w.t.Helper()
	w.check(err == nil, "%v", err)
}

func (w *world) addMember() {
	w.log("a member joins")
	n := &worldNode{joined: w.started >= initial}
	w.started++
	n.id = squall.NodeID(w.started)
	n.bank = member.New(squall.SubgroupConfig{Name: "bank", Mode: squall.Persistent}, func() *worldBank { return &worldBank{Values: map[string]int64{}} },
		member.Handle(add, (*worldBank).add), member.Handle(store, (*worldBank).store), member.Handle(get, (*worldBank).get),
		member.Handle(blob, func(b *worldBank, _ *member.Context, _ struct{}) ([]byte, error) { return b.Blob, nil }))
	n.mirror = member.New(squall.SubgroupConfig{Name: "mirror"}, func() *mirror { return &mirror{map[string]int64{}} },
		member.Handle(tell, (*mirror).tell), member.Handle(told, func(m *mirror, _ *member.Context, key string) (int64, error) { return m.Told[key], nil }))
	n.shelves = member.New(squall.SubgroupConfig{Name: "shelves", Shards: shards}, func() *worldShelf { return &worldShelf{map[string]int64{}} },
		member.Handle(put, (*worldShelf).put), member.Handle(sum, (*worldShelf).sum),
		member.Handle(find, func(s *worldShelf, _ *member.Context, key string) (int64, error) { return s.Values[key], nil }))
	n.bank.HandleTask("task", func(ctx context.Context, t member.Task) error {
		_, err := tell.Call(ctx, n.mirror, adding{Key: "task " + string(t.Data), By: 1})
		return err
	})
	n.bank.Check(16, func(e *member.DivergedError) { w.t.Error(e) })
	cfg := squall.Config{
		Cluster: "world", ID: n.id, Listen: "127.0.0.1:0", InitialMembers: max(1, len(w.nodes)), Dir: w.t.TempDir(), Logger: slog.New(slog.DiscardHandler),
		Heartbeat: 20 * time.Millisecond, FailAfter: 2 * time.Second,
	}
	for _, other := range w.nodes {
		cfg.Join = append(cfg.Join, other.group.Addr())
	}
	var err error
	n.group, err = member.Open(w.ctx, cfg, n.bank, n.mirror, n.shelves)
	w.must(err)
	w.t.Cleanup(func() { w.close(n) })
	w.nodes = append(w.nodes, n)
	w.serve(n, testutil.FreeAddress(w.t))
	w.targets = append(w.targets, &target{name: fmt.Sprint("member ", n.id), bank: n.bank, mirror: n.mirror, shelves: n.shelves, node: n})
}

func (w *world) serve(n *worldNode, addr string) {
	w.until(func() (ok bool) {
		var err error
		n.server, err = member.Serve(w.ctx, member.ServerConfig{Endpoint: ripc.Config{Listen: addr}}, n.bank, n.mirror, n.shelves)
		return err == nil
	}, "a member serves at %s", addr)
}

func (w *world) close(n *worldNode) {
	if n.group.Err() != nil {
		return
	}
	if err := n.server.Close(); err != nil {
		w.t.Error(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := n.group.Close(ctx); err != nil {
		w.t.Error(err)
	}
}

func (w *world) removeMember() {
	k := w.rng.IntN(len(w.nodes))
	n := w.nodes[k]
	w.log("member %d leaves", n.id)
	w.close(n)
	w.nodes = slices.Delete(w.nodes, k, k+1)
	w.targets = slices.DeleteFunc(w.targets, func(t *target) bool { return t.node == n })
}

// restart closes a server and serves again, while f runs.
func (w *world) restart(f func()) {
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	w.log("the server of member %d is closed", n.id)
	var wg sync.WaitGroup
	wg.Go(f)
	addr := n.server.Addr()
	if err := n.server.Close(); err != nil {
		w.t.Error(err)
	}
	wg.Wait()
	w.serve(n, addr)
}
