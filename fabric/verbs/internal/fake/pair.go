//go:build linux

package fake

import (
	"errors"
	"slices"
	"unsafe"

	"github.com/squall-go/squall/fabric/verbs/device"
)

type state uint8

const (
	made state = iota
	connected
	failed
	closed
)

// pair is a queue pair.
type pair struct {
	net    *Network
	domain *domain
	queue  *queue
	number uint32
	peer   uint32
	psn    uint32
	from   uint32 // of the peer
	state  state
	silent int         // steps in which the peer did not answer
	posted int         // requests in all
	cut    func() bool // whether nothing gets through to the peer; nil: it does

	capacity device.Capacity
	requests []*request
	receives []device.Receive
}

// request is one in the send queue.
type request struct {
	device.Work
	inline []byte
	pieces []piece // of a write
}

// piece is a part of a write. It is read and placed at any time, and perhaps again.
type piece struct {
	off, n int
	read   []byte // what was read, and is not placed yet
	placed bool
}

func (d *domain) Pair(q device.Queue, c device.Capacity) (device.Pair, error) {
	d.net.mu.Lock()
	defer d.net.mu.Unlock()
	p := &pair{net: d.net, domain: d, queue: q.(*queue), capacity: c, psn: d.net.random.Uint32() & 0xffffff}
	if last := len(d.net.unused) - 1; last >= 0 {
		p.number, d.net.unused = d.net.unused[last], d.net.unused[:last]
	} else {
		d.net.number++
		p.number = d.net.number
	}
	d.pairs++
	d.net.pairs = append(d.net.pairs, p)
	return p, nil
}

func (p *pair) Endpoint() device.Endpoint { return device.Endpoint{Number: p.number, PSN: p.psn} }

func (p *pair) Connect(peer device.Endpoint) error {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	if p.state != made {
		return errors.New("a pair is connected twice")
	}
	p.state, p.peer, p.from = connected, peer.Number, peer.PSN
	return nil
}

func (p *pair) Post(receives []device.Receive, work []device.Work) error {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	defer p.net.work.Broadcast()
	if len(p.receives)+len(receives) > p.capacity.Receives || len(p.requests)+len(work) > p.capacity.Requests {
		return errors.New("a queue of a pair overflows")
	}
	if p.state == closed || p.state == made && len(work) > 0 {
		return errors.New("the pair is not connected")
	}
	p.receives = append(p.receives, receives...)
	for _, w := range work {
		r, err := p.request(w)
		if err != nil {
			return err
		}
		p.requests = append(p.requests, r)
		p.posted++
	}
	if p.state == failed {
		p.flush()
	}
	return nil
}

func (p *pair) request(w device.Work) (*request, error) {
	r := &request{Work: w}
	if w.Bytes > mostBytes || w.Inline && int(w.Bytes) > p.capacity.InlineBytes {
		return nil, errors.New("a request is too long")
	}
	if w.Inline { // the device reads the address itself
		r.inline = slices.Clone(unsafe.Slice((*byte)(pointer(w.Local)), w.Bytes))
	}
	for off := 0; w.Kind == device.Write && off < int(w.Bytes); {
		n := min(1+p.net.random.IntN(int(w.Bytes)), int(w.Bytes)-off)
		r.pieces = append(r.pieces, piece{off: off, n: n})
		off += n
	}
	return r, nil
}

// pointer is that of an address.
func pointer(address uint64) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

// Close ends the pair. What was posted completes as flushed.
func (p *pair) Close() error {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	if p.state == closed {
		return errors.New("a pair is closed twice")
	}
	p.flush()
	p.end()
	return nil
}

func (p *pair) end() {
	p.state = closed
	p.domain.pairs--
	p.net.pairs = slices.DeleteFunc(p.net.pairs, func(o *pair) bool { return o == p })
	p.net.unused = append(p.net.unused, p.number)
	p.net.work.Broadcast()
}

// flush ends everything that was posted.
func (p *pair) flush() {
	for _, r := range p.requests {
		p.queue.add(device.Completion{ID: r.ID, Pair: p.number, Status: flushed})
	}
	for _, r := range p.receives {
		p.queue.add(device.Completion{ID: r.ID, Pair: p.number, Status: flushed})
	}
	p.requests, p.receives = nil, nil
}

// fail ends the oldest request with a status, and the pair.
func (p *pair) fail(status uint32) {
	if p.state == failed {
		return
	}
	p.state = failed
	if len(p.requests) > 0 {
		p.queue.add(device.Completion{ID: p.requests[0].ID, Pair: p.number, Status: status})
		p.requests = p.requests[1:]
	}
	p.flush()
}

// other is the pair at the other end, or nil if that is gone.
func (p *pair) other() *pair {
	for _, o := range p.net.pairs {
		if o.number == p.peer && o.psn == p.from {
			return o
		}
	}
	return nil
}

func (p *pair) step() {
	if p.state != connected {
		return
	}
	if p.net.opts.BreakOneIn > 0 && p.net.oneIn(p.net.opts.BreakOneIn) {
		p.fail(noAnswer)
		return
	}
	p.scribble()
	if len(p.requests) == 0 {
		return
	}
	o := p.other()
	if o == nil || o.state == failed {
		if p.silent++; p.silent > 20 && !p.net.opts.Patient {
			p.fail(noAnswer)
		}
		return
	}
	if o.state != connected || o.peer != p.number || p.cut != nil && p.cut() {
		return
	}
	for range 1 + p.net.random.IntN(8) {
		if len(p.requests) > 0 && !p.place(o, p.requests[p.net.random.IntN(len(p.requests))]) {
			return
		}
	}
	for len(p.requests) > 0 && !p.net.oneIn(4) && p.retire(o) {
	}
}

// scribble writes into the receive buffer that is used next, as a device may that receives a
// message in pieces.
func (p *pair) scribble() {
	if len(p.receives) == 0 || !p.net.oneIn(8) {
		return
	}
	r := p.receives[0]
	if mem, ok := p.domain.find(r.Key, r.Local, r.Bytes, receives); ok {
		for i := range mem[:1+p.net.random.IntN(len(mem))] {
			mem[i] = 0xdb
		}
	}
}

// place reads or places some piece of a write. It reports false if that failed.
func (p *pair) place(o *pair, r *request) bool {
	if len(r.pieces) == 0 {
		return true
	}
	c := &r.pieces[p.net.random.IntN(len(r.pieces))]
	from, fine := p.domain.find(r.LocalKey, r.Local, r.Bytes, readable)
	if !fine {
		p.fail(badLocal)
		return false
	}
	to, fine := o.domain.find(r.RemoteKey, r.Remote, r.Bytes, remotely)
	if !fine {
		p.fail(badRemote)
		o.fail(flushed)
		return false
	}
	if c.read == nil && p.net.oneIn(4) {
		c.read = slices.Clone(from[c.off : c.off+c.n])
		return true
	}
	if c.read != nil {
		copy(to[c.off:], c.read)
		c.read = nil
	} else {
		copy(to[c.off:c.off+c.n], from[c.off:])
	}
	c.placed = true
	return true
}

// retire ends the oldest request if it is done: a write when it is in place, and then a message. It
// reports whether it did.
func (p *pair) retire(o *pair) bool {
	r := p.requests[0]
	for i := range r.pieces {
		if !r.pieces[i].placed || r.pieces[i].read != nil {
			p.place(o, &request{Work: r.Work, pieces: r.pieces[i : i+1]})
			return false
		}
	}
	if r.Kind == device.Send {
		if p.net.opts.SlowSends && !p.net.oneIn(16) || !p.deliver(o, r) {
			return false
		}
	}
	p.requests = p.requests[1:]
	if r.Signalled {
		p.queue.add(device.Completion{ID: r.ID, Pair: p.number})
	}
	return true
}

// deliver puts a message into the first receive of the peer.
func (p *pair) deliver(o *pair, r *request) bool {
	from, fine := r.inline, true
	if !r.Inline {
		from, fine = p.domain.find(r.LocalKey, r.Local, r.Bytes, readable)
	}
	if !fine {
		p.fail(badLocal)
		return false
	}
	if len(o.receives) == 0 {
		p.fail(noReceive)
		return false
	}
	into := o.receives[0]
	to, fine := o.domain.find(into.Key, into.Local, into.Bytes, receives)
	if !fine || len(from) > len(to) {
		p.fail(badRemote)
		o.fail(badLocal)
		return false
	}
	o.receives = o.receives[1:]
	copy(to, from)
	o.queue.add(device.Completion{ID: into.ID, Pair: o.number, Bytes: uint32(len(from))})
	return true
}
