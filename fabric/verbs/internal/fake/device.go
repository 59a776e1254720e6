//go:build linux

// Package fake is a network of RDMA devices in this process. From a seed, it does whatever the
// InfiniBand specification allows: it places the bytes of writes in any order and in pieces, reads
// them when it likes and again, until a later message completes; it writes receive buffers before
// their completion; it delays completions, uses numbers of pairs again, and breaks pairs.
//
// What it must not do, it does not: a message completes at the peer after all writes before it are
// in place, and never without a receive; a key opens what is registered with it, in its domain.
//
// A poll of a queue runs steps, and so do the goroutine of Options.Goroutine, and Arrive, by which
// a simulator bounds how long a message takes.
package fake

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"unsafe"

	"github.com/squall-go/squall/fabric/verbs/device"
	"golang.org/x/sys/unix"
)

// Statuses of completions, as in ibv_wc_status.
const (
	ok          = 0
	badLocal    = 4  // a local key does not open what it is used for
	flushed     = 5  // the pair was in error
	badRemote   = 10 // a remote key does not
	noAnswer    = 12
	noReceive   = 13
	inlineBytes = 220
	mostBytes   = 16 << 10 // of a request: small, so that ranges are split
)

// Options describe a network.
type Options struct {
	Seed uint64
	// Goroutine has a goroutine make steps, for loops that sleep.
	Goroutine bool
	// BreakOneIn breaks a pair in one of so many steps; 0: never.
	BreakOneIn int
	// SlowSends lets messages wait, so that completions are late.
	SlowSends bool
	// Patient pairs do not notice by themselves that their peer is gone.
	Patient bool
}

// Network is what devices are connected by.
type Network struct {
	opts Options

	mu     sync.Mutex
	work   sync.Cond // something may be done, or closed
	random *rand.Rand
	pairs  []*pair
	queues []*queue
	keys   uint32
	number uint32
	unused []uint32 // numbers of closed pairs
	held   bool
	closed bool
	done   sync.WaitGroup
}

// New makes a network.
func New(o Options) *Network {
	n := &Network{opts: o, random: rand.New(rand.NewPCG(o.Seed, 28)), number: 16}
	n.work.L = &n.mu
	if o.Goroutine {
		n.done.Go(n.run)
	}
	return n
}

// Close ends the network's goroutine.
func (n *Network) Close() {
	n.mu.Lock()
	n.closed = true
	n.work.Broadcast()
	n.mu.Unlock()
	n.done.Wait()
}

// Open counts the pairs, regions and queues that are not closed.
func (n *Network) Open() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.pairs) + len(n.queues)
}

// AwaitClosed waits until all pairs and queues are closed, or ctx ends, and returns how many are
// open.
func (n *Network) AwaitClosed(ctx context.Context) int {
	stop := context.AfterFunc(ctx, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.work.Broadcast()
	})
	defer stop()
	n.mu.Lock()
	defer n.mu.Unlock()
	for ctx.Err() == nil && len(n.pairs)+len(n.queues) > 0 {
		n.work.Wait()
	}
	return len(n.pairs) + len(n.queues)
}

func (n *Network) run() {
	for {
		n.mu.Lock()
		for !n.closed && !n.busy() {
			n.work.Wait()
		}
		if n.closed {
			n.mu.Unlock()
			return
		}
		for range 8 {
			n.step()
		}
		n.mu.Unlock()
		runtime.Gosched()
	}
}

// busy reports whether a step could do anything that somebody waits for.
func (n *Network) busy() bool {
	for _, p := range n.pairs {
		if p.state == connected && len(p.requests) > 0 {
			return true
		}
	}
	for _, q := range n.queues {
		if len(q.hidden) > 0 {
			return true
		}
	}
	return false
}

// step does something somewhere. The caller holds mu.
func (n *Network) step() {
	if n.held {
		return
	}
	if len(n.queues) > 0 {
		n.queues[n.random.IntN(len(n.queues))].show()
	}
	if len(n.pairs) > 0 {
		n.pairs[n.random.IntN(len(n.pairs))].step()
	}
}

// some makes a few steps, if nobody else does.
func (n *Network) some() {
	if !n.opts.Goroutine {
		for range n.random.IntN(8) {
			n.step()
		}
	}
}

// Hold stops everything, or lets it go on.
func (n *Network) Hold(on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.held = on
}

// Settle makes steps until there is nothing to do.
func (n *Network) Settle() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for n.busy() {
		n.step()
	}
}

// oneIn is true once in k times.
func (n *Network) oneIn(k int) bool { return n.random.IntN(k) == 0 }

// Device opens one more device.
func (n *Network) Device() device.Device { return adapter{n} }

type adapter struct{ net *Network }

func (adapter) Limits() device.Limits {
	return device.Limits{InlineBytes: inlineBytes, MessageBytes: mostBytes, Completions: 1 << 15}
}

func (adapter) Close() error { return nil }

func (d adapter) Domain() (device.Domain, error) {
	return &domain{net: d.net, regions: map[uint32]region{}}, nil
}

func (d adapter) Queue(capacity int) (device.Queue, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	q := &queue{net: d.net, event: fd, capacity: capacity}
	d.net.mu.Lock()
	defer d.net.mu.Unlock()
	d.net.queues = append(d.net.queues, q)
	return q, nil
}

// domain is a protection domain.
type domain struct {
	net     *Network
	regions map[uint32]region
	pairs   int
}

type region struct {
	mem           []byte
	local, remote bool
}

func (d *domain) Register(mem []byte, local, remote bool) (device.Region, error) {
	d.net.mu.Lock()
	defer d.net.mu.Unlock()
	d.net.keys++ // keys are easy to guess
	d.regions[d.net.keys] = region{mem, local, remote}
	return device.Region{Address: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))), Key: d.net.keys}, nil
}

func (d *domain) Close() error {
	d.net.mu.Lock()
	defer d.net.mu.Unlock()
	if d.pairs > 0 {
		return errors.New("a domain is closed before its pairs")
	}
	clear(d.regions)
	return nil
}

// find returns n bytes at an address that a key opens.
func (d *domain) find(key uint32, address uint64, n uint32, may func(region) bool) ([]byte, bool) {
	r, ok := d.regions[key]
	if !ok || !may(r) || len(r.mem) == 0 {
		return nil, false
	}
	off := address - uint64(uintptr(unsafe.Pointer(&r.mem[0])))
	if off > uint64(len(r.mem)) || uint64(n) > uint64(len(r.mem))-off {
		return nil, false
	}
	return r.mem[off : off+uint64(n)], true
}

func readable(region) bool   { return true }
func receives(r region) bool { return r.local }
func remotely(r region) bool { return r.remote }

// queue is a completion queue. Completions are hidden for a while, and appear in order.
type queue struct {
	net      *Network
	event    int
	capacity int
	armed    bool
	hidden   []device.Completion
	shown    []device.Completion
}

// add takes a completion in.
func (q *queue) add(c device.Completion) { q.hidden = append(q.hidden, c) }

// show lets some completions appear.
func (q *queue) show() {
	for len(q.hidden) > 0 && !q.net.oneIn(4) {
		q.shown, q.hidden = append(q.shown, q.hidden[0]), q.hidden[1:]
		if q.armed {
			q.armed = false
			unix.Write(q.event, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		}
	}
}

func (q *queue) Poll(into []device.Completion) (int, error) {
	q.net.mu.Lock()
	defer q.net.mu.Unlock()
	if len(q.hidden)+len(q.shown) > q.capacity {
		return 0, fmt.Errorf("%d completions overflow a queue for %d", len(q.hidden)+len(q.shown), q.capacity)
	}
	q.net.some()
	n := copy(into, q.shown)
	q.shown = q.shown[n:]
	return n, nil
}

func (q *queue) Arm() error {
	q.net.mu.Lock()
	defer q.net.mu.Unlock()
	q.net.some()
	q.armed = true
	return nil
}

func (q *queue) Drain() bool {
	var b [8]byte
	n, _ := unix.Read(q.event, b[:])
	return n > 0
}

func (q *queue) Descriptor() int { return q.event }

func (q *queue) Close() error {
	q.net.mu.Lock()
	defer q.net.mu.Unlock()
	for i, o := range q.net.queues {
		if o == q {
			q.net.queues = append(q.net.queues[:i], q.net.queues[i+1:]...)
			q.net.work.Broadcast()
			return unix.Close(q.event)
		}
	}
	return errors.New("a queue is closed twice")
}
