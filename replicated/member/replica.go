package member

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/replicated/internal/machine"
)

// replica is a process's copy of an object: the application's state, and what the machine remembers
// of sessions, operations and events. A member has one of the present, and some of the past
// (history). It executes records; it knows no group.
//
// Invariants: state, machine and numbers change under mu and nested only, together: whoever holds
// one of them for reading sees a place between two records. After failed is set, nothing is
// executed any more. Enabling has the numbers that belong to machine, or is nil.
type replica struct {
	name  string // of the object
	bound map[string]*bound
	values

	mu     sync.RWMutex // the loop holds it while it executes, queries share it
	nested nested       // locked after mu, to change what queries read

	state   any
	machine machine.Machine
	operations
	execution
	failed error       // the copy is not to be used any more
	halt   func(error) // of the group; nil: there is none

	emitted chan struct{} // closed when events were emitted, and made anew
	news    bool          // events were emitted in this batch
	sent    bool          // a handler sent something in this batch, or something was handed over
}

// operations is which operations are enabled.
type operations struct {
	byNumber []*bound // of the enabled operations; nil: one that this process does not know
	unknowns bool     // there is such an operation
	numbers  map[string]int
	enabling atomic.Pointer[invoke.Numbering] // for callers, which take no lock
	enabled  chan struct{}                    // closed when operations are enabled, and made anew
}

// execution is the record that is executed. The goroutine that has mu for writing uses it.
type execution struct {
	context   Context
	record    machine.Record
	result    machine.Result // of it
	executing *bound         // whose handler runs
	applied   func(data []byte, number uint64)
	reply     []byte         // of the member's command that is applied
	waiting   invoke.Pending // the call of it, if this process made it
	typed     bool           // its value was set by the handler
}

// init makes the replica one of an object that begins.
func (r *replica) init(name string, all map[string]*bound, v values) {
	r.name, r.bound, r.values = name, all, v
	r.enabled, r.emitted = make(chan struct{}), make(chan struct{})
	r.context.object, r.context.emit, r.context.send = name, r.emit, r.send
	r.reset()
}

// lock locks the object to change what queries read.
func (r *replica) lock() {
	r.mu.Lock()
	r.nested.lock()
}

func (r *replica) unlock() {
	r.nested.unlock()
	r.mu.Unlock()
}

func (r *replica) unlockRead(inside bool) {
	if inside {
		r.nested.runlock()
		return
	}
	r.mu.RUnlock()
}

// enter begins with a message. The lock is held.
func (r *replica) enter(view, seq, sender, time uint64) {
	r.record.View, r.record.Seq, r.record.Sender, r.record.Time = view, seq, sender, time
	r.context.Version, r.context.Index = squall.Version{View: squall.ViewID(view), Seq: squall.Seq(seq)}, 0
}

// handler executes commands: it is a replica as package machine sees it.
type handler replica

// Execute implements machine.Handler.
func (h *handler) Execute(x *machine.Execution, args, out []byte) (reply []byte, failed bool) {
	r := (*replica)(h)
	b := r.byNumber[x.Operation]
	if b == nil {
		r.fail(fmt.Errorf("replicated: object %q: %w %q: this process does not have it", r.name, replicated.ErrUnknownOperation, r.machine.Enabled()[x.Operation]))
		return out, true
	}
	r.calledBy(squall.NodeID(x.Sender), x.Session, x.Identity, x.Source, x.Time)
	n := len(out)
	// The reply to another member's command is for that member, unless it asks all for theirs.
	wanted := x.Session != 0 || r.waiting != nil || r.result.Replies
	r.executing = b
	reply, r.typed, failed = b.execute(r.state, &r.context, args, out, r.waiting, wanted)
	r.executing = nil
	if wanted && x.Session == 0 {
		r.reply = reply[n:]
	}
	return reply, failed
}

// calledBy sets the time and the caller of a command in the context. The lock is held.
func (r *replica) calledBy(member squall.NodeID, session uint64, identity, source string, time uint64) {
	c := &r.context
	c.Time = squall.Time(time)
	if session|c.Caller.Session != 0 || source != "" || c.Caller.Object != "" || c.Caller.Member != member {
		c.Caller = Caller{Member: member, Session: session, Identity: identity}
		if source != "" {
			name, shard := client.CutShard(source)
			c.Caller.Object, c.Caller.Shard = name, max(0, shard-1)
		}
	}
}

// emit keeps an event of the command that is executed. The lock is held.
func (r *replica) emit(topic string, data []byte) {
	r.machine.Emit(uint64(r.context.Version.View), uint64(r.context.Version.Seq), topic, data)
	r.news = true
}

// send keeps what a handler sends. The lock is held.
func (r *replica) send(to machine.Destination, operation string, data []byte) error {
	if !r.machine.Send(to, operation, data) {
		return fmt.Errorf("replicated: object %q: %w", r.name, ErrOutboxFull)
	}
	r.sent = true
	return nil
}

// panicked ends the use of a copy whose handler panics, and is deferred. The lock is held.
func (r *replica) panicked() {
	b := r.executing
	if b == nil {
		return
	}
	what := recover()
	if what == nil { // its goroutine ends
		return
	}
	r.executing = nil
	r.fail(&PanicError{Object: r.name, Operation: b.name, Version: r.context.Version, Value: what, Stack: string(debug.Stack())})
	if p := r.waiting; p != nil {
		p.Complete(&invoke.Outcome{Err: r.failed})
		r.waiting = nil
	}
}

// fail ends the use of this copy, and the group here if there is one. The lock is held.
func (r *replica) fail(err error) {
	if r.failed == nil {
		r.failed = err
		r.enabling.Store(nil)
		if r.halt != nil {
			r.halt(err)
		}
	}
}

// letGo forgets the memory of the last record. The lock is held.
func (r *replica) letGo() {
	r.record.Data, r.result.Reply, r.reply = nil, nil, nil
}

// replay applies a record of the log.
func (r *replica) replay(record *squall.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.panicked()
	rs := machine.Split(record.Data)
	r.enter(uint64(record.Version.View), uint64(record.Version.Seq), uint64(record.Sender), uint64(record.Time))
	for data, ok := rs.Next(); ok && r.failed == nil; data, ok = rs.Next() {
		r.record.Data = data
		r.machine.Apply(&r.record, (*handler)(r), &r.result)
		if r.result.Enabled {
			r.operationsEnabled()
		}
		r.context.Index++
	}
	r.letGo()
}

// reading returns the context of a query. The lock is held.
func (r *replica) reading() Context {
	view, seq := r.machine.At()
	return Context{
		Time: squall.Time(r.machine.Time()), Version: squall.Version{View: squall.ViewID(view), Seq: squall.Seq(seq)}, object: r.name,
	}
}

// matching returns events behind a cursor, with up to so many bytes, and the cursor behind all that
// was looked at. The lock is held.
func (r *replica) matching(after invoke.Cursor, prefix string, bytes int) (events []invoke.Event, next invoke.Cursor, err error) {
	all, ok := r.machine.Events(after)
	if !ok {
		return nil, after, fmt.Errorf("replicated: object %q: %w", r.name, replicated.ErrCompacted)
	}
	next = after
	for i := range all {
		e := &all[i]
		if strings.HasPrefix(e.Topic, prefix) {
			size := client.EventBytes + len(e.Topic) + len(e.Data)
			if bytes -= size; bytes < 0 && len(events) > 0 {
				return events, next, nil
			}
			events = append(events, *e)
		}
		next = e.Cursor
	}
	return events, next, nil
}

// tellWatchers wakes the watchers. The lock is held.
func (r *replica) tellWatchers() {
	r.news = false
	close(r.emitted)
	r.emitted = make(chan struct{})
}

// operationsEnabled follows what the machine has enabled. The lock is held.
func (r *replica) operationsEnabled() {
	r.byNumber, r.unknowns = r.byNumber[:0], false
	r.numbers = map[string]int{}
	for i, name := range r.machine.Enabled() {
		b := r.bound[name]
		if b != nil && b.query {
			b = nil
		}
		r.byNumber, r.unknowns = append(r.byNumber, b), r.unknowns || b == nil
		r.numbers[name] = i
	}
	r.enabling.Store(r.numbering())
	close(r.enabled)
	r.enabled = make(chan struct{})
}

// numbering returns what is enabled, or nil if nothing is to be sent without a look at what failed.
// The lock is held.
func (r *replica) numbering() *invoke.Numbering {
	if r.failed != nil {
		return nil
	}
	return &invoke.Numbering{Shard: r.machine.Shard(), Numbers: r.numbers}
}

// unknown returns an error if an enabled operation is none of this process's.
func (r *replica) unknown() error {
	for i, b := range r.byNumber {
		if b == nil {
			return fmt.Errorf("replicated: object %q has the operation %q, and this program does not: %w", r.name, r.machine.Enabled()[i], replicated.ErrUnknownOperation)
		}
	}
	return nil
}

// snapshot captures the object. It runs between two batches.
func (r *replica) snapshot() func(io.Writer) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	head := r.machine.Append(make([]byte, 8, 1<<10))
	binary.LittleEndian.PutUint64(head, uint64(len(head)-8))
	write, err := r.capture()
	if n := len(head) - 8; n > machine.MaxEncodedBytes && err == nil {
		err = fmt.Errorf("its sessions and outbox take %d bytes, and at most %d are restored", n, machine.MaxEncodedBytes)
	}
	return func(w io.Writer) error {
		if err != nil {
			return fmt.Errorf("replicated: object %q: encoding the state: %w", r.name, err)
		}
		if _, err := w.Write(head); err != nil {
			return err
		}
		return write(w)
	}
}

// restored replaces the object by what a snapshot has, or by one that begins.
func (r *replica) restored(from io.Reader) error {
	var size [8]byte
	n, err := io.ReadFull(from, size[:])
	if n != 0 && err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nested.refuse(true) // the rest of the state may take long to come
	defer r.nested.refuse(false)
	r.nested.lock()
	defer r.nested.unlock()
	r.reset()
	if n == 0 {
		if !errors.Is(err, io.EOF) {
			return err
		}
		r.machine = machine.Machine{}
		r.operationsEnabled()
		return nil
	}
	if err := r.restoreMachine(from, binary.LittleEndian.Uint64(size[:])); err != nil {
		return err
	}
	r.operationsEnabled()
	r.tellWatchers()
	if err := r.unknown(); err != nil {
		return err
	}
	if err := r.restore(from); err != nil {
		return fmt.Errorf("replicated: object %q: decoding the state: %w", r.name, err)
	}
	return nil
}

// restoreMachine reads the first part of a snapshot.
func (r *replica) restoreMachine(from io.Reader, length uint64) error {
	if length > machine.MaxEncodedBytes {
		return fmt.Errorf("replicated: object %q: the state says that its sessions take %d bytes", r.name, length)
	}
	var head bytes.Buffer
	if _, err := io.CopyN(&head, from, int64(length)); err != nil {
		return noEOF(err)
	}
	if err := r.machine.Decode(head.Bytes()); err != nil {
		return fmt.Errorf("replicated: object %q: %w", r.name, err)
	}
	return nil
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
