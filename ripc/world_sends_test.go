package ripc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/squall-go/squall/ripc/internal/pair"
)

// This file is the messages and calls of the world of world_test.go.

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
			free := worldWindow - used - worldWindow/4 // the rest may be freed, and not published
			w.check(w.inRing(from.end, to.end) > 0 || pair.FrameBytes(len(data)) > free, "there is no space for %d bytes, and the window has %d", len(data), free)
			return
		}
	case !fits && to.isOpen && len(data) <= worldMax && from.owed(to) == nil:
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
	case w.isTight(from.end, to.end) && to.isOpen:
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
	w.check(r.MaxMessageBytes() == worldMax && r.Connected() && r.ID() == to.id, "%s is not known: %d", r.ID(), r.MaxMessageBytes())
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
	if to.isOpen && (w.inWindow(from, to)+pair.FrameBytes(len(data)) > worldWindow || w.isTight(from.end, to.end)) {
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
		w.check(to.isOpen && from.owed(to) == nil, "a call of %s went on: %v", to.id, from.owed(to))
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
	w.keep(o, w.next(o))
	if w.rng.IntN(3) > 0 {
		w.finish(len(w.held) - 1)
	}
}

// next receives the next message of a service.
func (w *world) next(o *service) (m Message) {
	var err error
	if w.rng.IntN(2) == 0 {
		w.do("a receive", func() { m, err = o.s.Receive(w.t.Context()) })
	} else {
		w.until("a message", func() (ok bool) { m, ok = o.s.TryReceive(); return ok })
	}
	w.check(err == nil, "%v", err)
	return m
}

// keep compares a message with the one that has to be the next, and keeps it.
func (w *world) keep(o *service, m Message) {
	i := o.order[0]
	o.order = o.order[1:]
	w.log("receive %s <- %s %d long=%v request=%v", o.id, i.from.id, len(i.data), i.isLong, i.call != nil)
	h := &holding{item: i, m: m, of: o, isOpen: i.call != nil}
	w.verify(h, &h.m)
	w.check(m.From() == i.from.id && m.IsRequest() == h.isOpen, "a message of %s (request: %v), it has to be of %s", m.From(), m.IsRequest(), i.from.id)
	w.check(m.MaxReplyBytes() == worldMax && m.Account() != "", "a reply may have %d bytes", m.MaxReplyBytes())
	switch p := m.Peer(); {
	case w.direct:
		w.check(p.Process == os.Getpid() && p.User == os.Getuid() && p.Addr == "" && m.Identity() == "", "it comes from %+v", p)
	default:
		w.check(p.Process == 0 && p.User == -1 && p.Addr != "" && (m.Identity() != "") == (w.cfg.TLS != nil), "it comes from %+v", p)
	}
	if i.call != nil && i.isLong {
		w.check(m.ReturnSize() == int64(len(i.call.into)), "a return buffer of %d bytes, it has %d", m.ReturnSize(), len(i.call.into))
	}
	w.held = append(w.held, h)
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
	case kind < 5 || h.of.end.e.isClosing() || w.isTight(h.of.end, h.from.end) || w.isTight(h.from.end, h.of.end):
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
		i := &item{from: h.of, to: c.from, data: reply, aside: true}
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
	i := &item{from: h.of, data: w.fresh(w.rng.IntN(100)), body: w.fresh(w.rng.IntN(worldBodies + 100)), isLong: true, aside: true}
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
		if h.isLong && h.from == from && h.of == to && !h.aside && h.m.frame != nil {
			longs++
		}
	}
	if longs >= pair.OpenLong || w.isTight(from.end, to.end) {
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
	if to.isOpen && from.owed(to) == nil {
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
