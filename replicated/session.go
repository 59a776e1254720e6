package replicated

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/internal/invoke"
)

// The session of a client with an object. What is decided is in package client.

// begin opens the session if need be, and returns the number of a command.
func (o *remote) begin(ctx context.Context) (client.CommandID, error) {
	s := &o.session
	s.Lock()
	defer s.Unlock()
	for {
		if ctx.Err() != nil {
			return client.CommandID{}, context.Cause(ctx)
		}
		c, step := s.Begin(o.client.now())
		switch step {
		case client.Go:
			return c, nil
		case client.OpenFirst:
			if err := o.openLocked(ctx); err != nil {
				return client.CommandID{}, err
			}
		case client.Wait:
			o.client.wait(ctx, o)
		}
	}
}

// again waits until a command that the object refused, because it keeps too many replies, is to be
// sent again.
func (o *remote) again(ctx context.Context, c *client.CommandID) error {
	s := &o.session
	s.Lock()
	defer s.Unlock()
	s.Refused(*c)
	for {
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", invoke.ErrFull, context.Cause(ctx))
		}
		switch s.Again(c) {
		case client.Go:
			return nil
		case client.Say:
			if err := o.sayLocked(ctx); err != nil && ctx.Err() == nil {
				// The answer to the command says whether the failure lasts: then the command fails, too.
				o.unlocked(func() { o.client.rest(ctx, sayPause) })
				s.Retry(c)
				return nil
			}
		default:
			o.client.wait(ctx, o)
		}
	}
}

// sayPause is how long a command waits that is sent again because an acknowledgement failed.
const sayPause = 50 * time.Millisecond

// sayLocked acknowledges replies to the object. The lock is held, but not while the members are
// asked.
func (o *remote) sayLocked(ctx context.Context) (err error) {
	s := &o.session
	a := s.Acknowledgement()
	o.unlocked(func() {
		r := client.Request{Ask: client.Acknowledge, Session: a.Session, Acked: a.Acked, Rest: a.Ended}
		if err = o.client.ask(ctx, o, saidNothing, r.AppendTo(nil)); errors.Is(err, ErrSessionEnded) {
			o.lost(a.Session)
		}
	})
	s.Said(a, err == nil)
	o.client.changed(o)
	return err
}

// saidNothing takes an answer that has no reply.
func saidNothing(answer []byte) error {
	_, _, err := parseAnswer("session", answer)
	return err
}

// openLocked opens the session. The lock is held, but not while the members are asked.
func (o *remote) openLocked(ctx context.Context) error {
	s := &o.session
	request := (&client.Request{Ask: client.Open, Token: s.Token(), Timeout: uint64(o.timeout)}).AppendTo(nil)
	var number uint64
	var err error
	o.unlocked(func() {
		err = o.client.ask(ctx, o, func(answer []byte) error {
			_, reply, err := parseAnswer("open", answer)
			if err == nil && len(reply) != 8 {
				err = client.ErrMalformed
			}
			if err == nil {
				number = binary.LittleEndian.Uint64(reply)
			}
			return err
		}, request)
		if err == nil {
			o.client.event(SessionOpened{o.name, number})
		} else if errors.As(err, new(*AccessError)) {
			o.client.event(CallRefused{o.name, err})
		}
	})
	s.Opened(number)
	o.client.changed(o)
	return err
}

// unlocked calls f without the lock, which is held.
func (o *remote) unlocked(f func()) {
	o.session.Unlock()
	defer o.session.Lock()
	f()
}

// finish notes that a number needs no answer any more.
func (o *remote) finish(c client.CommandID) {
	o.session.Lock()
	defer o.session.Unlock()
	o.session.End(c)
	o.client.changed(o)
}

// lost forgets a session that has ended. The next command opens another one.
func (o *remote) lost(session uint64) {
	o.session.Lock()
	lost := o.session.Lost(session, o.newToken())
	if lost {
		o.client.changed(o) // calls that waited for a number of this session open the next one
	}
	o.session.Unlock()
	if lost {
		o.client.event(SessionLost{o.name, session})
	}
}

// idle reports whether the session is open and is to be touched.
func (o *remote) idle() bool {
	o.session.Lock()
	defer o.session.Unlock()
	return o.session.Idle(o.client.now())
}

// touch keeps the session from expiring.
func (o *remote) touch(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, o.timeout/2)
	defer cancel()
	o.session.Lock()
	session, step := o.session.Touch(o.client.now())
	if step == client.Say { // which uses the session, too
		_ = o.sayLocked(ctx)
		o.session.Unlock()
		return
	}
	o.session.Unlock()
	err := o.client.ask(ctx, o, saidNothing, (&client.Request{Ask: client.Touch, Session: session}).AppendTo(nil))
	if errors.Is(err, ErrSessionEnded) {
		o.lost(session)
	}
}

// end ends the session.
func (o *remote) end(ctx context.Context) {
	o.session.Lock()
	session := o.session.Number()
	o.session.Unlock()
	if session == 0 {
		return
	}
	_ = o.client.ask(ctx, o, func(answer []byte) error { return nil },
		(&client.Request{Ask: client.Close, Session: session}).AppendTo(nil))
	o.lost(session)
}
