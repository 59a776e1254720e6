package ripc

import (
	"errors"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/ripc/internal/pair"
)

// This file is the end of a pair: everything that waits for the peer fails, and the memory is freed
// when nobody uses it any more.

func (p *peer) failCall(id uint64, w *waiter, why error) {
	p.calls.End(id)
	w.answered = true
	if w.err == nil {
		gone := &GoneError{Service: "", Exact: p.direct, Cause: why}
		if !p.send.tx.WasReceived(w.channel, w.ordinal) {
			gone.Unreceived = 1
		}
		w.err = gone
	}
	p.e.rouse(w)
}

// fail ends the pair. The frames that the peer sent are taken first; then everything that waits for
// the peer fails. The caller holds the endpoint's mu.
func (p *peer) fail(why error) {
	if p.ended() {
		return
	}
	p.life.End()
	p.why = why
	p.send.end()
	if !errors.Is(why, fabric.ErrViolation) {
		p.drain()
	}
	for channel, to := range p.opened.out {
		if to != nil && to != &p.e.nowhere {
			to.lost(p, channel, why)
		}
	}
	p.calls.All(func(id uint64, w *waiter) { p.failCall(id, w, why) })
	p.send.room.All(func(_ int, w *waiter) { p.e.rouse(w) })
	p.wakeWanting()
	p.failLong(why)
	p.addTo(&p.e.counts)
	p.e.emit(PeerLost{p.who.String(), p.line.link.Name(), why})
	p.refund(int64(p.answers.Clear()))
	p.line.link.Freeze()
	p.e.forget(p)
	p.dispose()
}

// drain takes all that is here: it was sent.
func (p *peer) drain() {
	for {
		f, err := p.rx.Next()
		if f == nil || err != nil || p.dispatch(f) != nil {
			return
		}
	}
}

// free gives a frame back that the application or a queue had.
func (p *peer) free(f *pair.Frame) {
	if p.giveBack(f) {
		p.settle()
	}
}

// giveBack is the part of free that is done for each of several frames.
func (p *peer) giveBack(f *pair.Frame) bool {
	if !p.rx.GiveBack(f) {
		return false
	}
	p.life.GiveBack()
	if f.Tag != nil {
		p.freeLong(f.Tag.(*receiving), received)
	}
	return true
}

// settle makes use of what was given back, and tells the peer if that matters to it.
func (p *peer) settle() {
	if p.ended() {
		p.dispose() // if that was done before, the rows are not there any more
		return
	}
	p.rx.Settle()
	p.tell()
}

// dispose frees the memory of a pair that ended, when no frame of it is in use any more. The caller
// holds the endpoint's mu.
func (p *peer) dispose() {
	if !p.life.Free() {
		return
	}
	link, release := p.line.link, p.line.release
	p.refund(p.member.Charged() + int64(p.rx.Unbound()))
	dispose := func() { // a link over a socket waits for its peer's end
		p.e.lock() // the goroutine that found the end may have been in the middle of a step
		p.e.unlock()
		p.send.mu.Lock() // no goroutine is in the middle of a frame
		defer p.send.mu.Unlock()
		link.Close()
		release()
	}
	if p.e.awaited { // Close does not wait for frames that the application gives back later
		go dispose()
		return
	}
	p.e.background.Go(dispose)
}

// disposeIfOver is dispose for a frame that was freed after the pair ended.
func (p *peer) disposeIfOver() {
	if p.ended() {
		p.dispose()
	}
}
