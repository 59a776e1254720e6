package member

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/replicated/internal/machine"
	"github.com/squall-go/squall/replicated/internal/relay"
	"github.com/squall-go/squall/ripc"
)

// ErrOutboxFull is returned to a handler that sends when the object has sent more than 4 MiB that
// was not forwarded yet. All members return it for the same command.
var ErrOutboxFull = errors.New("the outbox is full")

// errEarly says that the destination has not executed what was sent before.
var errEarly = errors.New("what was sent before did not arrive, and is sent again")

// errNoHandler is returned where something is sent outside the handler of a command.
var errNoHandler = errors.New("only the handler of a command can send")

// Send has another object of the group, or the handler's own one, execute a command when the
// handler has returned. It is called in the handler of a command, and does not wait. The command is
// executed once, although every member calls Send; commands that one object sends to one other are
// executed in their order. Its reply is dropped: the other object sends a command back if need be.
// Of an object in shards, the shard of the command's key executes it (Keyed). Errors are the same
// at every member.
func Send[A, R any](from *Context, object string, c *replicated.Command[A, R], args A) error {
	of := c.Describe()
	data, err := of.Args.Append(nil, &args)
	if err != nil {
		return err
	}
	if from.shards != nil {
		if n := from.shards(object); n > 1 && of.Key == nil {
			return fmt.Errorf("replicated: object %q: %w", object, replicated.ErrNoKey)
		} else if n > 1 {
			object = client.ShardName(object, replicated.ShardOf(of.Key(args), n))
		}
	}
	return from.hand(machine.Destination{Kind: machine.ToObject, Name: object}, of.Name, data)
}

// Message has a message sent in a subgroup of the group, which is no object, when the handler has
// returned. It is delivered at least once: again if a member fails meanwhile. A receiver that must
// not take it twice finds what it knows by the Version and the Index of the command, which the
// handler puts into the message. Data is kept.
func (c *Context) Message(subgroup string, data []byte) error {
	return c.hand(machine.Destination{Kind: machine.ToSubgroup, Name: subgroup}, "", data)
}

// Start has a task run when the handler has returned, at one member (Object.HandleTask): at least
// once, and again at another member if that one fails. Data is kept.
func (c *Context) Start(task string, data []byte) error {
	return c.hand(machine.Destination{Kind: machine.ToTask, Name: task}, "", data)
}

func (c *Context) hand(to machine.Destination, operation string, data []byte) error {
	if c.send == nil {
		return fmt.Errorf("replicated: object %q: %w", c.object, errNoHandler)
	}
	if to.Name == "" || len(to.Name) > invoke.MaxName {
		return fmt.Errorf("replicated: object %q: a name of %d bytes, 1 to %d are allowed", c.object, len(to.Name), invoke.MaxName)
	}
	return c.send(to, operation, data)
}

// Task is what a handler started with Context.Start.
type Task struct {
	Data    []byte         // it must not be changed
	Version squall.Version // of the command that started it
	Index   uint64         // among what all commands of that message sent, from 1
}

// HandleTask sets the function that runs the tasks of a name which handlers start. It runs outside
// the handler, at one member at a time, in the order of the commands, and may wait: for calls of
// package ripc, of other services, or of this object, by which it brings results. A task that
// returns an error runs again, after a while; one whose member fails runs again at another one.
// Version and Index tell tasks apart. HandleTask is called before Open, at every member.
func (c *common) HandleTask(name string, f func(ctx context.Context, t Task) error) {
	c.object.tasks[name] = f
}

// Outgoing returns how much its handlers sent that is not forwarded yet.
func (c *common) Outgoing() int {
	o := c.object
	o.mu.RLock()
	defer o.mu.RUnlock()
	n := 0
	for _, to := range o.machine.Destinations(nil) {
		n += len(o.machine.Outgoing(to, invoke.Cursor{}))
	}
	return n
}

// courier hands over what the handlers of an object sent. All members have the same outbox; the
// first one that is in the destination, too, hands it over, in the order of sending. When that
// member has failed the next one hands over again all that no record says is handed over, and the
// destination skips what it has executed.
type courier struct {
	wake wait.Bell
	ways map[machine.Destination]*way
	stay *stay // of an object in shards: the stay to which ways belongs
}

// way is how far this member is with one destination.
type way struct {
	told   invoke.Cursor      // up to here the other members were told
	stuck  error              // why it does not go on
	cancel context.CancelFunc // of the goroutine that runs tasks
	more   wait.Bell          // there are more of them

	mu sync.Mutex
	relay.Way
}

// handOver hands over what handlers send, until the group ends.
func (o *object) handOver() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-o.group.Done()
		cancel()
	}()
	o.outbox.ways = map[machine.Destination]*way{}
	for ctx.Err() == nil {
		again := o.handOverOnce(ctx)
		select {
		case <-o.outbox.wake:
		case <-after(again):
		case <-ctx.Done():
		}
	}
}

// handOverOnce hands over what it can now. It returns when to try again, or 0.
func (o *object) handOverOnce(ctx context.Context) (again time.Duration) {
	c := &o.outbox
	if s := o.stay.Load(); s != c.stay { // what another shard sent is its members' to hand over
		for _, w := range c.ways {
			w.end()
		}
		clear(c.ways)
		c.stay = s
	}
	o.mu.RLock()
	all, has := o.machine.Destinations(nil), o.has(c.stay)
	o.mu.RUnlock()
	if !has && c.stay.number() != 0 {
		return retry // its state is not here yet
	} else if !has {
		return 0
	}
	all = slices.DeleteFunc(all, func(to machine.Destination) bool { return !o.relays(to) })
	for to, w := range c.ways {
		if !slices.Contains(all, to) {
			w.end()
			delete(c.ways, to)
		}
	}
	for _, to := range all {
		w := c.ways[to]
		if w == nil {
			w = &way{}
			c.ways[to] = w
		}
		if o.handOverTo(ctx, to, w); w.stuck != nil {
			again = retry
		}
	}
	return again
}

// handOverTo forwards what is for one destination. What keeps it from that is in stuck.
func (o *object) handOverTo(ctx context.Context, to machine.Destination, w *way) {
	err := o.forward(ctx, to, w)
	if err == nil {
		err = o.tellHanded(ctx, to, w)
	}
	if err != nil && ctx.Err() == nil && (w.stuck == nil || w.stuck.Error() != err.Error()) {
		o.logger.Warn("what a handler sent waits", "object", o.sg.Name, "destination", to.Name, "error", err)
	}
	w.stuck = err
}

func (w *way) end() {
	if w.cancel != nil {
		w.cancel()
	}
}

// relays reports whether this member hands over what is sent to a destination: the first one that
// is in it, or for a task the first one.
func (o *object) relays(to machine.Destination) bool {
	shard, ok := o.sub.Shard()
	if !ok {
		return false
	}
	members, there := o.sub.Members(shard), []squall.NodeID(nil)
	first := len(members) > 0 && members[0] == o.group.ID()
	if to.Kind != machine.ToTask {
		name, in := to.Name, 0
		if to.Kind == machine.ToObject {
			name, in = client.CutShard(to.Name)
		}
		sub, err := o.group.Subgroup(name)
		if err != nil {
			return first // it says what is wrong
		}
		if in > 0 {
			there = sub.Senders(in - 1)
			if !slices.ContainsFunc(members, func(id squall.NodeID) bool { return slices.Contains(there, id) }) {
				return first // it calls a member of the shard
			}
		} else if shard, ok = sub.Shard(); !ok {
			return false
		} else {
			there = sub.Senders(shard)
		}
	}
	for _, id := range members {
		if to.Kind == machine.ToTask || slices.Contains(there, id) {
			return id == o.group.ID()
		}
	}
	return false
}

// forward sends what was not sent yet.
func (o *object) forward(ctx context.Context, to machine.Destination, w *way) error {
	w.mu.Lock()
	lost := w.Restart()
	w.mu.Unlock()
	if lost != nil {
		return lost
	}
	for {
		o.mu.RLock()
		w.mu.Lock()
		next, has := w.Next(&o.machine, to, atOnce), o.has(o.outbox.stay)
		w.mu.Unlock()
		o.mu.RUnlock()
		if !has {
			return o.elsewhere()
		}
		if len(next) == 0 {
			return nil
		}
		if to.Kind == machine.ToTask {
			return o.runTasks(ctx, to, w)
		}
		for i := range next {
			w.mu.Lock()
			a := arrived{o: o, w: w, before: w.Before(), at: next[i].Cursor, attempt: w.Attempt()}
			w.mu.Unlock()
			if err := o.forwarded(to, w, a, o.forwardOne(ctx, to, a, &next[i], i == len(next)-1)); err != nil {
				return err
			}
		}
	}
}

// forwarded notes how the forwarding of one thing ended, and returns why nothing more can be
// forwarded.
func (o *object) forwarded(to machine.Destination, w *way, a arrived, err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil:
		w.Sent(a.at)
	case errors.Is(err, squall.ErrTooLarge) || errors.Is(err, ripc.ErrTooLarge): // at every member
		o.logger.Error("what a handler sent is dropped", "object", o.sg.Name, "destination", to.Name, "error", err)
		w.Drop(a.at)
		return nil
	default: // nothing may wait for what was sent before
		w.Lose(a.attempt, err)
		_ = w.Restart()
	}
	return err
}

// atOnce is how many are copied under the lock.
const atOnce = 256

func first(all []machine.Sent, n int) []machine.Sent { return all[:min(n, len(all))] }

// forwardOne sends one. Of messages of a subgroup only the last one at a time is waited for: it is
// delivered behind the others.
func (o *object) forwardOne(ctx context.Context, to machine.Destination, a arrived, s *machine.Sent, last bool) error {
	if to.Kind == machine.ToSubgroup {
		return o.forwardMessage(ctx, to, a, s, last)
	}
	name, shard := client.CutShard(to.Name)
	i := slices.IndexFunc(o.together, func(other *object) bool { return other.sg.Name == name })
	if i < 0 {
		return fmt.Errorf("replicated: object %q: %w %q", o.sg.Name, replicated.ErrNoObject, name)
	}
	other := o.together[i]
	if err := other.ready(); err != nil {
		return err
	}
	source := o.sg.Name
	if n := o.outbox.stay.number(); n > 0 {
		source = client.ShardName(source, n-1)
	}
	other.mu.RLock()
	n, ok := other.numbers[s.Operation]
	here := other.hasShard(shard)
	other.mu.RUnlock()
	if !here {
		return o.forwardTo(ctx, other, shard-1, source, a, s)
	}
	if !ok {
		return fmt.Errorf("replicated: object %q: %w %q", to.Name, replicated.ErrUnknownOperation, s.Operation)
	}
	return other.sendForwarded(ctx, machine.Header{Operation: n, Shard: shard}, source, a, s)
}

// sendForwarded sends the record of a command from another object.
func (o *object) sendForwarded(ctx context.Context, h machine.Header, source string, a arrived, s *machine.Sent) error {
	f := o.flights.join(origin{source, a.at, uint64(o.group.View().ID)}, a)
	if f == nil {
		return nil
	}
	number, err := o.calls.put(f)
	if err != nil {
		if f.unsent(err) {
			return err
		}
		return nil
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	h.Call, h.Time = number, now()
	record := append(machine.AppendForwarded((*buf)[:0], h, source, a.before, a.at), s.Data...)
	*buf = record[:0]
	if err = o.sub.Send(ctx, record); err == nil || o.calls.take(number) == nil || !f.unsent(err) {
		return nil // or it was given up meanwhile
	}
	return err
}

// forwardMessage sends a message to a subgroup that is no object.
func (o *object) forwardMessage(ctx context.Context, to machine.Destination, a arrived, s *machine.Sent, last bool) error {
	sub, err := o.group.Subgroup(to.Name)
	if err != nil {
		return err
	}
	if !last {
		return sub.Send(ctx, s.Data)
	}
	f, err := sub.SendFuture(ctx, s.Data)
	if err != nil {
		return err
	}
	go func() {
		var out invoke.Outcome
		_, out.Err = f.Wait(ctx)
		a.Complete(&out)
	}()
	return nil
}

// forwardTime bounds how long a shard at other members is waited for at a time.
const forwardTime = time.Second

// forwardTo has a member of another shard order what a handler sent, and waits until it has.
func (o *object) forwardTo(ctx context.Context, other *object, shard int, source string, a arrived, s *machine.Sent) error {
	at, err := other.elsewhereShard(shard)
	if err != nil {
		return err
	}
	to := client.Service(other.cluster, o.group.View().Group, client.ShardName(other.sg.Name, shard))
	r := forwarding(ripc.ID(to), source, a.before, s, o.group.View().Secret.Sum)
	ctx, cancel := context.WithTimeout(ctx, forwardTime) // other destinations wait for this one
	defer cancel()
	err = at.(invoke.Forwarder).Forward(ctx, s.Operation, r.AppendTo(nil))
	if err == nil {
		a.Complete(&invoke.Outcome{})
	}
	return err
}

// forwarding is the request by which a service gets what a handler of a source sent, with a proof
// that sum makes.
func forwarding(to ripc.ID, source string, before invoke.Cursor, s *machine.Sent, sum func(use string, text []byte) []byte) client.Request {
	r := client.Request{Ask: client.Forward, Rest: client.AppendForward(nil, source, before, s.Cursor), Name: []byte(s.Operation), Args: s.Data}
	proof, text := r.Proof(string(to))
	copy(proof, sum(useForward, text))
	return r
}

// arrived is what was sent and not delivered yet.
type arrived struct {
	o       *object
	w       *way
	before  invoke.Cursor // of what was sent before it
	at      invoke.Cursor
	attempt uint64 // of the way
}

func (a arrived) Complete(out *invoke.Outcome) {
	a.w.mu.Lock()
	switch {
	case out.Err != nil:
		a.w.Lose(a.attempt, out.Err)
	case out.Status == invoke.Disabled:
		a.w.Lose(a.attempt, replicated.ErrUnknownOperation)
	case out.Status == invoke.Elsewhere:
		a.w.Lose(a.attempt, invoke.ErrElsewhere)
	case out.Status == invoke.Early:
		a.w.Lose(a.attempt, errEarly)
	default:
		a.w.Confirm(a.at)
	}
	a.w.mu.Unlock()
	a.o.outbox.wake.Ring()
}

func (a arrived) Signal() {}

// Typed implements invoke.Pending.
func (a arrived) Typed() any { return nil }

// tellHanded tells the members of the object what has arrived. At most one such record is in
// flight. It is delivered, in this view or a later one, as long as this member is in the shard.
func (o *object) tellHanded(ctx context.Context, to machine.Destination, w *way) error {
	w.mu.Lock()
	confirmed := w.Confirmed()
	w.mu.Unlock()
	o.mu.RLock()
	oldest := first(o.machine.Outgoing(to, invoke.Cursor{}), 1)
	due := len(oldest) > 0 && w.told.Less(oldest[0].Cursor) && !confirmed.Less(oldest[0].Cursor)
	o.mu.RUnlock()
	if !due {
		return nil
	}
	if err := o.sub.Send(ctx, machine.AppendHanded(nil, machine.Header{Time: now(), Shard: o.outbox.stay.number()}, to, confirmed)); err != nil {
		return err
	}
	w.told = confirmed
	return nil
}

// Waits between attempts at a task.
const (
	taskRetry    = 10 * time.Millisecond
	maxTaskRetry = time.Second
)

// runTasks runs the tasks of a name, one after the other, as long as this member is to. It returns
// at once.
func (o *object) runTasks(ctx context.Context, to machine.Destination, w *way) error {
	f := o.tasks[to.Name]
	if f == nil {
		return fmt.Errorf("replicated: object %q has no function for the task %q", o.sg.Name, to.Name)
	}
	if w.cancel == nil {
		w.more = wait.NewBell()
		ctx, w.cancel = context.WithCancel(ctx)
		go o.runTasksOf(ctx, o.outbox.stay, to, w, f)
	}
	w.more.Ring()
	return nil
}

func (o *object) runTasksOf(ctx context.Context, s *stay, to machine.Destination, w *way, f func(context.Context, Task) error) {
	var done invoke.Cursor
	for ctx.Err() == nil {
		o.mu.RLock()
		next := slices.Clone(first(o.machine.Outgoing(to, done), 1))
		if !o.has(s) {
			next = nil
		}
		o.mu.RUnlock()
		if len(next) == 0 {
			select {
			case <-w.more:
			case <-ctx.Done():
			}
			continue
		}
		at := next[0].Cursor
		version := squall.Version{View: squall.ViewID(at.View), Seq: squall.Seq(at.Seq)}
		pause := wait.Backoff{First: taskRetry, Longest: maxTaskRetry}
		for {
			err := f(ctx, Task{Data: next[0].Data, Version: version, Index: at.Index})
			if ctx.Err() != nil {
				return // another member may run it already
			}
			if err == nil {
				break
			}
			o.logger.Warn("a task failed and runs again", "object", o.sg.Name, "task", to.Name, "version", version, "error", err)
			if pause.Wait(ctx) != nil {
				return
			}
		}
		done = next[0].Cursor
		arrived{o: o, w: w, at: done}.Complete(&invoke.Outcome{})
	}
}
