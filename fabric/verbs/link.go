//go:build linux

package verbs

import (
	"errors"
	"fmt"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/verbs/device"
	"github.com/squall-go/squall/internal/mutant"
)

// The geometry of a pair. Both sides must have the same.
const (
	receives     = 32   // that are posted for a pair
	messageBytes = 1024 // of a message, and of its buffer
	requests     = 128  // that may be outstanding
	signalEvery  = 16   // requests; a message is one, so there are fewer than receives between two completions
	maxWork      = 32   // requests of one call
)

// How long the end of a link waits for the device, and for the peer.
const (
	freezeTime = time.Millisecond       // for what was posted; a peer that answers takes microseconds
	lastWords  = 250 * time.Millisecond // for what was posted, when the table closes
	lingerTime = 50 * time.Millisecond  // for the peer's end
)

// clock is what the end of a link waits by.
type clock interface {
	now() time.Time
	sleep(time.Duration)
}

// wall is the system clock.
type wall struct{}

func (wall) now() time.Time        { return time.Now() }
func (wall) sleep(d time.Duration) { time.Sleep(d) }

// lifeline is the connection over which a pair was set up. Its end is the peer's.
type lifeline interface {
	// ended reports whether the peer's end came, as far as the parker says.
	ended() bool
	// look asks for the peer's end itself.
	look() bool
	hangUp()
	close() error
}

// Link implements fabric.Link over a queue pair.
type Link struct {
	hub      *hub
	id       uint32 // in hub
	lifeline lifeline

	own                 []byte
	ownShape, peerShape fabric.RowShape
	replica             []byte
	stage               []byte // receives, then messages to send
	free                []func() error

	domain    device.Domain
	pair      device.Pair // nil: closed
	ownKey    uint32
	stageAt   device.Region
	bytesAt   device.Region // of the replica; the peer writes there
	remote    device.Region // where the bytes of the own row go
	inline    int
	mostBytes int // of a write

	pending fabric.Pending
	tx      sender
	rx      receiver
	err     error // why the link failed
	over    bool  // the peer sent its last message
	done    bool  // frozen or closed
	hungUp  time.Time
	round   uint // of the hub, when the loop polled this link last

	inbox, spare []device.Completion // guarded by hub.mu
}

// Name implements fabric.Link.
func (l *Link) Name() string { return "verbs" }

// Direct implements fabric.Link.
func (l *Link) Direct() bool { return false }

// Replica implements fabric.Link.
func (l *Link) Replica() []byte { return l.replica }

// Push implements fabric.Link.
func (l *Link) Push(off, n int) { l.pending.Push(off, n) }

// PushLine implements fabric.Link.
func (l *Link) PushLine(off int) { l.pending.PushLine(off) }

// Poll implements fabric.Link. The peer's end is looked at first: what the peer sent before it is
// taken in after that.
func (l *Link) Poll() (work bool, err error) {
	if l.done {
		return false, nil
	}
	ended := l.lifeline.ended()
	completions, err := l.hub.step(l)
	if ended {
		completions = l.late(completions)
	}
	l.took(completions)
	if l.err == nil {
		l.err = err
	}
	switch work = len(completions) > 0; {
	case l.err != nil:
		err = l.err
	case l.over:
		err = fmt.Errorf("%w: the peer closed its link", fabric.ErrPeerGone)
	case ended:
		err = fmt.Errorf("%w: its connection ended", fabric.ErrPeerGone)
	default:
		l.report()
		err = l.err
	}
	return work, err
}

// late appends the completions that arrived after the loop's step to those of the step.
func (l *Link) late(first []device.Completion) []device.Completion {
	all := append([]device.Completion(nil), first...)
	rest, _ := l.hub.take(l, true)
	return append(all, rest...)
}

// took accounts for completions.
func (l *Link) took(completions []device.Completion) {
	for _, c := range completions {
		err := l.completed(c)
		if err != nil && l.err == nil {
			l.err = err
		}
	}
}

func (l *Link) completed(c device.Completion) error {
	count, isReceive := uint32(c.ID)&countMask, uint32(c.ID)&receiveBit != 0
	switch {
	case c.Status != 0:
		return fmt.Errorf("%w: %w: a request completed with status %d (%s)", fabric.ErrPeerGone, device.ErrFailed, c.Status, statusText(c.Status))
	case !isReceive:
		return l.tx.complete(count)
	case count != l.rx.used&countMask:
		return fmt.Errorf("%w: receive %d completed, not %d", device.ErrFailed, count, l.rx.used&countMask)
	}
	if l.err != nil {
		return nil // what comes after a fault is not believed
	}
	return l.received(c.Bytes)
}

// Flush implements fabric.Link.
func (l *Link) Flush() (work bool, err error) {
	for !l.done && l.err == nil {
		if !l.tx.busy() {
			if l.pending.Empty() {
				return l.report() || work, l.err
			}
			l.tx.frame(&l.pending, l.own)
		}
		if !l.post() {
			return l.report() || work, l.err // a peer that waits, too, would wait for ever
		}
		work = true
	}
	return work, l.err
}

// HangUp sends the last message, without waiting, after the rest of the frame that was begun, as
// far as the device takes it now. What was only pushed stays here: in the middle of a step its
// lines may be ahead of their bytes.
func (l *Link) HangUp() {
	if l.done || !l.hungUp.IsZero() {
		return
	}
	l.hungUp = l.hub.clock.now()
	if l.err != nil || l.over {
		return
	}
	for l.tx.busy() && l.post() {
	}
	if !l.tx.busy() {
		l.tx.last = true
		l.postMessage(0)
	}
}

// Freeze implements fabric.Link. It gives what was posted a moment to arrive, if nothing says that
// the peer is gone, and closes the pair (QP5): no request is sent again from bytes that may change
// now, and no write of the peer changes the replica.
func (l *Link) Freeze() []byte {
	l.HangUp()
	l.settle(freezeTime)
	l.quiet()
	return l.replica
}

// settle waits until the device has completed everything that was posted, or has failed.
func (l *Link) settle(d time.Duration) {
	for until := l.hungUp.Add(d); !l.done && l.err == nil && l.tx.signalledOutstanding(); {
		if l.ending(); l.over || l.lifeline.look() || l.hub.clock.now().After(until) {
			return
		}
	}
}

// ending takes in what completed of a link that ends: what the peer has, and its last message.
func (l *Link) ending() {
	completions, err := l.hub.take(l, true)
	for _, c := range completions {
		switch isReceive := uint32(c.ID)&receiveBit != 0; {
		case c.Status != 0:
			err = fmt.Errorf("%w: status %d", device.ErrFailed, c.Status)
		case !isReceive:
			l.tx.complete(uint32(c.ID) & countMask) // a fault would be one of a device that is closed now
		case l.flagsOf(c)&flagLast != 0:
			l.over = true
		}
	}
	if l.err == nil {
		l.err = err
	}
}

// quiet closes the pair.
func (l *Link) quiet() {
	if l.done {
		return
	}
	l.done = true
	if mutant.Enabled && mutant.On(mutant.FreezeAlive) {
		return
	}
	l.closePair()
	l.lifeline.hangUp()
}

func (l *Link) closePair() {
	if l.pair == nil {
		return
	}
	if err := l.pair.Close(); err != nil && l.err == nil {
		l.err = err
	}
	l.pair = nil
	l.hub.remove(l)
}

// Close implements fabric.Link. It waits briefly until the peer has what was posted, and for the
// peer's end: a connection that ends says that everything before it came.
func (l *Link) Close() error {
	l.HangUp()
	l.settle(lastWords)
	for !l.done && l.err == nil && !l.over && !l.lifeline.look() && l.hub.clock.now().Sub(l.hungUp) < lingerTime {
		l.ending()
		l.hub.clock.sleep(time.Millisecond / 10)
	}
	l.quiet()
	return l.release()
}

// release gives up what the link holds.
func (l *Link) release() error {
	l.closePair()
	errs := []error{l.lifeline.close()}
	if l.domain != nil {
		errs = append(errs, l.domain.Close())
		l.domain = nil
	}
	for _, free := range l.free {
		errs = append(errs, free())
	}
	l.free, l.replica, l.stage = nil, nil, nil
	return errors.Join(errs...)
}

// statusText names the ends of requests that say what went wrong.
func statusText(status uint32) string {
	switch status {
	case 5:
		return "the pair was in error"
	case 10:
		return "the peer's memory may not be written so"
	case 12:
		return "the peer does not answer"
	case 13:
		return "the peer has no receive"
	}
	return "see ibv_wc_status"
}
