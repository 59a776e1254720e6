package ripc

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/ripc"
)

// Workload is what the processes of "squall bench ripc" do.
var Workload = bench.NewWorkload("ripc", open)

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

// plain has the methods of a carrier that has nothing to do in them.
type plain struct{}

func (plain) listen() (string, error)               { return "", nil }
func (plain) connect(context.Context, string) error { return nil }
func (plain) serve()                                {}
func (plain) received(context.Context) (int, error) { return 0, nil }
func (plain) close() error                          { return nil }

// member is one of the two processes; the first one measures.
type member struct {
	node    int
	spec    spec
	carrier carrier
	serving sync.WaitGroup
	memory  int64           // before the clients came
	times   []time.Duration // of each round trip
}

func open(p bench.Process[spec]) (bench.Member, error) {
	m := &member{node: p.Node, spec: p.Spec}
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
		m.carrier = &netRPC{sockets: sockets{spec: m.spec}}
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
		m.memory = bench.MemoryStatus("VmRSS")
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
	if _, err := m.all(ctx, m.spec.Warmup); err != nil {
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

// loop makes exchanges in batches until a time, and at least one batch: a process that was delayed
// may begin after that time.
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

// Sizes of bodies.
const (
	longBytes       = 64 << 20
	backgroundBytes = 1 << 30 // of a long message that is sent while short ones are measured
)

// longs are long messages of package ripc, alone or next to short ones. The service "sink" takes
// them.
type longs struct {
	spec    spec
	windows int
	size    int
	sink    *ripc.Service
	client  *ripc.Service
	to      *ripc.Remote
	body    *ripc.Buffer
	beside  sync.WaitGroup
	stop    context.CancelFunc
}

func newLongs(s spec) *longs {
	if s.Beside {
		return &longs{spec: s, windows: 1, size: backgroundBytes}
	}
	return &longs{spec: s, windows: 2, size: s.Size}
}

// listen makes the service that takes the bodies.
func (l *longs) listen(ctx context.Context, e *ripc.Endpoint) (err error) {
	if l.sink, err = e.Register(ctx, "sink"); err != nil {
		return err
	}
	if l.spec.Load == inPlace {
		return l.sink.TakeLong(ripc.LongConfig{InPlace: true, MaxBytes: 4 * int64(l.size)})
	}
	for range l.windows {
		if err := l.sink.Post(ripc.NewWindow(touched(l.size))); err != nil {
			return err
		}
	}
	return nil
}

// touched is memory whose pages are there: else all of it that is only read is one page, which the
// caches hold.
func touched(size int) []byte {
	b := make([]byte, size)
	for at := 0; at < size; at += 4096 {
		b[at] = 1
	}
	return b
}

// serve takes messages and gives their windows back, until the context ends.
func (l *longs) serve(ctx context.Context) {
	for {
		m, err := l.sink.Receive(ctx)
		if err != nil {
			return
		}
		window := m.Window()
		m.Release()
		if window != nil && l.sink.Post(window) != nil {
			return
		}
	}
}

// connect makes the body.
func (l *longs) connect(ctx context.Context, e *ripc.Endpoint, client *ripc.Service) (err error) {
	l.client, l.to = client, client.To("sink")
	if l.body, err = e.Alloc(l.size); err != nil {
		return err
	}
	return l.to.Connect(ctx)
}

func (l *longs) once(ctx context.Context) error { return l.client.SendLong(ctx, l.to, l.body.Body()) }

// start sends one body after the other next to what is measured.
func (l *longs) start() {
	ctx, cancel := context.WithCancel(context.Background())
	l.stop = cancel
	l.beside.Go(func() {
		for ctx.Err() == nil {
			if err := l.once(ctx); err != nil && ctx.Err() == nil {
				panic(err) // what is measured then is nothing
			}
		}
	})
}

// end ends that, while the other process still takes bodies.
func (l *longs) end() {
	if l.stop != nil {
		l.stop()
	}
	l.beside.Wait()
}

func (l *longs) close() {
	l.end()
	if l.body != nil {
		l.body.Release()
	}
}

// copies copy memory, in one process.
type copies struct {
	plain
	from, to []byte
}

func (c *copies) once(context.Context, int) error {
	if c.from == nil {
		c.from, c.to = touched(longBytes), touched(longBytes)
	}
	copy(c.to, c.from)
	return nil
}
