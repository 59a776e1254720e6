package ripc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/squall-go/squall/ripc/internal/pair"
)

// This file is what services of the world of world_test.go do while others wait: with a full ring,
// and in Serve.

// take has a service receive what was sent to it, and keep it.
func (w *world) take(o *service) {
	for len(o.order) > 0 {
		w.keep(o, w.next(o))
	}
}

// fill sends messages of one size until the ring or the window is full, which the receiver keeps.
func (w *world) fill(from, to *service, size, most int) {
	for range most {
		data := w.fresh(size)
		err := from.s.TrySend(from.s.To(to.id), data)
		if errors.Is(err, ErrFull) {
			return
		}
		w.check(err == nil, "a message that fills the ring: %v", err)
		to.order = append(to.order, &item{from: from, to: to, data: data})
		w.settle()
		w.take(to)
	}
}

// of returns the open services of an endpoint.
func (w *world) of(n *end) []*service {
	return slices.DeleteFunc(slices.Clone(w.open), func(o *service) bool { return o.end != n })
}

// crowd fills the ring between two endpoints with messages that the application keeps. What the
// first one says meanwhile waits: it comes when they are given back, or is dropped with its
// channel.
func (w *world) crowd() {
	from, to := w.two()
	if from == nil || !to.isOpen || w.isTight(from.end, to.end) || w.isTight(to.end, from.end) || from.gone[to.id] != nil {
		return
	}
	w.log("crowd %s -> %s", from.id, to.id)
	l := ListenConfig{}.Listen(to.s)
	var err error
	var here *Stream
	w.do("a stream is dialed", func() { here, err = from.s.Dial(w.t.Context(), to.id) })
	w.check(err == nil, "a stream: %v", err)
	from.routes[to] = true
	accepted, err := l.Accept()
	must(w.t, err)
	there := accepted.(*Stream)
	w.settle()
	for _, f := range w.of(from.end) {
		for _, t := range w.of(to.end) {
			if f.gone[t.id] == nil {
				w.do("a channel", func() { err = f.s.To(t.id).Connect(w.t.Context()) })
				w.check(err == nil, "a channel: %v", err)
				f.routes[t] = true
			}
		}
	}
	for _, size := range []int{worldMax, 200, 0} {
		for _, f := range w.of(from.end) {
			for _, t := range w.of(to.end) {
				if f.routes[t] {
					w.fill(f, t, size, 16)
				}
			}
		}
	}
	least := pair.FrameBytes(0)
	if w.direct { // the word behind the last frame is zero
		least *= 2
	}
	to.end.e.lock()
	there.peer.rx.Publish()
	full := worldRing-there.peer.heldUp() < least
	to.end.e.unlock()
	ended := full || w.inWindow(from, to)+pair.FrameBytes(0) > worldWindow
	if ended {
		w.wait(from, to, here, full)
	}
	w.empty(from.end, to.end)
	if ended && from.isOpen && to.isOpen {
		w.do("a stream is read to its end", func() { _, err = io.ReadAll(there) })
		w.check(err == nil, "the end of a stream that waited: %v", err)
	}
	_, _ = here.Close(), there.Close()
	_ = l.Close()
	w.settle()
}

// empty frees the messages that services of an end hold from those of another one.
func (w *world) empty(from, to *end) {
	for k := 0; k < len(w.held); k++ {
		if h := w.held[k]; h.from.end == from && h.of.end == to && h.m.frame != nil {
			w.finish(k)
			k = -1
		}
	}
}

// wait has a service end a stream and send while there is no space in the window of its channel, or
// in the whole ring, until there is, or it is not
// wanted any more, or one of both services is closed.
func (w *world) wait(from, to *service, c *Stream, full bool) {
	must(w.t, c.CloseWrite())
	from.end.e.lock()
	n := c.peer.answers.Len()
	from.end.e.unlock()
	w.check(n > 0 || !full, "the end of a stream found space where there is none")
	ctx, cancel := context.WithCancelCause(w.t.Context())
	why := errors.New("it is not wanted any more")
	data := w.fresh(w.rng.IntN(100))
	call := &calling{from: from, to: to, cancel: func() { cancel(nil) }, done: make(chan struct{})}
	i := &item{from: from, to: to, data: data}
	if w.rng.IntN(2) == 0 {
		i.call = call
		from.end.calls++
	}
	go func() {
		defer close(call.done)
		if i.call == nil {
			call.err = from.s.Send(ctx, from.s.To(to.id), data)
		} else {
			call.m, call.err = from.s.Call(ctx, from.s.To(to.id), data)
		}
	}()
	over := func() bool { return isClosed(call.done) }
	w.until("a sender waits", func() bool { return over() || w.waiting(from.end) > 0 })
	if over() {
		w.fail("a sender found space where there is none: %v", call.err)
	}
	what := w.rng.IntN(4)
	w.log("request %v, %d", i.call != nil, what)
	switch {
	case what == 0:
		cancel(why)
		w.until("a sender gives up", over)
		w.check(errors.Is(call.err, why), "a send that was given up: %v", call.err)
	case what == 1 && len(w.open) > 3:
		w.closeService(to, func() { must(w.t, to.s.Close()) })
		w.empty(from.end, to.end) // it may have asked for the service before the name was gone, and that waits for space as well
		w.until("a sender to a service that is closed", over)
		w.check(!w.expect(from, to, call.err), "a message to a service that is closed: %v", call.err)
	case what == 2 && len(w.open) > 3 && len(from.order) == 0 && !slices.ContainsFunc(w.calls, func(c *calling) bool { return c.to == from }):
		w.closeService(from, func() { must(w.t, from.s.Close()) })
		w.until("a sender that is closed", over)
		w.check(errors.Is(call.err, ErrClosed), "a message of a service that is closed: %v", call.err)
	default:
		w.empty(from.end, to.end)
		if i.call == nil {
			w.until("a sender has space", over)
			w.check(call.err == nil, "a message that waited: %v", call.err)
		} else {
			w.calls = append(w.calls, call)
			w.until("a request has space", func() bool {
				to.end.e.lock()
				defer to.end.e.unlock()
				return to.s.queue.len() > len(to.order)
			})
		}
		to.order = append(to.order, i)
		return
	}
	cancel(why)
}

// serve has a service handle what was sent to it, and closed by the handler of one message.
func (w *world) serve() {
	from, o := w.two()
	if from == nil || !o.isOpen || len(w.open) < 4 || slices.ContainsFunc(o.order, func(i *item) bool { return i.isLong }) {
		return
	}
	for range 3 { // some at a time
		if data := w.fresh(w.rng.IntN(50)); from.routes[o] && !w.isTight(from.end, o.end) && from.s.TrySend(from.s.To(o.id), data) == nil {
			o.order = append(o.order, &item{from: from, to: o, data: data})
			w.settle()
		}
	}
	if len(o.order) == 0 {
		return
	}
	most := 1 + w.rng.IntN(len(o.order))
	items := o.order[:most]
	o.order = o.order[most:]
	w.log("%s serves %d of %d", o.id, most, most+len(o.order))
	var wrong []error
	done := 0
	w.closeService(o, func() {
		err := o.s.Serve(w.t.Context(), func(_ context.Context, m *Message) {
			switch {
			case done >= most:
				wrong = append(wrong, errors.New("a message is handled after Close"))
			case !bytes.Equal(m.Data, items[done].data) || m.From() != items[done].from.id || m.IsRequest() != (items[done].call != nil):
				wrong = append(wrong, fmt.Errorf("message %d of %s: %.20x, it has to be %.20x", done, m.From(), m.Data, items[done].data))
			case m.IsRequest():
				wrong = append(wrong, m.Reply(m.Data))
			}
			if done++; done == most {
				wrong = append(wrong, o.s.Close())
			}
		})
		if !errors.Is(err, ErrClosed) {
			wrong = append(wrong, fmt.Errorf("serving ended: %w", err))
		}
	})
	w.check(errors.Join(wrong...) == nil && done == most, "%d of %d messages were handled: %v", done, most, errors.Join(wrong...))
	for _, i := range items {
		if c := i.call; c != nil && slices.Contains(w.calls, c) {
			w.calls = slices.DeleteFunc(w.calls, func(o *calling) bool { return o == c })
			w.until("a call is answered by a handler", func() bool { return isClosed(c.done) })
			c.cancel()
			w.check(c.err == nil && bytes.Equal(c.m.Data, i.data), "a call of a handler: %v", c.err)
			c.m.Release()
		}
	}
}
