package join

import (
	"fmt"
	"sync"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/views"
)

// membership is a joiner's part of a session: one goroutine reads the first member's last word,
// Ready and Abort write.
type membership struct {
	*limiter
	conn    *conversation
	session *Session
	self    string
	first   string
	closed  chan struct{} // closed when the reading goroutine has ended

	mu    sync.Mutex
	said  bool // ready was sent
	ended bool // the session was finished
}

func newMembership(d *limiter, own views.Member, conn *conversation, view *views.View) *Session {
	first := view.Members[0]
	m := &membership{
		limiter: d, conn: conn, closed: make(chan struct{}),
		self: node(own.ID, own.Addr), first: node(first.ID, first.Addr),
	}
	m.session = newSession(m)
	m.session.view = view
	m.emit(ViewProposed{view})
	go m.follow()
	return m.session
}

// follow waits for the first member's last word.
func (m *membership) follow() {
	defer close(m.closed)
	defer m.conn.Close()
	defer m.conn.Pulses()()
	word := Message{Verb: sayStill}
	for word.Verb == sayStill {
		word = Message{}
		if err := m.conn.hear(&word); err != nil {
			m.end(m.aborted(m.first, gone(err)))
			return
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case word.Verb == sayInstall && m.said: // J3: not before we are ready
		m.endLocked(nil)
	case word.Verb == sayAbort:
		m.endLocked(fmt.Errorf("join: %w: %s", ErrAborted, clip(word.Text)))
	default:
		m.endLocked(m.aborted(m.first, fmt.Errorf("%w: %q", errOutOfTurn, clip(string(word.Verb)))))
	}
}

func (m *membership) aborted(who string, err error) error {
	return fmt.Errorf("join: %w: %s: %w", ErrAborted, who, err)
}

// end finishes the session, once.
func (m *membership) end(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.endLocked(err)
}

func (m *membership) endLocked(err error) {
	if m.ended {
		return
	}
	m.ended = true
	if err == nil {
		m.emit(ViewInstalled{m.session.view})
	} else {
		m.port.Handle(port.KindControl, nil)
		m.emit(Aborted{err})
	}
	m.session.finish(err)
}

func (m *membership) ready() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.said || m.ended {
		return
	}
	m.said = true
	if err := m.conn.say(Message{Verb: sayReady}); err != nil {
		m.endLocked(m.aborted(m.first, gone(err)))
		m.conn.Close()
	}
}

// abort ends the session here before it tells the first member, so that the first member's answer
// cannot put its words in place of the cause.
func (m *membership) abort(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return
	}
	m.endLocked(m.aborted(m.self, err))
	_ = m.conn.say(saying(sayAbort, "%v", err)) // if it is lost, the first member sees the connection break
	m.conn.HangUp(DefaultSilence)
}

func (m *membership) flush() { <-m.closed }
