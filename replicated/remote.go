package replicated

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/internal/machine"
	"github.com/squall-go/squall/replicated/internal/relay"
	"github.com/squall-go/squall/ripc"
)

// asker is what a RemoteObject needs of its client: a Client, or one that is simulated.
type asker interface {
	now() time.Time
	// ask sends a request to a member, and to others if that fails.
	ask(ctx context.Context, o *RemoteObject, f func(answer []byte) error, parts ...[]byte) error
	// wait waits until changed is called, or ctx ends. The session's lock is held when it is called, and when it returns.
	wait(ctx context.Context, o *RemoteObject)
	changed(o *RemoteObject)
	// spawn runs f concurrently with the caller.
	spawn(f func()) error
	memberTimeout() time.Duration
	// rest waits for a while, or until ctx ends.
	rest(ctx context.Context, d time.Duration)
	// shards returns how many shards an object has, and shard one of them.
	shards(ctx context.Context, o *RemoteObject) (int, error)
	shard(of *RemoteObject, n int) *RemoteObject
	// event takes an event. No lock is held.
	event(e ClientEvent)
}

// RemoteObject is an object as a client sees it.
type RemoteObject struct {
	client   asker
	name     string
	id       ripc.ID       // of a service that every server has; empty: the object's own
	timeout  time.Duration // of its session
	newToken func() machine.Token
	route    *route
	whole    *RemoteObject // of a shard: the object
	shard    int           // of whole, from 0
	shards   atomic.Int32  // of the object; 0: not known yet

	// How the object is reached, as long as its route uses this service. The client's lock guards it.
	from *ripc.Service
	to   *ripc.Remote

	session struct {
		sync.Mutex
		client.Session
		room sync.Cond // a number has ended, or the session was opened
	}
}

// inHandler implements Target: a client is in no handler.
func (o *RemoteObject) inHandler() error { return nil }

// command implements Target. It waits for the outcome.
func (o *RemoteObject) command(ctx context.Context, name string, args encoder, p pending) error {
	x := exchanges.Get().(*exchange)
	x.pending = p
	err := o.ordered(ctx, name, args, relay.Request{Ask: askCommand}, x)
	if err == nil {
		p.signal()
	}
	return err
}

// ordered sends a command, with the number that the session gives it, and has x take the answer. It gives x back.
func (o *RemoteObject) ordered(ctx context.Context, name string, args encoder, r relay.Request, x *exchange) error {
	defer x.giveBack()
	number, err := o.begin(ctx)
	if err != nil {
		return err
	}
	defer o.finish(number)
	x.name = name
	r.Session, r.Number, r.Acked, r.Name = number.Session, number.Number, number.Acked, []byte(name)
	b, err := args.appendTo(r.AppendTo(x.request[:0]))
	if err != nil {
		return err
	}
	x.request, x.parts[0] = b, b
	for {
		if err = o.client.ask(ctx, o, x.taken, x.parts[:]...); !errors.Is(err, errFull) {
			break
		}
		if err = o.again(ctx, &number); err != nil {
			return fmt.Errorf("replicated: %s: %w", name, err)
		}
		relay.SetAcked(b, number.Acked)
	}
	if errors.Is(err, ErrSessionEnded) {
		o.lost(number.Session)
	}
	if errors.As(err, new(*AccessError)) {
		o.client.event(CallRefused{o.name, err})
	}
	return err
}

// begin opens the session if need be, and returns the number of a command.
func (o *RemoteObject) begin(ctx context.Context) (client.Command, error) {
	s := &o.session
	s.Lock()
	defer s.Unlock()
	for {
		if ctx.Err() != nil {
			return client.Command{}, context.Cause(ctx)
		}
		c, step := s.Begin(o.client.now())
		switch step {
		case client.Go:
			return c, nil
		case client.Open:
			if err := o.openLocked(ctx); err != nil {
				return client.Command{}, err
			}
		case client.Wait:
			o.client.wait(ctx, o)
		}
	}
}

// again waits until a command that the object refused, because it keeps too many replies, is to be sent again.
func (o *RemoteObject) again(ctx context.Context, c *client.Command) error {
	s := &o.session
	s.Lock()
	defer s.Unlock()
	s.Refused(*c)
	for {
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", errFull, context.Cause(ctx))
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

// sayLocked acknowledges replies to the object. The lock is held, but not while the members are asked.
func (o *RemoteObject) sayLocked(ctx context.Context) (err error) {
	s := &o.session
	a := s.Acknowledgement()
	o.unlocked(func() {
		r := relay.Request{Ask: askEnded, Session: a.Session, Acked: a.Acked, Rest: a.Ended}
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

// now returns the time by the monotonic clock, which is read faster than both clocks are.
func (c *Client) now() time.Time { return c.start.Add(time.Since(c.start)) }

func (c *Client) rest(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func (c *Client) memberTimeout() time.Duration { return c.cfg.MemberTimeout }

func (c *Client) spawn(f func()) error {
	go f()
	return nil
}

func (c *Client) changed(o *RemoteObject) { o.session.room.Broadcast() }

// wait implements asker.
func (c *Client) wait(ctx context.Context, o *RemoteObject) {
	s := &o.session
	stop := context.AfterFunc(ctx, func() {
		s.Lock()
		defer s.Unlock()
		s.room.Broadcast()
	})
	defer stop()
	s.room.Wait()
}

// openLocked opens the session. The lock is held, but not while the members are asked.
func (o *RemoteObject) openLocked(ctx context.Context) error {
	s := &o.session
	request := (&relay.Request{Ask: askOpen, Token: s.Token(), Timeout: uint64(o.timeout)}).AppendTo(nil)
	var number uint64
	var err error
	o.unlocked(func() {
		err = o.client.ask(ctx, o, func(answer []byte) error {
			_, reply, err := parseAnswer("open", answer)
			if err == nil && len(reply) != 8 {
				err = errMalformed
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
func (o *RemoteObject) unlocked(f func()) {
	o.session.Unlock()
	defer o.session.Lock()
	f()
}

// finish notes that a number needs no answer any more.
func (o *RemoteObject) finish(c client.Command) {
	o.session.Lock()
	defer o.session.Unlock()
	o.session.End(c)
	o.client.changed(o)
}

// lost forgets a session that has ended. The next command opens another one.
func (o *RemoteObject) lost(session uint64) {
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
func (o *RemoteObject) idle() bool {
	o.session.Lock()
	defer o.session.Unlock()
	return o.session.Idle(o.client.now())
}

// touch keeps the session from expiring.
func (o *RemoteObject) touch(ctx context.Context) {
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
	err := o.client.ask(ctx, o, saidNothing, (&relay.Request{Ask: askTouch, Session: session}).AppendTo(nil))
	if errors.Is(err, ErrSessionEnded) {
		o.lost(session)
	}
}

// end ends the session.
func (o *RemoteObject) end(ctx context.Context) {
	o.session.Lock()
	session := o.session.Number()
	o.session.Unlock()
	if session == 0 {
		return
	}
	_ = o.client.ask(ctx, o, func(answer []byte) error { return nil },
		(&relay.Request{Ask: askClose, Session: session}).AppendTo(nil))
	o.lost(session)
}

// query implements Target.
func (o *RemoteObject) query(ctx context.Context, name string, c consistency, r reading) error {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	b, err := r.appendTo((&relay.Request{Ask: askQuery, Consistency: byte(c), Name: []byte(name)}).AppendTo((*buf)[:0]))
	if err != nil {
		return err
	}
	*buf = b
	return o.client.ask(ctx, o, func(answer []byte) error {
		_, reply, err := parseAnswer(name, answer)
		if err != nil {
			return err
		}
		return r.answer(reply)
	}, b)
}
