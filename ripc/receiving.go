package ripc

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/samehost"
	"github.com/squall-go/squall/ripc/internal/pair"
)

// receiving is a long message that a peer sends. It is under the endpoint's mu, but for its bytes
// and what is said beside.
type receiving struct {
	peer    *peer
	in      *pair.Incoming[*receiving]
	channel *inbound // on which it was offered; nil for a reply
	service *Service // for which it is
	offer   pair.Offer
	frame   *pair.Frame // the head
	call    *waiter     // of a reply

	window  *Window // where its bytes go; nil if they are looked at where they are
	origin  origin  // of the window
	charged int64   // bytes of the service's limit
	handed  bool    // the window counts as one of the sender
	asked   bool    // Allocate was asked
	moving  bool    // it is counted among the messages that move
	view    *samehost.View

	over    atomic.Bool   // its window is not written any more
	filling bool          // a goroutine writes into its window; guarded as the transport says
	stopped chan struct{} // closed when no goroutine does, after over
}

// origin says whose a window is.
type origin uint8

const (
	ofLibrary origin = iota
	ofPost
	ofCaller // a return buffer, or what Allocate returned
)

// from is the service that sends it.
func (m *receiving) from() ID {
	if m.channel == nil {
		return ""
	}
	return m.channel.from
}

// offered takes in the offer of a long message.
func (p *peer) offered(f *pair.Frame) error {
	o, head, err := pair.ParseOffer(f.Data)
	if err != nil {
		return err
	}
	if p.ended() { // its sender was not told that it is here
		p.rx.Free(f)
		return nil
	}
	if o.Way == pair.Placed && !p.direct || o.Way == pair.Asked && o.Size > 0 && p.direct {
		return fmt.Errorf("%w: a long message in way %d over %s", fabric.ErrViolation, o.Way, p.line.link.Name())
	}
	m := &receiving{peer: p, offer: o}
	if m.in, err = p.long.in.Offered(f.ID, f.Channel, &o, m); err != nil {
		return err
	}
	m.frame = p.rx.Aside(f)
	m.frame.Data, m.frame.Tag = m.frame.Data[len(m.frame.Data)-len(head):], m
	p.long.receivings = append(p.long.receivings, m)
	if o.Purpose == pair.LongReply {
		m.replied()
	} else {
		if err := p.served.states.Takes(pair.Offered, f.Channel); err != nil {
			return err
		}
		in := p.served.in[f.Channel]
		if in.notices || in.callers != nil {
			return fmt.Errorf("%w: a long message on channel %d, which is not open for it", fabric.ErrViolation, f.Channel)
		}
		m.service, m.channel = in.service, in
		m.welcome()
	}
	if p.long.bulk != nil {
		p.long.bulk.known.Broadcast()
	}
	return nil
}

// welcome takes a message or a request into its service. One that is closed denies it together with
// the channel.
func (m *receiving) welcome() {
	switch s := m.service; {
	case s.closed && s.busy == 0:
		m.deny(pair.ServiceClosed, "the service is closed")
	case s.closed:
	case m.offer.Size == 0:
		m.arrived()
	default:
		m.service.place(m)
	}
}

// replied finds the call that a reply answers.
func (m *receiving) replied() {
	w, ok := m.peer.calls.Find(m.offer.Call)
	if !ok || w.reply != nil || w.service == nil {
		m.deny(pair.Unwanted, "no caller waits for the reply")
		return
	}
	m.call, m.service, w.reply = w, w.service, m
	switch size := int64(m.offer.Size); {
	case size == 0:
		m.arrived()
	case size <= int64(len(w.into)):
		m.window, m.origin = NewWindow(w.into), ofCaller
		m.start()
	case m.offer.Way == pair.Direct:
		m.peer.fail(fmt.Errorf("%w: RP10: a reply of %d bytes, its return buffer has %d", fabric.ErrViolation, size, len(w.into)))
	default:
		m.service.place(m)
	}
}

// allocated takes in the answer of Allocate.
func (m *receiving) allocated(w *Window, err error) {
	if !m.in.IsOpen() || m.window != nil {
		return
	}
	switch {
	case err != nil:
		m.unlist()
		m.deny(pair.NoPlace, err.Error())
	case w == nil: // it waits for one that is posted
	case w.size < int64(m.offer.Size):
		m.unlist()
		m.deny(pair.NoPlace, fmt.Sprintf("a window of %d bytes for %d", w.size, m.offer.Size))
	default:
		m.unlist()
		m.window, m.origin = w, ofCaller
		m.start()
	}
}

// unlist takes the message off the list of waiting messages.
func (m *receiving) unlist() {
	list := &m.service.long.waiting
	if i := slices.Index(*list, m); i >= 0 {
		*list = slices.Delete(*list, i, i+1)
	}
}

// start has the bytes brought to their place.
func (m *receiving) start() {
	p := m.peer
	if !p.direct {
		m.count(true) // first: what is said may find that the peer has ended
		if p.long.dialer {
			p.dialBulk()
		}
		if m.in.Grant() {
			p.say(pair.Granted, m.in.Channel, m.in.ID, nil)
		}
		return
	}
	if m.window == nil {
		if m.view = p.e.memory.views.OpenMapped(m.offer.Owner, m.segment(), int64(m.offer.Size)); m.view != nil {
			m.arrived()
			return
		}
	}
	m.count(true)
	p.long.toFetch = append(p.long.toFetch, m)
	if p.long.fetchers < maxFetchers {
		p.long.fetchers++
		p.e.background.Go(p.fetchAll)
	}
}

// count notes whether the bytes are on their way.
func (m *receiving) count(moving bool) {
	switch {
	case moving && !m.moving:
		m.peer.e.moving++
	case !moving && m.moving:
		m.peer.e.moving--
	}
	m.moving = moving
}

func (m *receiving) segment() samehost.Place {
	return samehost.Place{ID: m.offer.Segment, Offset: int64(m.offer.Offset)}
}

// arrived hands out a message that is here.
func (m *receiving) arrived() {
	p := m.peer
	p.long.in.Here(m.in)
	m.count(false)
	if m.offer.Size > 0 {
		kept := byte(0)
		if m.view != nil {
			kept = 1
		}
		p.say(pair.Here, m.in.Channel, m.in.ID, []byte{kept})
	}
	p.life.Keep()
	if m.call != nil {
		w := m.call
		m.call, w.reply = nil, nil
		p.calls.End(m.offer.Call)
		w.frame, w.answered = m.frame, true
		p.rx.Hold(m.frame) // without memory for it, the head lies in the ring
		p.e.rouse(w)
		return
	}
	m.service.queue.push(arrival{p, m.frame, m.frame.Number, m.channel})
	m.service.rouse()
}

// deny ends a message that is not here, and tells its sender why.
func (m *receiving) deny(why pair.Reason, text string) {
	m.denyAs(why, text, false)
}

// denyAs is deny for a message of which, if it is cut, no more comes.
func (m *receiving) denyAs(why pair.Reason, text string, cut bool) {
	m.end(cut)
	if m.peer.ended() {
		return
	}
	m.peer.say(pair.Denied, m.in.Channel, m.in.ID, append([]byte{byte(why)}, text[:min(len(text), maxReason)]...))
	if w := m.call; w != nil { // nor does its caller get it
		m.call, w.reply = nil, nil
		m.peer.calls.End(m.offer.Call)
		w.err, w.answered = fmt.Errorf("ripc: the reply: %w: %s", reasonError(why), text), true
		m.peer.e.rouse(w)
	}
}

const maxReason = 200 // bytes of the text that says why

// end gives back what a message has that is not here. cut says that no more of it comes.
func (m *receiving) end(cut bool) {
	p := m.peer
	m.over.Store(true)
	m.count(false)
	m.interrupt()
	p.long.in.Deny(m.in, cut || p.ended())
	m.unlistAll()
	m.frame.Tag = nil
	p.rx.Free(m.frame)
	if m.stopped == nil {
		m.repost()
	} else if m.service != nil {
		m.service.long.stopping = append(m.service.long.stopping, m.stopped)
	}
	m.handBack()
	m.refund()
}

// repost gives a window back to the service that posted it.
func (m *receiving) repost() {
	if s := m.service; m.window != nil && m.origin == ofPost && !s.closed {
		s.long.places.Repost(m.window, m.window.size)
		m.window = nil
		s.placeAll()
	}
}

// halted notes that no goroutine writes into the window any more. The caller holds the mu.
func (m *receiving) halted() {
	if m.stopped == nil {
		return
	}
	close(m.stopped)
	m.stopped = nil
	m.repost()
	if m.service != nil {
		m.service.long.stopping = slices.DeleteFunc(m.service.long.stopping, isClosed)
	}
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (m *receiving) unlistAll() {
	p := m.peer
	if i := slices.Index(p.long.receivings, m); i >= 0 {
		p.long.receivings = slices.Delete(p.long.receivings, i, i+1)
	}
	if m.service != nil {
		m.unlist()
	}
}

// What the byte of a frame says that frees a long message.
const (
	received   byte = iota
	unreceived      // it was not received
)

// freeLong gives back what a message has that was here. It is called for a frame that is freed.
func (p *peer) freeLong(m *receiving, how byte) {
	if m.view != nil {
		m.view.Close()
	}
	m.frame.Tag = nil
	m.unlistAll()
	p.long.in.Free(m.in)
	if !p.ended() {
		p.say(pair.Freed, m.in.Channel, m.in.ID, []byte{how})
	}
	m.handBack()
	m.refund()
}

// withdrawn takes in that the sender gave up.
func (p *peer) withdrawn(f *pair.Frame) {
	if in := p.long.in.Withdrawn(f.ID); in != nil {
		in.Value.deny(pair.Unwanted, "it was withdrawn")
	}
}

// quiet waits until no goroutine writes into the window of a message that is over. The caller holds
// the mu.
func (m *receiving) quiet() {
	e := m.peer.e
	stopped := m.stopped
	if stopped == nil {
		return
	}
	e.unlock()
	<-stopped
	e.lock()
}

// interrupt stops the goroutine that writes into the window, if there is one.
func (m *receiving) interrupt() {
	if m.peer.direct {
		if m.filling && m.stopped == nil {
			m.stopped = make(chan struct{})
		}
		return
	}
	if b := m.peer.long.bulk; b != nil {
		b.interrupt(m)
	}
}

const (
	maxFetchers = 4       // goroutines that bring bodies of one peer of this host
	pieceBytes  = 1 << 20 // copied before others have their turn. A smaller piece is copied through the caches, which takes longer
	fetchTime   = 5 * time.Second
)

// fetchAll is a goroutine that looks where bodies lie, and copies them into their windows, as long
// as there are any.
func (p *peer) fetchAll() {
	e := p.e
	e.lock()
	defer e.unlock()
	for len(p.long.toFetch) > 0 {
		m := p.long.toFetch[0]
		p.long.toFetch = p.long.toFetch[1:]
		if !m.in.IsOpen() {
			continue
		}
		m.filling = true
		e.unlock()
		view, err := m.fetch(e.ctx)
		e.lock()
		m.fetched(view, err)
	}
	p.long.fetchers--
}

// fetched takes in what fetch returned for a message, which may have ended meanwhile.
func (m *receiving) fetched(view *samehost.View, err error) {
	m.filling = false
	m.halted()
	switch {
	case err != nil && m.in.IsOpen():
		m.deny(pair.Failed, err.Error())
	case m.in.IsOpen():
		m.view = view
		m.arrived()
	case view != nil:
		view.Close()
	}
}

// fetch opens a view, and, if the message has a window, copies it there.
func (m *receiving) fetch(ctx context.Context) (*samehost.View, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	view, err := m.peer.e.memory.views.Open(ctx, m.offer.Owner, m.segment(), int64(m.offer.Size))
	if err != nil || m.window == nil {
		return view, err
	}
	defer view.Close()
	m.window.furnish()
	from := view.Bytes()
	for at := 0; at < len(from) && !m.over.Load(); at += pieceBytes {
		if err := m.window.write(from[at:min(at+pieceBytes, len(from))], int64(at)); err != nil {
			return nil, err
		}
		m.peer.e.letOthers()
	}
	return nil, nil
}

// furnish makes the memory of a window of the library. It takes its time.
func (w *Window) furnish() {
	if w.file == nil && w.bytes == nil {
		w.bytes = make([]byte, w.size)
	}
}

// write puts bytes into a window.
func (w *Window) write(b []byte, at int64) error {
	if w.file == nil {
		copy(w.bytes[at:], b)
		return nil
	}
	_, err := w.file.WriteAt(b, w.offset+at)
	return err
}

// reasonError is the error of a reason.
func reasonError(r pair.Reason) error {
	switch r {
	case pair.NoPlace:
		return ErrNoWindow
	case pair.TooLarge:
		return ErrTooLarge
	case pair.ServiceClosed:
		return errServiceClosed
	}
	return ErrRefused
}

// failLong ends the long messages of a peer that ended. What is here stays until it is released.
func (p *peer) failLong(why error) {
	l := &p.long
	for _, s := range slices.Clone(l.sendings) {
		s.drop(true)
		if s.isSent() {
			s.to.miss(1, false, why)
		} else if s.err == nil {
			gone := &GoneError{Cause: why, Unreceived: 1}
			if s.to != nil {
				gone.Service = s.to.id
			}
			s.err = gone
		}
		l.out.End(s.out)
		s.wake()
	}
	l.sendings = nil
	for _, m := range slices.Clone(l.receivings) {
		if m.in.IsOpen() {
			m.end(true)
		}
	}
	p.wakeTurns()
	if l.bulk != nil {
		l.bulk.close()
	}
	if l.ready != nil && !l.isReady {
		l.isReady = true
		close(l.ready)
	}
	p.e.forgetBulk(p)
}

// refusedBy is the error of a frame that denies a message.
func refusedBy(f *pair.Frame) error {
	if len(f.Data) == 0 {
		return ErrRefused
	}
	return fmt.Errorf("%w: %.200s", reasonError(pair.Reason(f.Data[0])), string(f.Data[1:]))
}

// Body is the body of a long message, until Release; nil if it went into a file, or the message has
// none. Within a host it may lie in memory of the sender: it cannot be written then.
func (m *Message) Body() []byte {
	l := m.long
	switch {
	case l == nil || m.frame == nil:
		return nil
	case l.view != nil:
		return l.view.Bytes()
	case l.window == nil || l.window.bytes == nil:
		return nil
	}
	return l.window.bytes[:l.offer.Size]
}

// BodySize is the size of the body of a long message.
func (m *Message) BodySize() int64 {
	if m.long == nil {
		return 0
	}
	return int64(m.long.offer.Size)
}

// Window is the window in which the body lies, if the application made it. After Release it can be
// posted again.
func (m *Message) Window() *Window {
	if m.long == nil || m.long.origin == ofLibrary {
		return nil
	}
	return m.long.window
}

// InPlace reports whether the body is looked at in memory of the sender.
func (m *Message) InPlace() bool { return m.long != nil && m.long.view != nil }

// ReturnSize is the size of the return buffer of a request: a reply whose body is at most as large
// needs no window.
func (m *Message) ReturnSize() int64 {
	if m.long == nil {
		return 0
	}
	return int64(m.long.offer.Room)
}

// fillLong makes m the long message of a frame.
func (m *Message) fillLong(f *pair.Frame) {
	m.long, m.kind = f.Tag.(*receiving), pair.Message
	m.in = m.long.channel
	if m.long.offer.Purpose == pair.LongRequest {
		m.kind, m.id = pair.Request, m.long.offer.Call
	}
}

// turnLongAway ends a message that has arrived and will not be received. Its sender is told.
func (p *peer) turnLongAway(m *receiving) {
	f := m.frame
	p.freeLong(m, unreceived)
	p.rx.Free(f)
	p.tell()
}

// closeLong denies the messages that are on their way to a service that is closed.
func (s *Service) closeLong() {
	s.long.places.Drop()
	for _, p := range s.e.peers {
		for _, m := range slices.Clone(p.long.receivings) {
			if m.service == s && m.call == nil && m.in.IsOpen() {
				m.deny(pair.ServiceClosed, "the service is closed")
			}
		}
	}
}
