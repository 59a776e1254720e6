package objects

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/persist/wal"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
	"github.com/squall-go/squall/ripc"
)

// Workload is what the processes of "squall bench objects" do.
var Workload = bench.NewWorkload("objects", open)

// Requests.
const (
	opServe   = "serve"   // a member begins to serve clients: its address
	opDial    = "dial"    // clients connect to members, whose addresses are the arguments
	opMeasure = "measure" // a sample of a window
	opHangUp  = "hang up" // clients end their sessions, while there are members
)

func open(p bench.Process[spec]) (bench.Member, error) {
	if p.Node > nodes {
		return &clients{Process: p}, nil
	}
	return newReplica(p), nil
}

// replica is a member of the group.
type replica struct {
	bench.Process[spec]
	*bench.Group
	object    *member.Object[*store]
	delivered atomic.Uint64 // plain messages
	server    *member.Server
}

func newReplica(j bench.Process[spec]) *replica {
	m := &replica{Process: j, Group: bench.NewGroup(j.Node, nodes, j.Spec.Fabric)}
	var sg squall.SubgroupConfig
	if j.Spec.Durable {
		sg.Mode, m.Config.Dir = squall.Persistent, j.Dir
		sg.Log.Engine = wal.Engine
	}
	m.object, m.Survives = newStore(sg), j.Spec.Load == deposits
	if j.Spec.Load == sends || j.Spec.Load == sendOne {
		m.Config.Subgroups = []squall.SubgroupConfig{{Name: plainName, DeliverBatch: func(batch []squall.Message) { m.delivered.Add(uint64(len(batch))) }}}
		return m
	}
	m.Opener = func(ctx context.Context, cfg squall.Config) (*squall.Group, error) {
		return member.Open(ctx, cfg, m.object)
	}
	return m
}

func (m *replica) Answer(ctx context.Context, r bench.Request) (any, error) {
	switch r.Op {
	case opServe:
		cfg := ripc.Config{Listen: "127.0.0.1:0", RingBytes: ringBytes}
		if m.Spec.Fabric == "tcp" {
			cfg.Transport = ripc.TransportTCP
		}
		var err error
		if m.server, err = member.Serve(ctx, member.ServerConfig{Endpoint: cfg}, m.object); err != nil {
			return nil, err
		}
		return m.server.Addr(), nil
	case opMeasure:
		return m.measure(ctx, r)
	}
	return nil, r.Unknown()
}

// ringBytes is the memory for messages of each connection.
const ringBytes = 1 << 20

// window is how many commands a caller has in flight: a quarter of the messages of 100 bytes that
// its ring takes.
const window = 1024

// manyReaders is how many goroutines read at a member.
const manyReaders = 64

func (m *replica) measure(ctx context.Context, r bench.Request) (any, error) {
	body := make([]byte, m.Spec.SizeBytes)
	var l *loop
	switch m.Spec.Load {
	case sends:
		sg := m.Subgroup(plainName)
		l = begin(1, func(int) (int, error) { return 1, sg.Send(ctx, body) })
		return l.observe(ctx, r, m.delivered.Load)
	case commands:
		l = begin(1, pipeline(ctx, m.object, count, body))
	case cborLoad:
		l = begin(1, pipeline(ctx, m.object, countCBOR, amount{"an account", 5}))
	default:
		if m.Node > 1 || m.Spec.ofClients() {
			l = begin(0, nil)
			break
		}
		l = m.atOneMember(ctx, body)
	}
	return l.observe(ctx, r, l.done)
}

// atOneMember is what one member does while the others only take part.
func (m *replica) atOneMember(ctx context.Context, body []byte) *loop {
	switch m.Spec.Load {
	case sendOne:
		sg := m.Subgroup(plainName)
		return begin(1, func(int) (int, error) {
			f, err := sg.SendFuture(ctx, body)
			if err == nil {
				_, err = f.Wait(ctx)
			}
			return 1, err
		})
	case callOne:
		return begin(1, func(int) (int, error) {
			_, err := count.Call(ctx, m.object, body)
			return 1, err
		})
	case locals:
		return begin(manyReaders, inBursts(func() error {
			_, err := get.Local(ctx, m.object, body[:1])
			return err
		}))
	case reads:
		return begin(manyReaders, inBursts(func() error {
			_, err := get.Call(ctx, m.object, body[:1])
			return err
		}))
	}
	return begin(1, func(int) (int, error) {
		_, err := get.Call(ctx, m.object, body[:1])
		return 1, err
	})
}

// inBursts reads 64 times in a row. Reads need not wait, and goroutines that never wait leave the
// other goroutines of their process too little, the one that counts among them.
func inBursts(read func() error) func(int) (int, error) {
	return func(int) (int, error) {
		runtime.Gosched()
		for range 64 {
			if err := read(); err != nil {
				return 0, err
			}
		}
		return 64, nil
	}
}

// pipeline keeps commands in flight.
func pipeline[A, R any](ctx context.Context, o *member.Object[*store], c *replicated.Command[A, R], args A) func(int) (int, error) {
	var under [window]*replicated.Future[R]
	next := 0
	return func(int) (int, error) {
		done := 0
		if f := under[next]; f != nil {
			if _, err := f.Wait(ctx); err != nil {
				return 0, err
			}
			done = 1
		}
		f, err := c.Go(ctx, o, args)
		under[next] = f
		next = (next + 1) % window
		return done, err
	}
}

func (m *replica) Close() error {
	var err error
	if m.server != nil {
		err = m.server.Close()
	}
	return errors.Join(err, m.Group.Close())
}

// keys is how many keys there are.
const keys = 10000

// clients are the clients of one process.
type clients struct {
	bench.Unconnected
	bench.Process[spec]
	dialled []*replicated.Client
}

// callers is how many goroutines call in this process.
func (c *clients) callers() int { return c.Spec.Clients / c.Spec.Processes }

func (c *clients) Answer(ctx context.Context, r bench.Request) (any, error) {
	switch r.Op {
	case opDial:
		var addrs []string
		if err := r.Into(&addrs); err != nil {
			return nil, err
		}
		return nil, c.dial(ctx, addrs)
	case opMeasure:
		if c.Spec.Load == deposits {
			return c.deposit(ctx, r)
		}
		return c.measure(ctx, r)
	case opHangUp:
		return nil, c.Close()
	}
	return nil, r.Unknown()
}

// dial connects, and puts every key once, so that gets find something.
func (c *clients) dial(ctx context.Context, addrs []string) error {
	for i := range max(1, c.Spec.Dials) {
		cfg := replicated.ClientConfig{Cluster: bench.Cluster, Seed: 1}
		cfg.Endpoint.RingBytes = ringBytes
		for k := range addrs { // each client begins with another member
			cfg.Addresses = append(cfg.Addresses, addrs[(i+k+c.Node)%len(addrs)])
		}
		client, err := replicated.Dial(ctx, cfg)
		if err != nil {
			return err
		}
		c.dialled = append(c.dialled, client)
	}
	if c.Node > nodes+1 || c.Spec.Load != gets {
		return nil
	}
	var wg sync.WaitGroup
	var failed error
	var mu sync.Mutex
	const at = 64
	for from := range at {
		wg.Go(func() {
			for k := from; k < keys; k += at {
				if _, err := put.Call(ctx, c.dialled[0].Object(storeName), appendPut(nil, k, make([]byte, c.Spec.SizeBytes))); err != nil {
					mu.Lock()
					failed = errors.Join(failed, err)
					mu.Unlock()
					return
				}
			}
		})
	}
	wg.Wait()
	return failed
}

// appendPut appends the arguments of a put.
func appendPut(b []byte, key int, value []byte) []byte {
	b = fmt.Appendf(append(b, 0), "key-%05d", key)
	b[0] = byte(len(b) - 1)
	return append(b, value...)
}

func (c *clients) measure(ctx context.Context, r bench.Request) (any, error) {
	value := make([]byte, c.Spec.SizeBytes)
	buffers := make([][]byte, c.callers())
	numbers := make([]*rand.Rand, c.callers())
	for i := range numbers {
		numbers[i] = rand.New(rand.NewPCG(uint64(c.Node), uint64(i)))
	}
	l := begin(c.callers(), func(i int) (int, error) {
		o := c.dialled[i%len(c.dialled)].Object(storeName)
		key := numbers[i].IntN(keys)
		if c.Spec.Load == gets {
			buffers[i] = fmt.Appendf(buffers[i][:0], "key-%05d", key)
			v, err := get.Call(ctx, o, buffers[i])
			if err == nil && len(v) != c.Spec.SizeBytes {
				err = fmt.Errorf("a value of %d bytes", len(v))
			}
			return 1, err
		}
		buffers[i] = appendPut(buffers[i][:0], key, value)
		_, err := put.Call(ctx, o, buffers[i])
		return 1, err
	})
	return l.observe(ctx, r, l.done)
}

func (c *clients) Close() (err error) {
	for _, x := range c.dialled {
		err = errors.Join(err, x.Close())
	}
	c.dialled = nil
	return err
}

// counter is a count of one goroutine, on a cache line of its own.
type counter struct {
	atomic.Uint64
	_ [56]byte
}

// loop has callers do something again and again until the window ends.
type loop struct {
	counters []counter
	over     atomic.Bool
	callers  sync.WaitGroup
	mu       sync.Mutex
	err      error
}

// begin starts the callers. Once does the thing, and returns how often it did.
func begin(n int, once func(caller int) (int, error)) *loop {
	l := &loop{counters: make([]counter, n)}
	for i := range n {
		l.callers.Go(func() {
			for !l.over.Load() {
				done, err := once(i)
				if err != nil {
					l.mu.Lock()
					l.err = errors.Join(l.err, err)
					l.mu.Unlock()
					return
				}
				l.counters[i].Add(uint64(done))
			}
		})
	}
	return l
}

// end waits for the callers.
func (l *loop) end() error {
	l.over.Store(true)
	l.callers.Wait()
	return l.err
}

func (l *loop) done() (n uint64) {
	for i := range l.counters {
		n += l.counters[i].Load()
	}
	return n
}

// observe counts in the window of a request, and ends the loop.
func (l *loop) observe(ctx context.Context, r bench.Request, count func() uint64) (s sample, err error) {
	grown, usage, err := bench.Observe(ctx, r, func() []uint64 { return []uint64{count()} })
	if err = errors.Join(err, l.end()); err != nil {
		return s, err
	}
	return sample{Usage: usage, Done: float64(grown[0])}, nil
}
