package replicated

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated/internal/machine"
	"github.com/squall-go/squall/replicated/internal/relay"
)

// Operation is a *Command or a *Query.
type Operation[A, R any] interface {
	describe() (name string, query bool)
	codecs() (Codec[A], Codec[R])
}

// Command is an operation that may change the state: it takes an A and returns an R. It is a value that
// processes share by declaring it alike; it belongs to no object.
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

// operation is what commands and queries have in common.
type operation[A, R any] struct {
	name  string
	args  Codec[A]
	reply Codec[R]
	key   func(A) string // of an operation on objects in shards
	sizer Sizer[A]       // the codec of the arguments, if it is one
	asIs  bool           // the arguments are carried as they are
}

func newOperation[A, R any](name string, args Codec[A], reply Codec[R], key func(A) string) operation[A, R] {
	sizer, _ := args.(Sizer[A])
	_, asIs := any(args).(rawCodec)
	return operation[A, R]{name, args, reply, key, sizer, asIs}
}

// known implements encoder: most programs have one object with a command, whose numbering seldom changes.
func (c *Command[A, R]) known(in *numbering) int {
	f := c.last.Load()
	if f == nil || f.in != in {
		n, ok := in.numbers[c.name]
		if !ok {
			return -1
		}
		f = &found{in, n}
		c.last.Store(f)
	}
	return f.number
}

// raw returns the encoding of arguments that are carried as they are.
func (o *operation[A, R]) raw(args *A) ([]byte, bool) {
	if !o.asIs {
		return nil, false
	}
	return *any(args).(*[]byte), true
}

// size returns how many bytes the encoding of arguments takes, or false if that is not known before.
func (o *operation[A, R]) size(args *A) (int, bool) {
	if o.sizer == nil {
		return 0, false
	}
	return o.sizer.Size(args), true
}

// NewCommand returns a command. Its name, of 1 to 255 bytes, is what members and clients know it by.
func NewCommand[A, R any](name string) *Command[A, R] {
	return &Command[A, R]{operation: newOperation(name, defaultCodec[A](), defaultCodec[R](), nil)}
}

// NewQuery returns a query. Its name, of 1 to 255 bytes, is what members and clients know it by.
func NewQuery[A, R any](name string) *Query[A, R] {
	return &Query[A, R]{operation: newOperation(name, defaultCodec[A](), defaultCodec[R](), nil)}
}

// Encoded returns the same command with other codecs. All processes must use the same ones.
func (c *Command[A, R]) Encoded(args Codec[A], reply Codec[R]) *Command[A, R] {
	return &Command[A, R]{operation: newOperation(c.name, args, reply, c.key)}
}

// Encoded returns the same query with other codecs. All processes must use the same ones.
func (q *Query[A, R]) Encoded(args Codec[A], reply Codec[R]) *Query[A, R] {
	return &Query[A, R]{operation: newOperation(q.name, args, reply, q.key)}
}

// Name returns the operation's name.
func (o *operation[A, R]) Name() string { return o.name }

func (o *operation[A, R]) codecs() (Codec[A], Codec[R])      { return o.args, o.reply }
func (c *Command[A, R]) describe() (name string, query bool) { return c.name, false }
func (q *Query[A, R]) describe() (name string, query bool)   { return q.name, true }

// Target is what operations are called on: an *Object of this process, or a *RemoteObject of a client.
type Target interface {
	// inHandler returns ErrInHandler if the caller is a handler of the object's group, which must not wait for it.
	inHandler() error
	// command has a command ordered. P is completed and signalled when its outcome is known, unless command returns
	// an error. It may wait for the outcome itself.
	command(ctx context.Context, name string, args encoder, p pending) error
	// replies has a command ordered and yields what the members answer.
	replies(ctx context.Context, name string, args encoder, n int, yield func(answered) bool) error
	// past runs a query about the past.
	past(ctx context.Context, name string, at moment, r reading) error
	// query runs a query.
	query(ctx context.Context, name string, c consistency, r reading) error
}

// consistency is what a query may see.
type consistency uint8

const (
	linearizable consistency = relay.Linearizable
	local        consistency = relay.Local
)

// encoder encodes the arguments of a call.
type encoder interface {
	appendTo(b []byte) ([]byte, error)
	// size returns how many bytes appendTo appends, or false if that is not known before.
	size() (int, bool)
	// raw returns what appendTo appends, if that is there already.
	raw() ([]byte, bool)
	// known returns the number of the operation in a numbering, or -1 if it is to be looked up by its name.
	known(in *numbering) int
}

// outcome is what became of a command.
type outcome struct {
	version squall.Version
	status  machine.Status
	session uint64 // of a record that opened one
	reply   []byte // encoded; valid during complete. Unused if the handler set the value itself
	args    []byte // encoded; valid during complete. Of a member's command that came to another shard than its own
	typed   bool   // it did
	err     error  // no record of it was applied here
}

// pending is a command whose outcome is awaited. Complete is called once, and does not keep the outcome; then Signal is called once, with no lock held.
type pending interface {
	complete(o *outcome)
	signal()
	// repeatable reports whether the command is made again when its outcome is not known: it is executed once all the same.
	repeatable() bool
}

// reading is a query that is being called.
type reading interface {
	encoder
	// answer takes an encoded reply.
	answer(reply []byte) error
}

// Call has a command executed by every member and returns what it returned at this one, or at the member that a
// client uses. The errors of handlers are of type *HandlerError. If ctx ends first the command may be
// executed or not; if the group halts here the error says so, and the others may execute it or not. A command for a shard that
// this member leaves meanwhile is executed there all the same, once, by way of another member; ErrOutcomeUnknown says that its
// reply is lost. A reply of more than 1 MiB is not kept for a client: if its member fails before the client has the reply, the error is
// ErrReplyNotKept, and the command was executed.
func (c *Command[A, R]) Call(ctx context.Context, t Target, args A) (R, error) {
	var none R
	if err := t.inHandler(); err != nil {
		return none, err
	}
	for {
		at, err := locate(ctx, t, c.key, args)
		if err != nil {
			return none, err
		}
		f := c.make(args)
		if err := at.command(ctx, c.name, f, f); err == nil {
			v, err := f.Wait(ctx)
			if !again(ctx, err) {
				return v, err
			}
		} else if f.release(); !again(ctx, err) {
			return none, err
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

// Go is like Call, and does not wait for the outcome. It waits for buffer space to send. Commands that one goroutine
// calls on an Object are executed in the order of its calls, in a shard as long as this member is in it; commands that it calls on a
// RemoteObject may be executed in another order. In a handler, which every member executes, Go fails with ErrInHandler: Send is for it.
func (c *Command[A, R]) Go(ctx context.Context, t Target, args A) (*Future[R], error) {
	if err := t.inHandler(); err != nil {
		return nil, err
	}
	for {
		at, err := locate(ctx, t, c.key, args)
		if err != nil {
			return nil, err
		}
		f := c.make(args)
		f.target = t
		if own, ok := at.(ownShard); ok {
			f.route = &rerouting{ctx: ctx, shard: oneShard{own.o, own.stay.shard - 1}}
		}
		if r, ok := at.(*RemoteObject); ok {
			err = r.client.spawn(func() {
				if err := r.command(ctx, c.name, f, f); err != nil {
					f.complete(&outcome{err: err})
					f.signal()
				}
			})
		} else {
			err = at.command(ctx, c.name, f, f)
		}
		if err == nil {
			return &f.Future, nil
		}
		f.release()
		if !again(ctx, err) {
			return nil, err
		}
	}
}

// Future is the outcome of a command that returns an R.
type Future[R any] struct {
	state   atomic.Uint32 // underWay, waitedFor or known
	woken   chan struct{} // gets an element when an outcome that is waited for becomes known
	target  Target        // of Go
	home    interface{ release() }
	value   R
	version squall.Version
	err     error
}

// Wait waits for the outcome and returns it. It is called once; if it returns because ctx has ended, or with
// ErrInHandler in a handler, it may be called again.
func (f *Future[R]) Wait(ctx context.Context) (R, error) {
	v, _, err := f.WaitVersion(ctx)
	return v, err
}

// WaitVersion is like Wait, and returns the position at which the command was executed, too.
func (f *Future[R]) WaitVersion(ctx context.Context) (R, squall.Version, error) {
	if f.state.Load() != known {
		if err := f.await(ctx); err != nil {
			var none R
			return none, squall.Version{}, err
		}
	}
	value, version, err := f.value, f.version, f.err
	f.home.release()
	return value, version, err
}

// await waits until the outcome is known.
func (f *Future[R]) await(ctx context.Context) error {
	if f.target != nil {
		if err := f.target.inHandler(); err != nil {
			return err
		}
	}
	if !f.state.CompareAndSwap(underWay, waitedFor) { // known by now
		return nil
	}
	select {
	case <-f.woken:
		return nil
	case <-ctx.Done():
	}
	if f.state.CompareAndSwap(waitedFor, underWay) {
		return context.Cause(ctx)
	}
	<-f.woken // the outcome became known at the same time
	return nil
}

// States of a future. Nothing is woken for an outcome that becomes known before Wait.
const (
	underWay uint32 = iota
	waitedFor
	known
)

// call is a command that is being called.
type call[A, R any] struct {
	Future[R]
	of   *Command[A, R]
	args A

	route *rerouting // of Go, for a shard that this member is in
}

func (f *call[A, R]) appendTo(b []byte) ([]byte, error) { return f.of.args.Append(b, &f.args) }

func (f *call[A, R]) size() (int, bool) { return f.of.size(&f.args) }

func (f *call[A, R]) raw() ([]byte, bool) { return f.of.raw(&f.args) }

func (f *call[A, R]) known(in *numbering) int { return f.of.known(in) }

func (f *call[A, R]) complete(o *outcome) {
	f.version = o.version
	if f.route != nil && o.args != nil {
		f.route.args = bytes.Clone(o.args)
	}
	if f.err = o.err; f.err == nil && o.status != machine.Done {
		f.err = refusal(f.of.name, o.status, o.reply)
	}
	if f.err == nil && !o.typed {
		f.err = decode(f.of.reply, bytes.Clone(o.reply), &f.value, "reply", f.of.name)
	}
}

func (f *call[A, R]) signal() {
	if r := f.route; r != nil && again(r.ctx, f.err) {
		go r.call(f.of.name, f)
		return
	}
	if f.state.Swap(known) == waitedFor {
		f.woken <- struct{}{}
	}
}

// repeatable implements pending: nothing tells the members that a command of this process is one that they have executed.
func (f *call[A, R]) repeatable() bool { return false }

// release makes the call ready for the next one.
func (f *call[A, R]) release() {
	var args A
	var value R
	f.args, f.value, f.err, f.version, f.target, f.route = args, value, nil, squall.Version{}, nil, nil
	f.state.Store(underWay)
	f.of.futures.Put(f)
}

// Call runs a query that sees every command that was answered anywhere before the call began.
func (q *Query[A, R]) Call(ctx context.Context, t Target, args A) (R, error) {
	return q.run(ctx, t, linearizable, args)
}

// Local runs a query on the copy of this member, or of the member that a client uses, as it is now.
func (q *Query[A, R]) Local(ctx context.Context, t Target, args A) (R, error) {
	return q.run(ctx, t, local, args)
}

func (q *Query[A, R]) run(ctx context.Context, t Target, c consistency, args A) (R, error) {
	r, _ := q.reads.Get().(*read[A, R])
	if r == nil {
		r = &read[A, R]{of: q}
	}
	r.args = args
	err := q.read(ctx, t, c, r)
	value := r.value
	*r = read[A, R]{of: q}
	q.reads.Put(r)
	return value, err
}

// read runs a query at the shard that its arguments belong to.
func (q *Query[A, R]) read(ctx context.Context, t Target, c consistency, r *read[A, R]) error {
	for {
		at, err := locate(ctx, t, q.key, r.args)
		if err == nil {
			err = at.query(ctx, q.name, c, r)
		}
		if !again(ctx, err) {
			return err
		}
	}
}

// read is a query that is being called.
type read[A, R any] struct {
	of      *Query[A, R]
	args    A
	value   R
	context Context
}

func (r *read[A, R]) appendTo(b []byte) ([]byte, error) { return r.of.args.Append(b, &r.args) }

func (r *read[A, R]) size() (int, bool) { return r.of.size(&r.args) }

func (r *read[A, R]) raw() ([]byte, bool) { return r.of.raw(&r.args) }

func (r *read[A, R]) known(*numbering) int { return -1 }

func (r *read[A, R]) answer(reply []byte) error {
	return decode(r.of.reply, bytes.Clone(reply), &r.value, "reply", r.of.name)
}
