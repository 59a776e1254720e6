package ripc

import (
	"fmt"
	"slices"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/ripc/internal/pair"
	"github.com/squall-go/squall/ripc/internal/stream"
)

// streams holds the streams of one service. The endpoint's mu guards them.
type streams struct {
	service  *Service
	listener *Listener     // nil: the service does not accept streams
	dialed   *stream.Table // by this service
	open     carried       // all that the application has, or may accept
}

// carried is a list of streams, in no order.
type carried struct {
	list []*Stream
	at   func(*Stream) *int // where a stream keeps its place
}

func placeAtRemote(c *Stream) *int  { return &c.at.remote }
func placeAtService(c *Stream) *int { return &c.at.service }

func (l *carried) add(c *Stream) {
	*l.at(c) = len(l.list)
	l.list = append(l.list, c)
}

func (l *carried) remove(c *Stream) {
	i, last := *l.at(c), len(l.list)-1
	if i < 0 {
		return
	}
	l.list[i] = l.list[last]
	*l.at(l.list[i]) = i
	l.list[last] = nil
	l.list = l.list[:last]
	*l.at(c) = -1
}

// lose resets all of them, because the other side is gone.
func (l *carried) lose(why error) {
	for len(l.list) > 0 {
		l.list[0].lose(why)
	}
}

// streaming returns the streams of a service, which from now on may have some. The caller holds the
// mu.
func (s *Service) streaming() *streams {
	if s.streams == nil {
		s.streams = &streams{service: s, dialed: stream.NewTable(0, s.e.cfg.StreamBytes), open: carried{at: placeAtService}}
	}
	return s.streams
}

// pin is a service in one process.
type pin struct {
	service *Service // that sends to it
	id      ID
}

// pinned is the address of a service in the process of this peer, wherever the service goes. The
// caller holds the mu.
func (p *peer) pinned(s *Service, id ID) *Remote {
	r := p.opened.pins[pin{s, id}]
	if r == nil {
		r = newRemote(s, id)
		r.peer = p
		if s.ended { // it sends nothing: an address that is kept would stay
			return r
		}
		if p.opened.pins == nil {
			p.opened.pins = map[pin]*Remote{}
		}
		p.opened.pins[pin{s, id}] = r
	}
	return r
}

// streamed is the address under which streams are opened to a service. The caller holds the mu.
func (r *Remote) streamed() *Remote {
	if r.streams == nil {
		r.streams = newStreamRemote(r.service, r.id)
		r.streams.peer, r.streams.number = r.peer, r.number
	}
	return r.streams
}

func newStreamRemote(s *Service, id ID) *Remote {
	r := newRemote(s, id)
	r.carries = &carried{at: placeAtRemote}
	return r
}

// close ends all streams of a service that is closed.
func (t *streams) close() {
	if t.listener != nil {
		t.listener.close()
	}
	for len(t.open.list) > 0 {
		t.open.list[0].end("its service was closed")
	}
}

// callers are the streams that one service of a peer opened to one service here.
type callers struct {
	peer    *peer
	in      *inbound
	channel int
	table   *stream.Table
	back    *Remote // nil: no stream was opened yet
	failed  bool    // there is no way back
	refused []uint64
}

// maxRefused is how many refusals may wait for the way back.
const maxRefused = 1024

func newCallers(p *peer, in *inbound, channel int) *callers {
	return &callers{peer: p, in: in, channel: channel, table: stream.NewTable(DefaultMaxStreams, p.e.cfg.StreamBytes)}
}

// streamed takes in a frame of a channel that carries streams. Its bytes are copied, so that the
// ring is free again.
func (p *peer) streamed(in *inbound, f *pair.Frame) error {
	err := error(nil)
	switch {
	case f.Kind != pair.Message:
		err = fmt.Errorf("%w: a %v on channel %d, which carries streams", fabric.ErrViolation, f.Kind, f.Channel)
	case in.service.ended:
	case stream.IsAnswer(f.ID):
		err = in.service.streams.answered(p, f)
	default:
		err = in.callers.take(f)
	}
	p.rx.Free(f)
	p.tell()
	return err
}

// answered takes in a frame for a stream that this process opened.
func (t *streams) answered(p *peer, f *pair.Frame) error {
	if c := t.dialed.Find(f.ID); c != nil && c.User.(*Stream).peer != p {
		return fmt.Errorf("%w: a frame for a stream of another process", fabric.ErrViolation)
	}
	s, what, err := t.dialed.Take(f.ID, f.Data)
	if err != nil || s == nil {
		return err
	}
	s.User.(*Stream).took(what)
	return nil
}

// take takes in a frame for a stream that the peer opened.
func (o *callers) take(f *pair.Frame) error {
	if l := o.in.service.streams.listener; l != nil {
		o.table.Allow(l.cfg.MaxStreams)
	}
	s, what, err := o.table.Take(f.ID, f.Data)
	if err != nil {
		return err
	}
	switch what {
	case stream.Opened:
		o.opened(s)
	case stream.Refuse:
		o.refuse(stream.Number(f.ID))
	case stream.Changed, stream.Unread:
		s.User.(*Stream).took(what)
	}
	if len(o.refused) > maxRefused {
		return fmt.Errorf("%w: %d streams wait to be refused", ErrLimit, len(o.refused))
	}
	return nil
}

// opened accepts a stream, if a listener is there and has room.
func (o *callers) opened(core *stream.Stream) {
	if o.peer.chargeStream() != nil {
		o.table.Close(core) // it is not accepted: the table forgets it
		o.refuse(core.Number)
		return
	}
	c := newStream(o.in.service, core, o.table)
	c.remote, c.charged = o.in.from, true
	o.findBack()
	c.attach(o.peer, o.back)
	if o.back.route.Load() != nil {
		o.answer(c)
	}
}

// answer accepts a stream or refuses it, when the way back is known.
func (o *callers) answer(c *Stream) {
	l := c.service.streams.listener
	switch {
	case c.closed:
	case l == nil:
		c.end("the service does not accept streams")
	case len(l.backlog) >= l.cfg.Backlog:
		c.end("too many streams wait to be accepted")
	default:
		c.accept()
		l.push(c)
	}
}

// refuse refuses a stream of which nothing is kept.
func (o *callers) refuse(number uint64) {
	o.findBack()
	o.refused = append(o.refused, number)
	o.sendRefused()
}

// sendRefused says which streams are refused, if the way back is known.
func (o *callers) sendRefused() {
	r := o.back.route.Load()
	if r == nil {
		return
	}
	for _, number := range o.refused {
		r.peer.say(pair.Message, r.channel, stream.ID(stream.Reset, true, number), []byte("too many streams are open"))
	}
	o.refused = o.refused[:0]
}

// findBack opens the channel back to the service that opens streams, in the background.
func (o *callers) findBack() {
	if o.back != nil {
		return
	}
	s := o.in.service
	o.back = newStreamRemote(s, o.in.from)
	o.back.peer, o.back.number = o.peer, o.in.number
	o.peer.e.background.Go(func() {
		back := o.back
		err := back.connect(o.peer.e.ctx)
		o.peer.e.lock()
		defer o.peer.e.unlock()
		if err != nil {
			o.failed = true
			for len(back.carries.list) > 0 {
				c := back.carries.list[0]
				c.lose(err)
				c.end("")
			}
			if !o.peer.ended() && o.peer.served.in[o.channel] == o.in {
				o.peer.stopServing(o.channel)
			}
			return
		}
		o.sendRefused()
		for _, c := range slices.Clone(back.carries.list) {
			o.answer(c)
		}
	})
}
