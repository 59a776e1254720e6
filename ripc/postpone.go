package ripc

import (
	"time"

	"github.com/squall-go/squall/ripc/internal/pair"
)

// Messages that follow each other closely go to a socket together: to write one costs as much as to
// put some fifty into the ring. This file says which messages wait, and sees to it that none waits
// long.

// postponed is what a peer behind a socket is to be sent with later messages. The endpoint's mu
// guards it.
type postponed struct {
	waits   bool      // something is postponed, and the peer is on the endpoint's list
	bytes   int       // of it
	since   time.Time // when the first of it was postponed
	written time.Time // when the last message was put or written
}

const (
	closely       = 5 * time.Microsecond  // messages with less time between them follow each other closely: no answer came in between
	postponeTime  = 20 * time.Microsecond // after which the sender of the next message writes them
	postponeBytes = 8 << 10               // the same, by their number
)

// postpone reports whether a message that was just put into the ring may wait for the next ones.
// The first of several never does. If no other message comes, the goroutine that runs
// writePostponed writes it, or an earlier step does. The caller holds the endpoint's mu.
func (p *peer) postpone(parts [][]byte) bool {
	l := &p.line.postponed
	now := time.Now()
	follows := now.Sub(l.written) < closely
	l.written = now
	if !follows {
		return false
	}
	l.bytes += size(parts) + pair.HeaderBytes
	if l.bytes > postponeBytes || l.waits && now.Sub(l.since) > postponeTime {
		return false
	}
	if !l.waits {
		l.waits, l.since = true, now
		p.e.postpone(p)
	}
	return true
}

// postponedList are the peers to which something is postponed.
type postponedList struct {
	list  []*peer
	bell  chan struct{} // nil: the goroutine was not started yet
	awake bool
}

// postpone puts a peer on the list.
func (e *Endpoint) postpone(p *peer) {
	l := &e.postponed
	l.list = append(l.list, p)
	if l.bell == nil {
		l.bell = make(chan struct{}, 1)
		e.background.Go(e.writePostponed)
	}
	if !l.awake {
		l.awake = true
		l.bell <- struct{}{} // has room: it is sent once for each time that awake is set
	}
}

// writePostponed writes what was postponed and is still there some time later.
func (e *Endpoint) writePostponed() {
	l := &e.postponed
	for {
		select {
		case <-l.bell:
		case <-e.ctx.Done():
			return
		}
		for awake := true; awake; {
			time.Sleep(postponeTime)
			e.lock()
			for i, p := range l.list {
				if p.line.postponed.waits {
					p.flush()
				}
				l.list[i] = nil
			}
			awake = len(l.list) > 0
			l.list, l.awake = l.list[:0], awake
			e.unlock()
		}
	}
}
