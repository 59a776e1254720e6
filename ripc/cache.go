package ripc

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
)

// Cache keeps buffers that are sent again and again and never written again: processes of this host
// look at them where they are, and nothing is copied. It is bounded in bytes. Its methods may be
// called from any goroutine.
//
// A key always stands for the same bytes. For a file it has the name and what changes with the
// bytes, such as the time of the last change.
type Cache[K comparable] struct {
	e     *Endpoint
	most  int64
	bytes atomic.Int64 // of all buffers that the cache made and that are not freed

	mu      sync.Mutex
	entries map[K]*cacheEntry[K]
	recent  list.List // of the filled entries; the most recently used one is in front
	closed  bool
}

// cacheEntry is a buffer of a cache, which has one reference to it.
type cacheEntry[K comparable] struct {
	key    K
	buffer *Buffer
	place  *list.Element // nil: it is being filled
	done   chan struct{} // closed when it is filled, or could not be
	err    error         // why not
}

// NewCache returns a cache of buffers of an endpoint, which have so many bytes together at most.
// Close it before the endpoint.
func NewCache[K comparable](e *Endpoint, maxBytes int64) *Cache[K] {
	return &Cache[K]{e: e, most: maxBytes, entries: map[K]*cacheEntry[K]{}}
}

// Get returns the buffer of a key, with a reference that the caller releases. If there is none,
// fill writes all bytes of a new one; of several goroutines that ask meanwhile one calls its fill,
// and the others wait for it until ctx ends. To make space, the buffers that were used longest ago
// are freed, but not those to which there are other references: if these take all of the space, the
// error is ErrFull. A buffer that is larger than the cache is ErrTooLarge. The error of fill is
// returned to all that wait for it, and is not kept.
func (c *Cache[K]) Get(ctx context.Context, key K, size int, fill func([]byte) error) (*Buffer, error) {
	for {
		c.mu.Lock()
		n := c.entries[key]
		if n == nil {
			n, err := c.begin(key, size)
			c.mu.Unlock()
			if err != nil {
				return nil, fmt.Errorf("ripc: %w", err)
			}
			return c.fill(n, size, fill)
		}
		if n.place != nil {
			c.recent.MoveToFront(n.place)
			b := n.buffer.Retain()
			c.mu.Unlock()
			return b, nil
		}
		c.mu.Unlock()
		select {
		case <-n.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if n.err != nil {
			return nil, n.err
		}
	}
}

// begin makes room for a buffer, and an entry for which others wait. The caller holds the mu.
func (c *Cache[K]) begin(key K, size int) (*cacheEntry[K], error) {
	n := int64(size)
	switch {
	case c.closed:
		return nil, ErrClosed
	case size < 1:
		return nil, fmt.Errorf("%w: a buffer of %d bytes", os.ErrInvalid, size)
	case n > c.most:
		return nil, fmt.Errorf("%w: %d bytes, the cache has %d", ErrTooLarge, size, c.most)
	}
	for place := c.recent.Back(); place != nil && c.bytes.Load() > c.most-n; {
		oldest := place.Value.(*cacheEntry[K])
		place = place.Prev()
		if oldest.buffer.refs.Load() == 1 { // that of the cache: only Get adds one to it, under the mu
			c.forget(oldest)
		}
	}
	if c.bytes.Load() > c.most-n {
		return nil, fmt.Errorf("%w: %d bytes of the cache are in use", ErrFull, c.bytes.Load())
	}
	c.bytes.Add(n)
	e := &cacheEntry[K]{key: key, done: make(chan struct{}), err: errFill}
	c.entries[key] = e
	return e, nil
}

// errFill is the error of goroutines that wait for a buffer whose function ended its goroutine, or
// panicked.
var errFill = errors.New("ripc: the function that fills the buffer did not return")

// fill makes the buffer of an entry, and returns it with a reference for the caller.
func (c *Cache[K]) fill(n *cacheEntry[K], size int, fill func([]byte) error) (*Buffer, error) {
	defer c.end(n)
	b, err := c.e.Alloc(size)
	if err != nil {
		c.bytes.Add(-int64(size))
		n.err = err
		return nil, err
	}
	b.freed = func() { c.bytes.Add(-int64(size)) }
	n.buffer = b
	if n.err = fill(b.Bytes()); n.err != nil {
		return nil, n.err
	}
	return b.Retain(), nil
}

// end wakes the goroutines that wait for an entry, and keeps the entry if it was filled.
func (c *Cache[K]) end(n *cacheEntry[K]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch keep := n.err == nil && c.entries[n.key] == n; {
	case keep:
		n.place = c.recent.PushFront(n)
	case n.buffer != nil:
		n.buffer.Release()
	}
	if n.err != nil && c.entries[n.key] == n {
		delete(c.entries, n.key)
	}
	close(n.done)
}

// forget gives up the cache's reference. The caller holds the mu.
func (c *Cache[K]) forget(n *cacheEntry[K]) {
	delete(c.entries, n.key)
	if n.place != nil { // else it is released when it is filled
		c.recent.Remove(n.place)
		n.buffer.Release()
	}
}

// Remove has the next Get fill a new buffer for a key. The old one is freed when it has no other
// references.
func (c *Cache[K]) Remove(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.entries[key]; n != nil {
		c.forget(n)
	}
}

// Bytes is the memory of the buffers that the cache made and that are not freed.
func (c *Cache[K]) Bytes() int64 { return c.bytes.Load() }

// Len is the number of buffers in the cache, including buffers that are being filled.
func (c *Cache[K]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.entries)
}

// Close releases all buffers. Buffers to which there are other references stay until these are
// released. Get returns ErrClosed from now on.
func (c *Cache[K]) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, n := range c.entries {
		c.forget(n)
	}
}
