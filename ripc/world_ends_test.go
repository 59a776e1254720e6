package ripc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/squall-go/squall/ripc/internal/pair"
)

// This file is the other operations of the world of world_test.go, and how its services end.

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
	if h.m.kind != pair.Reply && !slices.ContainsFunc(h.of.order, func(i *item) bool { return i.from == h.from }) {
		w.check(r.ID() == h.from.id && r.Connected() == h.from.isOpen, "the sender of a message of %s is %s, open: %v, connected: %v", h.from.id, r.ID(), h.from.isOpen, r.Connected())
	}
	if !h.from.isOpen || w.isTight(h.of.end, h.from.end) {
		return
	}
	var err error
	if h.m.kind == pair.Reply && w.rng.IntN(2) == 0 {
		w.noteBack(h.of, h.from, r)
		return
	}
	data := w.fresh(w.rng.IntN(100))
	w.do("a message to a sender", func() { err = h.of.s.Send(w.t.Context(), r, data) })
	w.check(err == nil, "to the sender of a message: %v", err)
	w.log("send back %s -> %s", h.of.id, h.from.id)
	h.from.order = append(h.from.order, &item{from: h.of, to: h.from, data: data, aside: true})
}

// noteBack notifies the service that sent a reply, and dials it if it takes no streams.
func (w *world) noteBack(from, to *service, r *Remote) {
	w.log("notify back %s -> %s", from.id, to.id)
	var err error
	last := fmt.Append(nil, "notice ", w.serial)
	w.serial++
	w.do("a notice to a sender", func() { err = from.s.Notify(w.t.Context(), r, 7, last) })
	w.check(err == nil, "a notice to a sender: %v", err)
	w.until("a notice comes", func() bool {
		to.mu.Lock()
		defer to.mu.Unlock()
		return to.notes[7] == fmt.Sprint(from.id, " ", string(last))
	})
	if to.s.streams == nil {
		w.do("a stream to a sender", func() { _, err = from.s.DialRemote(w.t.Context(), r) })
		w.check(errors.Is(err, ErrNoService), "a stream to a service that takes none: %v", err)
	}
}

func (w *world) notify() {
	from, to := w.two()
	if from == nil || !to.isOpen || w.isTight(from.end, to.end) || from.gone[to.id] != nil {
		return
	}
	key, n := uint64(w.rng.IntN(3)), 1+w.rng.IntN(4)
	w.log("notify %s -> %s", from.id, to.id)
	for range n - 1 {
		w.do("a notice", func() { must(w.t, from.s.Notify(w.t.Context(), from.s.To(to.id), key, w.fresh(n))) })
	}
	w.noteTo(from, to, key)
}

// noteTo notifies a service, and waits until it sees that.
func (w *world) noteTo(from, to *service, key uint64) {
	last := fmt.Appendf(nil, "notice %d", w.serial)
	w.serial++
	var err error
	w.do("a notice", func() { err = from.s.Notify(w.t.Context(), from.s.To(to.id), key, w.parts(last)...) })
	w.check(err == nil, "a notice: %v", err)
	w.until("a notice comes", func() bool {
		to.mu.Lock()
		defer to.mu.Unlock()
		return to.notes[key] == fmt.Sprint(from.id, " ", string(last))
	})
}

func (w *world) ping() {
	from, to := w.two()
	if from == nil || w.isTight(from.end, to.end) {
		return
	}
	w.log("ping %s -> %s", from.id, to.id)
	var err error
	if to.isOpen && !from.routes[to] && from.gone[to.id] == nil {
		ctx, cancel := context.WithCancel(w.t.Context())
		cancel()
		for range 4 {
			err = from.s.To(to.id).Connect(ctx)
			w.check(errors.Is(err, context.Canceled), "a channel that is not wanted: %v", err)
		}
		w.settle()
	}
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
	if from == nil || !to.isOpen || w.isTight(from.end, to.end) || w.isTight(to.end, from.end) || from.gone[to.id] != nil {
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
	var unread [2][]byte                                             // at each end
	credit, owed := [2]int{MinStreamBytes, MinStreamBytes}, [2]int{} // for the bytes of the other end
	for range w.rng.IntN(9) {
		k := w.rng.IntN(2)
		if b := w.fresh(w.rng.IntN(2000)); w.rng.IntN(2) == 0 && !w.isTight(from.end, to.end) && !w.isTight(to.end, from.end) {
			n := w.write(ends[k], b, credit[1-k])
			credit[1-k] -= n
			unread[1-k] = append(unread[1-k], b[:n]...)
		} else if n := len(unread[k]); n > 0 {
			b = make([]byte, 1+w.rng.IntN(n))
			w.do("a read", func() { _, err = io.ReadFull(ends[k], b) })
			w.check(err == nil && bytes.Equal(b, unread[k][:len(b)]), "a read: %v", err)
			unread[k] = unread[k][len(b):]
			if owed[k] += len(b); owed[k] >= MinStreamBytes/2 {
				credit[k], owed[k] = credit[k]+owed[k], 0
			}
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
	must(w.t, ends[1-k].SetDeadline(time.Now().Add(time.Hour)))
	must(w.t, ends[1-k].Close())
	w.check(ends[1-k].readBefore.timer == nil && ends[1-k].writeBefore.timer == nil, "a stream that is closed is kept until its deadline")
	w.settle()
}

// write writes bytes of which the stream takes so many at the moment. It returns how many it took.
func (w *world) write(c *Stream, b []byte, credit int) (n int) {
	var err error
	if len(b) <= credit {
		w.do("a write", func() { n, err = c.Write(b) })
		w.check(err == nil && n == len(b), "a write: %d of %d bytes, %v", n, len(b), err)
		return n
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		n, err = c.Write(b)
	}()
	w.until("a write waits", func() bool {
		c.e.lock()
		defer c.e.unlock()
		return isClosed(done) || c.writer != nil && c.core.Sendable(1) == 0
	})
	must(w.t, c.SetWriteDeadline(time.Unix(1, 0)))
	w.until("a write ends", func() bool { return isClosed(done) })
	w.check(errors.Is(err, os.ErrDeadlineExceeded) && n == credit, "a write: %d of %d bytes, it may write %d: %v", n, len(b), credit, err)
	must(w.t, c.SetWriteDeadline(time.Time{}))
	return n
}

// closeService closes a service, and says what its senders have to learn.
func (w *world) closeService(o *service, end func()) {
	w.log("close %s", o.id)
	w.over([]*service{o}, nil, end)
	w.closed = append(w.closed, o)
	w.hush(o)
}

// hush waits until no goroutine calls the application for notices of a service that is closed.
func (w *world) hush(o *service) {
	w.until("the goroutine of notices of a closed service ends", func() bool {
		o.end.e.lock()
		defer o.end.e.unlock()
		seat := &o.s.notices.notifier.seat
		return !seat.IsListed() && !o.end.e.role.Has(seat)
	})
}

// move opens a service at another endpoint while the old one lives on, which has received all that
// was sent to it. Senders turn to the new one, also those that wait for space at the old one.
func (w *world) move() {
	from, o := w.two()
	if from == nil || !o.isOpen || len(w.open) < 3 || from.gone[o.id] != nil || w.isTight(from.end, o.end) {
		return
	}
	n := w.ends[w.rng.IntN(len(w.ends))]
	if n == o.end || n == from.end {
		return
	}
	w.log("move %s, watched by %s", o.id, from.id)
	w.take(o)
	w.noteTo(from, o, 8)
	data := w.fresh(300)
	for w.inWindow(from, o)+pair.FrameBytes(len(data)) <= worldWindow {
		w.do("a send", func() { must(w.t, from.s.Send(w.t.Context(), from.s.To(o.id), data)) })
		o.order = append(o.order, &item{from: from, to: o, data: data})
		w.settle()
		w.take(o)
	}
	done := make(chan struct{})
	var err error
	go func() {
		defer close(done)
		err = from.s.Send(w.t.Context(), from.s.To(o.id), data)
	}()
	w.until("a send waits", func() bool { return isClosed(done) || w.waiting(from.end) > 0 })
	w.check(!isClosed(done), "a message found room where there is none")
	next := w.register(n, o.id)
	w.until("a sender that waits turns to the new place", func() bool { return isClosed(done) })
	w.check(err == nil, "a message to a service that has moved: %v", err)
	for _, other := range w.open {
		delete(other.routes, o)
	}
	from.routes[next] = true
	next.order = append(next.order, &item{from: from, to: next, data: data})
	w.noteTo(from, next, 8)
	w.over([]*service{o}, nil, func() { must(w.t, o.s.Close()) })
	w.hush(o)
}

// lossTo is what a service has to be told of messages to another one.
func (o *service) lossTo(to *service) *loss {
	if o.gone[to.id] == nil {
		o.gone[to.id] = &loss{}
	}
	return o.gone[to.id]
}

// over takes in that services are closed by a function, perhaps with the process in which they are.
func (w *world) over(all []*service, ended *end, end func()) {
	process, pairs := ended != nil, 0
	if process {
		ended.e.lock()
		pairs = len(ended.e.peers)
		ended.e.unlock()
	}
	var again, ours, gone []*calling
	for _, o := range all {
		w.open = slices.DeleteFunc(w.open, func(other *service) bool { return other == o })
		o.isOpen = false
		for _, i := range o.order {
			switch {
			case i.call == nil && !i.aside:
				i.from.lossTo(o).exact++
			case i.call != nil && slices.Contains(w.calls, i.call):
				again = append(again, i.call)
			}
			if i.charged {
				o.bodies -= len(i.body)
				o.end.bodies -= len(i.body)
			}
		}
		o.order, o.posted = nil, nil
		for _, from := range w.open {
			delete(from.routes, o)
		}
	}
	for _, h := range w.held { // perhaps of a service that was closed before
		if process && h.of.end == ended && h.isLong && h.call == nil && !h.aside && h.m.frame != nil {
			h.from.lossTo(h.of).bound++
		}
	}
	for _, c := range w.calls {
		switch closed := slices.Contains(all, c.from); {
		case closed:
			ours = append(ours, c)
		case slices.Contains(again, c):
		case process && c.to.end == ended:
			gone = append(gone, c)
		}
	}
	before := w.peersBeside(ended)
	w.do("a close", end)
	w.until("the peers of a process see its end", func() bool { return !process || w.peersBeside(ended) <= before-pairs })
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
		inTime, most := ok && n.Unreceived == 0, ok && !n.Exact && n.Unreceived == 1 // over a socket the word that it was received may be lost
		short, long := !c.isLong && ok && n.Exact == w.direct && (inTime || most), c.isLong && most
		w.check((short || long) && n.Service == c.to.id, "a call whose process ended: %v", c.err)
	}
	if process && !w.direct {
		w.reset(all, again)
		return
	}
	for _, c := range again {
		n, ok := errors.AsType[*GoneError](c.err)
		if c.isLong && process && ok && !n.Exact {
			// It was sent again, to the process that was about to end, or it was told of messages.
			r := c.from.s.To(c.to.id)
			r.service.e.lock()
			if r.gone == nil {
				delete(c.from.gone, c.to.id)
			}
			r.service.e.unlock()
			continue
		}
		if c.once {
			w.check(ok && n.Exact && n.Unreceived == 1, "a call that cannot be sent again: %v", c.err)
		} else if want := c.from.gone[c.to.id]; ok && want != nil {
			if process && n.Exact && n.Unreceived > 0 && n.Unreceived == want.exact { // the end of the process comes later
				want.exact = 0
			} else {
				w.check(want.is(n), "a call that learns of messages: %v, it has to be a loss of %+v", c.err, *want)
				want.exact, want.bound = 0, 0
			}
			if want.bound == 0 {
				delete(c.from.gone, c.to.id)
			}
		} else {
			w.check(errors.Is(c.err, ErrNoService) || process && errors.Is(c.err, ErrUnreachable), "a call that was not received: %v", c.err)
		}
		if !c.isLong {
			c.from.end.again++
		}
	}
}

// peersBeside is how many peers the endpoints have beside one.
func (w *world) peersBeside(n *end) (count int) {
	for _, o := range w.ends {
		if o != nil && o != n {
			count += o.e.Peers()
		}
	}
	return count
}

// reset takes in that a process ended behind a socket: the system may drop its last words, and then
// its senders learn a bound only.
func (w *world) reset(all []*service, again []*calling) {
	called := map[*service]bool{}
	for _, c := range again {
		called[c.from] = true
		w.check(errors.Is(c.err, ErrNoService) || errors.Is(c.err, ErrUnreachable) || errors.Is(c.err, ErrPeerGone), "a call that was not received: %v", c.err)
	}
	for _, from := range w.open {
		for _, o := range all {
			r := from.s.To(o.id)
			w.until("the end of a route", func() bool { return r.route.Load() == nil })
			n, ok := errors.AsType[*GoneError](r.takeGone())
			if want := from.gone[o.id]; want != nil && !called[from] {
				w.check(ok && n.Unreceived >= want.exact+want.bound && (!n.Exact || want.is(n)), "%s to %s: %v, it has to be a loss of %+v", from.id, o.id, n, *want)
			}
			delete(from.gone, o.id)
		}
	}
	for _, n := range w.ends {
		if n != nil {
			n.again = n.e.Stats().CallsRetried
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
	w.over(all, n, func() { must(w.t, n.e.Close()) })
	w.closed = slices.DeleteFunc(w.closed, func(o *service) bool { return o.end == n })
	n.watch.Wait()
	kept := slices.ContainsFunc(w.held, func(h *holding) bool { return h.of.end == n && h.m.frame != nil })
	if err := n.e.auditClosed(!kept); err != nil {
		w.fail("an endpoint that is closed: %v", err)
	}
	w.ends[k] = nil
}
