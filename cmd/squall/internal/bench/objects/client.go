package objects

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/replicated"
)

// keys is how many keys there are.
const keys = 10000

// clients are the clients of one process.
type clients struct {
	job
	dialled []*replicated.Client
}

func (*clients) Listen(context.Context) (string, error)  { return "", nil }
func (*clients) Connect(context.Context, []string) error { return nil }

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
		client, err := replicated.Dial(cfg)
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
	s, err := observe(ctx, r.From, r.To, c.profile(), l.done)
	return s, errors.Join(err, l.end())
}

func (c *clients) Close() (err error) {
	for _, x := range c.dialled {
		err = errors.Join(err, x.Close())
	}
	c.dialled = nil
	return err
}
