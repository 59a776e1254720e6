package member

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/goroutine"
	"github.com/squall-go/squall/internal/hooks"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/replicated/internal/machine"
	"github.com/squall-go/squall/replicated/internal/relay"
)

// Object is this process's copy of a replicated value of type S, usually a pointer to a struct.
type Object[S any] struct {
	*object
	fresh func() S
}

// AnyObject is an *Object of any type.
type AnyObject interface {
	replicated.Target
	core() *object
}

// Snapshotter is implemented by a state that hands itself over. The state of an object that does not implement it is
// encoded as CBOR, which takes its exported fields only.
type Snapshotter interface {
	// Snapshot captures the state, quickly, and returns a function that writes it, on another goroutine and
	// possibly several times, while commands go on changing the state.
	Snapshot() func(io.Writer) error
	// Restore replaces the state, which is new, by what Snapshot's function wrote.
	Restore(io.Reader) error
}

// object is what an Object is without its type.
type object struct {
	sg    squall.SubgroupConfig
	err   error // why it cannot be opened
	bound map[string]*bound
	names []string // of the commands, sorted

	// What the application provides, without its type.
	reset   func()
	capture func() (func(io.Writer) error, error)
	restore func(io.Reader) error

	mu        sync.RWMutex // the loop holds it while it executes, queries share it
	state     any
	machine   machine.Machine
	byNumber  []*bound // of the enabled operations; nil: one that this process does not know
	unknowns  bool     // there is such an operation
	context   Context
	numbers   map[string]int // of the enabled operations
	enabling  atomic.Pointer[invoke.Numbering]
	record    machine.Record // that is applied
	result    machine.Result // of it
	executing *bound         // whose handler runs
	applied   func(data []byte, number uint64)
	reply     []byte         // of the member's command that is applied
	waiting   invoke.Pending // the call of it, if this process made it
	typed     bool           // its value was set by the handler
	failed    error          // the copy is not to be used any more
	enabled   chan struct{}  // closed when operations are enabled, and made anew

	calls    calls
	sending  sending
	taken    []invoke.Pending // the calls of the batch, or nil, by the records that this process sent
	outcome  invoke.Outcome   // of one of them
	atOnce   hooks.Replies    // to the clients among them
	place    place            // of the batch before: the goroutine that delivers changes with it at most
	loop     uint64           // the goroutine that delivers; 0: none has
	executes atomic.Uint64    // the goroutine that executes commands; 0: none does
	delivers atomic.Uint64    // the view whose records it delivers
	nested   nested           // locked after mu, to change what queries read

	together   []*object                         // the objects of the group, this one too
	opened     atomic.Bool                       // Open was called with it
	announcing squall.ViewID                     // the steward announced the operations in this view last
	self       atomic.Uint64                     // this process's node id; 0 until the group is open
	stay       atomic.Pointer[stay]              // of an object in shards: where this process is
	settling   sync.Mutex                        // of stays that are over, one after the other
	others     atomic.Pointer[replicated.Client] // calls the shards that this process is not in
	servers    *Object[*servers]                 // where members serve clients; nil if no object of the group is in shards
	cluster    string
	group      *squall.Group
	sub        *squall.Subgroup
	wake       chan struct{} // the steward has something to look at

	emitted chan struct{} // closed when events were emitted, and made anew
	news    bool          // events were emitted in this batch

	maturing enabling

	check check // of copies for divergence

	another func() *object // makes an object alike that is in no group
	history history

	tasks   map[string]func(context.Context, Task) error
	outbox  courier
	sent    bool         // a handler sent something in this batch, or something was handed over
	queries atomic.Int32 // that run
	answers answering
	logger  *slog.Logger

	touchMu sync.Mutex
	touched map[uint64]struct{} // sessions to be kept from expiring
}

// New returns an object whose state is what fresh returns until commands change it. Sg declares the subgroup that
// the object is: its name is the object's. The functions of sg must not be set.
func New[S any](sg squall.SubgroupConfig, fresh func() S, operations ...Binding[S]) *Object[S] {
	if sg.Mode == squall.Persistent {
		sg = durable(sg)
	}
	o := &Object[S]{object: &object{sg: sg, bound: map[string]*bound{}, enabled: make(chan struct{}), wake: make(chan struct{}, 1)}, fresh: fresh}
	o.context.object, o.context.emit, o.context.send, o.context.shards = sg.Name, o.emit, o.send, o.shardsOf
	o.maturing.delay = DefaultEnableDelay
	o.another = func() *object { return New(sg, fresh, operations...).object }
	o.history.building = make(chan struct{}, 1)
	o.tasks, o.outbox.wake = map[string]func(context.Context, Task) error{}, make(chan struct{}, 1)
	o.answers.wake, o.answers.gathered = make(chan struct{}, 1), map[uint64]*gathering{}
	o.atOnce, o.sending.wake = hooks.NewReplies(), make(chan struct{}, 1)
	o.emitted, o.touched = make(chan struct{}), map[uint64]struct{}{}
	for _, op := range operations {
		b := op.make()
		switch {
		case b.name == "" || len(b.name) > machine.MaxName:
			o.err = errors.Join(o.err, fmt.Errorf("the name of an operation has %d bytes, 1 to %d are allowed", len(b.name), machine.MaxName))
		case o.bound[b.name] != nil:
			o.err = errors.Join(o.err, fmt.Errorf("two operations are called %q", b.name))
		}
		o.bound[b.name] = &b
		if !b.query {
			o.names = append(o.names, b.name)
		}
	}
	slices.Sort(o.names)
	if sg.Deliver != nil || sg.DeliverBatch != nil || sg.Snapshot != nil || sg.Restore != nil || sg.Log.Recover != nil {
		o.err = errors.Join(o.err, errors.New("the functions Deliver, DeliverBatch, Snapshot, Restore and Log.Recover belong to the object and must not be set"))
	}
	if len(sg.Senders) != 0 || sg.Mode == squall.Unordered {
		o.err = errors.Join(o.err, errors.New("all members of an object send, and in one order: Senders must be empty and Mode not Unordered"))
	}
	if len(sg.Name) > machine.MaxName-4 || strings.Contains(sg.Name, "\x00") {
		o.err = errors.Join(o.err, fmt.Errorf("the name of an object has at most %d bytes, and no zero byte", machine.MaxName-4))
	}
	o.object.reset = func() { o.state = fresh() }
	o.reset()
	if _, ok := o.state.(Snapshotter); ok {
		o.capture = func() (func(io.Writer) error, error) { return o.state.(Snapshotter).Snapshot(), nil }
		o.object.restore = func(r io.Reader) error { return o.state.(Snapshotter).Restore(r) }
	} else {
		if err := encodable(reflect.TypeFor[S]()); err != nil {
			o.err = errors.Join(o.err, err)
		}
		o.capture = func() (func(io.Writer) error, error) {
			data, err := invoke.Marshal(o.state)
			return func(w io.Writer) error {
				_, err := w.Write(data)
				return err
			}, err
		}
		o.object.restore = func(r io.Reader) error {
			data, err := io.ReadAll(r)
			if err != nil {
				return err
			}
			s := o.state.(S)
			clearEncoded(reflect.ValueOf(&s).Elem()) // what the encoding lacks is not what fresh put there
			if err := invoke.Unmarshal(data, &s); err != nil {
				return err
			}
			o.state = s
			return nil
		}
	}
	return o
}

// encodable returns an error if CBOR would leave out fields of a state.
func encodable(t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(reflect.TypeFor[interface{ MarshalCBOR() ([]byte, error) }]()) {
		return nil
	}
	for i := range t.NumField() {
		if f := t.Field(i); !f.IsExported() && f.Type.Size() > 0 {
			return fmt.Errorf("the field %s of %s is not exported, so that it would not be handed to new members: export it, or implement Snapshotter", f.Name, t)
		}
	}
	return nil
}

// clearEncoded clears what CBOR will set in a state: all of it, or the encoded fields of a struct.
func clearEncoded(v reflect.Value) {
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.CanAddr() && v.Addr().Type().Implements(reflect.TypeFor[interface{ UnmarshalCBOR([]byte) error }]()) {
		return
	}
	if v.Kind() != reflect.Struct {
		v.SetZero()
		return
	}
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("cbor") != "-" && (f.Tag.Get("cbor") != "" || f.Tag.Get("json") != "-") {
			v.Field(i).SetZero()
		}
	}
}

func (o *object) core() *object { return o }

// Name returns the object's name.
func (o *object) Name() string { return o.sg.Name }

// View calls f with the state as it is at this member. F must not change it, and no command is executed
// meanwhile.
func (o *Object[S]) View(f func(S)) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	o.queries.Add(1)
	defer o.queries.Add(-1)
	look(func() { f(o.state.(S)) })
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
	hooks.Operate(&sg, o.names, o.missing)
	return sg, nil
}

// deliver applies a batch of records, in order.
func (o *object) deliver(batch []squall.Message) {
	if at := (place{batch[0].View, batch[0].Replayed()}); at != o.place || o.loop == 0 {
		o.place, o.loop = at, goroutine.ID()
		o.delivers.Store(uint64(at.view))
	}
	self := squall.NodeID(o.self.Load())
	o.lock()
	o.executes.Store(o.loop)
	o.takeCalls(batch, self)
	at := progress{taken: o.taken}
	for !o.applyAll(batch, self, &at) {
	}
	o.letGo()
	if o.news {
		o.tellWatchers()
	}
	if o.sent {
		o.sent = false
		o.outbox.stir()
	}
	o.executes.Store(0)
	o.unlock()
	for i, p := range o.taken {
		switch r, ok := p.(*relayed); {
		case ok:
			r.reply(o.atOnce)
		case p != nil:
			p.Signal()
		}
		o.taken[i] = nil
	}
	o.atOnce.Flush()
}

// lock locks the object to change what queries read.
func (o *object) lock() {
	o.mu.Lock()
	o.nested.lock()
}

func (o *object) unlock() {
	o.nested.unlock()
	o.mu.Unlock()
}

// progress is how far the records of a batch are applied.
type progress struct {
	message int              // that is applied, among the batch
	records machine.Records  // of it that are not applied
	begun   bool             // it is split into its records
	taken   []invoke.Pending // the calls of the records that are not applied
}

// applyAll applies records to the end of the batch, or until a handler panics; then it reports false, and nothing is executed any more. The lock is held.
func (o *object) applyAll(batch []squall.Message, self squall.NodeID, at *progress) (done bool) {
	defer o.panicked() // once for all records: one for each would take a tenth of the time of a small command
	for ; at.message < len(batch); at.message++ {
		m := &batch[at.message]
		own := isOwn(m, self)
		if !at.begun {
			at.records, at.begun = machine.Split(m.Data), true
			o.enter(uint64(m.View), uint64(m.Seq), uint64(m.Sender), cmp.Or(uint64(m.Time), at.records.Time))
		}
		for {
			data, ok := at.records.Next()
			if !ok {
				break
			}
			var waiting invoke.Pending
			if own {
				waiting, at.taken = at.taken[0], at.taken[1:]
			}
			o.apply(m, data, own, waiting)
			if o.applied != nil {
				o.applied(data, o.context.Index)
			}
			o.context.Index++
			if at.records.More() && o.record.Time != 0 && o.result.Status != machine.Malformed && !o.unknowns && o.check.every == 0 {
				o.applyCommands(m, own, at)
			}
		}
		at.begun = false
	}
	return true
}

// applyCommands applies the next records of a message as apply does, as long as Machine.ApplyCommand accepts them. The
// precondition of ApplyCommand holds: a record of the message was applied, and was not Malformed. Most records of busy
// members are commands of this kind. Apply would spend two thirds of the time of a small command on checks whose result
// is the same for all of them (BenchmarkDeliver). The lock is held.
func (o *object) applyCommands(m *squall.Message, own bool, at *progress) {
	for o.failed == nil {
		operation, record, ok := o.machine.ApplyCommand(&at.records)
		if !ok {
			return
		}
		o.calledBy(m.Sender, 0, "", "", o.machine.Time()) // for each one: the handler before may have changed the context
		b, args := o.byNumber[operation], record[machine.CommandBytes:]
		if own {
			o.waiting, at.taken = at.taken[0], at.taken[1:]
		}
		o.executing = b
		reply, typed, failed := b.execute(o.state, &o.context, args, nil, o.waiting, o.waiting != nil)
		o.executing = nil
		if o.waiting != nil {
			out := o.outcomeOf(m, machine.Done)
			if out.Reply, out.Typed = reply, typed; failed {
				out.Status = machine.Failed
			}
			o.waiting.Complete(out)
			o.waiting = nil
		}
		if o.applied != nil {
			o.applied(record, o.context.Index)
		}
		o.context.Index++
	}
}

// outcomeOf returns the outcome of a record of a message, without its reply. The outcome is valid until the next call. The lock is held.
func (o *object) outcomeOf(m *squall.Message, status machine.Status) *invoke.Outcome {
	out := &o.outcome
	out.Version, out.Status, out.Session, out.Args, out.Err = m.Version(), status, 0, nil, o.failed
	return out
}

// enter begins with a message. The lock is held.
func (o *object) enter(view, seq, sender, time uint64) {
	o.record.View, o.record.Seq, o.record.Sender, o.record.Time = view, seq, sender, time
	o.context.Version, o.context.Index = squall.Version{View: squall.ViewID(view), Seq: squall.Seq(seq)}, 0
}

// panicked ends the use of a copy whose handler panics, and is deferred. The lock is held.
func (o *object) panicked() {
	b := o.executing
	if b == nil {
		return
	}
	what := recover()
	if what == nil { // its goroutine ends
		return
	}
	o.executing = nil
	o.fail(&PanicError{Object: o.sg.Name, Operation: b.name, Version: o.context.Version, Value: what, Stack: string(debug.Stack())})
	if p := o.waiting; p != nil {
		p.Complete(&invoke.Outcome{Err: o.failed})
		o.waiting = nil
	}
}

// letGo forgets the memory of the last record. The lock is held.
func (o *object) letGo() {
	o.record.Data, o.result.Reply, o.reply, o.outcome = nil, nil, nil, invoke.Outcome{}
}

// tellWatchers wakes the watchers. The lock is held.
func (o *object) tellWatchers() {
	o.news = false
	close(o.emitted)
	o.emitted = make(chan struct{})
}

// takeCalls finds the calls that wait for the messages of a batch. The lock is held.
func (o *object) takeCalls(batch []squall.Message, self squall.NodeID) {
	o.taken = o.taken[:0]
	locked := false
	for i := range batch {
		if !isOwn(&batch[i], self) {
			continue
		}
		if !locked {
			o.calls.mu.Lock()
			locked = true
		}
		rs := machine.Split(batch[i].Data)
		for data, ok := rs.Next(); ok; data, ok = rs.Next() {
			p, _ := o.calls.table.Take(machine.Call(data))
			o.taken = append(o.taken, p.Pending)
		}
	}
	if locked {
		o.calls.mu.Unlock()
	}
}

// isOwn reports whether this process sent a message.
func isOwn(m *squall.Message, self squall.NodeID) bool { return m.Sender == self && !m.Replayed() }

// apply applies a record of a message, for which a call of this process waits, or nil. The lock is held.
func (o *object) apply(m *squall.Message, data []byte, own bool, waiting invoke.Pending) {
	if o.failed != nil {
		if waiting != nil {
			waiting.Complete(&invoke.Outcome{Err: o.failed})
		}
		return
	}
	o.waiting, o.typed = waiting, false
	before := o.machine.Executed()
	o.record.Data = data
	result := &o.result
	o.machine.Apply(&o.record, (*handler)(o), result)
	if result.Enabled {
		o.operationsEnabled()
	}
	if result.Parted != nil && o.check.diverged != nil {
		o.check.diverged(&DivergedError{
			Object: o.sg.Name, Commands: result.Parted.Count,
			Member: squall.NodeID(result.Parted.One), Other: squall.NodeID(result.Parted.Other),
		})
	}
	if result.Hash && !m.Replayed() {
		o.hash(own, result.Wish)
	}
	if o.check.every != 0 && o.machine.Executed() != before {
		o.takeDigest()
	}
	switch result.Kind {
	case machine.Knows:
		o.stir()
	case machine.Handed:
		o.sent = true
	case machine.Reply:
		o.gather(m.Sender, data)
	}
	if p := waiting; p != nil {
		out := o.outcomeOf(m, result.Status)
		out.Reply, out.Typed, out.Session = result.Reply, o.typed, result.Session
		if result.Kind == machine.Command {
			if out.Reply = o.reply; result.Status == machine.Elsewhere {
				out.Args = data[machine.CommandBytes:]
			}
		}
		p.Complete(out)
	}
	if result.Replies && !own && !m.Replayed() && o.failed == nil {
		reply := result.Reply
		if result.Kind == machine.Command {
			reply = o.reply
		}
		o.answer(m.Sender, result.Call, result.Status, reply)
	}
	o.waiting = nil
}

// place is where the goroutine that delivers may change.
type place struct {
	view     squall.ViewID
	replayed bool
}

// handler executes commands: it is the object as package machine sees it.
type handler object

// Execute implements machine.Handler.
func (h *handler) Execute(x *machine.Execution, args, out []byte) (reply []byte, failed bool) {
	o := (*object)(h)
	b := o.byNumber[x.Operation]
	if b == nil {
		o.fail(fmt.Errorf("replicated: object %q: %w %q: this process does not have it", o.sg.Name, replicated.ErrUnknownOperation, o.machine.Enabled()[x.Operation]))
		return out, true
	}
	o.calledBy(squall.NodeID(x.Sender), x.Session, x.Identity, x.Source, x.Time)
	n := len(out)
	// The reply to another member's command is for that member, unless it asks all for theirs.
	wanted := x.Session != 0 || o.waiting != nil || o.result.Replies
	o.executing = b
	reply, o.typed, failed = b.execute(o.state, &o.context, args, out, o.waiting, wanted)
	o.executing = nil
	if wanted && x.Session == 0 {
		o.reply = reply[n:]
	}
	return reply, failed
}

// calledBy sets the time and the caller of a command in the context. The lock is held.
func (o *object) calledBy(member squall.NodeID, session uint64, identity, source string, time uint64) {
	c := &o.context
	c.Time = squall.Time(time)
	if session|c.Caller.Session != 0 || source != "" || c.Caller.Object != "" || c.Caller.Member != member {
		c.Caller = Caller{Member: member, Session: session, Identity: identity}
		if source != "" {
			name, shard := relay.CutShard(source)
			c.Caller.Object, c.Caller.Shard = name, max(0, shard-1)
		}
	}
}

// fail ends the use of this copy, and the group here. The lock is held.
func (o *object) fail(err error) {
	if o.failed == nil {
		o.failed = err
		o.enabling.Store(nil)
		if o.group != nil {
			o.group.Halt(err)
		}
	}
}

// operationsEnabled follows what the machine has enabled. The lock is held.
func (o *object) operationsEnabled() {
	o.byNumber, o.unknowns = o.byNumber[:0], false
	o.numbers = map[string]int{}
	for i, name := range o.machine.Enabled() {
		b := o.bound[name]
		if b != nil && b.query {
			b = nil
		}
		o.byNumber, o.unknowns = append(o.byNumber, b), o.unknowns || b == nil
		o.numbers[name] = i
	}
	o.enabling.Store(o.numbering())
	close(o.enabled)
	o.enabled = make(chan struct{})
}

// numbering returns what is enabled, or nil if nothing is to be sent without a look at what failed. The lock is held.
func (o *object) numbering() *invoke.Numbering {
	if o.failed != nil {
		return nil
	}
	return &invoke.Numbering{Shard: o.machine.Shard(), Numbers: o.numbers}
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

// unknown returns an error if an enabled operation is none of this process's.
func (o *object) unknown() error {
	for i, b := range o.byNumber {
		if b == nil {
			return fmt.Errorf("replicated: object %q has the operation %q, and this program does not: %w", o.sg.Name, o.machine.Enabled()[i], replicated.ErrUnknownOperation)
		}
	}
	return nil
}

// snapshot captures the object. It runs between two batches.
func (o *object) snapshot() func(io.Writer) error {
	o.mu.RLock()
	defer o.mu.RUnlock()
	head := o.machine.Append(make([]byte, 8, 1<<10))
	binary.LittleEndian.PutUint64(head, uint64(len(head)-8))
	write, err := o.capture()
	if n := len(head) - 8; n > machine.MaxEncodedBytes && err == nil {
		err = fmt.Errorf("its sessions and outbox take %d bytes, and at most %d are restored", n, machine.MaxEncodedBytes)
	}
	return func(w io.Writer) error {
		if err != nil {
			return fmt.Errorf("replicated: object %q: encoding the state: %w", o.sg.Name, err)
		}
		if _, err := w.Write(head); err != nil {
			return err
		}
		return write(w)
	}
}

// restored replaces the object by what a snapshot has, or by one that begins.
func (o *object) restored(r io.Reader) error {
	var size [8]byte
	n, err := io.ReadFull(r, size[:])
	if n != 0 && err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.nested.refuse(true) // the rest of the state may take long to come
	defer o.nested.refuse(false)
	o.nested.lock()
	defer o.nested.unlock()
	o.reset()
	if n == 0 {
		if !errors.Is(err, io.EOF) {
			return err
		}
		o.machine = machine.Machine{}
		o.operationsEnabled()
		return nil
	}
	length := binary.LittleEndian.Uint64(size[:])
	if length > machine.MaxEncodedBytes {
		return fmt.Errorf("replicated: object %q: the state says that its sessions take %d bytes", o.sg.Name, length)
	}
	var head bytes.Buffer
	if _, err := io.CopyN(&head, r, int64(length)); err != nil {
		return noEOF(err)
	}
	if err := o.machine.Decode(head.Bytes()); err != nil {
		return fmt.Errorf("replicated: object %q: %w", o.sg.Name, err)
	}
	o.operationsEnabled()
	o.tellWatchers()
	if err := o.unknown(); err != nil {
		return err
	}
	if err := o.restore(r); err != nil {
		return fmt.Errorf("replicated: object %q: decoding the state: %w", o.sg.Name, err)
	}
	return nil
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// stir has the steward look.
func (o *object) stir() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}
