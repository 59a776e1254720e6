package replicated

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"

	"github.com/squall-go/squall/replicated/internal/invoke"
)

// Target is what operations are called on: an object of package member in this process, a
// *RemoteObject of a client, or a shard of one of them.
type Target interface{ callee }

// callee is implemented by this package and package member alone.
type callee = invoke.Callee

// Operation is a *Command or a *Query.
type Operation[A, R any] interface{ described[A, R] }

type described[A, R any] interface {
	Describe() invoke.Operation[A, R]
}

// Command is an operation that may change the state: it takes an A and returns an R. It is a value
// that processes share by declaring it alike; it belongs to no object.
type Command[A, R any] struct {
	operation[A, R]
	futures sync.Pool
	last    atomic.Pointer[found] // number
}

// Query is an operation that reads the state: it takes an A and returns an R.
type Query[A, R any] struct {
	operation[A, R]
	reads sync.Pool
}

// NewCommand returns a command. Its name, of 1 to 255 bytes, is what members and clients know it
// by.
func NewCommand[A, R any](name string) *Command[A, R] {
	return &Command[A, R]{operation: newOperation(name, false, defaultCodec[A](), defaultCodec[R](), nil)}
}

// NewQuery returns a query. Its name, of 1 to 255 bytes, is what members and clients know it by.
func NewQuery[A, R any](name string) *Query[A, R] {
	return &Query[A, R]{operation: newOperation(name, true, defaultCodec[A](), defaultCodec[R](), nil)}
}

// Encoded returns the same command with other codecs. All processes must use the same ones.
func (c *Command[A, R]) Encoded(args Codec[A], reply Codec[R]) *Command[A, R] {
	return &Command[A, R]{operation: newOperation(c.name, false, args, reply, c.key)}
}

// Encoded returns the same query with other codecs. All processes must use the same ones.
func (q *Query[A, R]) Encoded(args Codec[A], reply Codec[R]) *Query[A, R] {
	return &Query[A, R]{operation: newOperation(q.name, true, args, reply, q.key)}
}

// Call has a command executed by every member and returns what it returned at this one, or at the
// member that a client uses. The errors of handlers are of type *HandlerError. If ctx ends first
// the command may be executed or not; if the group halts here the error says so, and the others may
// execute it or not. A command for a shard that this member leaves meanwhile is executed there all
// the same, once, by way of another member; ErrOutcomeUnknown says that its reply is lost. A reply
// of more than 1 MiB is not kept for a client: if its member fails before the client has the reply,
// the error is ErrReplyNotKept, and the command was executed.
func (c *Command[A, R]) Call(ctx context.Context, t Target, args A) (R, error) {
	var none R
	to := t.Callee()
	if err := to.InHandler(); err != nil {
		return none, err
	}
	for {
		at, err := locate(ctx, to, c.key, args)
		if err != nil {
			return none, err
		}
		f := c.make(args)
		if err := at.Command(ctx, c.name, f, f); err == nil {
			v, err := f.Wait(ctx)
			if !invoke.Retry(ctx, err) {
				return v, err
			}
		} else if f.release(); !invoke.Retry(ctx, err) {
			return none, err
		}
	}
}

// Go is like Call, and does not wait for the outcome. It waits for buffer space to send. Commands
// that one goroutine calls on a member's object are executed in the order of its calls, in a shard
// as long as this member is in it; commands that it calls on a RemoteObject may be executed in
// another order. In a handler, which every member executes, Go fails with ErrInHandler: member.Send
// is for it.
func (c *Command[A, R]) Go(ctx context.Context, t Target, args A) (*Future[R], error) {
	to := t.Callee()
	if err := to.InHandler(); err != nil {
		return nil, err
	}
	for {
		at, err := locate(ctx, to, c.key, args)
		if err != nil {
			return nil, err
		}
		f := c.make(args)
		f.target = to
		if err = at.Start(ctx, c.name, f, f); err == nil {
			return &f.Future, nil
		}
		f.release()
		if !invoke.Retry(ctx, err) {
			return nil, err
		}
	}
}

// make returns a call that is not made yet.
func (c *Command[A, R]) make(args A) *call[A, R] {
	f, _ := c.futures.Get().(*call[A, R])
	if f == nil {
		f = &call[A, R]{of: c}
		f.woken = make(chan struct{}, 1)
		f.home = f
	}
	f.args = args
	return f
}

// known returns the number of the command, or -1: most programs have one object with a command,
// whose numbering seldom changes.
func (c *Command[A, R]) known(in *invoke.Numbering) int {
	f := c.last.Load()
	if f == nil || f.in != in {
		n, ok := in.Numbers[c.name]
		if !ok {
			return -1
		}
		f = &found{in, n}
		c.last.Store(f)
	}
	return f.number
}

// found is the number that an operation has in a numbering.
type found struct {
	in     *invoke.Numbering
	number int
}

// call is a command that is being called: its own Encoder and Pending.
type call[A, R any] struct {
	Future[R]
	of   *Command[A, R]
	args A
}

// AppendTo implements invoke.Encoder.
func (f *call[A, R]) AppendTo(b []byte) ([]byte, error) { return f.of.args.Append(b, &f.args) }

// Size implements invoke.Encoder.
func (f *call[A, R]) Size() (int, bool) { return f.of.size(&f.args) }

// Raw implements invoke.Encoder.
func (f *call[A, R]) Raw() ([]byte, bool) { return f.of.raw(&f.args) }

// Known implements invoke.Encoder.
func (f *call[A, R]) Known(in *invoke.Numbering) int { return f.of.known(in) }

// Typed implements invoke.Pending.
func (f *call[A, R]) Typed() any { return &f.slot }

// Complete implements invoke.Pending.
func (f *call[A, R]) Complete(o *invoke.Outcome) {
	if f.complete(f.of.name, o) {
		f.err = invoke.Decode(f.of.reply, bytes.Clone(o.Reply), &f.slot.Value, "reply", f.of.name)
	}
}

// Signal implements invoke.Pending.
func (f *call[A, R]) Signal() { f.signal() }

// release makes the call ready for the next one.
func (f *call[A, R]) release() {
	var none A
	f.args = none
	f.clear()
	f.of.futures.Put(f)
}

// Call runs a query that sees every command that was answered anywhere before the call began.
func (q *Query[A, R]) Call(ctx context.Context, t Target, args A) (R, error) {
	return q.run(ctx, t.Callee(), invoke.Linearizable, args)
}

// Local runs a query on the copy of this member, or of the member that a client uses, as it is now.
func (q *Query[A, R]) Local(ctx context.Context, t Target, args A) (R, error) {
	return q.run(ctx, t.Callee(), invoke.Local, args)
}

func (q *Query[A, R]) run(ctx context.Context, to invoke.Target, c invoke.Consistency, args A) (R, error) {
	r, _ := q.reads.Get().(*read[A, R])
	if r == nil {
		r = &read[A, R]{of: q}
	}
	r.Args = args
	err := q.read(ctx, to, c, r)
	value := r.Value
	var noArgs A
	var noValue R
	r.Args, r.Value = noArgs, noValue
	q.reads.Put(r)
	return value, err
}

// read runs a query at the shard that its arguments belong to.
func (q *Query[A, R]) read(ctx context.Context, to invoke.Target, c invoke.Consistency, r *read[A, R]) error {
	for {
		at, err := locate(ctx, to, q.key, r.Args)
		if err == nil {
			err = at.Query(ctx, q.name, c, r)
		}
		if !invoke.Retry(ctx, err) {
			return err
		}
	}
}

// read is a query that is being called.
type read[A, R any] struct {
	of *Query[A, R]
	invoke.Read[A, R]
	invoke.Scratch
}

// AppendTo implements invoke.Encoder.
func (r *read[A, R]) AppendTo(b []byte) ([]byte, error) { return r.of.args.Append(b, &r.Args) }

// Size implements invoke.Encoder.
func (r *read[A, R]) Size() (int, bool) { return r.of.size(&r.Args) }

// Raw implements invoke.Encoder.
func (r *read[A, R]) Raw() ([]byte, bool) { return r.of.raw(&r.Args) }

// Known implements invoke.Encoder.
func (r *read[A, R]) Known(*invoke.Numbering) int { return -1 }

// Typed implements invoke.Reading.
func (r *read[A, R]) Typed() any { return &r.Read }

// Answer implements invoke.Reading.
func (r *read[A, R]) Answer(reply []byte) error {
	return invoke.Decode(r.of.reply, bytes.Clone(reply), &r.Value, "reply", r.of.name)
}

// operation is what commands and queries have in common.
type operation[A, R any] struct {
	name  string
	query bool
	args  Codec[A]
	reply Codec[R]
	key   func(A) string // of an operation on objects in shards
	sizer Sizer[A]       // the codec of the arguments, if it is one
	asIs  bool           // the arguments are carried as they are
}

func newOperation[A, R any](name string, query bool, args Codec[A], reply Codec[R], key func(A) string) operation[A, R] {
	sizer, _ := args.(Sizer[A])
	_, asIs := any(args).(rawCodec)
	return operation[A, R]{name, query, args, reply, key, sizer, asIs}
}

// Name returns the operation's name.
func (o *operation[A, R]) Name() string { return o.name }

// Describe returns what package member needs to bind the operation to a handler.
func (o *operation[A, R]) Describe() invoke.Operation[A, R] {
	return invoke.Operation[A, R]{Name: o.name, Query: o.query, Args: o.args, Reply: o.reply, Key: o.key, AsIs: o.asIs}
}

// raw returns the encoding of arguments that are carried as they are.
func (o *operation[A, R]) raw(args *A) ([]byte, bool) {
	if !o.asIs {
		return nil, false
	}
	return *any(args).(*[]byte), true
}

// size returns how many bytes the encoding of arguments takes, or false if that is not known
// before.
func (o *operation[A, R]) size(args *A) (int, bool) {
	if o.sizer == nil {
		return 0, false
	}
	return o.sizer.Size(args), true
}
