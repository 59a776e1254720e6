package ripc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/ripc/internal/pair"
)

// This file is how channels between two processes are opened, closed and given up, so that the next
// services can use them.

// on is the channel of a route, 0 without one.
func (r *route) on() int {
	if r == nil {
		return 0
	}
	return r.channel
}

// isOver reports whether the channel is not the route's any more: goroutines may still have the
// route. The caller holds the endpoint's mu or, if the link is direct, the peer's.
func (r *route) isOver() bool { return r != nil && r.over }

// end takes the channel from a route. The caller holds the endpoint's mu, here and below.
func (r *route) end() {
	r.peer.send.lock()
	defer r.peer.send.unlock()
	r.over = true
}

// takeChannel takes a channel that is not used, and waits for one if channels are about to be given
// back.
func (p *peer) takeChannel(ctx context.Context) (int, error) {
	for {
		if channel, ok := p.opened.states.Open(); ok {
			p.send.reopen(channel)
			return channel, nil
		}
		used, leaving := p.opened.states.Used()
		if leaving == 0 {
			return 0, fmt.Errorf("%w: %d channels to one process", ErrLimit, used)
		}
		w := p.e.waiter()
		w.goal, w.peer, w.answered = goalAnswer, p, false
		p.opened.wanting = append(p.opened.wanting, w)
		err := p.e.wait(ctx, w)
		if i := slices.Index(p.opened.wanting, w); i >= 0 {
			p.opened.wanting = slices.Delete(p.opened.wanting, i, i+1)
		}
		p.e.giveBack(w)
		if err == nil && p.ended() {
			err = &GoneError{Exact: true, Cause: p.why}
		}
		if err != nil {
			return 0, err
		}
	}
}

func (p *peer) wakeWanting() {
	for _, w := range p.opened.wanting {
		w.answered = true
		p.e.rouse(w)
	}
	p.opened.wanting = p.opened.wanting[:0]
}

// hasOpened takes in that the peer has opened a channel.
func (p *peer) hasOpened(channel int, to *Remote) error {
	if err := p.opened.states.Opened(channel); err != nil {
		return err
	}
	if w := to.opening; w != nil {
		to.opening, w.answered = nil, true
		p.e.rouse(w)
	} else { // its opener did not wait
		p.leave(channel)
	}
	return nil
}

// answered takes in what the peer says about a channel that this side opened.
func (p *peer) answered(f *pair.Frame) error {
	channel, to := f.Channel, p.opened.out[f.Channel]
	if f.Kind == pair.Opened {
		return p.hasOpened(channel, to)
	}
	counted, tell, err := p.opened.states.Closed(channel)
	if err != nil {
		return err
	}
	if w := to.opening; w != nil && !counted {
		to.opening, w.answered = nil, true
		w.err = fmt.Errorf("%w: %s: %.200s", ErrNoService, to.id, string(f.Data))
		p.e.rouse(w)
	}
	if counted {
		if err := p.shut(channel, f.ID, to); err != nil {
			return err
		}
		p.dropAnswers(channel)
		p.wakeTurns()
	}
	if tell {
		p.say(pair.Left, channel, 0, nil)
	}
	p.opened.out[channel] = nil
	p.unpin(to)
	p.wakeWanting()
	return nil
}

// leave gives a channel up on which this side sends no more. What was sent on it is still received.
func (p *peer) leave(channel int) {
	if p.ended() || !p.opened.states.Leave(channel) {
		return
	}
	p.send.leave(channel)
	p.dropAnswers(channel)
	p.opened.out[channel] = &p.e.nowhere // it has to be told of nothing
	p.say(pair.Left, channel, 0, nil)
}

// dropAnswers drops messages of a channel that found no room: none is sent any more.
func (p *peer) dropAnswers(channel int) {
	if n := p.answers.Drop(channel); n > 0 {
		p.refund(int64(n))
	}
}

// leaveAll gives up the channels on which a service sends that is closed.
func (s *Service) leaveAll() {
	for _, p := range slices.Clone(s.e.peers) {
		for channel, to := range p.opened.out {
			if to == nil || to.service != s {
				continue
			}
			if r := to.left; r != nil && r.peer == p && r.channel == channel {
				to.leave()
			} else if r := to.route.Load(); r != nil && r.peer == p && r.channel == channel {
				to.route.Store(nil)
				r.end()
				p.leave(channel)
			}
		}
		for k := range p.opened.pins {
			if k.service == s {
				delete(p.opened.pins, k)
			}
		}
	}
}

// abandon gives the channel of an address up that is not used any more.
func (r *Remote) abandon() {
	r.service.e.lock()
	defer r.service.e.unlock()
	if to := r.route.Load(); to != nil {
		r.route.Store(nil)
		to.end()
		to.peer.leave(to.channel)
	}
}

// unpin forgets an address in the peer's process that has no channel any more.
func (p *peer) unpin(to *Remote) {
	if to.peer != p {
		return
	}
	key := pin{to.service, to.id}
	if r := p.opened.pins[key]; r != nil && !r.hasRoute() && (r.streams == nil || !r.streams.hasRoute()) && (r.board == nil || !r.board.hasRoute()) {
		delete(p.opened.pins, key)
	}
}

func (r *Remote) hasRoute() bool { return r.route.Load() != nil || r.opening != nil }

// open answers a peer that wants a channel.
func (p *peer) open(f *pair.Frame) error {
	if err := p.served.states.Open(f.Channel); err != nil {
		return err
	}
	var o opening
	if err := json.Unmarshal(bytes.Clone(f.Data), &o); err != nil || len(o.From) > maxID {
		return fmt.Errorf("%w: the opening of channel %d: %w", fabric.ErrViolation, f.Channel, firstOf(err, ErrTooLarge))
	}
	s := p.e.services.byID[o.To]
	if o.Back != 0 {
		s = p.e.services.byNumber(o.Back)
	}
	if o.Streams && (s == nil || s.closed) {
		s = p.e.services.leaving(o.To, o.Back)
	}
	in := &inbound{service: s, channel: f.Channel, from: o.From, number: o.Number, notices: o.Notices}
	switch {
	case s == nil || s.closed && !o.Streams:
		p.refuse(f.Channel, "%v has no service %q", p.e, o.To)
		return nil
	case o.Streams && (s.streams == nil || o.Notices):
		p.refuse(f.Channel, "%s takes no streams", s.id)
		return nil
	case o.Streams:
		in.callers = newCallers(p, in, f.Channel)
	}
	if other := p.served.other(in); other != nil {
		in.back = other.back
	} else {
		in.back = newRemote(s, in.from)
		in.back.peer, in.back.number = p, in.number
	}
	p.rx.Reopened(f.Channel)
	p.served.in[f.Channel] = in
	p.say(pair.Opened, f.Channel, 0, nil)
	return nil
}

func (p *peer) refuse(channel int, format string, args ...any) {
	p.served.states.Refuse(channel)
	p.say(pair.Closed, channel, 0, fmt.Appendf(nil, format, args...))
}

// wasLeft takes in that the peer gave up a channel on which it sends.
func (p *peer) wasLeft(channel int) error {
	owed, err := p.served.states.Left(channel)
	switch {
	case err != nil:
		return err
	case owed:
		p.served.owed++
		p.lastCount(channel)
	default:
		p.noMore(channel)
	}
	return nil
}

// noMore forgets a channel on which the peer sent. A service without another one sends no more.
func (p *peer) noMore(channel int) {
	in := p.served.in[channel]
	p.served.in[channel] = nil
	if in != nil {
		in.back.mute = p.served.other(in) == nil
	}
}

// lastCount tells the peer the last count of a channel that it gave up, if that is certain. It is
// called when a message was counted.
func (p *peer) lastCount(channel int) {
	if p.served.owed > 0 && !p.ended() && p.served.states.IsLeft(channel) && (p.served.in[channel].callers != nil || p.rx.AllCounted(channel)) {
		p.stopServing(channel)
	}
}

// stopServing ends the use of a channel on which the peer sends: nothing more is received on it.
func (p *peer) stopServing(channel int) {
	wasLeft := p.served.states.IsLeft(channel)
	if !p.served.states.Close(channel) {
		return
	}
	if wasLeft {
		p.served.owed--
		p.noMore(channel)
	}
	p.say(pair.Closed, channel, p.rx.Counted(channel), nil)
}
