package member

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/internal/invoke"
)

// What operations are called on in this process: an object, a shard of one wherever that is now
// (oneShard), or the shard that this process is in (ownShard).

// Callee implements replicated.Target.
func (c *common) Callee() invoke.Target { return whole{c.object} }

// Shard returns a shard of the object, from 0, to call operations on that have no key, and to
// watch. If this member is not in the shard, it calls a member of it as a client does, with its own
// server's certificates and secret: the members of an object in shards serve it (Serve).
func (c *common) Shard(n int) replicated.Target { return oneShard{c.object, n} }

// whole is an object of this process. Operations without a key fail if it is in shards.
type whole struct{ o *object }

func (w whole) InHandler() error { return w.o.inHandler() }

func (w whole) Now(context.Context) (invoke.Target, error) { return w, nil }

func (w whole) ShardCount(context.Context) (int, error) { return max(1, w.o.sg.Shards), nil }

func (w whole) ShardAt(n int) invoke.Target { return oneShard{w.o, n} }

func (w whole) Command(ctx context.Context, name string, args invoke.Encoder, p invoke.Pending) error {
	if w.o.sharded() {
		return w.o.unsharded()
	}
	return w.o.command(ctx, nil, name, args, p)
}

// Start does what Command does, which does not wait for the outcome.
func (w whole) Start(ctx context.Context, name string, args invoke.Encoder, p invoke.Pending) error {
	if w.o.sharded() {
		return w.o.unsharded()
	}
	return w.o.command(ctx, nil, name, args, p)
}

func (w whole) Replies(ctx context.Context, name string, args invoke.Encoder, n int, yield func(invoke.Reply) bool) error {
	if err := w.o.unsharded(); err != nil {
		return err
	}
	return w.o.repliesTo(ctx, nil, name, args, n, yield)
}

func (w whole) Query(ctx context.Context, name string, c invoke.Consistency, r invoke.Reading) error {
	if w.o.sharded() {
		return w.o.unsharded()
	}
	return w.o.query(ctx, nil, name, c, r)
}

func (w whole) Past(ctx context.Context, name string, at invoke.Moment, r invoke.Reading) error {
	if err := w.o.unsharded(); err != nil {
		return err
	}
	return w.o.queryPast(ctx, nil, name, at, r)
}

func (w whole) Events(ctx context.Context, after invoke.Cursor, prefix string) ([]invoke.Event, invoke.Cursor, error) {
	if err := w.o.unsharded(); err != nil {
		return nil, after, err
	}
	return w.o.events(ctx, nil, after, prefix)
}

func (w whole) Latest(ctx context.Context) (invoke.Cursor, error) {
	if err := w.o.unsharded(); err != nil {
		return invoke.Cursor{}, err
	}
	return w.o.latest(ctx, nil)
}

// unsharded returns an error for an operation that does not say which shard it is for.
func (o *object) unsharded() error {
	if o.sharded() {
		return fmt.Errorf("replicated: object %q: %w: declare it with Keyed, or call it on one of the %d shards (Shard)", o.sg.Name, replicated.ErrNoKey, o.sg.Shards)
	}
	return nil
}

// oneShard is a shard of a member's object, wherever that is now.
type oneShard struct {
	o *object
	n int
}

// Callee implements replicated.Target.
func (s oneShard) Callee() invoke.Target { return s }

func (s oneShard) InHandler() error { return s.o.inHandler() }

// Now returns the object of this process if it is in the shard, or the shard as a client sees it.
func (s oneShard) Now(context.Context) (invoke.Target, error) {
	o := s.o
	if s.n < 0 || s.n >= max(1, o.sg.Shards) {
		return nil, fmt.Errorf("replicated: object %q has no shard %d", o.sg.Name, s.n)
	}
	if err := o.ready(); err != nil {
		return nil, err
	}
	if !o.sharded() {
		return whole{o}, nil
	}
	if stay := o.stay.Load(); stay != nil && stay.shard == s.n+1 {
		inside, err := o.lockToRead()
		if err != nil {
			return nil, err
		}
		of := o.machine.Shard()
		o.unlockRead(inside)
		if of == 0 || of == stay.shard {
			return ownShard{o, stay}, nil
		}
	}
	if err := o.inHandler(); err != nil {
		return nil, err
	}
	return o.elsewhereShard(s.n)
}

// elsewhereShard returns a shard at other members.
func (o *object) elsewhereShard(shard int) (invoke.Target, error) {
	c := o.others.Load()
	if c == nil {
		return nil, fmt.Errorf("replicated: object %q: shard %d is at other members, which are called through this member's Server: there is none (Serve)", o.sg.Name, shard)
	}
	return c.Object(o.sg.Name).Shard(shard).Callee(), nil
}

func (s oneShard) Command(ctx context.Context, name string, args invoke.Encoder, p invoke.Pending) error {
	t, err := s.Now(ctx)
	if err != nil {
		return err
	}
	return t.Command(ctx, name, args, p)
}

func (s oneShard) Start(ctx context.Context, name string, args invoke.Encoder, p invoke.Pending) error {
	t, err := s.Now(ctx)
	if err != nil {
		return err
	}
	return t.Start(ctx, name, args, p)
}

func (s oneShard) Replies(ctx context.Context, name string, args invoke.Encoder, n int, yield func(invoke.Reply) bool) error {
	t, err := s.Now(ctx)
	if err != nil {
		return err
	}
	return t.Replies(ctx, name, args, n, yield)
}

func (s oneShard) Query(ctx context.Context, name string, c invoke.Consistency, r invoke.Reading) error {
	t, err := s.Now(ctx)
	if err != nil {
		return err
	}
	return t.Query(ctx, name, c, r)
}

func (s oneShard) Past(ctx context.Context, name string, at invoke.Moment, r invoke.Reading) error {
	t, err := s.Now(ctx)
	if err != nil {
		return err
	}
	return t.Past(ctx, name, at, r)
}

func (s oneShard) Events(ctx context.Context, after invoke.Cursor, prefix string) ([]invoke.Event, invoke.Cursor, error) {
	for {
		t, err := s.Now(ctx)
		if err != nil {
			return nil, after, err
		}
		events, next, err := t.Events(ctx, after, prefix)
		if !invoke.Retry(ctx, err) {
			return events, next, err
		}
	}
}

func (s oneShard) Latest(ctx context.Context) (invoke.Cursor, error) {
	for {
		t, err := s.Now(ctx)
		if err != nil {
			return invoke.Cursor{}, err
		}
		c, err := t.Latest(ctx)
		if !invoke.Retry(ctx, err) {
			return c, err
		}
	}
}

// ownShard is the shard of an object that this process is in, as long as it is.
type ownShard struct {
	o    *object
	stay *stay
}

func (s ownShard) InHandler() error { return s.o.inHandler() }

func (s ownShard) Now(context.Context) (invoke.Target, error) { return s, nil }

func (s ownShard) Command(ctx context.Context, name string, args invoke.Encoder, p invoke.Pending) error {
	return s.o.command(ctx, s.stay, name, args, p)
}

// Start has a command go on at the shard's members if this process leaves the shard meanwhile.
func (s ownShard) Start(ctx context.Context, name string, args invoke.Encoder, p invoke.Pending) error {
	return s.o.command(ctx, s.stay, name, args, &rerouted{Pending: p, ctx: ctx, name: name, shard: oneShard{s.o, s.stay.shard - 1}})
}

func (s ownShard) Replies(ctx context.Context, name string, args invoke.Encoder, n int, yield func(invoke.Reply) bool) error {
	return s.o.repliesTo(ctx, s.stay, name, args, n, yield)
}

func (s ownShard) Query(ctx context.Context, name string, c invoke.Consistency, r invoke.Reading) error {
	return s.o.query(ctx, s.stay, name, c, r)
}

func (s ownShard) Past(ctx context.Context, name string, at invoke.Moment, r invoke.Reading) error {
	return s.o.queryPast(ctx, s.stay, name, at, r)
}

func (s ownShard) Events(ctx context.Context, after invoke.Cursor, prefix string) ([]invoke.Event, invoke.Cursor, error) {
	return s.o.events(ctx, s.stay, after, prefix)
}

func (s ownShard) Latest(ctx context.Context) (invoke.Cursor, error) {
	return s.o.latest(ctx, s.stay)
}

// rerouted is the pending of a command which was called on the shard that this process is in, and
// whose caller does not wait.
type rerouted struct {
	invoke.Pending // of the caller
	ctx            context.Context
	name           string
	shard          oneShard
	out            *invoke.Outcome // of a command that came to another shard
	args           []byte          // of it
}

// Complete implements invoke.Pending.
func (r *rerouted) Complete(o *invoke.Outcome) {
	if o.Status != invoke.Elsewhere && !errors.Is(o.Err, invoke.ErrElsewhere) {
		r.Pending.Complete(o)
		return
	}
	r.out, r.args = &invoke.Outcome{Version: o.Version, Status: o.Status, Err: o.Err}, bytes.Clone(o.Args)
}

// Signal implements invoke.Pending. It has the command called again if need be.
func (r *rerouted) Signal() {
	switch {
	case r.out == nil:
		r.Pending.Signal()
	case r.ctx.Err() == nil:
		go r.call()
	default:
		r.end(r.out)
	}
}

func (r *rerouted) end(o *invoke.Outcome) {
	r.Pending.Complete(o)
	r.Pending.Signal()
}

// call calls the command again until it ends.
func (r *rerouted) call() {
	for {
		r.out = nil
		err := r.shard.Start(r.ctx, r.name, invoke.Encoded(r.args), r.Pending)
		if err == nil {
			return
		}
		if !invoke.Retry(r.ctx, err) {
			r.end(&invoke.Outcome{Err: err})
			return
		}
	}
}
