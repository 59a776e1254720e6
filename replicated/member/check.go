package member

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated/internal/machine"
)

// check compares the copies of an object.
type check struct {
	every    uint64
	diverged func(*DivergedError)

	mu  sync.Mutex
	own digest // of this member's copy, not sent yet; the zero value is none

	hashed *squall.StateHash        // the last one; nil: none was taken
	of     int                      // whose state it is of: 1 + the number of the shard, or 0
	wishes map[uint64]chan struct{} // of this member, until they are applied here
	wished uint64                   // the number of the last one
}

// digest is a sum over a copy after so many commands.
type digest struct {
	count, sum uint64
	shard      int // of the copy: 1 + its number, or 0
}

// Check has the members compare their copies after every so many commands, and calls diverged, on
// the group's loop, for two members whose copies differ: a handler does not do the same everywhere.
// It is called before Open, at every member with the same number. The state is encoded for it while
// commands wait, so the number should not be small; a Snapshotter must write equal states alike.
func (c *common) Check(every uint64, diverged func(*DivergedError)) {
	c.object.check.every, c.object.check.diverged = every, diverged
}

// takeDigest computes the digest of this copy if it is time. The lock is held.
func (o *object) takeDigest() {
	n := o.machine.Executed()
	if o.check.every == 0 || n%o.check.every != 0 || o.self.Load() == 0 {
		return
	}
	sum, err := o.sum()
	if err != nil {
		return // the transfer of such a copy reports it
	}
	o.check.mu.Lock()
	o.check.own = digest{n, sum, o.machine.Shard()}
	o.check.mu.Unlock()
	o.wake.Ring()
}

// sum returns a sum over the encoded state. The lock is held.
func (o *object) sum() (uint64, error) {
	write, err := o.capture()
	if err != nil {
		return 0, err
	}
	sum := fnv.New64a()
	err = write(sum)
	return sum.Sum64(), err
}

// hash hashes the state at the place of a wish in the order. The lock is held.
func (o *object) hash(own bool, wish uint64) {
	sum, err := o.sum()
	o.check.mu.Lock()
	defer o.check.mu.Unlock()
	if o.check.hashed = nil; err == nil {
		o.check.hashed, o.check.of = &squall.StateHash{Position: o.machine.Executed(), Sum: sum}, o.machine.Shard()
	}
	if done := o.check.wishes[wish]; own && done != nil {
		close(done)
		delete(o.check.wishes, wish)
	}
}

// stateHash is the SubgroupConfig.StateHash of an object. A fresh hash is taken by all members at
// one place of the order.
func (o *object) stateHash(ctx context.Context, fresh bool) (squall.StateHash, error) {
	if fresh {
		if err := o.wishHash(ctx); err != nil {
			return squall.StateHash{}, err
		}
	}
	o.mu.RLock()
	of := o.machine.Shard()
	o.mu.RUnlock()
	o.check.mu.Lock()
	defer o.check.mu.Unlock()
	if o.check.hashed == nil || o.check.of != of {
		return squall.StateHash{}, squall.ErrNoStateHash
	}
	return *o.check.hashed, nil
}

// wishHash has all members hash their states, and returns when this one has.
func (o *object) wishHash(ctx context.Context) error {
	if err := o.ready(); err != nil {
		return err
	}
	h := machine.Header{Time: now()}
	if o.sharded() {
		h.Shard = o.stay.Load().number()
	}
	done := make(chan struct{})
	o.check.mu.Lock()
	o.check.wished++
	wish := o.check.wished
	if o.check.wishes == nil {
		o.check.wishes = map[uint64]chan struct{}{}
	}
	o.check.wishes[wish] = done
	o.check.mu.Unlock()
	defer func() {
		o.check.mu.Lock()
		defer o.check.mu.Unlock()
		delete(o.check.wishes, wish)
	}()
	if err := o.sub.Send(ctx, machine.AppendDigest(nil, h, 0, wish)); err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-o.group.Done():
		return o.group.Err()
	case <-ctx.Done():
		return fmt.Errorf("replicated: object %q: hashing the state: %w", o.sg.Name, context.Cause(ctx))
	}
}

// takeOwnDigest returns the last digest of a shard, once. One of a shard that this process has left
// is dropped.
func (o *object) takeOwnDigest(shard int) (d digest, ok bool) {
	o.check.mu.Lock()
	defer o.check.mu.Unlock()
	d, o.check.own = o.check.own, digest{}
	return d, d.count > 0 && d.shard == shard
}

// giveBackDigest has a digest that could not be sent be sent again, or a newer one in its place.
func (o *object) giveBackDigest(d digest) {
	o.check.mu.Lock()
	defer o.check.mu.Unlock()
	if o.check.own.count == 0 {
		o.check.own = d
	}
}
