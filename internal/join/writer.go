package join

// writer is the way to the other side of a conversation: a queue that is filled under its owner's
// lock, and a goroutine that writes, so that a process that does not read delays no other one.
type writer struct {
	conn *conversation
	out  chan any      // closed behind the last message
	sent chan struct{} // closed when all of out was written
	keep bool          // the connection has another use. W: the owner, before it closes out.
}

func newWriter(conn *conversation, messages int) *writer {
	return &writer{conn: conn, out: make(chan any, messages), sent: make(chan struct{})}
}

// write sends what is queued. A failed write closes the connection, and the reader reports it.
func (l *writer) write() {
	defer close(l.sent)
	for m := range l.out {
		if err := l.conn.say(m); err != nil {
			l.conn.Close()
		}
	}
	if !l.keep {
		l.conn.HangUp(DefaultSilence)
	}
}

// push queues a message. A process that has not read so many gets no more.
func (l *writer) push(m any) {
	select {
	case l.out <- m:
	default:
		l.conn.Close()
	}
}
