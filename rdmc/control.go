package rdmc

import (
	"errors"
	"io"
	"time"

	"github.com/squall-go/squall/internal/attach"
	"github.com/squall-go/squall/internal/relay"
)

// readControl reads control frames until the link ends.
func (l *link) readControl() error {
	var header [relay.ControlBytes]byte
	text := make([]byte, relay.MaxTextBytes)
	for {
		if _, err := io.ReadFull(l.control, header[:]); err != nil {
			return err
		}
		c, textBytes, err := relay.ParseControl(&header)
		if err != nil {
			return err
		}
		if _, err := io.ReadFull(l.control, text[:textBytes]); err != nil {
			return err
		}
		c.SetText(text[:textBytes])
		l.hearsPeer()
		if err := l.hear(&c); err != nil {
			return err
		}
	}
}

// hear takes one control frame.
func (l *link) hear(c *relay.Control) error {
	switch c.Kind {
	case relay.Attach, relay.Leave, relay.Ping, relay.Pong:
		return l.node.hearOf(l, c)
	}
	m, err := l.member(c.Channel)
	if m != nil && !m.group.step(m, c) {
		l.node.meet(func(a *attach.Node, out *attach.Effects) { a.Speaks(l.number, c.Channel, out) })
		m.group.step(m, c)
	}
	return err
}

// writeControl writes control frames until the link ends.
func (l *link) writeControl() {
	var spare []byte
	for {
		select {
		case <-l.over:
			return
		case <-l.queue.kick:
		}
		if spare = l.writeOutbox(spare); spare == nil {
			return
		}
	}
}

// writeOutbox writes what has gathered, and returns its memory for the next time; nil at the end.
func (l *link) writeOutbox(spare []byte) []byte {
	l.mu.Lock()
	frames, goodbye := l.queue.frames, l.queue.goodbye
	l.queue.frames = spare[:0]
	l.mu.Unlock()
	if len(frames) > 0 {
		// A peer that reads nothing holds up only this goroutine, and not for ever. If it is
		// silent, too, it is given up before that.
		l.traffic.moving.Add(1)
		err := l.control.SetWriteDeadline(time.Now().Add(2 * l.node.cfg.FailAfter))
		if err == nil {
			_, err = l.control.Write(frames)
		}
		l.traffic.moving.Add(-1)
		if err != nil {
			l.blocksEnded(err)
			return nil
		}
	}
	if goodbye {
		if half, ok := l.control.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite() // best effort: the link ends soon in any case
		}
		<-l.over
		return nil
	}
	if frames == nil {
		frames = []byte{}
	}
	return frames
}

var (
	errSilent = errors.New("the peer has been silent for too long")
	errIdle   = errors.New("no group needs the link")
)

// watchPeer has the peer watched until the link ends, and ends a link that no group needs. It waits
// for nothing but the time: a goroutine that a peer holds up would seem to have stood still itself.
func (l *link) watchPeer() {
	ticker := time.NewTicker(l.node.cfg.FailAfter / 4)
	defer ticker.Stop()
	for needed := uptime(); ; {
		var now time.Duration
		select {
		case <-l.over:
			return
		case tick := <-ticker.C:
			now = tick.Sub(began)
		}
		busy, need := l.load()
		if need {
			needed = now
		} else if now-needed > idleTime {
			l.fail(errIdle)
		}
		l.node.meet(func(a *attach.Node, out *attach.Effects) { a.Watch(l.number, now, l.lastHeard(), busy, out) })
	}
}

// load reports whether a block or a group waits for the peer, and whether any group needs the link.
func (l *link) load() (busy, needed bool) {
	busy = l.traffic.moving.Load() > 0
	all := l.enlisted()
	for _, m := range all {
		busy = busy || m.group.busy()
	}
	return busy, len(all) > 0
}
