package join

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/views"
)

// errGone says that a joiner's connection ended.
var errGone = errors.New("its connection broke")

// firstMember performs what its bootstrap decides. Each conversation has two goroutines: the
// port's handler reads, and a writer of its own sends, so that a joiner that does not read delays
// no other one.
type firstMember struct {
	*limiter
	session *Session
	known   chan struct{} // closed when the bootstrap has left gathering

	mu        sync.Mutex
	roll      *bootstrap
	lines     map[Ticket]*writer // conversations in which something may still be said
	last      Ticket
	farewells []*writer // the writers of joiners that were told how the attempt ended
}

// lineMessages is the most that is ever said to a joiner, besides still: wait, view and the last
// word.
const lineMessages = 3

func found(ctx context.Context, c Config) (*Session, error) {
	f := &firstMember{limiter: newLimiter(c, requestsPerMember*c.Expect), known: make(chan struct{}), roll: newBootstrap(c), lines: map[Ticket]*writer{}}
	f.roll.key, f.roll.group, f.roll.secret = rand.Text(), rand.Text(), views.NewSecret(rand.Text()+rand.Text())
	f.session = newSession(f)
	f.open()
	select {
	case <-f.known:
	case <-ctx.Done():
		f.abort(context.Cause(ctx))
	}
	f.mu.Lock()
	view, unmet, cause := f.roll.view, f.roll.unmet, f.roll.cause
	f.mu.Unlock()
	if cause != nil {
		f.flush()
		return nil, cause
	}
	f.session.view, f.session.unmet = view, unmet
	return f.session, nil
}

// open takes requests from now on. A group of one is complete before another process can ask.
func (f *firstMember) open() {
	f.step(func(r *bootstrap) (e effects) {
		r.propose(&e)
		if r.phase != failed {
			f.port.Handle(port.KindControl, f.handler(f.converse))
		}
		return e
	})
}

// step lets the bootstrap decide and does what it says, all under the lock: sends only reach the
// writers' queues.
func (f *firstMember) step(decide func(*bootstrap) effects) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.roll.phase
	e := decide(f.roll)
	for _, event := range e.events {
		f.emit(event)
	}
	over := before != f.roll.phase && f.roll.over()
	for _, s := range e.sends {
		l := f.lines[s.to]
		if l == nil {
			continue // it is gone, and its reader has said so
		}
		f.send(l, s)
		if over {
			f.farewells = append(f.farewells, l)
		}
	}
	f.advance(before)
}

func (f *firstMember) send(l *writer, s send) {
	l.out <- s.msg // never blocks: lineMessages
	if s.msg.last() {
		close(l.out)
		delete(f.lines, s.to)
	}
}

// advance tells the session what a change of phase means to it.
func (f *firstMember) advance(before phase) {
	after := f.roll.phase
	if after == before {
		return
	}
	if before == gathering {
		close(f.known)
	}
	if after == failed {
		f.port.Handle(port.KindControl, nil) // joiners that come now try again until a process bootstraps the group
	}
	if f.roll.over() {
		f.session.finish(f.roll.cause)
	}
}

// converse is the reading side of a conversation.
func (f *firstMember) converse(conn *conversation, q Request) {
	l := newWriter(conn, lineMessages)
	go l.write()
	defer conn.Pulses()()
	var t Ticket
	f.step(func(r *bootstrap) effects {
		f.last++
		t = f.last
		f.lines[t] = l
		return r.ask(t, q)
	})
	for {
		var m Message
		err := conn.hear(&m)
		if err != nil {
			f.step(func(r *bootstrap) effects { return r.fail(t, gone(err)) })
			f.drop(t)
			<-l.sent
			return
		}
		f.step(func(r *bootstrap) effects { return r.hear(t, m) })
	}
}

// hear takes what a joiner says after its request.
func (r *bootstrap) hear(t Ticket, m Message) effects {
	switch m.Verb {
	case sayStill:
		return effects{}
	case sayReady:
		return r.ready(t)
	case sayAbort:
		return r.fail(t, errors.New(clip(m.Text)))
	}
	return r.fail(t, errOutOfTurn)
}

// gone names the end of a connection; a clean end says no more than that.
func gone(err error) error {
	if errors.Is(err, io.EOF) {
		return errGone
	}
	return fmt.Errorf("%w: %w", errGone, err)
}

// drop ends a conversation in which the other side cannot hear any more.
func (f *firstMember) drop(t Ticket) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l := f.lines[t]; l != nil {
		close(l.out)
		delete(f.lines, t)
	}
}

func (f *firstMember) ready() { f.step(func(r *bootstrap) effects { return r.ready(self) }) }

func (f *firstMember) abort(err error) {
	f.step(func(r *bootstrap) effects { return r.fail(self, err) })
}

func (f *firstMember) flush() {
	f.mu.Lock()
	farewells := f.farewells
	f.mu.Unlock()
	for _, l := range farewells {
		<-l.sent
	}
}
