package ripc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/ripc/internal/pair"
	"github.com/squall-go/squall/ripc/internal/table"
)

// peer is a connected process: the shell around the two halves of a pair.
type peer struct {
	e       *Endpoint
	who     Peer
	viewer  uint64 // its number among the connections of the endpoint: tells memory that it saw from memory that others saw
	link    fabric.Link
	direct  bool // the peer reads the own row itself
	own     []byte
	row     []byte       // the peer's
	release func() error // frees the own row

	stirs atomic.Bool // set: a sender notes the peer with the endpoint, because the peer is not hot

	// The sending half. mu guards it if the link is direct; else the endpoint's mu does, because sending then works the socket.
	mu   sync.Mutex
	tx   *pair.Sender
	over bool // nothing is sent any more

	// The rest is under the endpoint's mu.
	rx       *pair.Receiver
	calls    pair.Calls[*waiter]
	in       [pair.Channels]*inbound
	out      [pair.Channels]*Remote
	openings pair.Openings
	servings pair.Servings
	owed     int                 // servings that the peer left, and of which it waits for the last count
	wanting  []*waiter           // for a channel that is not used
	answers  table.Answers       // frames that found no room
	room     pair.Queue[*waiter] // senders that wait for buffer space
	woken    []*waiter           // memory of wakeSenders
	drains   int                 // channels that were left and may still be received: the peer tells at once what it received
	life     table.Life
	spot     table.Spot[*peer]
	member   table.Member[*peer] // of its account
	core     uint64              // that was told to the peer
	pins     map[pin]*Remote
	why      error
	long     longs

	// What a later message takes along.
	postponed postponed
}

// inbound is a channel on which the peer sends.
type inbound struct {
	service *Service
	channel int
	from    ID
	number  uint32 // of the sending service in its endpoint
	notices bool
	back    *Remote // to the sending service
	board   pair.Notices
	listed  bool     // among the boards of the service
	callers *callers // the channel carries streams
}

// ended reports whether the pair has ended. The caller holds the endpoint's mu.
func (p *peer) ended() bool { return p.life.HasEnded() }

// opening is what a process says when it opens a channel.
type opening struct {
	From    ID     `json:"from"`
	Number  uint32 `json:"number"`            // of the sending service in its endpoint
	To      ID     `json:"to,omitempty"`      // the service to which it leads
	Back    uint32 `json:"back,omitempty"`    // its number, if that is how it is known
	Notices bool   `json:"notices,omitempty"` // the channel carries notices only
	Streams bool   `json:"streams,omitempty"` // the channel carries streams only
}

const stepFrames = 512 // taken from one peer before the others have their turn

// put offers a frame on the channel of a route, or on channel 0 without one. The caller does not hold the endpoint's mu.
func (p *peer) put(r *route, k pair.Kind, id uint64, parts [][]byte) (status pair.Status, over bool) {
	if !p.direct {
		p.e.lock()
		defer p.e.unlock()
		if r.isOver() {
			return pair.Shut, true
		}
		return p.putHeld(k, r.on(), id, parts, nil)
	}
	p.mu.Lock()
	if r.isOver() {
		status, over = pair.Shut, true
	} else {
		status, over = p.putLocked(k, r.on(), id, parts)
	}
	p.mu.Unlock()
	if status == pair.Accepted && p.stirs.Load() {
		p.e.lock()
		p.e.stir(p)
		p.e.unlock()
	}
	return status, over
}

// putReply is put for a reply. If the reply is batched, another call writes it to the socket, or wakes the peer.
func (p *peer) putReply(k pair.Kind, id uint64, parts [][]byte, batched bool) (status pair.Status, over bool) {
	if !batched {
		return p.put(nil, k, id, parts)
	}
	if p.direct {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.putQuietly(k, 0, id, parts)
	}
	p.e.lock()
	defer p.e.unlock()
	return p.putLocked(k, 0, id, parts)
}

// putHeld is put for a caller that holds the endpoint's mu, and is about to wait with w, if w is not nil. Over a socket the next
// step writes what was put: that of the poller, if it is awake, or of the caller, if it is about to poll.
func (p *peer) putHeld(k pair.Kind, channel int, id uint64, parts [][]byte, w *waiter) (status pair.Status, over bool) {
	if p.direct {
		p.mu.Lock()
	}
	status, over = p.putLocked(k, channel, id, parts)
	if w != nil {
		w.ordinal = p.tx.Messages(channel)
	}
	if p.direct {
		p.mu.Unlock()
	}
	if status != pair.Accepted {
		return status, over
	}
	if !p.direct || p.stirs.Load() {
		p.e.stir(p)
	}
	if free := p.e.role.Defers(); !p.direct && (free && w == nil || !free && p.e.role.IsAsleep()) && !p.postpone(parts) {
		p.flush()
		p.postponed.written = time.Now()
	}
	return status, over
}

// putQuietly puts a frame into the ring.
func (p *peer) putQuietly(k pair.Kind, channel int, id uint64, parts [][]byte) (status pair.Status, over bool) {
	if p.over {
		return pair.NoRoom, true
	}
	status = p.tx.Put(k, channel, id, parts)
	return status, status == pair.Shut
}

// putLocked puts a frame into the ring, and has the peer look or marks what is to be written to the socket.
func (p *peer) putLocked(k pair.Kind, channel int, id uint64, parts [][]byte) (status pair.Status, over bool) {
	if status, over = p.putQuietly(k, channel, id, parts); over || status != pair.Accepted {
		return status, over
	}
	if p.direct {
		p.ring()
		return status, false
	}
	a, b := p.tx.Ranges()
	p.push(a)
	p.push(b)
	p.link.PushLine(pair.SentLine)
	p.pushLines()
	return status, false
}

// ring wakes a peer that reads the own row itself, if it sleeps.
func (p *peer) ring() {
	if fabric.Parked(p.row)&1 == 1 {
		p.link.PushLine(pair.SentLine)
		p.link.Flush()
	}
}

func (p *peer) push(r fabric.Range) {
	if r.N > 0 {
		p.link.Push(r.Off, r.N)
	}
}

// pushLines marks the lines that the receiving half changed.
func (p *peer) pushLines() {
	for set, line := p.rx.Lines(), 0; set != 0; set, line = set>>1, line+1 {
		if set&1 == 1 {
			p.link.PushLine(line * fabric.LineBytes)
		}
	}
}

// flush writes what is pushed to the socket.
func (p *peer) flush() {
	if p.ended() {
		return
	}
	p.postponed.waits, p.postponed.bytes = false, 0
	if _, err := p.link.Flush(); err != nil {
		p.link.Poll() // its last words
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
		p.mu.Lock()
		p.ring()
		p.mu.Unlock()
		return
	}
	p.pushLines()
	p.flush()
}

// tellCore tells the peer on which core this process runs, if that is another one than before.
func (p *peer) tellCore(core uint64) {
	if p.core != core {
		p.core = core
		p.rx.SetCore(core)
	}
}

// park has the peer ring from now on.
func (p *peer) park() { p.bumpParked(1) }

// unpark tells the peer that it is looked at.
func (p *peer) unpark() { p.bumpParked(0) }

func (p *peer) bumpParked(parity uint64) {
	if !p.direct || p.ended() {
		return
	}
	if w := fabric.Word(p.own, 0); *w&1 != parity {
		atomic.StoreUint64(w, *w+1) // the holder of the endpoint's mu is the only writer
	}
}

// wakeSenders wakes the goroutines that wait for buffer space and have it (RP16). The caller holds the endpoint's mu.
func (p *peer) wakeSenders() {
	if p.ended() || p.room.Len() == 0 {
		return
	}
	if p.direct {
		p.mu.Lock()
	}
	p.woken = p.room.Wake(p.tx, p.woken[:0])
	if p.direct {
		p.mu.Unlock()
	}
	for i, w := range p.woken {
		p.e.rouse(w)
		p.woken[i] = nil
	}
}

// setHungry tells the peer whether something here waits for buffer space. A peer that sleeps may have room that it has not published: it is
// woken. The caller holds the endpoint's mu.
func (p *peer) setHungry() {
	if p.ended() {
		return
	}
	waits := p.room.Len() > 0 || p.answers.Len() > 0 || p.drains > 0
	if p.direct {
		p.mu.Lock()
		if p.tx.SetHungry(waits) && waits {
			p.ring()
		}
		p.mu.Unlock()
		return
	}
	if !p.tx.SetHungry(waits) {
		return
	}
	p.link.PushLine(pair.HungryLine)
	if waits { // else it goes with what is written next
		p.flush()
	}
}

// putOrWait puts a frame on the channel of a route, or on channel 0 without one, as soon as there is room. Without an error, accepted is
// false if the frame has no place there any more. asks is the waiter for the answer, or nil. The caller holds the endpoint's mu.
func (p *peer) putOrWait(ctx context.Context, r *route, k pair.Kind, id uint64, parts [][]byte, asks *waiter) (accepted bool, err error) {
	e := p.e
	status, over := p.putHeld(k, r.on(), id, parts, asks)
	if status == pair.Accepted || over {
		return !over, nil
	}
	w := e.waiter()
	defer e.giveBack(w)
	w.goal, w.peer, w.route, w.turned, w.asks = goalRoom, p, r, false, asks
	accepted, err = p.waitForRoom(ctx, w, r, k, id, parts, asks)
	if err != nil {
		err = fmt.Errorf("ripc: waiting for space: %w", err)
	}
	return accepted, err
}

// waitForRoom puts a frame that found no room as soon as there is some, unless the waiter is halted. The waiter keeps its claim until the
// frame is in the ring: the others are woken for what is left.
func (p *peer) waitForRoom(ctx context.Context, w *waiter, r *route, k pair.Kind, id uint64, parts [][]byte, asks *waiter) (accepted bool, err error) {
	if err := p.wrong(); err != nil {
		p.fail(err)
		return false, nil
	}
	w.entry.Sender = w
	p.room.Join(&w.entry, k, r.on(), size(parts))
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
			p.fail(p.wrong())
			break
		}
		if !accepted {
			p.room.Refused(&w.entry)
		}
	}
	p.room.Leave(&w.entry)
	p.setHungry()
	p.wakeSenders()
	return accepted, err
}

// step takes in what the peer sent, and sends what waits. The caller holds the endpoint's mu.
func (p *peer) step() (worked bool) {
	if p.ended() {
		return false
	}
	worked, err := p.link.Poll()
	if p.take(stepFrames) > 0 {
		worked = true
	}
	if err != nil {
		p.fail(err)
		return true
	}
	if p.ended() {
		return true
	}
	if p.rx.Answer() {
		p.tell()
	}
	if p.answers.Len() > 0 && p.sendAnswers() {
		worked = true
	}
	p.wakeSenders()
	if !p.direct && !p.ended() {
		if p.rx.Urgent() {
			p.pushLines()
		}
		p.flush()
	}
	return worked
}

// take takes frames from the ring, and returns how many.
func (p *peer) take(most int) (taken int) {
	for taken < most && !p.ended() {
		f, err := p.rx.Next()
		if err == nil {
			if f == nil {
				break
			}
			err = p.dispatch(f)
		}
		taken++
		if err != nil {
			p.fail(err)
			break
		}
	}
	p.rx.Ahead(taken == most)
	return taken
}

// dispatch hands a frame to its service, caller or stream.
func (p *peer) dispatch(f *pair.Frame) error {
	switch f.Kind {
	case pair.Message, pair.Request, pair.Notice:
		if err := p.servings.Takes(f.Kind, f.Channel); err != nil {
			return err
		}
		in := p.in[f.Channel]
		if in.notices != (f.Kind == pair.Notice) {
			return fmt.Errorf("%w: a %v on channel %d, which is not open for it", fabric.ErrViolation, f.Kind, f.Channel)
		}
		if in.callers != nil {
			return p.streamed(in, f)
		}
		if in.service.closed {
			p.turnAway(f)
			return nil
		}
		p.life.Keep()
		in.service.arrived(p, in, f)
		return nil
	case pair.Reply, pair.Refusal:
		w, ok := p.calls.End(f.ID)
		if !ok {
			p.rx.Free(f)
			return nil
		}
		p.life.Keep()
		w.frame, w.answered = f, true
		p.rx.Received(f)
		p.e.rouse(w)
		return nil
	case pair.Ping:
		p.say(pair.Reply, 0, f.ID, nil)
		p.rx.Free(f)
		return nil
	case pair.Open:
		err := p.open(f)
		p.rx.Free(f)
		return err
	case pair.Left:
		err := p.wasLeft(f.Channel)
		p.rx.Free(f)
		return err
	case pair.Opened, pair.Closed:
		err := p.answered(f)
		p.rx.Free(f)
		return err
	case pair.Offered:
		return p.offered(f)
	case pair.Granted, pair.Denied, pair.Here, pair.Freed:
		err := p.heard(f)
		p.rx.Free(f)
		return err
	case pair.Withdrawn:
		p.withdrawn(f)
		p.rx.Free(f)
		return nil
	}
	return fmt.Errorf("%w: a frame of %v", fabric.ErrViolation, f.Kind)
}

// turnAway frees a frame that will not be received. Its sender learns that when the channel ends.
func (p *peer) turnAway(f *pair.Frame) {
	if m, long := f.Tag.(*receiving); long {
		p.turnLongAway(m)
		return
	}
	p.rx.Free(f)
	p.tell()
}

// say sends a frame on channel 0, now or as soon as there is room. A peer that asks and takes no answers is cut off.
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

// fail ends the pair. The frames that the peer sent are taken first; then everything that waits for
// the peer fails. The caller holds the endpoint's mu.
func (p *peer) fail(why error) {
	if p.ended() {
		return
	}
	p.life.End()
	p.why = why
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	if !errors.Is(why, fabric.ErrViolation) {
		p.drain()
	}
	for channel, to := range p.out {
		if to != nil && to != &p.e.nowhere {
			to.lost(p, channel, why)
		}
	}
	p.calls.All(func(id uint64, w *waiter) {
		p.calls.End(id)
		w.answered = true
		if w.err == nil {
			gone := &GoneError{Service: "", Exact: p.direct, Cause: why}
			if !p.tx.WasReceived(w.channel, w.ordinal) {
				gone.Unreceived = 1
			}
			w.err = gone
		}
		p.e.rouse(w)
	})
	p.room.All(func(_ int, w *waiter) { p.e.rouse(w) })
	p.wakeWanting()
	p.failLong(why)
	p.addTo(&p.e.counts)
	p.e.emit(PeerLost{p.who.String(), p.link.Name(), why})
	p.refund(int64(p.answers.Clear()))
	p.link.Freeze()
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

// dispose frees the memory of a pair that ended, when no frame of it is in use any more. The caller holds the endpoint's mu.
func (p *peer) dispose() {
	if !p.life.Free() {
		return
	}
	link, release := p.link, p.release
	p.refund(p.member.Charged() + int64(p.rx.Unbound()))
	dispose := func() { // a link over a socket waits for its peer's end
		p.e.lock() // the goroutine that found the end may have been in the middle of a step
		p.e.unlock()
		p.mu.Lock() // no goroutine is in the middle of a frame
		defer p.mu.Unlock()
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
