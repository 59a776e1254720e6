package squall

import (
	"sync"

	"github.com/squall-go/squall/internal/extension"
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/smc"
)

// application calls the upcalls of a subgroup, over all shards and views.
type application interface {
	multicast.Receiver
	// call runs the upcall on the caller's goroutine, while the loop delivers nothing.
	call(run []multicast.Message)
	// mark runs f once, after the upcalls of everything accepted so far. Loop.
	mark(f func())
	// idle reports whether there is nothing to wait for: mark would run f at once. Loop.
	idle() bool
	// resume offers again what the application did not take.
	resume()
	// abandon ends a call that waits until the application takes something.
	abandon()
	// close ends it when everything that it accepted is delivered, and waits for that.
	close()
}

// application makes a subgroup's upcalls out of its configuration.
func (sg SubgroupConfig) application(u *upcalls, slices *timeSlices, wake func()) application {
	p := pace{slices: slices, name: sg.Name}
	if sg.DeliverSome != nil {
		s := &some{upcall: sg.DeliverSome, maxRun: sg.maxRun(1024), pace: p, upcalls: u, wake: wake, resumed: wait.NewBell(), closed: make(chan struct{})}
		if sg.extension.Keeper != nil {
			return &keeping{s, sg.extension.Keeper}
		}
		return s
	}
	upcall := batch(sg.DeliverBatch)
	if sg.DeliverBatch == nil {
		upcall = single(sg.Deliver)
	}
	if sg.AsyncQueueBytes > 0 {
		return newQueue(max(sg.AsyncQueueBytes/2, smc.MaxMessage(sg.RingBytes)), sg.maxRun(1024), upcall, u, wake)
	}
	// Short runs stay in the processor's first cache.
	return &direct{each: sg.Deliver, upcall: upcall, pace: p, maxRun: sg.maxRun(128), upcalls: u}
}

// maxRun is how many messages are delivered at once: n, or in a Persistent subgroup all. What is
// delivered at once goes to the disk at once, and a disk takes one long write in less time than
// several short ones.
func (sg SubgroupConfig) maxRun(n int) int {
	if sg.Mode == Persistent {
		return 0
	}
	return n
}

// direct calls the application on the loop.
type direct struct {
	each    func(Message) // nil: the application has a function for batches
	upcall  func([]multicast.Message)
	pace    pace
	maxRun  int
	upcalls *upcalls
}

// single calls the application for each message.
func single(upcall func(Message)) func([]multicast.Message) {
	return func(run []multicast.Message) {
		all := messages(run)
		for i := range all {
			upcall(all[i])
		}
	}
}

// batch calls the application for each run.
func batch(upcall func([]Message)) func([]multicast.Message) {
	return func(run []multicast.Message) { upcall(messages(run)) }
}

// Deliver implements multicast.Receiver.
func (d *direct) Deliver(run []multicast.Message) (taken int) {
	d.upcalls.enter()
	if d.each == nil {
		taken = d.pace.bound(len(run))
		d.upcall(run[:taken])
		d.pace.took(taken)
	} else {
		taken = d.one(messages(run))
	}
	d.upcalls.leave()
	return taken
}

// one calls the application for each message until the slice is over, and returns for how many.
func (d *direct) one(run []Message) int {
	slice := &d.pace.slices.Slice
	for i := range run {
		d.each(run[i])
		if slice.Over() {
			d.pace.slices.overran(d.pace.name)
			return i + 1
		}
	}
	return len(run)
}

// MaxRun implements multicast.Receiver.
func (d *direct) MaxRun() int { return d.maxRun }

// call implements application. It is not on the loop.
func (d *direct) call(run []multicast.Message) { d.upcalls.run(func() { d.upcall(run) }) }

func (d *direct) mark(f func()) { f() }

func (d *direct) idle() bool { return true }

func (d *direct) resume() {}

func (d *direct) abandon() {}

func (d *direct) close() {}

// some calls an application on the loop that may have no room.
type some struct {
	upcall  func([]Message) int
	maxRun  int
	pace    pace
	upcalls *upcalls
	wake    func()    // tells the loop that there is room
	resumed wait.Bell // tells call that there is room
	closed  chan struct{}
}

// Deliver implements multicast.Receiver.
func (s *some) Deliver(run []multicast.Message) int {
	s.upcalls.enter()
	defer s.upcalls.leave()
	run = run[:s.pace.bound(len(run))]
	taken := min(max(s.upcall(messages(run)), 0), len(run))
	s.pace.took(len(run))
	return taken
}

// MaxRun implements multicast.Receiver.
func (s *some) MaxRun() int { return s.maxRun }

// resume implements application.
func (s *some) resume() {
	s.resumed.Ring()
	s.wake()
}

// call implements application. It waits until the application has taken everything, or abandon is
// called.
func (s *some) call(run []multicast.Message) {
	for {
		s.upcalls.run(func() { run = run[min(max(s.upcall(messages(run)), 0), len(run)):] })
		if len(run) == 0 {
			return
		}
		select {
		case <-s.resumed:
		case <-s.closed:
			return
		}
	}
}

func (s *some) mark(f func()) { f() }

func (s *some) idle() bool { return true }

// abandon implements application.
func (s *some) abandon() { close(s.closed) }

func (s *some) close() {}

// keeping is a some whose application keeps messages.
type keeping struct {
	*some
	keeper extension.Keeper
}

// Deliver implements multicast.Receiver: the messages are in the ring. What call has is not.
func (k *keeping) Deliver(run []multicast.Message) int {
	k.keeper.Offer()
	return k.some.Deliver(run)
}

// Kept implements multicast.Keeper.
func (k *keeping) Kept() order.Seq { return order.Seq(k.keeper.Kept()) }

// LetGo implements multicast.Keeper.
func (k *keeping) LetGo() { k.keeper.LetGo() }

// queue copies messages for a goroutine that calls the application.
//
// It is two buffers: the loop fills one while the application reads the other. They change places
// when the application is done with its own.
type queue struct {
	wake    func() // tells the loop that there is room again
	maxRun  int
	upcall  func([]multicast.Message)
	upcalls *upcalls
	done    chan struct{}

	mu      sync.Mutex
	changed sync.Cond
	filling buffer
	refused bool // the loop has more than there was room for
	calling bool // the application has the other buffer
	closed  bool
}

// buffer is a run of messages whose data lies in one piece of memory, but for the bodies of large
// ones, with marks between them.
type buffer struct {
	run    []multicast.Message
	data   []byte
	bodies int // bytes of the bodies that it holds
	marks  []mark
}

// keep puts a message after the others if there is room. A large one that has more than all the
// room may be alone.
func (b *buffer) keep(m multicast.Message) bool {
	alone := m.Body() != nil && len(b.run) == 0
	if len(b.run) == maxQueued || !alone && len(b.data)+b.bodies+len(m.Data) > cap(b.data) {
		return false
	}
	if body := m.Body(); body != nil {
		body.Hold()
		b.bodies += len(body.Data)
	} else {
		start := len(b.data)
		b.data = append(b.data, m.Data...)
		m.Data = b.data[start:len(b.data):len(b.data)]
	}
	b.run = append(b.run, m)
	return true
}

// release ends the hold on bodies.
func (b *buffer) release() {
	if b.bodies == 0 {
		return
	}
	for _, m := range b.run {
		if body := m.Body(); body != nil {
			body.Release()
		}
	}
}

// mark is a function that is due when so many messages of its buffer were delivered.
type mark struct {
	at int
	f  func()
}

// deliver calls the application, and marks where they lie.
func (b *buffer) deliver(upcall func([]multicast.Message)) {
	from := 0
	for _, m := range b.marks {
		if m.at > from {
			upcall(b.run[from:m.at])
			from = m.at
		}
		m.f()
	}
	if from < len(b.run) {
		upcall(b.run[from:])
	}
}

// maxQueued bounds the messages of a buffer, which also take room when they are empty.
const maxQueued = 64 << 10

func newQueue(bytes, maxRun int, upcall func([]multicast.Message), u *upcalls, wake func()) *queue {
	q := &queue{wake: wake, maxRun: maxRun, upcall: upcall, upcalls: u, done: make(chan struct{}), filling: buffer{data: make([]byte, 0, bytes)}}
	q.changed.L = &q.mu
	go q.serve(buffer{data: make([]byte, 0, bytes)})
	return q
}

// Deliver implements multicast.Receiver: it takes what there is room for.
func (q *queue) Deliver(run []multicast.Message) (taken int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range run {
		if !q.filling.keep(m) {
			q.refused = true
			break
		}
		taken++
	}
	if taken > 0 {
		q.changed.Signal()
	}
	return taken
}

// MaxRun implements multicast.Receiver.
func (q *queue) MaxRun() int { return q.maxRun }

// serve calls the application until the queue is closed and empty.
func (q *queue) serve(reading buffer) {
	defer close(q.done)
	q.upcalls.run(func() { q.deliverAll(reading) })
}

func (q *queue) deliverAll(reading buffer) {
	for {
		q.mu.Lock()
		q.calling = false
		for len(q.filling.run) == 0 && len(q.filling.marks) == 0 && !q.closed {
			q.changed.Wait()
		}
		reading, q.filling = q.filling, buffer{run: reading.run[:0], data: reading.data[:0]}
		refused := q.refused
		q.refused, q.calling = false, true
		q.mu.Unlock()
		if refused {
			q.wake()
		}
		if len(reading.run) == 0 && len(reading.marks) == 0 {
			return
		}
		reading.deliver(q.upcall)
		reading.release()
	}
}

// call implements application. It is not on the loop.
func (q *queue) call(run []multicast.Message) { q.upcalls.run(func() { q.upcall(run) }) }

// mark implements application. Marks take no room: they are as few as views and confirmation
// rounds.
func (q *queue) mark(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.filling.marks = append(q.filling.marks, mark{len(q.filling.run), f})
	q.changed.Signal()
}

// idle implements application.
func (q *queue) idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.calling && len(q.filling.run) == 0 && len(q.filling.marks) == 0
}

// resume implements application: a queue's application takes everything.
func (q *queue) resume() {}

func (q *queue) abandon() {}

// close ends the goroutine when everything is delivered, and waits for it.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.changed.Signal()
	q.mu.Unlock()
	<-q.done
}
