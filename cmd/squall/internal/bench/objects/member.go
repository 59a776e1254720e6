package objects

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/persist/wal"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/ripc"
)

// Workload is what the processes of "squall bench objects" do.
var Workload = bench.Workload{Name: "objects", Open: open}

// Requests.
const (
	opServe   = "serve"   // a member begins to serve clients: its address
	opDial    = "dial"    // clients connect to members, whose addresses are the arguments
	opMeasure = "measure" // a sample of a window
	opHangUp  = "hang up" // clients end their sessions, while there are members
)

func open(_ int, config func(v any) error) (bench.Member, error) {
	var j job
	if err := config(&j); err != nil {
		return nil, err
	}
	if j.Node > nodes {
		return &clients{job: j}, nil
	}
	return newMember(j), nil
}

// member is a member of the group.
type member struct {
	job
	*bench.Group
	object    *replicated.Object[*store]
	delivered atomic.Uint64 // plain messages
	server    *replicated.Server
}

func newMember(j job) *member {
	m := &member{job: j, Group: bench.NewGroup(j.Node, nodes, j.Spec.Fabric)}
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
		return replicated.Open(ctx, cfg, m.object)
	}
	return m
}

func (m *member) Answer(ctx context.Context, r bench.Request) (any, error) {
	ctx, cancel := m.WhileWell(ctx)
	defer cancel(nil)
	switch r.Op {
	case opServe:
		cfg := ripc.Config{Addr: "127.0.0.1:0", RingBytes: ringBytes}
		if m.Spec.Fabric == "tcp" {
			cfg.Transport = ripc.TCP
		}
		var err error
		if m.server, err = replicated.Serve(ctx, replicated.ServerConfig{Endpoint: cfg}, m.object); err != nil {
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

// window is how many commands a caller has under way: a quarter of the messages of 100 bytes that its ring takes.
const window = 1024

// manyReaders is how many goroutines read at a member.
const manyReaders = 64

func (m *member) measure(ctx context.Context, r bench.Request) (any, error) {
	body := make([]byte, m.Spec.SizeBytes)
	var l *loop
	switch m.Spec.Load {
	case sends:
		sg := m.Subgroup(plainName)
		l = begin(1, func(int) (int, error) { return 1, sg.Send(ctx, body) })
		s, err := observe(ctx, r.From, r.To, m.profile(), m.delivered.Load)
		return s, errors.Join(err, l.end())
	case commands:
		l = begin(1, pipeline(ctx, m.object, count, body))
	case cborLoad:
		l = begin(1, pipeline(ctx, m.object, countCBOR, amount{"an account", 5}))
	default:
		if m.Node > 1 || m.Spec.ofClients() {
			s, err := observe(ctx, r.From, r.To, m.profile(), func() uint64 { return 0 })
			return s, err
		}
		l = m.atOneMember(ctx, body)
	}
	s, err := observe(ctx, r.From, r.To, m.profile(), l.done)
	return s, errors.Join(err, l.end())
}

// atOneMember is what one member does while the others only take part.
func (m *member) atOneMember(ctx context.Context, body []byte) *loop {
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

// pipeline keeps commands under way.
func pipeline[A, R any](ctx context.Context, o *replicated.Object[*store], c *replicated.Command[A, R], args A) func(int) (int, error) {
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

func (m *member) Close() error {
	var err error
	if m.server != nil {
		err = m.server.Close()
	}
	return errors.Join(err, m.Group.Close())
}
