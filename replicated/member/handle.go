package member

import (
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"
	"reflect"
	"sync"

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
type Binding[S any] struct{ make func() *bound }

// bound is a binding without its types.
type bound struct {
	name   string
	query  bool
	asIs   bool      // the arguments are carried as they are
	codecs [2]string // names of those for arguments and replies
	function
	idle sync.Pool // functions, for queries with encoded arguments
}

// function calls the function that is bound to an operation. All methods but read and fresh are for
// one goroutine at a time.
type function interface {
	// run calls it with encoded arguments, and keeps its value for reply if it is wanted.
	run(state any, c *Context, args []byte, wanted bool) error
	// reply sets the value in place, if slot is one for its type; typed says so. Otherwise it appends
	// its encoding.
	reply(slot any, out []byte) (_ []byte, typed bool, err error)
	// clear forgets the arguments and the value.
	clear()
	// read runs a query whose caller has its types: typed says whether it does.
	read(state any, c *Context, own any) (typed bool, err error)
	// fresh returns another one for the operation.
	fresh() function
}

// Handle binds an operation to a function, usually a method of the state:
//
//	member.Handle(Deposit, (*Bank).deposit)
//
// A command's function may change the state; a query's may not, and is called on several goroutines
// at the same time.
func Handle[S, A, R any](op replicated.Operation[A, R], f func(S, *Context, A) (R, error)) Binding[S] {
	of := op.Describe()
	h := &typedFunction[S, A, R]{name: of.Name, in: of.Args, out: of.Reply, asIs: of.AsIs, f: f}
	h.copier, _ = of.Reply.(replicated.Copier[R])
	if h.copier == nil { // bytes are copied, whatever their codec
		h.copier, _ = any(replicated.Raw()).(replicated.Copier[R])
	}
	h.copied = h.copier != nil || flat(reflect.TypeFor[R]())
	return Binding[S]{binder(of.Name, of.Query, of.AsIs, of.Args, of.Reply, h)}
}

func binder(name string, query, asIs bool, args, reply any, h function) func() *bound {
	codecs := [2]string{codecName(args), codecName(reply)}
	return func() *bound {
		return &bound{name: name, query: query, asIs: asIs, codecs: codecs, function: h.fresh()}
	}
}

// execute executes a command, one at a time. If p is a call of this process, and of this type, its
// value is set in place; typed says so. Otherwise the reply is appended to out if it is wanted, or
// the text of the error.
func (b *bound) execute(state any, c *Context, args, out []byte, p invoke.Pending, wanted bool) (_ []byte, typed, failed bool) {
	n := len(out)
	err := b.run(state, c, args, wanted)
	if err == nil && wanted {
		var slot any
		if p != nil {
			slot = p.Typed()
		}
		out, typed, err = b.reply(slot, out)
	}
	if wanted || !b.asIs {
		b.clear() // after a panic the object executes nothing more
	}
	if err != nil {
		return append(out[:n], err.Error()...), false, true
	}
	return out, typed, false
}

// read runs a query of this process.
func (b *bound) read(state any, c Context, r invoke.Reading) (typed bool, err error) {
	kept := r.Kept()
	scratch, ok := (*kept).(*Context)
	if !ok {
		scratch = new(Context)
		*kept = scratch
	}
	*scratch = c
	typed, err = b.function.read(state, scratch, r.Typed())
	*scratch = Context{}
	return typed, failure(b.name, err)
}

// answer runs a query with encoded arguments. As with commands, every member would return the same
// error.
func (b *bound) answer(state any, c *Context, args, out []byte) ([]byte, error) {
	h, ok := b.idle.Get().(function)
	if !ok {
		h = b.fresh()
	}
	err := h.run(state, c, args, true)
	if err == nil {
		out, _, err = h.reply(nil, out)
	}
	h.clear()
	b.idle.Put(h)
	return out, failure(b.name, err)
}

// typedFunction is a function with the types of its operation. The compiler translates it for each
// operation of a program: it has only what needs the types.
type typedFunction[S, A, R any] struct {
	name   string
	in     invoke.Codec[A]
	out    invoke.Codec[R]
	asIs   bool
	copier replicated.Copier[R] // nil: none
	copied bool                 // a reply for a caller in this process is copied, by copier or an assignment. Else it is encoded and decoded
	f      func(S, *Context, A) (R, error)
	args   A // of the call that is under way
	value  R
}

func (h *typedFunction[S, A, R]) run(state any, c *Context, data []byte, wanted bool) (err error) {
	var v R
	if h.asIs {
		v, err = h.f(state.(S), c, *any(&data).(*A)) // no codec keeps a pointer to data: it stays on the stack
	} else if err = invoke.Decode(h.in, data, &h.args, "arguments", h.name); err == nil {
		v, err = h.f(state.(S), c, h.args)
	}
	if wanted {
		h.value = v
	}
	return err
}

func (h *typedFunction[S, A, R]) reply(slot any, out []byte) (_ []byte, typed bool, err error) {
	if own, ok := slot.(*invoke.Slot[R]); ok && h.copied {
		own.Value = h.value
		if h.copier != nil {
			own.Value = h.copier.Copy(h.value)
		}
		return out, true, nil
	}
	out, err = h.out.Append(out, &h.value)
	return out, false, err
}

func (h *typedFunction[S, A, R]) clear() {
	var args A
	var value R
	h.args, h.value = args, value
}

func (h *typedFunction[S, A, R]) read(state any, c *Context, own any) (typed bool, err error) {
	r, ok := own.(*invoke.Read[A, R])
	if !ok {
		return false, nil
	}
	var none R
	v := &r.Value
	if *v, err = h.f(state.(S), c, r.Args); err != nil || h.copied {
		if err != nil {
			*v = none
		} else if h.copier != nil {
			*v = h.copier.Copy(*v)
		}
		return true, err
	}
	data, err := h.out.Append(nil, v)
	*v = none
	if err == nil {
		err = invoke.Decode(h.out, data, v, "reply", h.name)
	}
	return true, err
}

func (h *typedFunction[S, A, R]) fresh() function {
	c := *h
	return &c
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
