package replicated

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/replicated/internal/machine"
)

// An object with SubgroupConfig.Shards has a state for each shard, and a member has a copy of the one whose shard it is in. What is called
// for another shard is called as a client does, at a member of that shard. Every record names its shard (RO10).

// ErrNoKey is returned by a call on an object in shards that says neither by its key nor with Shard which of them is meant.
var ErrNoKey = errors.New("the object is in shards, and the operation has no key")

// errElsewhere says that a command was not executed, or a query not answered, because the member is not in the shard any more.
var errElsewhere = fmt.Errorf("nothing was done, call it again: %w", squall.ErrLeftShard)

// ShardOf returns the shard, from 0, to which a key belongs in an object with so many shards.
func ShardOf(key string, shards int) int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	return int(h.Sum64() % uint64(max(1, shards)))
}

// Keyed returns the same command for objects in shards: it is executed by the shard to which key's result for its arguments belongs
// (ShardOf). All processes must use the same function.
func (c *Command[A, R]) Keyed(key func(A) string) *Command[A, R] {
	return &Command[A, R]{operation: newOperation(c.name, c.args, c.reply, key)}
}

// Keyed returns the same query for objects in shards: it reads the shard to which key's result for its arguments belongs (ShardOf).
func (q *Query[A, R]) Keyed(key func(A) string) *Query[A, R] {
	return &Query[A, R]{operation: newOperation(q.name, q.args, q.reply, key)}
}

// ShardReply is what a query returned at one shard.
type ShardReply[R any] struct {
	Shard int // from 0
	Value R
	Err   error
}

// EachShard runs a query at every shard of an object at the same time, and yields the replies in the order of the shards. Each is
// linearizable by itself; together they are no snapshot: commands may be executed between the reads of two shards. An object without
// shards is one with the shard 0.
func (q *Query[A, R]) EachShard(ctx context.Context, t Target, args A) iter.Seq[ShardReply[R]] {
	return func(yield func(ShardReply[R]) bool) {
		s, ok := t.(shardedTarget)
		n, err := 1, t.inHandler() // the goroutines below are in none
		if ok && err == nil {
			n, err = s.shardCount(ctx)
		}
		if err != nil {
			yield(ShardReply[R]{Err: err})
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		all := make([]chan ShardReply[R], n)
		for i := range all {
			all[i] = make(chan ShardReply[R], 1)
			at := t
			if n > 1 {
				at = s.Shard(i)
			}
			run := func() {
				v, err := q.run(ctx, at, linearizable, args)
				all[i] <- ShardReply[R]{i, v, err}
			}
			if n == 1 {
				run()
			} else {
				go run()
			}
		}
		for _, c := range all {
			if !yield(<-c) {
				return
			}
		}
	}
}

// shardedTarget is an object that may have shards.
type shardedTarget interface {
	// shardCount returns how many shards there are, at least 1.
	shardCount(ctx context.Context) (int, error)
	Shard(n int) Target
}

// oneShard is a shard of a member's object, wherever that is now.
type oneShard struct {
	o *object
	n int
}

// locate returns the target at which an operation is called: the shard of its key.
func locate[A any](ctx context.Context, t Target, key func(A) string, args A) (Target, error) {
	if key != nil {
		if s, ok := t.(shardedTarget); ok {
			n, err := s.shardCount(ctx)
			if err != nil {
				return nil, err
			}
			if n > 1 {
				t = s.Shard(ShardOf(key(args), n))
			}
		}
	}
	switch s := t.(type) {
	case oneShard:
		return s.now()
	case *RemoteObject:
		return s.orWhole(ctx)
	}
	return t, nil
}

// again reports whether a call that failed is made again: its member left the shard before it did anything.
func again(ctx context.Context, err error) bool {
	return err != nil && errors.Is(err, errElsewhere) && ctx.Err() == nil
}

func (o *object) sharded() bool { return o.sg.Shards > 1 }

func (o *object) shardCount(context.Context) (int, error) { return max(1, o.sg.Shards), nil }

// Shard returns a shard of the object, from 0, to call operations on that have no key, and to watch. If this member is not in the
// shard, it calls a member of it as a client does, with its own server's certificates and secret: the members of an object in shards
// serve it (Serve).
func (o *object) Shard(n int) Target { return oneShard{o, n} }

// now returns the object of this process if it is in the shard, or the shard as a client sees it.
func (s oneShard) now() (Target, error) {
	o := s.o
	if s.n < 0 || s.n >= max(1, o.sg.Shards) {
		return nil, fmt.Errorf("replicated: object %q has no shard %d", o.sg.Name, s.n)
	}
	if err := o.ready(); err != nil {
		return nil, err
	}
	if !o.sharded() {
		return o, nil
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
	c := o.others.Load()
	if c == nil {
		return nil, fmt.Errorf("replicated: object %q: shard %d is at other members, which are called through this member's Server: there is none (Serve)", o.sg.Name, s.n)
	}
	return c.Object(o.sg.Name).Shard(s.n), nil
}

func (s oneShard) inHandler() error { return s.o.inHandler() }

func (s oneShard) command(ctx context.Context, name string, args encoder, p pending) error {
	t, err := s.now()
	if err != nil {
		return err
	}
	return t.command(ctx, name, args, p)
}

func (s oneShard) replies(ctx context.Context, name string, args encoder, n int, yield func(answered) bool) error {
	t, err := s.now()
	if err != nil {
		return err
	}
	return t.replies(ctx, name, args, n, yield)
}

func (s oneShard) query(ctx context.Context, name string, c consistency, r reading) error {
	t, err := s.now()
	if err != nil {
		return err
	}
	return t.query(ctx, name, c, r)
}

// events implements watchable.
func (s oneShard) events(ctx context.Context, after Cursor, prefix string) ([]Event, Cursor, error) {
	for {
		t, err := s.now()
		if err != nil {
			return nil, after, err
		}
		events, next, err := t.(watchable).events(ctx, after, prefix)
		if !again(ctx, err) {
			return events, next, err
		}
	}
}

// latest implements watchable.
func (s oneShard) latest(ctx context.Context) (Cursor, error) {
	for {
		t, err := s.now()
		if err != nil {
			return Cursor{}, err
		}
		c, err := t.(watchable).latest(ctx)
		if !again(ctx, err) {
			return c, err
		}
	}
}

// stay is the time that a process is in one shard. No stay stands for that of a process in an object without shards, which does not end.
type stay struct {
	order   uint64        // the stays of a process are numbered
	shard   int           // 1 + its number; 0: the process is in none
	sending atomic.Int64  // commands of this process that are being sent to it, and over when it is over
	idle    chan struct{} // has an element when it is over, and nothing is being sent
}

// over is more than what is being sent at a time.
const over = 1 << 32

// begin begins to send a command of this process. It reports false if the stay is over.
func (s *stay) begin() bool {
	if s != nil && s.sending.Add(1) > over {
		s.end()
		return false
	}
	return true
}

// end ends what begin began.
func (s *stay) end() {
	if s != nil && s.sending.Add(-1) == over {
		s.rest()
	}
}

// close ends the stay.
func (s *stay) close() {
	if s.sending.Add(over) == over {
		s.rest()
	}
}

func (s *stay) rest() {
	select {
	case s.idle <- struct{}{}:
	default:
	}
}

// ownShard is the shard of an object that this process is in, as long as it is.
type ownShard struct {
	o    *object
	stay *stay
}

func (s ownShard) inHandler() error { return s.o.inHandler() }

func (s ownShard) command(ctx context.Context, name string, args encoder, p pending) error {
	return s.o.commandIn(ctx, s.stay, name, args, p)
}

func (s ownShard) replies(ctx context.Context, name string, args encoder, n int, yield func(answered) bool) error {
	return s.o.repliesIn(ctx, s.stay, name, args, n, yield)
}

func (s ownShard) query(ctx context.Context, name string, c consistency, r reading) error {
	return s.o.queryIn(ctx, s.stay, name, c, r)
}

// events implements watchable.
func (s ownShard) events(ctx context.Context, after Cursor, prefix string) ([]Event, Cursor, error) {
	return s.o.eventsIn(ctx, s.stay, after, prefix)
}

// latest implements watchable.
func (s ownShard) latest(ctx context.Context) (Cursor, error) { return s.o.latestIn(ctx, s.stay) }

// whole is the stay of a process in an object without shards, or its stay in a shard.
func (o *object) whole() (*stay, error) {
	if o.sharded() {
		return nil, fmt.Errorf("replicated: object %q: %w: declare it with Keyed, or call it on one of the %d shards (Shard)", o.sg.Name, ErrNoKey, o.sg.Shards)
	}
	return nil, nil
}

// has reports whether the copy of this process belongs to a stay that goes on. The lock is held. An object without shards has one stay, nil.
func (o *object) has(s *stay) bool {
	if mutant.Enabled && mutant.On(mutant.ForeignCopy) {
		return s == nil || o.stay.Load() == s
	}
	return s == nil || o.stay.Load() == s && o.machine.Shard() == s.shard
}

// hasShard is like has, for 1 + the number of a shard.
func (o *object) hasShard(shard int) bool {
	s := o.stay.Load()
	return shard == 0 || s != nil && s.shard == shard && o.has(s)
}

// named waits until the copy of this process belongs to a stay, if the stay has no name yet.
func (o *object) named(ctx context.Context, s *stay) error {
	for s != nil {
		inside, err := o.lockToRead()
		if err != nil {
			return err
		}
		of, changed := o.machine.Shard(), o.enabled
		o.unlockRead(inside)
		switch {
		case o.stay.Load() != s || of != 0 && of != s.shard:
			return o.elsewhere()
		case of != 0:
			return nil
		}
		if err := o.inHandler(); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-time.After(retry):
		case <-o.group.Done():
			return fmt.Errorf("replicated: object %q: %w", o.sg.Name, o.group.Err())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (o *object) elsewhere() error {
	return fmt.Errorf("replicated: object %q: %w", o.sg.Name, errElsewhere)
}

// number returns what records for a stay say of their shard.
func (s *stay) number() int {
	if s == nil {
		return 0
	}
	return s.shard
}

// moved follows this process from shard to shard, and returns the stay that this ends, or nil.
func (o *object) moved(shard int) (from *stay) {
	from = o.stay.Load()
	if from != nil && from.shard == shard {
		return nil
	}
	s := &stay{shard: shard, idle: make(chan struct{}, 1)}
	if from != nil {
		s.order = from.order + 1
	}
	o.stay.Store(s)
	return from
}

// leave ends the calls that wait for a shard which this process has left.
func (o *object) leave(from *stay) {
	from.close()
	o.turnAway()
	go func() {
		o.lock() // a handler may hold it
		o.tellWatchers()
		o.unlock()
		o.settle(from)
	}()
}

// turnAway has clients, and what handlers sent, turn to the members of the shard: their sessions and cursors say what was executed.
func (o *object) turnAway() {
	o.calls.lose(fmt.Errorf("replicated: object %q: %w", o.sg.Name, squall.ErrLeftShard), func(_ uint64, p pending) bool { return p.repeatable() })
}

// settle ends the commands of this process that were sent to a shard which it has left, and of which it does not hear any more. Those that
// have a place in the order of that shard were executed here, unless the application was not given the last ones. The others come along to the next
// shard, which does not execute them (RO10), so that they are called again. They come before a record that is sent when all of them were.
func (o *object) settle(from *stay) {
	o.settling.Lock()
	defer o.settling.Unlock()
	select {
	case <-from.idle:
	case <-o.group.Done(): // all calls end
		return
	}
	now, all := o.stay.Load(), o.calls.once(from)
	if len(all) == 0 {
		return
	}
	if err := o.passOrder(context.Background()); err != nil && now.number() != 0 && o.stay.Load() != now {
		return // the end of that stay settles these, too
	}
	o.settled(all)
}

// settled ends the calls of a list of commands that have not ended yet.
func (o *object) settled(all map[uint64]bool) {
	err := fmt.Errorf("replicated: object %q: %w: %w", o.sg.Name, ErrOutcomeUnknown, squall.ErrLeftShard)
	o.calls.lose(err, func(number uint64, _ pending) bool { return all[number] })
}

// rerouting is how a command goes on that was called with Go on a shard which this process was in.
type rerouting struct {
	ctx   context.Context
	shard oneShard
	args  []byte // encoded; set when the command came to another shard
}

// call calls the command again until it ends.
func (r *rerouting) call(name string, p pending) {
	err := r.shard.command(r.ctx, name, encoded(r.args), p)
	for again(r.ctx, err) {
		err = r.shard.command(r.ctx, name, encoded(r.args), p)
	}
	if err != nil {
		p.complete(&outcome{err: err})
		p.signal()
	}
}

// encoded is arguments that are encoded.
type encoded []byte

func (e encoded) appendTo(b []byte) ([]byte, error) { return append(b, e...), nil }
func (e encoded) size() (int, bool)                 { return len(e), true }
func (e encoded) raw() ([]byte, bool)               { return e, true }
func (e encoded) known(*numbering) int              { return -1 }

// shardIn returns 1 + the number of the shard that a node is in, or 0.
func shardIn(v *squall.View, name string, node squall.NodeID) int {
	rank, ok := v.RankOf(node)
	for _, sg := range v.Shards(name) {
		if ok && sg.Has(rank) {
			return 1 + sg.Shard
		}
	}
	return 0
}

// The name of a shard, as a destination and as a source of commands that handlers send, is the name of its object, a zero byte and its number.

func shardName(object string, shard int) string { return object + "\x00" + strconv.Itoa(shard) }

// cutShard takes the name of an object, or of one of its shards, apart. Shard is 1 + its number, or 0.
func cutShard(name string) (object string, shard int) {
	object, number, ok := strings.Cut(name, "\x00")
	if !ok {
		return object, 0
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n >= machine.MaxShards {
		return name, 0
	}
	return object, n + 1
}

// shardsOf returns how many shards an object of the group has: 1 if it has none, or is none.
func (o *object) shardsOf(name string) int {
	for _, other := range o.together {
		if other.sg.Name == name {
			return max(1, other.sg.Shards)
		}
	}
	return 1
}
