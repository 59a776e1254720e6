package ripc

import (
	"context"
	"fmt"
	"time"

	"github.com/squall-go/squall/ripc/internal/pair"
	"github.com/squall-go/squall/ripc/internal/table"
)

// This file is how frames go to a peer: into its ring, or onto the list of answers that wait for
// space.

// put offers a frame on the channel of a route, or on channel 0 without one. The caller does not
// hold the endpoint's mu.
func (p *peer) put(r *route, k pair.Kind, id uint64, parts [][]byte) (status pair.Status, over bool) {
	if !p.direct {
		p.e.lock()
		defer p.e.unlock()
		if r.isOver() {
			return pair.Shut, true
		}
		return p.putHeld(k, r.on(), id, parts, nil)
	}
	p.send.mu.Lock()
	if r.isOver() {
		status, over = pair.Shut, true
	} else {
		status, over = p.putLocked(k, r.on(), id, parts)
	}
	p.send.mu.Unlock()
	if status == pair.Accepted && p.stirs.Load() {
		p.e.lock()
		p.e.stir(p)
		p.e.unlock()
	}
	return status, over
}

// putReply is put for a reply. If the reply is batched, another call writes it to the socket, or
// wakes the peer.
func (p *peer) putReply(k pair.Kind, id uint64, parts [][]byte, batched bool) (status pair.Status, over bool) {
	if !batched {
		return p.put(nil, k, id, parts)
	}
	if p.direct {
		p.send.mu.Lock()
		defer p.send.mu.Unlock()
		return p.send.put(k, 0, id, parts)
	}
	p.e.lock()
	defer p.e.unlock()
	return p.putLocked(k, 0, id, parts)
}

// putHeld is put for a caller that holds the endpoint's mu, and is about to wait with w, if w is
// not nil. Over a socket the next step writes what was put: that of the poller, if it is awake, or
// of the caller, if it is about to poll.
func (p *peer) putHeld(k pair.Kind, channel int, id uint64, parts [][]byte, w *waiter) (status pair.Status, over bool) {
	p.send.lock()
	status, over = p.putLocked(k, channel, id, parts)
	if w != nil && status == pair.Accepted {
		w.channel, w.ordinal = channel, p.send.tx.Messages(channel)
	}
	p.send.unlock()
	if status != pair.Accepted {
		return status, over
	}
	if !p.direct || p.stirs.Load() {
		p.e.stir(p)
	}
	if free := p.e.role.Defers(); !p.direct && (free && w == nil || !free && p.e.role.IsAsleep()) && !p.postpone(parts) {
		p.flush()
		p.line.postponed.written = time.Now()
	}
	return status, over
}

// putLocked puts a frame into the ring, and has the peer look or marks what is to be written to the
// socket. The caller holds the lock of the sending half.
func (p *peer) putLocked(k pair.Kind, channel int, id uint64, parts [][]byte) (status pair.Status, over bool) {
	if status, over = p.send.put(k, channel, id, parts); over || status != pair.Accepted {
		return status, over
	}
	if p.direct {
		p.line.ring()
		return status, false
	}
	p.line.pushFrames(p.send.tx.Ranges())
	p.line.pushLines(p.rx.Lines())
	return status, false
}

// flush writes what is pushed to the socket.
func (p *peer) flush() {
	if p.ended() {
		return
	}
	p.line.postponed.waits, p.line.postponed.bytes = false, 0
	if _, err := p.line.link.Flush(); err != nil {
		p.line.link.Poll() // its last words
		p.fail(err)
	}
}

// tell lets the peer see what the receiving half published, if that is urgent.
func (p *peer) tell() {
	if p.rx.Urgent() && !p.ended() {
		p.tellNow()
	}
}

func (p *peer) tellNow() {
	if p.direct {
		p.send.mu.Lock()
		p.line.ring()
		p.send.mu.Unlock()
		return
	}
	p.line.pushLines(p.rx.Lines())
	p.flush()
}

// tellCore tells the peer on which core this process runs, if that is another one than before.
func (p *peer) tellCore(core uint64) {
	if p.line.core != core {
		p.line.core = core
		p.rx.SetCore(core)
	}
}

// park has the peer ring from now on.
func (p *peer) park() { p.setParked(true) }

// unpark tells the peer that it is polled.
func (p *peer) unpark() { p.setParked(false) }

func (p *peer) setParked(parked bool) {
	if p.direct && !p.ended() {
		p.line.setParked(parked)
	}
}

// wakeSenders wakes the goroutines that wait for buffer space and have it. The caller holds the
// endpoint's mu.
func (p *peer) wakeSenders() {
	if p.ended() {
		return
	}
	for _, w := range p.send.wake() {
		p.e.rouse(w)
	}
}

// setHungry tells the peer whether something here waits for buffer space. A peer that sleeps may
// have space that it has not published: it is woken. The caller holds the endpoint's mu.
func (p *peer) setHungry() {
	if p.ended() {
		return
	}
	waits := p.send.room.Len() > 0 || p.answers.Len() > 0 || p.opened.drains > 0
	p.send.lock()
	changed := p.send.tx.SetHungry(waits)
	if p.direct && changed && waits {
		p.line.ring()
	}
	p.send.unlock()
	if p.direct || !changed {
		return
	}
	p.line.link.PushLine(pair.HungryLine)
	if waits { // else it goes with what is written next
		p.flush()
	}
}

// putOrWait puts a frame on the channel of a route, or on channel 0 without one, as soon as there
// is room. Without an error, accepted is false if the frame has no place there any more. asks is
// the waiter for the answer, or nil. The caller holds the endpoint's mu.
func (p *peer) putOrWait(ctx context.Context, r *route, k pair.Kind, id uint64, parts [][]byte, asks *waiter) (accepted bool, err error) {
	e := p.e
	status, over := p.putHeld(k, r.on(), id, parts, asks)
	if status == pair.Accepted || over {
		return !over, nil
	}
	w := e.waiter()
	defer e.giveBack(w)
	w.goal, w.peer, w.route, w.asks = goalRoom, p, r, asks
	accepted, err = p.waitForRoom(ctx, w, r, k, id, parts, asks)
	if err != nil {
		err = fmt.Errorf("ripc: waiting for space: %w", err)
	}
	return accepted, err
}

// waitForRoom puts a frame that found no room as soon as there is some, unless the waiter is
// halted. The waiter keeps its claim until the frame is in the ring: the others are woken for what
// is left.
func (p *peer) waitForRoom(ctx context.Context, w *waiter, r *route, k pair.Kind, id uint64, parts [][]byte, asks *waiter) (accepted bool, err error) {
	if err := p.send.wrong(); err != nil {
		p.fail(err)
		return false, nil
	}
	w.entry.Sender = w
	p.send.room.Join(&w.entry, k, r.on(), size(parts))
	p.setHungry()
	p.e.stir(p)
	for over := false; !accepted && !over; {
		p.wakeSenders()
		if err = p.e.wait(ctx, w); err != nil || w.isHalted() {
			break
		}
		var status pair.Status
		status, over = p.putHeld(k, r.on(), id, parts, asks)
		accepted = status == pair.Accepted
		if status == pair.WrongWords {
			p.fail(p.send.wrong())
			break
		}
		if !accepted {
			p.send.room.Refused(&w.entry)
		}
	}
	p.send.room.Leave(&w.entry)
	p.setHungry()
	p.wakeSenders()
	return accepted, err
}

// say sends a frame on channel 0, now or as soon as there is room. A peer that asks and takes no
// answers is cut off.
func (p *peer) say(k pair.Kind, channel int, id uint64, data []byte) {
	if p.ended() {
		return
	}
	if p.answers.Len() == 0 {
		if status, over := p.putHeld(k, channel, id, [][]byte{data}, nil); status == pair.Accepted || over {
			return
		}
	}
	a := table.Answer{Kind: k, Channel: channel, ID: id, Data: append([]byte(nil), data...)}
	if !p.answers.Fits(&a) {
		p.fail(fmt.Errorf("%w: the peer does not take its answers: %d bytes wait", ErrLimit, p.answers.Bytes()))
		return
	}
	if err := p.fits(int64(a.Bytes())); err != nil {
		p.fail(fmt.Errorf("the peer does not take its answers: %w", err))
		return
	}
	p.answers.Push(a)
	p.charge(int64(a.Bytes()))
	p.setHungry()
}

// sendAnswers sends what found no room before.
func (p *peer) sendAnswers() (worked bool) {
	for p.answers.Len() > 0 {
		a := p.answers.First()
		if status, _ := p.putHeld(a.Kind, a.Channel, a.ID, [][]byte{a.Data}, nil); status != pair.Accepted && status != pair.Shut {
			return worked
		}
		if p.ended() {
			return true
		}
		p.refund(int64(p.answers.Pop()))
		worked = true
	}
	p.setHungry()
	return worked
}
