package ripc

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
)

// Workload is what the processes of "squall bench ripc" do.
var Workload = bench.Workload{Name: "ripc", Open: open}

// Requests.
const (
	opServe   = "serve"   // the second process begins to answer
	opMeasure = "measure" // the first one measures
	opConnect = "connect" // the first one connects its clients
	opUsage   = "usage"   // the second one looks at what it takes
)

// carrier is a system that carries messages. A process uses one half of it.
type carrier interface {
	// listen returns where the other process connects, if that has to be told.
	listen() (addr string, err error)
	connect(ctx context.Context, addr string) error
	// serve answers until close.
	serve()
	// once does what the load is about, once, for one of the callers.
	once(ctx context.Context, caller int) error
	// received returns how many messages the other process received, when it has received all.
	received(ctx context.Context) (int, error)
	close() error
}

// member is one of the two processes; the first one measures.
type member struct {
	node    int
	spec    spec
	carrier carrier
	serving sync.WaitGroup
	memory  float64         // before the clients came
	times   []time.Duration // of each round trip
}

func open(node int, config func(v any) error) (bench.Member, error) {
	m := &member{node: node}
	if err := config(&m.spec); err != nil {
		return nil, err
	}
	switch m.spec.System {
	case viaRIPC:
		m.carrier = &services{spec: m.spec}
	case viaSocket:
		m.carrier = &sockets{spec: m.spec}
	case viaWords:
		m.carrier = &words{}
	case viaCopy:
		m.carrier = &copies{}
	case viaNetRPC:
		m.carrier = &netRPC{spec: m.spec}
	case viaUnixHTTP, viaStreamHTTP, viaCallHTTP:
		m.carrier = &web{services: services{spec: m.spec}}
	default:
		return nil, errors.New("no such system: " + string(m.spec.System))
	}
	return m, nil
}

func (m *member) Listen(context.Context) (string, error) {
	if m.node == 1 {
		return "", nil
	}
	return m.carrier.listen()
}

func (m *member) Connect(ctx context.Context, addrs []string) error {
	if m.node == 2 {
		return nil
	}
	return m.carrier.connect(ctx, addrs[1])
}

func (m *member) Answer(ctx context.Context, r bench.Request) (any, error) {
	switch r.Op {
	case opServe:
		m.memory = residentBytes()
		m.serving.Go(m.carrier.serve)
		return nil, nil
	case opMeasure:
		if s, ok := m.carrier.(*services); ok {
			defer s.rest()
		}
		return m.measure(ctx)
	case opConnect:
		return nil, m.carrier.(*services).connectAll(ctx)
	case opUsage:
		return m.usage(ctx)
	}
	return nil, r.Unknown()
}

func (m *member) Close() error {
	err := m.carrier.close()
	m.serving.Wait()
	return err
}

// batch is how often something is done between two looks at the clock.
func (s spec) batch() int {
	switch {
	case s.isLong():
		return 1
	case s.Load == gets:
		return 4
	}
	return 64
}

func (m *member) measure(ctx context.Context) (r run, err error) {
	if err := m.repeat(ctx, m.spec.Warmup); err != nil {
		return r, err
	}
	before, err := m.count(ctx)
	if err != nil {
		return r, err
	}
	m.times = m.times[:0]
	var start, end runtime.MemStats
	runtime.ReadMemStats(&start)
	began := time.Now()
	done, err := m.all(ctx, m.spec.Duration)
	if err != nil {
		return r, err
	}
	after, err := m.count(ctx)
	if err != nil {
		return r, err
	}
	took := time.Since(began)
	runtime.ReadMemStats(&end)
	if m.spec.Load == oneWay && after-before != done {
		return r, errors.New("messages were lost")
	}
	r.Rate = float64(done) / took.Seconds()
	r.Mean = float64(took.Microseconds()) / float64(done) * float64(max(1, m.spec.Callers))
	if m.spec.Tail {
		slices.Sort(m.times)
		r.P99 = float64(m.times[len(m.times)*99/100].Nanoseconds()) / 1e3
	}
	r.Allocs = float64(end.Mallocs-start.Mallocs) / float64(done)
	return r, nil
}

func (m *member) repeat(ctx context.Context, d time.Duration) error {
	_, err := m.all(ctx, d)
	return err
}

// count returns the number of one-way messages that the receiver has taken; under other loads, 0.
func (m *member) count(ctx context.Context) (int, error) {
	if m.spec.Load != oneWay {
		return 0, nil
	}
	return m.carrier.received(ctx)
}

// all has the callers do it again and again for a while, and returns how often they did.
func (m *member) all(ctx context.Context, d time.Duration) (done int, err error) {
	until := time.Now().Add(d)
	var mu sync.Mutex
	var callers sync.WaitGroup
	for caller := range max(1, m.spec.Callers) {
		work := func() {
			n, failed := m.loop(ctx, caller, until)
			mu.Lock()
			defer mu.Unlock()
			done, err = done+n, errors.Join(err, failed)
		}
		if m.spec.Callers <= 1 {
			work()
		} else {
			callers.Go(work)
		}
	}
	callers.Wait()
	return done, err
}

// loop does it in batches until a time, and at least one batch: a process that was held up may begin
// after that time.
func (m *member) loop(ctx context.Context, caller int, until time.Time) (done int, err error) {
	most := m.spec.batch()
	for done == 0 || time.Now().Before(until) {
		for range most {
			began := time.Time{}
			if m.spec.Tail {
				began = time.Now()
			}
			if err := m.carrier.once(ctx, caller); err != nil {
				return done, err
			}
			if m.spec.Tail {
				m.times = append(m.times, time.Since(began))
			}
		}
		done += most
	}
	return done, nil
}
