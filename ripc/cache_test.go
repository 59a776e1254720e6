package ripc

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
)

// filling returns a function that fills a buffer with a byte, and counts.
func filling(b byte, calls *atomic.Int32) func([]byte) error {
	return func(into []byte) error {
		calls.Add(1)
		for k := range into {
			into[k] = b
		}
		return nil
	}
}

// A buffer of a cache is filled once, and sent to many without a copy.
func TestABufferOfACacheIsFilledOnceAndShown(t *testing.T) {
	ctx := testutil.Within(t)
	here := open(t, Config{Transport: TransportSHM})
	client, server := register(t, here, ""), register(t, open(t, Config{Transport: TransportSHM}), "server")
	must(t, server.TakeLong(LongConfig{InPlace: true, MaxBytes: 1 << 30, MaxPeerBytes: 1 << 30}))
	c := NewCache[string](here, 1<<20)
	var calls atomic.Int32
	var sending sync.WaitGroup
	const count = 8
	for range count {
		sending.Go(func() {
			b, err := c.Get(ctx, "file", 100000, filling(7, &calls))
			if err != nil {
				t.Error(err)
				return
			}
			defer b.Release()
			if err := client.SendLong(ctx, client.To("server"), b.Body()); err != nil {
				t.Error(err)
			}
		})
	}
	for range count {
		m, err := server.Receive(ctx)
		must(t, err)
		if !m.InPlace() || !bytes.Equal(m.Body(), bytes.Repeat([]byte{7}, 100000)) {
			t.Errorf("in place: %v", m.InPlace())
		}
		m.Release()
	}
	sending.Wait()
	if calls.Load() != 1 || c.Len() != 1 || c.Bytes() != 100000 || here.Buffers() != 1 {
		t.Errorf("filled %d times, %d buffers of %d bytes, %d not released", calls.Load(), c.Len(), c.Bytes(), here.Buffers())
	}
	c.Remove("file")
	b, err := c.Get(ctx, "file", 10, filling(8, &calls))
	must(t, err)
	c.Close()
	if calls.Load() != 2 || b.Bytes()[9] != 8 || c.Bytes() != 10 {
		t.Errorf("after Remove: filled %d times, %x, %d bytes", calls.Load(), b.Bytes(), c.Bytes())
	}
	b.Release()
	if _, err := c.Get(ctx, "file", 10, filling(8, &calls)); !errors.Is(err, ErrClosed) || c.Bytes() != 0 || here.Buffers() != 0 {
		t.Errorf("after Close: %v, %d bytes, %d buffers", err, c.Bytes(), here.Buffers())
	}
}

// A cache has no more bytes than it may: the buffer that was used longest ago goes first, and none
// that is in use.
func TestACacheIsBounded(t *testing.T) {
	ctx := testutil.Within(t)
	here := open(t, Config{Transport: TransportSHM})
	c := NewCache[int](here, 300)
	defer c.Close()
	var calls atomic.Int32
	get := func(key, size int) (*Buffer, error) { return c.Get(ctx, key, size, filling(byte(key), &calls)) }
	used, err := get(1, 100)
	must(t, err)
	for _, key := range []int{2, 3, 2} {
		b, err := get(key, 100)
		must(t, err)
		b.Release()
	}
	before := calls.Load()
	for _, key := range []int{4, 1, 2} { // 3 went: of the buffers that are not in use it was used longest ago
		b, err := get(key, 100)
		must(t, err)
		if b.Bytes()[0] != byte(key) {
			t.Errorf("%d: %x", key, b.Bytes()[0])
		}
		b.Release()
	}
	if n := calls.Load() - before; n != 1 || c.Bytes() != 300 {
		t.Errorf("%d buffers were filled, %d bytes", n, c.Bytes())
	}
	if _, err := get(5, 250); !errors.Is(err, ErrFull) {
		t.Errorf("next to a buffer in use: %v", err)
	}
	used.Release()
	b, err := get(5, 250)
	must(t, err)
	b.Release()
	for size, want := range map[int]error{301: ErrTooLarge, 0: os.ErrInvalid, -1: os.ErrInvalid} {
		if _, err := get(6, size); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	if c.Bytes() != 250 || here.Buffers() != 1 {
		t.Errorf("%d bytes, %d buffers", c.Bytes(), here.Buffers())
	}
}

// A function that fails, or panics, leaves nothing, and the goroutines that wait for it get the
// error.
func TestABufferThatCannotBeFilledIsNotKept(t *testing.T) {
	ctx := testutil.Within(t)
	here := open(t, Config{Transport: TransportSHM})
	c := NewCache[string](here, 1000)
	defer c.Close()
	broken := errors.New("broken")
	for what, fill := range map[string]func([]byte) error{
		"fails":  func([]byte) error { return broken },
		"panics": func([]byte) error { panic(broken) },
	} {
		filling, others := make(chan struct{}), make(chan error, 1)
		go func() {
			<-filling
			_, err := c.Get(ctx, "file", 100, func([]byte) error { return errors.New("the buffer is filled twice") })
			others <- err
		}()
		func() {
			defer func() { recover() }()
			_, err := c.Get(ctx, "file", 100, func(into []byte) error {
				ended, end := context.WithCancel(ctx)
				end()
				if _, err := c.Get(ended, "file", 100, nil); !errors.Is(err, context.Canceled) {
					t.Errorf("a wait that was given up: %v", err)
				}
				close(filling)
				return fill(into)
			})
			if !errors.Is(err, broken) {
				t.Errorf("%s: %v", what, err)
			}
		}()
		if err := <-others; err == nil {
			t.Errorf("%s: another one has the buffer", what)
		}
		if c.Len() != 0 || c.Bytes() != 0 || here.Buffers() != 0 {
			t.Errorf("%s: %d entries, %d bytes, %d buffers", what, c.Len(), c.Bytes(), here.Buffers())
		}
	}
}

// Whatever goroutines do with a cache, each has the bytes of its key, and nothing is left.
func TestACacheUnderManyGoroutines(t *testing.T) {
	ctx := testutil.Within(t)
	here := open(t, Config{Transport: TransportSHM})
	c := NewCache[int](here, 5000)
	seed := testutil.Seed(t)
	var working sync.WaitGroup
	for g := range 4 {
		working.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(g)))
			var calls atomic.Int32
			for range 2000 {
				key := rng.IntN(20)
				b, err := c.Get(ctx, key, 100*(key+1), filling(byte(key), &calls))
				if errors.Is(err, ErrFull) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if rng.IntN(10) == 0 {
					c.Remove(key)
				}
				if got := b.Bytes(); len(got) != 100*(key+1) || got[0] != byte(key) || got[len(got)-1] != byte(key) {
					t.Errorf("key %d has %d bytes of %d", key, len(got), got[0])
				}
				if n := c.Bytes(); n > 5000 {
					t.Errorf("%d bytes", n)
				}
				b.Release()
			}
		})
	}
	working.Wait()
	c.Close()
	if c.Bytes() != 0 || c.Len() != 0 || here.Buffers() != 0 {
		t.Errorf("%d bytes, %d entries, %d buffers", c.Bytes(), c.Len(), here.Buffers())
	}
}
