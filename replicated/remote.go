package replicated

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/ripc"
)

// RemoteObject is an object as a client sees it.
type RemoteObject struct{ remoteTarget }

// Name returns the object's name.
func (o *RemoteObject) Name() string { return o.remote.name }

// Shard returns a shard of the object, from 0, to call operations on that have no key, and to
// watch.
func (o *RemoteObject) Shard(n int) Target { return remoteTarget{o.remote.shardAt(n)} }

// remoteTarget is an object, or a shard of one, as a Target.
type remoteTarget struct{ remote *remote }

// Callee implements Target.
func (t remoteTarget) Callee() invoke.Target { return t.remote }

// remote is an object, or a shard of one, that a client calls.
type remote struct {
	client   asker
	name     string
	id       ripc.ID       // of a service that every server has; empty: the object's own
	timeout  time.Duration // of its session
	newToken func() invoke.Token
	route    *route
	whole    *remote      // of a shard: the object
	shard    int          // of whole, from 0
	shards   atomic.Int32 // of the object; 0: not known yet

	// How the object is reached, as long as its route uses this service. The client's lock guards it.
	from *ripc.Service
	to   *ripc.Remote

	session struct {
		sync.Mutex
		client.Session
		room sync.Cond // a number has ended, or the session was opened
	}
}

// asker is what a RemoteObject needs of its client: a Client, or one that is simulated.
type asker interface {
	now() time.Time
	// ask sends a request to a member, and to others if that fails.
	ask(ctx context.Context, o *remote, f func(answer []byte) error, parts ...[]byte) error
	// wait waits until changed is called, or ctx ends. The session's lock is held when it is called,
	// and when it returns.
	wait(ctx context.Context, o *remote)
	changed(o *remote)
	// spawn runs f concurrently with the caller.
	spawn(f func()) error
	memberTimeout() time.Duration
	// rest waits for a while, or until ctx ends.
	rest(ctx context.Context, d time.Duration)
	// shards returns how many shards an object has, and shard one of them.
	shards(ctx context.Context, o *remote) (int, error)
	shard(of *remote, n int) *remote
	// event takes an event. No lock is held.
	event(e ClientEvent)
}

// InHandler implements invoke.Target: a client is in no handler.
func (o *remote) InHandler() error { return nil }

// Now implements invoke.Target. It returns the whole object in place of the only shard of one
// without shards.
func (o *remote) Now(ctx context.Context) (invoke.Target, error) {
	whole, err := o.orWhole(ctx)
	if err != nil {
		return nil, err
	}
	return whole, nil
}

// Command implements invoke.Target. It waits for the outcome.
func (o *remote) Command(ctx context.Context, name string, args invoke.Encoder, p invoke.Pending) error {
	x := exchanges.Get().(*exchange)
	x.pending = p
	err := o.ordered(ctx, name, args, client.Request{Ask: client.Command}, x)
	if err == nil {
		p.Signal()
	}
	return err
}

// Start implements invoke.Target.
func (o *remote) Start(ctx context.Context, name string, args invoke.Encoder, p invoke.Pending) error {
	return o.client.spawn(func() {
		if err := o.Command(ctx, name, args, p); err != nil {
			p.Complete(&invoke.Outcome{Err: err})
			p.Signal()
		}
	})
}

// ordered sends a command, with the number that the session gives it, and has x take the answer. It
// gives x back.
func (o *remote) ordered(ctx context.Context, name string, args invoke.Encoder, r client.Request, x *exchange) error {
	defer x.giveBack()
	number, err := o.begin(ctx)
	if err != nil {
		return err
	}
	defer o.finish(number)
	x.name = name
	r.Session, r.Number, r.Acked, r.Name = number.Session, number.Number, number.Acked, []byte(name)
	b, err := args.AppendTo(r.AppendTo(x.request[:0]))
	if err != nil {
		return err
	}
	x.request, x.parts[0] = b, b
	for {
		if err = o.client.ask(ctx, o, x.taken, x.parts[:]...); !errors.Is(err, invoke.ErrFull) {
			break
		}
		if err = o.again(ctx, &number); err != nil {
			return fmt.Errorf("replicated: %s: %w", name, err)
		}
		client.SetAcked(b, number.Acked)
	}
	if errors.Is(err, ErrSessionEnded) {
		o.lost(number.Session)
	}
	if errors.As(err, new(*AccessError)) {
		o.client.event(CallRefused{o.name, err})
	}
	return err
}

// Replies implements invoke.Target.
func (o *remote) Replies(ctx context.Context, name string, args invoke.Encoder, n int, yield func(invoke.Reply) bool) error {
	var all []invoke.Reply
	x := exchanges.Get().(*exchange)
	x.f = func(reply []byte) (err error) {
		all, err = client.ParseReplies(reply)
		return err
	}
	err := o.ordered(ctx, name, args, client.Request{Ask: client.Replies, Count: uint16(min(max(n, 0), 1<<16-1))}, x)
	for i := range all {
		if err == nil && !yield(all[i]) {
			return nil
		}
	}
	return err
}

// Forward implements invoke.Forwarder.
func (o *remote) Forward(ctx context.Context, operation string, request []byte) error {
	return o.client.ask(ctx, o, func(answer []byte) error {
		_, _, err := parseAnswer(operation, answer)
		if errors.As(err, new(*HandlerError)) { // it was executed
			return nil
		}
		return err
	}, request)
}

// Query implements invoke.Target.
func (o *remote) Query(ctx context.Context, name string, c invoke.Consistency, r invoke.Reading) error {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	b, err := r.AppendTo((&client.Request{Ask: client.Query, Consistency: byte(c), Name: []byte(name)}).AppendTo((*buf)[:0]))
	if err != nil {
		return err
	}
	*buf = b
	return o.client.ask(ctx, o, func(answer []byte) error {
		_, reply, err := parseAnswer(name, answer)
		if err != nil {
			return err
		}
		return r.Answer(reply)
	}, b)
}

// buffers are for requests that are being made.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// Past implements invoke.Target.
func (o *remote) Past(ctx context.Context, name string, at invoke.Moment, r invoke.Reading) error {
	request := client.Request{Ask: client.Query, Consistency: client.AtVersion, Name: []byte(name)}
	request.At.View, request.At.Seq = uint64(at.Version.View), uint64(at.Version.Seq)
	if at.Timed {
		request.Consistency = client.AtTime
		request.At.View, request.At.Seq = uint64(at.Time), 0
	}
	b, err := r.AppendTo(request.AppendTo(nil))
	if err != nil {
		return err
	}
	var waits error
	for {
		err := o.client.ask(ctx, o, func(answer []byte) error {
			_, reply, err := parseAnswer(name, answer)
			if err != nil {
				return err
			}
			return r.Answer(reply)
		}, b)
		if !errors.Is(err, ErrNotFinal) {
			if waits != nil && ctx.Err() != nil {
				return fmt.Errorf("%w: %w", waits, err)
			}
			return err
		}
		waits = err
		if o.client.rest(ctx, pastPause); ctx.Err() != nil {
			return fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
	}
}

// pastPause is how long a client waits before it asks again about what was not final.
const pastPause = 10 * time.Millisecond

// Events implements invoke.Target.
func (o *remote) Events(ctx context.Context, after invoke.Cursor, prefix string) (events []invoke.Event, next invoke.Cursor, err error) {
	if o, err = o.orWhole(ctx); err != nil {
		return nil, after, err
	}
	request := client.AppendWatch(nil, after, uint32(o.client.memberTimeout().Milliseconds()/2), prefix)
	err = o.client.ask(ctx, o, func(answer []byte) error {
		_, reply, err := parseAnswer("watch", answer)
		if err != nil {
			return err
		}
		events, next, err = client.ParseEvents(reply)
		return err
	}, request)
	return events, next, err
}

// Latest implements invoke.Target.
func (o *remote) Latest(ctx context.Context) (c invoke.Cursor, err error) {
	if o, err = o.orWhole(ctx); err != nil {
		return c, err
	}
	err = o.client.ask(ctx, o, func(answer []byte) error {
		_, reply, err := parseAnswer("now", answer)
		if err == nil && len(reply) != client.CursorBytes {
			err = client.ErrMalformed
		}
		if err == nil {
			c, _ = client.CutCursor(reply)
		}
		return err
	}, []byte{byte(client.Now)})
	return c, err
}

// located asks a member where the shards of the object are.
func (o *remote) located(ctx context.Context) (l client.Places, err error) {
	err = o.client.ask(ctx, o, func(answer []byte) error {
		_, data, err := parseAnswer("locate", answer)
		if err == nil {
			l = client.Places{}
			err = invoke.DecodeCBOR(data, &l, "places of the shards", o.name)
		}
		if err == nil && (l.Shards < 1 || l.Shards > invoke.MaxShards || l.Shards > 1 && len(l.Addresses) != l.Shards) {
			err = client.ErrMalformed
		}
		return err
	}, []byte{byte(client.Locate)})
	return l, err
}

// ShardCount implements invoke.Sharded.
func (o *remote) ShardCount(ctx context.Context) (int, error) {
	if n := o.shards.Load(); n > 0 || o.whole != nil {
		return int(max(n, 1)), nil
	}
	n, err := o.client.shards(ctx, o)
	if err == nil {
		o.shards.Store(int32(n)) // it does not change as long as the group exists
	}
	return n, err
}

// ShardAt implements invoke.Sharded.
func (o *remote) ShardAt(n int) invoke.Target { return o.shardAt(n) }

// shardAt returns a shard of the object.
func (o *remote) shardAt(n int) *remote {
	if o.whole != nil {
		return o
	}
	return o.client.shard(o, n)
}

// orWhole returns the whole object in place of the only shard of one without shards.
func (o *remote) orWhole(ctx context.Context) (*remote, error) {
	if o.whole == nil || o.shard != 0 {
		return o, nil
	}
	n, err := o.whole.ShardCount(ctx)
	if err == nil && n == 1 {
		o = o.whole
	}
	return o, err
}
