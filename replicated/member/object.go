package member

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/extension"
	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/internal/invoke"
)

// Object is this process's copy of a replicated value of type S, usually a pointer to a struct.
type Object[S any] struct {
	common
}

// common has the methods of an Object that do not depend on S. It does not embed the object: each
// S would be compiled with a copy of every method of it.
type common struct{ object *object }

// AnyObject is an *Object of any type.
type AnyObject interface {
	replicated.Target
	core() *object
}

// Snapshotter is implemented by a state that hands itself over. The state of an object that does
// not implement it is encoded as CBOR, which takes its exported fields only.
type Snapshotter interface {
	// Snapshot captures the state, quickly, and returns a function that writes it, on another
	// goroutine and possibly several times, while commands go on changing the state.
	Snapshot() func(io.Writer) error
	// Restore replaces the state, which is new, by what Snapshot's function wrote.
	Restore(io.Reader) error
}

// object is what an Object is without its type: the copy of this process, and what makes it a
// member. Each part has a type of its own, with its lock.
type object struct {
	replica
	declared
	membership

	delivery delivery
	delivers atomic.Uint64 // the view whose records are delivered

	calls   calls
	flights flights
	sending sending
	outbox  courier
	answers answering
	history history
	check   check // of copies for divergence
	stays
	tending
	touches touches
}

// declared is what the program says of an object.
type declared struct {
	sg    squall.SubgroupConfig
	err   error    // why it cannot be opened
	names []string // of the commands, sorted
	tasks map[string]func(context.Context, Task) error
	// another returns a copy alike that is in no group.
	another func() *replica
}

// membership is the group that an object is in. It is set before the object is used, but for self,
// which is 0 until then.
type membership struct {
	opened   atomic.Bool // Open was called with it
	cluster  string
	group    *squall.Group
	sub      *squall.Subgroup
	self     atomic.Uint64     // this process's node id
	together []*object         // the objects of the group, this one too
	inside   *inside           // that they share
	servers  *Object[*servers] // where members serve clients; nil if no object of the group is in shards
	logger   *slog.Logger
}

// New returns an object whose state is what fresh returns until commands change it. Sg declares the
// subgroup that the object is: its name is the object's. The functions of sg must not be set.
func New[S any](sg squall.SubgroupConfig, fresh func() S, operations ...Binding[S]) *Object[S] {
	if sg.Mode == squall.Persistent {
		sg = durable(sg)
	}
	o := &object{}
	o.another = func() *replica {
		all, _, _ := bindings(operations)
		r := &replica{}
		r.init(sg.Name, all, valuesOf(r, fresh))
		r.context.shards = o.shardsOf
		return r
	}
	all, names, err := bindings(operations)
	o.replica.init(sg.Name, all, valuesOf(&o.replica, fresh))
	o.init(sg, names, errors.Join(err, allowed(sg)))
	if _, ok := o.state.(Snapshotter); !ok {
		o.err = errors.Join(o.err, encodable(reflect.TypeFor[S]()))
	}
	return &Object[S]{common{o}}
}

// bindings returns the operations that are bound by their names, and the names of the commands.
func bindings[S any](operations []Binding[S]) (all map[string]*bound, names []string, err error) {
	all = map[string]*bound{}
	for _, op := range operations {
		b := op.make()
		switch {
		case b.name == "" || len(b.name) > invoke.MaxName:
			err = errors.Join(err, fmt.Errorf("the name of an operation has %d bytes, 1 to %d are allowed", len(b.name), invoke.MaxName))
		case all[b.name] != nil:
			err = errors.Join(err, fmt.Errorf("two operations are called %q", b.name))
		}
		all[b.name] = b
		if !b.query {
			names = append(names, b.name)
		}
	}
	slices.Sort(names)
	return all, names, err
}

// allowed returns what is wrong with the declaration of an object's subgroup.
func allowed(sg squall.SubgroupConfig) (err error) {
	if sg.Deliver != nil || sg.DeliverBatch != nil || sg.Snapshot != nil || sg.Restore != nil || sg.Log.Recover != nil {
		err = errors.New("the functions Deliver, DeliverBatch, Snapshot, Restore and Log.Recover belong to the object and must not be set")
	}
	if sg.Log.Retain != (squall.Retention{}) { // a restart would begin without the commands that were dropped
		err = errors.Join(err, errors.New("Log.Retain must not be set: the log of an object has all commands after its last snapshot (Log.Snapshots)"))
	}
	if len(sg.Senders) != 0 || sg.Mode == squall.Unordered {
		err = errors.Join(err, errors.New("all members of an object send, and in one order: Senders must be empty and Mode not Unordered"))
	}
	if len(sg.Name) > invoke.MaxName-4 || strings.Contains(sg.Name, "\x00") {
		err = errors.Join(err, fmt.Errorf("the name of an object has at most %d bytes, and no zero byte", invoke.MaxName-4))
	}
	return err
}

// init sets what the parts begin with.
func (o *object) init(sg squall.SubgroupConfig, names []string, err error) {
	o.sg, o.names, o.err = sg, names, err
	o.context.shards, o.inside = o.shardsOf, &inside{}
	o.tasks = map[string]func(context.Context, Task) error{}
	o.wake, o.maturing.delay = wait.NewBell(), DefaultEnableAfter
	o.sending.wake, o.outbox.wake = wait.NewBell(), wait.NewBell()
	o.answers.wake, o.answers.gathered = wait.NewBell(), map[uint64]*gathering{}
	o.history.building = make(chan struct{}, 1)
	o.touches.sessions = map[uint64]struct{}{}
}

func (c *common) core() *object { return c.object }

// Name returns the object's name.
func (c *common) Name() string { return c.object.sg.Name }

// View calls f with the state as it is at this member. F must not change it, and no command is
// executed meanwhile.
func (x *Object[S]) View(f func(S)) {
	o := x.object
	o.mu.RLock()
	defer o.mu.RUnlock()
	o.look(func() { f(o.state.(S)) })
}

// declaration returns the subgroup's declaration.
func (o *object) declaration() (squall.SubgroupConfig, error) {
	sg := o.sg
	if o.err != nil {
		return sg, fmt.Errorf("replicated: object %q: %w", sg.Name, o.err)
	}
	sg.DeliverBatch = o.deliver
	sg.Snapshot = o.snapshot
	sg.Restore = o.restored
	sg.StateHash = o.stateHash
	sg.Extend(extension.Config{Operations: o.names, Missing: o.missing})
	return sg, nil
}

// enabledIn returns the numbers of the commands that can be sent in a stay at once, or nil.
func (o *object) enabledIn(s *stay) *invoke.Numbering {
	e := o.enabling.Load()
	if e == nil || s != nil && (o.stay.Load() != s || e.Shard != s.shard) {
		return nil
	}
	return e
}

// enabledFor returns the number of a command that can be sent in a stay at once.
func (o *object) enabledFor(s *stay, name string) (int, bool) {
	e := o.enabledIn(s)
	if e == nil {
		return 0, false
	}
	n, ok := e.Numbers[name]
	return n, ok
}
