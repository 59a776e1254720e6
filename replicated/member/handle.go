package member

import (
	"bytes"
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"
	"reflect"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/replicated/internal/machine"
)

// Context is what a handler may use besides the state and its arguments. It is valid until the
// handler returns.
type Context struct {
	Version squall.Version // the position of the command's message in the order; of a query: of the last command before it
	Index   uint64         // of the command among those of its message, from 0: with the Version it is of this command alone
	Time    squall.Time    // the time of the object: the same at every member. It never goes back
	Caller  Caller

	object string
	shards func(object string) int
	emit   func(topic string, data []byte)
	send   func(to machine.Destination, operation string, data []byte) error
	rand   *rand.Rand
	source rand.PCG
}

// Caller is the process that called a command.
type Caller struct {
	Member   squall.NodeID // the member that sent the command; for a client, the member that relayed it
	Session  uint64        // of the client; 0 if a member called. It is a secret: without TLS a client that knows it can act as this one
	Identity string        // of the client, as the member that opened its session saw it
	Object   string        // the object whose handler sent the command (Command.Send), if one did
	Shard    int           // of that object, from 0
}

// Rand returns random numbers that are the same at every member that executes the command, and
// others for each command.
func (c *Context) Rand() *rand.Rand {
	if c.rand == nil {
		c.rand = rand.New(&c.source)
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(c.object))
	var at [24]byte
	binary.LittleEndian.PutUint64(at[:], uint64(c.Version.View))
	binary.LittleEndian.PutUint64(at[8:], uint64(c.Version.Seq))
	if !mutant.Enabled || !mutant.On(mutant.SameSeed) {
		binary.LittleEndian.PutUint64(at[16:], c.Index)
	}
	_, _ = h.Write(at[:])
	c.source.Seed(uint64(c.Version.View)<<32^h.Sum64(), uint64(c.Version.Seq))
	return c.rand
}

// Binding binds an operation to the function that executes it, for objects whose state is an S.
type Binding[S any] struct{ make func() bound }

// bound is a binding without its types.
type bound struct {
	name   string
	query  bool
	codecs [2]string // names of those for arguments and replies
	// execute executes a command. If p is a call of this process, and of this type, its value is set
	// in place; typed says so. Otherwise the reply is appended to out if it is wanted, or the text of
	// the error.
	execute func(state any, c *Context, args, out []byte, p invoke.Pending, wanted bool) (reply []byte, typed, failed bool)
	// read runs a query of this process.
	read func(state any, c Context, r invoke.Reading) (typed bool, err error)
	// answer runs a query with encoded arguments.
	answer func(state any, c *Context, args, out []byte) (reply []byte, err error)
}

// Handle binds an operation to a function, usually a method of the state:
//
//	member.Handle(Deposit, (*Bank).deposit)
//
// A command's function may change the state; a query's may not, and is called on several goroutines
// at the same time.
func Handle[S, A, R any](op replicated.Operation[A, R], f func(S, *Context, A) (R, error)) Binding[S] {
	of := op.Describe()
	codecs := [2]string{codecName(of.Args), codecName(of.Reply)}
	if of.Query {
		q := &reader[S, A, R]{name: of.Name, in: of.Args, out: of.Reply, detach: detached[R](of.Reply), f: f}
		return Binding[S]{func() bound { return bound{name: of.Name, query: true, codecs: codecs, read: q.read, answer: q.answer} }}
	}
	return Binding[S]{func() bound {
		e := &executor[S, A, R]{name: of.Name, in: of.Args, out: of.Reply, asIs: of.AsIs, detach: detached[R](of.Reply), f: f}
		return bound{name: of.Name, codecs: codecs, execute: e.execute}
	}}
}

// reader runs the queries of one operation.
type reader[S, A, R any] struct {
	name   string
	in     invoke.Codec[A]
	out    invoke.Codec[R]
	detach func(R) R
	f      func(S, *Context, A) (R, error)
}

// read runs a query whose caller has its types.
func (q *reader[S, A, R]) read(state any, c Context, r invoke.Reading) (typed bool, err error) {
	own, ok := r.Typed().(*invoke.Read[A, R])
	if !ok {
		return false, nil
	}
	scratch, ok := own.Scratch.(*Context)
	if !ok {
		scratch = new(Context)
		own.Scratch = scratch
	}
	*scratch = c
	value, err := q.f(state.(S), scratch, own.Args)
	*scratch = Context{}
	switch {
	case err != nil:
	case q.detach != nil:
		own.Value = q.detach(value)
	default:
		var data []byte
		if data, err = q.out.Append(nil, &value); err == nil {
			err = invoke.Decode(q.out, data, &own.Value, "reply", q.name)
		}
	}
	return true, failure(q.name, err)
}

// answer runs a query with encoded arguments. As with commands, every member would return the same
// error.
func (q *reader[S, A, R]) answer(state any, c *Context, data, buf []byte) ([]byte, error) {
	var args A
	if err := invoke.Decode(q.in, data, &args, "arguments", q.name); err != nil {
		return buf, failure(q.name, err)
	}
	value, err := q.f(state.(S), c, args)
	if err != nil {
		return buf, failure(q.name, err)
	}
	buf, err = q.out.Append(buf, &value)
	return buf, failure(q.name, err)
}

// executor executes the commands of one operation at one object, which executes one command at a
// time.
type executor[S, A, R any] struct {
	name   string
	in     invoke.Codec[A]
	out    invoke.Codec[R]
	asIs   bool // the arguments are carried as they are
	detach func(R) R
	f      func(S, *Context, A) (R, error)
	args   A // the decoded arguments of the command that is executed
	value  R // the reply that is being encoded
}

func (e *executor[S, A, R]) execute(state any, c *Context, data, buf []byte, p invoke.Pending, wanted bool) (_ []byte, typed, failed bool) {
	var v R
	var err error
	if e.asIs {
		v, err = e.f(state.(S), c, *any(&data).(*A)) // no codec keeps a pointer to data: it stays on the stack
	} else if err = invoke.Decode(e.in, data, &e.args, "arguments", e.name); err == nil {
		v, err = e.f(state.(S), c, e.args)
	}
	if err == nil && !wanted && e.asIs {
		return buf, false, false
	}
	return e.reply(v, err, buf, p, wanted)
}

// reply hands the value that a handler returned, or its error, to the call of it.
func (e *executor[S, A, R]) reply(v R, err error, buf []byte, p invoke.Pending, wanted bool) (_ []byte, typed, failed bool) {
	n := len(buf)
	if err == nil && wanted {
		if slot := e.slot(p); slot != nil && e.detach != nil {
			slot.Value, typed = e.detach(v), true
		} else {
			var none R
			e.value = v
			buf, err = e.out.Append(buf, &e.value)
			e.value = none
		}
	}
	if !e.asIs {
		var none A
		e.args = none // after a panic the object executes nothing more
	}
	if err != nil {
		return append(buf[:n], err.Error()...), false, true
	}
	return buf, typed, false
}

// slot returns where a call of this process takes the value of a command, or nil.
func (e *executor[S, A, R]) slot(p invoke.Pending) *invoke.Slot[R] {
	if p == nil {
		return nil
	}
	slot, _ := p.Typed().(*invoke.Slot[R])
	return slot
}

// detached returns a function that copies a reply for a caller in this process, so that the copy
// shares no memory with the state or the arguments. It returns nil if a reply is copied by encoding
// and decoding it.
func detached[R any](c invoke.Codec[R]) func(R) R {
	if copier, ok := c.(replicated.Copier[R]); ok {
		return copier.Copy
	}
	if clone, ok := any(bytes.Clone).(func(R) R); ok {
		return clone
	}
	if flat(reflect.TypeFor[R]()) {
		return func(v R) R { return v }
	}
	return nil
}

// flat reports whether the values of a type refer to nothing that can be changed.
func flat(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Array:
		return flat(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !flat(t.Field(i).Type) {
				return false
			}
		}
		return true
	case reflect.Pointer, reflect.UnsafePointer, reflect.Map, reflect.Slice, reflect.Interface, reflect.Func, reflect.Chan:
		return false
	}
	return true
}

// failure makes a handler's error what callers get, wherever they are.
func failure(name string, err error) error {
	if err == nil {
		return nil
	}
	return &replicated.HandlerError{Operation: name, Text: err.Error()}
}
