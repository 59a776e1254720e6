package ripc

import (
	"context"
	"sync"

	"github.com/squall-go/squall/ripc"
)

// Sizes of bodies.
const (
	longBytes   = 64 << 20
	besideBytes = 1 << 30 // beside short messages
)

// longs are long messages of package ripc, alone or beside short ones. The service "sink" takes them.
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
		return &longs{spec: s, windows: 1, size: besideBytes}
	}
	return &longs{spec: s, windows: 2, size: s.Size}
}

// listen makes the service that takes the bodies.
func (l *longs) listen(ctx context.Context, e *ripc.Endpoint) (err error) {
	if l.sink, err = e.Register(ctx, "sink"); err != nil {
		return err
	}
	if l.spec.Load == inPlace {
		return l.sink.TakeLong(ripc.Long{InPlace: true, MaxBytes: 4 * int64(l.size)})
	}
	for range l.windows {
		if err := l.sink.Post(ripc.NewWindow(touched(l.size))); err != nil {
			return err
		}
	}
	return nil
}

// touched is memory whose pages are there: else all of it that is only read is one page, which the caches hold.
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

// start sends one body after the other beside what is measured.
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
type copies struct{ from, to []byte }

func (c *copies) listen() (string, error) { return "", nil }

func (c *copies) connect(context.Context, string) error { return nil }

func (c *copies) serve() {}

func (c *copies) once(context.Context, int) error {
	if c.from == nil {
		c.from, c.to = touched(longBytes), touched(longBytes)
	}
	copy(c.to, c.from)
	return nil
}

func (c *copies) received(context.Context) (int, error) { return 0, nil }

func (c *copies) close() error { return nil }
