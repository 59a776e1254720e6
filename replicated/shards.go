package replicated

import (
	"context"
	"hash/fnv"
	"iter"

	"github.com/squall-go/squall/replicated/internal/invoke"
)

// ShardOf returns the shard, from 0, to which a key belongs in an object with so many shards.
func ShardOf(key string, shards int) int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	return int(h.Sum64() % uint64(max(1, shards)))
}

// Keyed returns the same command for objects in shards: it is executed by the shard to which key's
// result for its arguments belongs (ShardOf). All processes must use the same function.
func (c *Command[A, R]) Keyed(key func(A) string) *Command[A, R] {
	return &Command[A, R]{operation: newOperation(c.name, false, c.args, c.reply, key)}
}

// Keyed returns the same query for objects in shards: it reads the shard to which key's result for
// its arguments belongs (ShardOf).
func (q *Query[A, R]) Keyed(key func(A) string) *Query[A, R] {
	return &Query[A, R]{operation: newOperation(q.name, true, q.args, q.reply, key)}
}

// ShardReply is what a query returned at one shard.
type ShardReply[R any] struct {
	Shard int // from 0
	Value R
	Err   error
}

// EachShard runs a query at every shard of an object at the same time, and yields the replies in
// the order of the shards. Each is linearizable by itself; together they are no snapshot: commands
// may be executed between the reads of two shards. An object without shards is one with the shard
// 0.
func (q *Query[A, R]) EachShard(ctx context.Context, t Target, args A) iter.Seq[ShardReply[R]] {
	return func(yield func(ShardReply[R]) bool) {
		to := t.Callee()
		s, ok := to.(invoke.Sharded)
		n, err := 1, to.InHandler() // the goroutines below are in none
		if ok && err == nil {
			n, err = s.ShardCount(ctx)
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
			at := to
			if n > 1 {
				at = s.ShardAt(i)
			}
			run := func() {
				v, err := q.run(ctx, at, invoke.Linearizable, args)
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

// locate returns the target at which an operation is called now: that of the shard of its key, if
// it has one.
func locate[A any](ctx context.Context, t invoke.Target, key func(A) string, args A) (invoke.Target, error) {
	if key != nil {
		if s, ok := t.(invoke.Sharded); ok {
			n, err := s.ShardCount(ctx)
			if err != nil {
				return nil, err
			}
			if n > 1 {
				t = s.ShardAt(ShardOf(key(args), n))
			}
		}
	}
	return t.Now(ctx)
}
