package join

import (
	"sync"
	"time"
)

// queued is how many messages wait for a conversation's writer. There are seldom two: what is said
// is far apart.
const queued = 32

// sessions carries out what a pure core decides: it keeps the core's time, and a writer for each of
// its conversations.
type sessions struct {
	*limiter
	epoch time.Time
	tick  func(now time.Duration) Effects
	next  func() (time.Duration, bool)
	dial  func(Dial)   // called under mu
	probe func(Probe)  // the same
	after func()       // called under mu, behind every step
	hung  func(Ticket) // called under mu, for a conversation without a writer
	told  func()       // called without mu, when the candidates have changed

	writers sync.WaitGroup

	mu      sync.Mutex
	lines   map[Ticket]*writer // conversations in which something may still be said
	timer   *time.Timer
	stopped bool
}

func newSessions(d *limiter) *sessions {
	nothing := func() {}
	return &sessions{
		limiter: d, epoch: time.Now(), lines: map[Ticket]*writer{},
		dial: func(Dial) {}, probe: func(Probe) {}, after: nothing, hung: func(Ticket) {}, told: nothing,
	}
}

// step lets the core decide and does what it says, all under the lock: what is said only reaches
// the writers' queues.
func (s *sessions) step(decide func(now time.Duration) Effects) {
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return
	}
	e := decide(time.Since(s.epoch))
	for _, d := range e.Dials {
		s.dial(d)
	}
	for _, p := range e.Probes {
		s.probe(p)
	}
	for _, say := range e.Says {
		if l := s.lines[say.To]; l != nil {
			l.push(say.What)
		}
	}
	for _, t := range e.HangUps {
		s.end(t)
	}
	for _, event := range e.Events {
		s.emit(event)
	}
	s.after()
	s.arm()
	s.mu.Unlock()
	if e.Changed {
		s.told()
	}
}

// end lets a writer finish.
func (s *sessions) end(t Ticket) {
	if l := s.lines[t]; l != nil {
		close(l.out)
		delete(s.lines, t)
		return
	}
	s.hung(t)
}

// arm sets the timer for the core's next tick.
func (s *sessions) arm() {
	at, ok := s.next()
	if !ok {
		return
	}
	wait := max(0, at-time.Since(s.epoch))
	if s.timer == nil {
		s.timer = time.AfterFunc(wait, func() { s.step(s.tick) })
		return
	}
	s.timer.Reset(wait)
}

// begin gives a conversation its line. It is called under mu.
func (s *sessions) begin(t Ticket, conn *conversation) *writer {
	l := newWriter(conn, queued)
	s.lines[t] = l
	s.writers.Go(l.write)
	return l
}

// read hands the core what is heard in a conversation until it ends, or until something else wants
// the connection.
func (s *sessions) read(t Ticket, l *writer, hear func(time.Duration, Message) Effects, gone func(time.Duration, error) Effects) {
	for !l.keep { // written by the step below, or not at all
		var m Message
		if err := l.conn.hear(&m); err != nil {
			s.step(func(now time.Duration) Effects {
				e := gone(now, err)
				s.end(t)
				return e
			})
			break
		}
		s.step(func(now time.Duration) Effects { return hear(now, m) })
	}
	<-l.sent
}

// stop ends everything.
func (s *sessions) stop() {
	s.finish()
	s.close()
}

// finish ends all conversations once what was said in them has left.
func (s *sessions) finish() {
	s.mu.Lock()
	if !s.stopped {
		s.stopped = true
		for t := range s.lines {
			s.end(t)
		}
		if s.timer != nil {
			s.timer.Stop()
		}
	}
	s.mu.Unlock()
	s.writers.Wait()
}
