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
		case <-l.kick:
		}
		if spare = l.writeOutbox(spare); spare == nil {
			return
		}
	}
}

// writeOutbox writes what has gathered, and returns its memory for the next time; nil at the end.
func (l *link) writeOutbox(spare []byte) []byte {
	l.mu.Lock()
	frames, goodbye := l.outbox, l.goodbye
	l.outbox = spare[:0]
	l.mu.Unlock()
	if len(frames) > 0 {
		// A peer that reads nothing holds up only this goroutine, and not for ever. If it is
		// silent, too, it is given up before that.
		l.moving.Add(1)
		err := l.control.SetWriteDeadline(time.Now().Add(2 * l.node.cfg.FailAfter))
		if err == nil {
			_, err = l.control.Write(frames)
		}
		l.moving.Add(-1)
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

// watch ends a link whose peer is silent while something is under way, or that no group needs.
type watch struct {
	link *link
	idle time.Time // since when; zero: a group needs the link
}

// watchPeer watches over the peer's silence until the link ends. It waits for nothing but the time:
// a goroutine that a peer holds up would seem to have stood still itself.
func (l *link) watchPeer() {
	watch := watch{link: l, idle: time.Now()}
	l.tick(time.Now(), false)
	ticker := time.NewTicker(l.watch.Every())
	defer ticker.Stop()
	for {
		select {
		case <-l.over:
			return
		case now := <-ticker.C:
			watch.tick(now)
		}
	}
}

// tick asks the watch what the peer has to be given.
func (l *link) tick(now time.Time, busy bool) relay.Attention {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.watch.Tick(now, l.lastHeard(), busy)
}

// slept reports whether this node stood still until a moment ago. A link that has ended has to be
// asked at once.
func (l *link) slept() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.watch.Slept(time.Now())
}

func (w *watch) tick(now time.Time) {
	busy, needed := w.link.load()
	switch {
	case needed:
		w.idle = time.Time{}
	case w.idle.IsZero():
		w.idle = now
	case now.Sub(w.idle) > idleTime:
		w.link.fail(errIdle)
	}
	switch w.link.tick(now, busy) {
	case relay.AskIt:
		w.link.node.meet(func(a *attach.Node, out *attach.Effects) { a.Ask(w.link.number, out) })
	case relay.GiveItUp:
		w.link.silent.Store(true)
		w.link.fail(errSilent)
	}
}

// load reports whether anything waits for the peer, and whether any group needs the link.
func (l *link) load() (busy, needed bool) {
	busy = l.moving.Load() > 0 || l.node.waits(l)
	all := l.enlisted()
	for _, m := range all {
		busy = busy || m.group.busy()
	}
	return busy, len(all) > 0
}
