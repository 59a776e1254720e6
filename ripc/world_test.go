package ripc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/ripc/internal/pair"
)

// This file compares what services of three endpoints do with a model of it: one goroutine draws
// operations from a seed, and knows what each of them has to return. After each operation it waits
// until all that was sent is taken, and audits the endpoints.

// names is a resolver for endpoints of one process.
type names struct {
	mu sync.Mutex
	at map[ID]Place
}

func (n *names) Resolve(_ context.Context, id ID) (Place, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if at, ok := n.at[id]; ok {
		return at, nil
	}
	return Place{}, fmt.Errorf("%w: %s", ErrNoService, id)
}

func (n *names) Publish(_ context.Context, id ID, at Place) (func() error, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.at[id] = at
	return func() error {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.at, id)
		return nil
	}, nil
}

const (
	worldRing   = pair.MinRingBytes
	worldMax    = worldRing/4 - pair.HeaderBytes // the longest message
	worldWindow = worldRing / 2
	worldBudget = 9 << 10 // of an endpoint, for bodies
	worldBodies = 5 << 10 // of a service
)

type world struct {
	t       *testing.T
	rng     *rand.Rand
	cfg     Config
	direct  bool
	file    string
	names   names
	ends    [3]*end
	open    []*service
	closed  []*service
	held    []*holding
	calls   []*calling
	serial  int
	history []string
}

// end is an endpoint of the world.
type end struct {
	e            *Endpoint
	bodies       int // charged
	calls, again uint64
	refused      uint64
}

// service is a service of the world, until it is closed.
type service struct {
	end    *end
	s      *Service
	id     ID
	isOpen bool
	order  []*item // what was sent to it and not received
	routes map[*service]bool
	gone   map[ID]*GoneError // what the next message to a service has to return
	posted []*Window
	bodies int // charged
	mu     sync.Mutex
	notes  map[uint64]string // by key, the last one
}

// item is a message, or a request if it has a call.
type item struct {
	from, to *service
	data     []byte
	body     []byte
	isLong   bool
	call     *calling
	back     bool // it was sent to Message.Sender
	charged  bool
	inPlace  bool
	window   *Window
}

func (i *item) frame() int {
	if i.isLong {
		return 0
	}
	return pair.FrameBytes(len(i.data))
}

// holding is a message that the application has.
type holding struct {
	*item
	m      Message
	of     *service // that received it
	isOpen bool     // a request that was not answered
}

// calling is a call that was not answered.
type calling struct {
	from, to *service
	into     []byte
	isLong   bool
	once     bool // its body cannot be sent again
	cancel   context.CancelFunc
	done     chan struct{}
	m        Message
	err      error
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	for _, line := range w.history[max(0, len(w.history)-40):] {
		w.t.Log(line)
	}
	w.t.Fatalf(format, args...)
}

func (w *world) check(ok bool, format string, args ...any) {
	w.t.Helper()
	if !ok {
		w.fail(format, args...)
	}
}

func (w *world) log(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf(format, args...))
}

// until has all endpoints look at their peers until something holds.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); runtime.Gosched() {
		for _, n := range w.ends {
			if n == nil {
				continue
			}
			n.e.lock()
			if !n.e.closed && (n.e.role.Poller() == nil || n.e.role.IsAsleep()) {
				n.e.heatStirred()
				n.e.step()
			}
			n.e.unlock()
		}
		if time.Now().After(end) {
			w.fail("this does not end: %s", what)
		}
	}
}

// do runs what may wait for a peer.
func (w *world) do(what string, f func()) {
	w.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	w.until(what, func() bool { return isClosed(done) })
}

// settle waits until all that was sent is taken, and compares the endpoints with the model.
func (w *world) settle() {
	w.t.Helper()
	w.until("what is sent is taken", func() bool {
		var sent, taken, peers, waits uint64
		for _, n := range w.ends {
			if n == nil {
				continue
			}
			n.e.lock()
			for _, p := range n.e.peers {
				frames, size := p.send.total()
				sent += frames + size<<20
				frames, size = p.rx.Total()
				taken += frames + size<<20
				waits += uint64(p.answers.Len() + p.long.fetchers + len(p.long.toFetch))
				peers++
			}
			n.e.unlock()
			if !slices.ContainsFunc(w.calls, func(c *calling) bool { return c.isLong }) { // which keep theirs
				waits += uint64(n.e.Buffers())
			}
		}
		return sent == taken && peers%2 == 0 && waits == 0
	})
	all := true
	for _, h := range w.held {
		h.m.service.e.lock()
		all = all && !h.m.peer.ended()
		h.m.service.e.unlock()
	}
	for _, s := range w.open {
		for _, i := range s.order {
			all = all && i.from.end.e != nil && !i.from.end.e.isClosing()
		}
	}
	for k, n := range w.ends {
		if n == nil {
			continue
		}
		if err := n.e.audit(all); err != nil {
			w.fail("endpoint %d: %v", k, err)
		}
		s := n.e.Stats()
		w.check(s.Calls == n.calls && s.CallsAgain == n.again, "endpoint %d made %d calls, %d again; counted are %d and %d", k, n.calls, n.again, s.Calls, s.CallsAgain)
		w.check(s.Refused == n.refused, "endpoint %d refused %d, counted are %d", k, n.refused, s.Refused)
		services, calls, kept, found := 0, 0, 0, 0
		for _, o := range w.open {
			if o.end == n {
				services++
				kept += len(o.order)
				n.e.lock()
				w.check(o.s.queue.len() == len(o.order), "%s has %d messages, it has to have %d", o.id, o.s.queue.len(), len(o.order))
				w.check(o.s.long.places.Windows() == len(o.posted), "%s has %d windows, it has to have %d", o.id, o.s.long.places.Windows(), len(o.posted))
				n.e.unlock()
			}
		}
		for _, c := range w.calls {
			if c.from.end == n {
				calls++
			}
		}
		for _, h := range w.held {
			if h.of.end == n && h.m.frame != nil {
				kept++
			}
		}
		n.e.lock()
		open := 0
		for _, p := range n.e.peers {
			open += p.calls.Open()
			found += p.life.Kept()
		}
		used := n.e.memory.budget.Used()
		n.e.unlock()
		w.check(s.Services == services, "endpoint %d has %d services, it has to have %d", k, s.Services, services)
		w.check(open == calls, "endpoint %d has %d calls, it has to have %d", k, open, calls)
		w.check(!all || found == kept, "endpoint %d has %d messages, it has to have %d", k, found, kept)
		w.check(used == int64(n.bodies), "endpoint %d has bodies of %d bytes, they have to have %d", k, used, n.bodies)
	}
}

// fresh returns bytes that no message had before, as far as they have room for it.
func (w *world) fresh(size int) []byte {
	w.serial++
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(w.serial >> (8 * (i % 3)) * (1 + i/64))
	}
	return b
}

// parts cuts bytes into parts.
func (w *world) parts(b []byte) (parts [][]byte) {
	for len(b) > 0 && w.rng.IntN(3) > 0 {
		n := w.rng.IntN(len(b) + 1)
		parts, b = append(parts, b[:n]), b[n:]
	}
	return append(parts, b)
}

// size draws the size of a message.
func (w *world) size() int {
	switch w.rng.IntN(8) {
	case 0:
		return 0
	case 1:
		return worldMax
	case 2:
		return worldMax + 1 + w.rng.IntN(100)
	}
	return w.rng.IntN(300)
}

func (w *world) openEnd(k int) {
	cfg := w.cfg
	cfg.Long.InPlace = w.rng.IntN(2) == 0
	e, err := Open(w.t.Context(), cfg)
	if errors.Is(err, errors.ErrUnsupported) {
		w.t.Skip(err)
	}
	must(w.t, err)
	w.ends[k] = &end{e: e}
	for i := range 2 {
		w.register(w.ends[k], ID(fmt.Sprint("service ", 2*k+i)))
	}
}

func (w *world) register(n *end, id ID) {
	s, err := n.e.Register(w.t.Context(), id)
	must(w.t, err)
	o := &service{end: n, s: s, id: id, isOpen: true, routes: map[*service]bool{}, gone: map[ID]*GoneError{}, notes: map[uint64]string{}}
	s.OnNotify(func(from ID, key uint64, data []byte) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.notes[key] = fmt.Sprint(from, " ", string(data))
	})
	if w.rng.IntN(3) == 0 {
		s.CopyMessages()
	}
	w.open = append(w.open, o)
}

// two draws a service, and one of another endpoint, which may be closed.
func (w *world) two() (from, to *service) {
	from = w.open[w.rng.IntN(len(w.open))]
	others := slices.DeleteFunc(slices.Concat(w.open, w.closed), func(o *service) bool { return o.end == from.end })
	if len(others) == 0 {
		return nil, nil
	}
	return from, others[w.rng.IntN(len(others))]
}

// expect compares the error of a call that sends with what the sender has to be told first. It
// reports whether the message can have been sent.
func (w *world) expect(from, to *service, err error) bool {
	w.t.Helper()
	if want := from.gone[to.id]; want != nil {
		delete(from.gone, to.id)
		got, ok := errors.AsType[*GoneError](err)
		w.check(ok && got.Service == to.id && got.Unreceived == want.Unreceived && got.Exact == want.Exact, "%s to %s: %v, it has to be %v", from.id, to.id, err, want)
		return false
	}
	if !to.isOpen {
		w.check(errors.Is(err, ErrNoService), "%s to %s, which is nowhere: %v", from.id, to.id, err)
		return false
	}
	from.routes[to] = true
	return true
}

// inWindow is how much of the window from one service to another one is used.
func (w *world) inWindow(from, to *service) (n int) {
	for _, i := range to.order {
		if i.from == from && !i.back {
			n += i.frame()
		}
	}
	for _, h := range w.held {
		if h.from == from && h.of == to && !h.back && h.m.frame != nil {
			n += h.frame()
		}
	}
	return n
}

// inRing is how much of the ring between two endpoints the application keeps there.
func (w *world) inRing(from, to *end) (n int) {
	for _, h := range w.held {
		if h.from.end == from && h.of.end == to {
			n += pair.FrameBytes(len(h.data))
		}
	}
	for _, o := range w.open {
		for _, i := range o.order {
			if i.from.end == from && o.end == to {
				n += pair.FrameBytes(len(i.data))
			}
		}
	}
	return n
}

func (w *world) send() {
	from, to := w.two()
	if from == nil {
		return
	}
	data := w.fresh(w.size())
	r := from.s.To(to.id)
	used := w.inWindow(from, to)
	try := w.rng.IntN(2) == 0 && from.routes[to] && to.isOpen
	fits := used+pair.FrameBytes(len(data)) <= worldWindow
	w.log("send %s -> %s %d try=%v used=%d", from.id, to.id, len(data), try, used)
	var err error
	switch {
	case try:
		err = from.s.TrySend(r, w.parts(data)...)
		if errors.Is(err, ErrFull) {
			w.check(w.inRing(from.end, to.end) > 0 || used > 0, "there is no space, and nothing is sent")
			return
		}
	case !fits && to.isOpen && len(data) <= worldMax && from.gone[to.id] == nil:
		ctx, cancel := context.WithCancelCause(w.t.Context())
		why := errors.New("it is not wanted any more")
		done := make(chan struct{})
		go func() {
			defer close(done)
			err = from.s.Send(ctx, r, w.parts(data)...)
		}()
		w.until("a send waits", func() bool { return isClosed(done) || w.waiting(from.end) > 0 })
		cancel(why)
		w.until("a send is given up", func() bool { return isClosed(done) })
		w.check(errors.Is(err, why), "a send that was given up: %v", err)
		from.routes[to] = true
		return
	case w.inRing(from.end, to.end) > worldRing/4 && !fits:
		return
	case w.inRing(from.end, to.end) > worldRing/4 && to.isOpen:
		return
	default:
		w.do("a send", func() { err = from.s.Send(w.t.Context(), r, w.parts(data)...) })
	}
	if !w.expect(from, to, err) {
		return
	}
	if len(data) > worldMax {
		w.check(errors.Is(err, ErrTooLarge), "%d bytes: %v", len(data), err)
		return
	}
	w.check(err == nil, "%v", err)
	w.check(fits, "a message found room where there is none")
	w.check(r.MaxMessage() == worldMax && r.Connected() && r.ID() == to.id, "%s is not known: %d", r.ID(), r.MaxMessage())
	to.order = append(to.order, &item{from: from, to: to, data: data})
}

// waiting is how many senders of an endpoint wait for space.
func (w *world) waiting(n *end) (count int) {
	n.e.lock()
	defer n.e.unlock()
	for _, p := range n.e.peers {
		count += p.send.room.Len()
	}
	return count
}

func (w *world) call() {
	from, to := w.two()
	if from == nil {
		return
	}
	data := w.fresh(w.size())
	if to.isOpen && (w.inWindow(from, to)+pair.FrameBytes(len(data)) > worldWindow || w.inRing(from.end, to.end) > worldRing/4) {
		return
	}
	w.log("call %s -> %s %d", from.id, to.id, len(data))
	ctx, cancel := context.WithCancel(w.t.Context())
	c := &calling{from: from, to: to, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.m, c.err = from.s.Call(ctx, from.s.To(to.id), w.parts2(data)...)
	}()
	w.begun(c, &item{from: from, to: to, data: data, call: c}, len(data) <= worldMax, ErrTooLarge)
}

func (w *world) parts2(b []byte) [][]byte { return [][]byte{b[:len(b)/2], b[len(b)/2:]} }

// begun waits until a call has its request received or is over, and says what has to have happened.
func (w *world) begun(c *calling, i *item, goes bool, otherwise error) {
	from, to := c.from, c.to
	before := len(to.order)
	w.until("a request comes", func() bool {
		if isClosed(c.done) {
			return true
		}
		to.end.e.lock()
		defer to.end.e.unlock()
		return to.isOpen && to.s.queue.len() > before
	})
	over := isClosed(c.done)
	if over {
		c.cancel()
		if !w.expect(from, to, c.err) {
			return
		}
	} else {
		w.check(to.isOpen && from.gone[to.id] == nil, "a call of %s went on: %v", to.id, from.gone[to.id])
		from.routes[to] = true
	}
	if !goes {
		w.check(over && errors.Is(c.err, otherwise), "a call that has to end with %v: %v, %v", otherwise, over, c.err)
		return
	}
	w.check(!over, "a call of %s ended: %v", to.id, c.err)
	if !i.isLong {
		from.end.calls++
	}
	to.order = append(to.order, i)
	w.calls = append(w.calls, c)
}

// receive has a service receive a message.
func (w *world) receive() {
	o := w.open[w.rng.IntN(len(w.open))]
	if len(o.order) == 0 {
		_, ok := o.s.TryReceive()
		w.check(!ok, "%s received a message that was not sent", o.id)
		return
	}
	var m Message
	var err error
	if w.rng.IntN(2) == 0 {
		w.do("a receive", func() { m, err = o.s.Receive(w.t.Context()) })
	} else {
		w.until("a message", func() (ok bool) { m, ok = o.s.TryReceive(); return ok })
	}
	w.check(err == nil, "%v", err)
	i := o.order[0]
	o.order = o.order[1:]
	w.log("receive %s <- %s %d long=%v request=%v", o.id, i.from.id, len(i.data), i.isLong, i.call != nil)
	h := &holding{item: i, m: m, of: o, isOpen: i.call != nil}
	w.verify(h, &h.m)
	w.check(m.From() == i.from.id && m.IsRequest() == h.isOpen, "a message of %s (request: %v), it has to be of %s", m.From(), m.IsRequest(), i.from.id)
	w.check(m.MaxReply() == worldMax && m.Account() != "", "a reply may have %d bytes", m.MaxReply())
	switch p := m.Peer(); {
	case w.direct:
		w.check(p.Process == os.Getpid() && p.User == os.Getuid() && p.Addr == "" && m.Identity() == "", "it comes from %+v", p)
	default:
		w.check(p.Process == 0 && p.User == -1 && p.Addr != "", "it comes from %+v", p)
	}
	if i.call != nil && i.isLong {
		w.check(m.ReturnSize() == int64(len(i.call.into)), "a return buffer of %d bytes, it has %d", m.ReturnSize(), len(i.call.into))
	}
	w.held = append(w.held, h)
	if w.rng.IntN(3) > 0 {
		w.finish(len(w.held) - 1)
	}
}

// verify compares a message with what was sent.
func (w *world) verify(h *holding, m *Message) {
	w.t.Helper()
	w.check(bytes.Equal(m.Data, h.data), "%d bytes %.20x, they have to be %d: %.20x", len(m.Data), m.Data, len(h.data), h.data)
	w.check(m.BodySize() == int64(len(h.body)) && bytes.Equal(m.Body(), h.body), "a body of %d bytes, it has to have %d", m.BodySize(), len(h.body))
	w.check(m.InPlace() == h.inPlace, "the body is in place: %v", m.InPlace())
	w.check(m.Window() == h.window, "the body is in window %p, it has to be in %p", m.Window(), h.window)
}

// finish gives a message back, and answers it before or afterwards if it is a request.
func (w *world) finish(k int) {
	h := w.held[k]
	if h.m.frame != nil {
		w.verify(h, &h.m)
	}
	if h.isOpen && w.rng.IntN(4) == 0 && h.m.frame != nil { // it is answered later
		h.m.Free()
		w.free(h)
		w.log("free a request of %s", h.from.id)
		return
	}
	w.held = slices.Delete(w.held, k, k+1)
	if h.isOpen {
		w.answer(h)
	} else {
		w.check(h.m.Reply(nil) != nil, "a message was answered that is no request, or twice")
	}
	had := h.m.frame != nil
	h.m.Release()
	h.m.Release()
	if had {
		w.free(h)
	}
}

// free takes in that a message was given back.
func (w *world) free(h *holding) {
	if h.charged {
		h.charged = false
		h.of.bodies -= len(h.body)
		h.of.end.bodies -= len(h.body)
	}
}

// answer answers a request, and compares what its call returns.
func (w *world) answer(h *holding) {
	c := h.call
	waits := slices.Contains(w.calls, c)
	reply := w.fresh(w.rng.IntN(worldMax + 1))
	refused := ""
	var long *item
	var err error
	switch kind := w.rng.IntN(6); {
	case kind == 0:
		refused = fmt.Sprint("reason ", w.serial)
		err = h.m.Refuse(refused)
	case kind == 1 && h.m.frame != nil:
		refused = "the service did not answer"
		h.m.Release()
		w.free(h)
	case kind == 2:
		err := h.m.Reply(make([]byte, worldMax+1))
		w.check(errors.Is(err, ErrTooLarge) && h.m.IsRequest(), "a long reply: %v", err)
		fallthrough
	case kind < 5 || h.of.end.e.isClosing():
		err = h.m.Reply(w.parts(reply)...)
	default:
		long = w.answerLong(h, c, waits)
	}
	w.check(err == nil, "an answer: %v", err)
	w.check(!h.m.IsRequest() && h.m.Refuse("again") != nil, "a request is answered twice")
	w.log("answer a call of %s by %s: %d bytes, refused %q, long %v, waits %v", h.from.id, h.of.id, len(reply), refused, long != nil, waits)
	if !waits {
		return
	}
	w.calls = slices.DeleteFunc(w.calls, func(o *calling) bool { return o == c })
	w.until("a call is answered", func() bool { return isClosed(c.done) })
	c.cancel()
	switch {
	case refused != "":
		w.check(errors.Is(c.err, ErrRefused) && bytes.Contains([]byte(c.err.Error()), []byte(refused)), "a call that was refused: %v", c.err)
	case long != nil && long.to == nil: // it has no place
		w.check(errors.Is(c.err, ErrNoWindow) || errors.Is(c.err, ErrTooLarge), "a reply without a place: %v", c.err)
	default:
		w.check(c.err == nil, "a call: %v", c.err)
		i := &item{from: h.of, to: c.from, data: reply}
		if long != nil {
			i = long
		}
		r := &holding{item: i, m: c.m, of: c.from}
		w.verify(r, &r.m)
		w.check(c.m.From() == h.of.id, "a reply of %s", c.m.From())
		w.held = append(w.held, r)
		if w.rng.IntN(2) == 0 {
			w.finish(len(w.held) - 1)
		}
	}
}

// answerLong answers with a body. What it returns is for nobody if the reply has no place.
func (w *world) answerLong(h *holding, c *calling, waits bool) *item {
	i := &item{from: h.of, data: w.fresh(w.rng.IntN(100)), body: w.fresh(w.rng.IntN(worldBodies + 100)), isLong: true}
	if c.into != nil && w.rng.IntN(2) == 0 {
		i.body = i.body[:min(len(i.body), len(c.into))]
	}
	var err error
	w.do("a long reply", func() { err = h.m.ReplyLong(w.t.Context(), NewBody(i.body), i.data) })
	if !waits {
		h.m.kind = pair.Message // a reply for nobody may be an error, and is refused then
		return i
	}
	switch {
	case len(i.body) > 0 && len(i.body) <= len(c.into):
		i.to = c.from
		w.until("a call is answered", func() bool { return isClosed(c.done) })
		if c.err == nil {
			w.check(&c.m.Body()[0] == &c.into[0], "a reply is not in its return buffer")
			i.window = c.m.Window()
		}
	case w.place(c.from, i) == nil:
		i.to = c.from
	default:
		w.check(w.direct || err != nil, "a reply that has no place: %v", err)
		return i
	}
	w.check(err == nil, "a long reply: %v", err)
	return i
}

// place finds a place for a body as a service has to, and returns why there is none.
func (w *world) place(o *service, i *item) error {
	n := len(i.body)
	if n == 0 {
		return nil
	}
	charge := func() bool {
		if n > worldBudget-o.end.bodies || n > worldBodies-o.bodies {
			return false
		}
		o.bodies += n
		o.end.bodies += n
		i.charged = true
		return true
	}
	fits := n <= worldBodies
	if w.direct && o.s.long.places.Rules().InPlace && fits && charge() {
		i.inPlace = true
		return nil
	}
	if k := slices.IndexFunc(o.posted, func(p *Window) bool { return int(p.size) >= n }); k >= 0 {
		i.window = o.posted[k]
		o.posted = slices.Delete(o.posted, k, k+1)
		return nil
	}
	switch {
	case !fits:
		return ErrTooLarge
	case charge():
		return nil
	}
	return ErrNoWindow
}

// body makes a body of bytes in one of the ways there are.
func (w *world) body(from *service, b []byte) (body Body, release func()) {
	switch kind := w.rng.IntN(5); {
	case kind == 0 && len(b) > 0:
		m, err := from.end.e.Alloc(len(b) + 5)
		must(w.t, err)
		copy(m.Bytes()[3:], b)
		_, err = m.Part(3, len(b)+3)
		w.check(errors.Is(err, os.ErrInvalid), "a part beyond the end of a buffer: %v", err)
		body, err = m.Part(3, len(b))
		must(w.t, err)
		return body, m.Release
	case kind == 1 && len(b) > 0:
		m, err := from.end.e.Alloc(len(b))
		must(w.t, err)
		copy(m.Bytes(), b)
		return m.Body(), m.Release
	case kind == 2:
		return NewReaderBody(bytes.NewReader(b), int64(len(b))), func() {}
	case kind == 3:
		must(w.t, os.WriteFile(w.file, slices.Concat([]byte("xyz"), b, []byte("end")), 0o600))
		f, err := os.Open(w.file)
		must(w.t, err)
		return NewFileBody(f, 3, int64(len(b))), func() { f.Close() }
	}
	return NewBody(b), func() {}
}

// sendLong sends a long message, or calls with one.
func (w *world) sendLong() {
	from, to := w.two()
	if from == nil {
		return
	}
	longs := 0
	for _, i := range to.order {
		if i.isLong && i.from == from {
			longs++
		}
	}
	for _, h := range w.held {
		if h.isLong && h.from == from && h.of == to && h.m.frame != nil {
			longs++
		}
	}
	if longs >= pair.OpenLong || w.inRing(from.end, to.end) > worldRing/4 {
		return
	}
	i := &item{from: from, to: to, isLong: true, data: w.fresh(w.rng.IntN(200)), body: w.fresh(w.rng.IntN(worldBodies / 2))}
	switch w.rng.IntN(8) {
	case 0:
		i.body = nil
	case 1:
		i.body = w.fresh(worldBodies + w.rng.IntN(2))
	}
	body, release := w.body(from, i.body)
	var why error
	if to.isOpen && from.gone[to.id] == nil {
		why = w.place(to, i)
	}
	r := from.s.To(to.id)
	if w.rng.IntN(3) == 0 {
		ctx, cancel := context.WithCancel(w.t.Context())
		c := &calling{from: from, to: to, isLong: true, once: !body.isRepeatable(), cancel: cancel, done: make(chan struct{})}
		if w.rng.IntN(2) == 0 {
			c.into = make([]byte, 1+w.rng.IntN(worldBodies))
		}
		i.call = c
		w.log("call long %s -> %s %d into %d: %v", from.id, to.id, len(i.body), len(c.into), why)
		go func() {
			defer close(c.done)
			defer release()
			c.m, c.err = from.s.CallLong(ctx, r, c.into, body, i.data)
		}()
		w.begun(c, i, why == nil, why)
		return
	}
	w.log("send long %s -> %s %d: %v", from.id, to.id, len(i.body), why)
	var err error
	defer release()
	w.do("a long message", func() { err = from.s.SendLong(w.t.Context(), r, body, w.parts(i.data)...) })
	if !w.expect(from, to, err) {
		return
	}
	if why != nil {
		w.check(errors.Is(err, why), "a long message has to be refused with %v: %v", why, err)
		return
	}
	w.check(err == nil, "a long message: %v", err)
	to.order = append(to.order, i)
}

func (w *world) post() {
	o := w.open[w.rng.IntN(len(w.open))]
	if len(o.posted) > 3 {
		return
	}
	n := NewWindow(make([]byte, 1+w.rng.IntN(2*worldBodies)))
	must(w.t, o.s.Post(n))
	o.posted = append(o.posted, n)
	w.log("post %s %d", o.id, n.size)
}

// giveUp cancels a call. Its request stays where it is.
func (w *world) giveUp() {
	if len(w.calls) == 0 {
		return
	}
	k := w.rng.IntN(len(w.calls))
	c := w.calls[k]
	w.log("cancel a call of %s -> %s", c.from.id, c.to.id)
	w.calls = slices.Delete(w.calls, k, k+1)
	c.cancel()
	w.until("a call is given up", func() bool { return isClosed(c.done) })
	w.check(errors.Is(c.err, context.Canceled), "a call that was given up: %v", c.err)
}

// sendBack sends to the sender of a message.
func (w *world) sendBack() {
	if len(w.held) == 0 {
		return
	}
	h := w.held[w.rng.IntN(len(w.held))]
	r := h.m.Sender()
	if !h.of.isOpen {
		return
	}
	if !h.from.isOpen {
		return
	}
	if w.inRing(h.of.end, h.from.end) > worldRing/4 {
		return
	}
	w.check(r.ID() == h.from.id && r.Connected() == h.from.isOpen, "the sender of a message of %s is %s, connected: %v", h.from.id, r.ID(), r.Connected())
	data := w.fresh(w.rng.IntN(100))
	var err error
	w.do("a message to a sender", func() { err = h.of.s.Send(w.t.Context(), r, data) })
	w.check(err == nil, "to the sender of a message: %v", err)
	w.log("send back %s -> %s", h.of.id, h.from.id)
	h.from.order = append(h.from.order, &item{from: h.of, to: h.from, data: data, back: true})
}

func (w *world) notify() {
	from, to := w.two()
	if from == nil || !to.isOpen || w.inRing(from.end, to.end) > worldRing/4 || from.gone[to.id] != nil {
		return
	}
	key, n := uint64(w.rng.IntN(3)), 1+w.rng.IntN(4)
	w.log("notify %s -> %s", from.id, to.id)
	var last []byte
	for range n {
		last = fmt.Appendf(nil, "notice %d", w.serial)
		w.serial++
		var err error
		w.do("a notice", func() { err = from.s.Notify(w.t.Context(), from.s.To(to.id), key, w.parts(last)...) })
		w.check(err == nil, "a notice: %v", err)
	}
	w.until("a notice comes", func() bool {
		to.mu.Lock()
		defer to.mu.Unlock()
		return to.notes[key] == fmt.Sprint(from.id, " ", string(last))
	})
}

func (w *world) ping() {
	from, to := w.two()
	if from == nil || w.inRing(from.end, to.end) > worldRing/4 {
		return
	}
	w.log("ping %s -> %s", from.id, to.id)
	var err error
	w.do("a ping", func() { _, err = from.s.To(to.id).Ping(w.t.Context()) })
	if w.expect(from, to, err) {
		w.check(err == nil, "a ping: %v", err)
	}
}

// stranger connects without the secret.
func (w *world) stranger() {
	o := w.open[w.rng.IntN(len(w.open))]
	cfg := w.cfg
	cfg.Secret = []byte("another secret")
	e, err := Open(w.t.Context(), cfg)
	must(w.t, err)
	s, err := e.Register(w.t.Context(), "")
	must(w.t, err)
	w.log("a stranger to %s", o.id)
	w.do("a stranger", func() { err = s.Send(w.t.Context(), s.To(o.id), nil) })
	w.check(err != nil && e.Peers() == 0, "a stranger is connected: %v", err)
	must(w.t, e.Close())
	w.check(e.auditClosed(true) == nil, "%v", e.auditClosed(true))
	o.end.refused++
	w.until("a stranger is counted", func() bool { return o.end.e.Stats().Refused == o.end.refused })
}

// stream opens a stream, and closes it again.
func (w *world) stream() {
	from, to := w.two()
	if from == nil || !to.isOpen || w.inRing(from.end, to.end) > worldRing/4 || w.inRing(to.end, from.end) > worldRing/4 || from.gone[to.id] != nil {
		return
	}
	w.log("stream %s -> %s", from.id, to.id)
	l := ListenConfig{Backlog: 1}.Listen(to.s)
	defer l.Close()
	var err error
	var here, there *Stream
	w.do("a stream is dialed", func() { here, err = from.s.Dial(w.t.Context(), to.id) })
	w.check(err == nil, "a stream: %v", err)
	from.routes[to] = true
	w.do("a second stream is dialed", func() { _, err = from.s.Dial(w.t.Context(), to.id) })
	w.check(errors.Is(err, ErrRefused), "a stream that waits behind another one: %v", err)
	c, err := l.Accept()
	must(w.t, err)
	there = c.(*Stream)
	w.check(there.RemoteAddr().String() == string(from.id) && here.RemoteAddr().String() == string(to.id), "between %v and %v", there.RemoteAddr(), here.RemoteAddr())
	ends := [2]*Stream{here, there}
	var unread [2][]byte // at each end
	for range w.rng.IntN(6) {
		k := w.rng.IntN(2)
		if b := w.fresh(w.rng.IntN(2000)); w.rng.IntN(2) == 0 && len(unread[1-k])+len(b) <= MinStreamBytes {
			w.do("a write", func() { _, err = ends[k].Write(b) })
			w.check(err == nil, "a write: %v", err)
			unread[1-k] = append(unread[1-k], b...)
		} else if n := len(unread[k]); n > 0 {
			b = make([]byte, 1+w.rng.IntN(n))
			w.do("a read", func() { _, err = io.ReadFull(ends[k], b) })
			w.check(err == nil && bytes.Equal(b, unread[k][:len(b)]), "a read: %v", err)
			unread[k] = unread[k][len(b):]
		}
		w.settle()
	}
	k := w.rng.IntN(2)
	must(w.t, ends[k].SetReadDeadline(time.Unix(1, 0)))
	_, err = ends[k].Read(make([]byte, 1))
	w.check(errors.Is(err, os.ErrDeadlineExceeded), "a read behind its deadline: %v", err)
	must(w.t, ends[k].CloseWrite())
	_, err = ends[k].Write([]byte("x"))
	w.check(errors.Is(err, io.ErrClosedPipe), "a write behind the end: %v", err)
	b := []byte(nil)
	w.do("a stream is read to its end", func() { b, err = io.ReadAll(ends[1-k]) })
	w.check(err == nil && bytes.Equal(b, unread[1-k]), "the end of a stream: %d bytes, %v", len(b), err)
	must(w.t, ends[k].Close()) // what it has not read is lost
	w.check(errors.Is(ends[k].Close(), os.ErrClosed) || ends[k].closed, "a stream is closed twice")
	w.settle()
	_, err = ends[1-k].Write([]byte("x"))
	if len(unread[k]) > 0 {
		w.check(errors.Is(err, ErrReset), "a write to a stream that was closed with unread bytes: %v", err)
	}
	must(w.t, ends[1-k].Close())
	w.settle()
}

// closeService closes a service, and says what its senders have to learn.
func (w *world) closeService(o *service, end func()) {
	w.log("close %s", o.id)
	w.over([]*service{o}, false, end)
	w.closed = append(w.closed, o)
}

// over takes in that services are closed by a function, perhaps with their process.
func (w *world) over(all []*service, process bool, end func()) {
	var again, ours, gone []*calling
	for _, o := range all {
		w.open = slices.DeleteFunc(w.open, func(other *service) bool { return other == o })
		o.isOpen = false
		lost := map[*service]*GoneError{}
		count := func(from *service, exact bool) {
			if lost[from] == nil {
				lost[from] = &GoneError{Exact: true}
			}
			lost[from].Unreceived++
			lost[from].Exact = lost[from].Exact && exact
		}
		for _, i := range o.order {
			switch {
			case i.call == nil && !i.back:
				count(i.from, true)
			case i.call != nil && slices.Contains(w.calls, i.call):
				again = append(again, i.call)
			}
			if i.charged {
				o.bodies -= len(i.body)
				o.end.bodies -= len(i.body)
			}
		}
		o.order, o.posted = nil, nil
		for _, h := range w.held {
			if h.of == o && h.isLong && h.call == nil && !h.back && h.m.frame != nil && h.from.routes[o] {
				count(h.from, false)
			}
		}
		for _, from := range w.open {
			delete(from.routes, o)
			if n := lost[from]; n != nil && from.isOpen {
				from.gone[o.id] = n
			}
		}
	}
	for _, c := range w.calls {
		switch closed := slices.Contains(all, c.from); {
		case closed:
			ours = append(ours, c)
		case slices.Contains(again, c):
		case slices.Contains(all, c.to) && process:
			gone = append(gone, c)
		}
	}
	w.do("a close", end)
	again = slices.DeleteFunc(again, func(c *calling) bool { return slices.Contains(ours, c) })
	for _, c := range slices.Concat(again, ours, gone) {
		w.until(fmt.Sprintf("a call of %s -> %s ends with its service, long %v", c.from.id, c.to.id, c.isLong), func() bool { return isClosed(c.done) })
		c.cancel()
		w.calls = slices.DeleteFunc(w.calls, func(o *calling) bool { return o == c })
	}
	for _, c := range ours {
		w.check(errors.Is(c.err, ErrClosed), "a call of a service that was closed: %v", c.err)
	}
	for _, c := range gone {
		n, ok := errors.AsType[*GoneError](c.err)
		w.check(ok && n.Service == c.to.id, "a call whose process ended: %v", c.err)
	}
	told := map[string]bool{}
	for _, c := range again {
		key := fmt.Sprintf("%p %s", c.from, c.to.id)
		n, ok := errors.AsType[*GoneError](c.err)
		if c.isLong && !w.direct && ok && !n.Exact && process {
			continue // the connection with its body may end before the peer says so
		}
		if c.once {
			w.check(ok && n.Exact && n.Unreceived == 1, "a call that cannot be sent again: %v", c.err)
		} else if ok && c.from.gone[c.to.id] != nil && !told[key] {
			told[key] = true
			w.check(n.Unreceived == c.from.gone[c.to.id].Unreceived, "a call that learns of messages: %v", c.err)
			delete(c.from.gone, c.to.id)
		} else {
			w.check(errors.Is(c.err, ErrNoService), "a call that was not received: %v", c.err)
		}
		if !c.isLong {
			c.from.end.again++
		}
	}
}

func (w *world) closeOne() {
	if len(w.open) > 3 {
		o := w.open[w.rng.IntN(len(w.open))]
		w.closeService(o, func() { must(w.t, o.s.Close()) })
		return
	}
}

func (w *world) reopen() {
	if len(w.closed) == 0 {
		return
	}
	k := w.rng.IntN(len(w.closed))
	o := w.closed[k]
	if o.end.e.isClosing() {
		return
	}
	w.log("open %s again", o.id)
	w.closed = slices.Delete(w.closed, k, k+1)
	w.register(o.end, o.id)
}

// replace ends an endpoint, and opens another one with the same services.
func (w *world) replace(k int) {
	n := w.ends[k]
	w.log("replace endpoint %d", k)
	var all []*service
	for _, o := range w.open {
		if o.end == n {
			all = append(all, o)
		}
	}
	w.over(all, true, func() { must(w.t, n.e.Close()) })
	w.closed = slices.DeleteFunc(w.closed, func(o *service) bool { return o.end == n })
	kept := slices.ContainsFunc(w.held, func(h *holding) bool { return h.of.end == n && h.m.frame != nil })
	if err := n.e.auditClosed(!kept); err != nil {
		w.fail("an endpoint that is closed: %v", err)
	}
	w.ends[k] = nil
}

func (w *world) run(steps int) {
	for k := range w.ends {
		w.openEnd(k)
	}
	for range steps {
		switch n := w.rng.IntN(100); {
		case n < 25:
			w.send()
		case n < 38:
			w.call()
		case n < 62:
			w.receive()
		case n < 70:
			if len(w.held) > 0 {
				w.finish(w.rng.IntN(len(w.held)))
			}
		case n < 80:
			w.sendLong()
		case n < 82:
			w.post()
		case n < 85:
			w.giveUp()
		case n < 89:
			w.sendBack()
		case n < 92:
			w.notify()
		case n < 93:
			w.ping()
		case n < 94:
			w.stream()
		case n < 96:
			w.closeOne()
		case n < 99:
			w.reopen()
		case n == 99 && w.rng.IntN(2) == 0:
			w.stranger()
		default:
			k := w.rng.IntN(len(w.ends))
			w.replace(k)
			w.settle()
			w.openEnd(k)
		}
		w.settle()
	}
	for len(w.held) > 0 {
		w.finish(0)
	}
	for k := range w.ends {
		w.replace(k)
	}
}

// What services send, call, answer, give up and close comes out as a model says, and nothing is
// left of it.
func TestServicesDoWhatTheirModelSays(t *testing.T) {
	for _, name := range []string{"shm", "tcp"} {
		for seed := range testutil.Seeds(uint64(6), 60) {
			t.Run(fmt.Sprint(name, "/", seed), func(t *testing.T) {
				t.Parallel()
				w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), names: names{at: map[ID]Place{}}, direct: name == "shm"}
				w.file = filepath.Join(t.TempDir(), "body")
				w.cfg = Config{
					RingBytes: worldRing, StreamBytes: MinStreamBytes, Resolver: &w.names, MoveTime: -1, Secret: []byte("secret"), Transport: SHM,
					MaxLongBytes: worldBudget, Long: Long{MaxBytes: 2 * worldBodies, MaxPeerBytes: worldBodies, Refuse: true},
				}
				if name == "tcp" {
					w.cfg.Transport, w.cfg.Addr = TCP, "127.0.0.1:0"
				}
				w.run(150)
			})
		}
	}
}
