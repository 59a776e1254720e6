package replicated

import (
	"hash/fnv"
	"sync"
)

// check compares the copies of an object.
type check struct {
	every    uint64
	diverged func(*DivergedError)

	mu  sync.Mutex
	own digest // of this member's copy, not sent yet; the zero value is none
}

// digest is a sum over a copy after so many commands.
type digest struct {
	count, sum uint64
	shard      int // of the copy: 1 + its number, or 0
}

// Check has the members compare their copies after every so many commands, and calls diverged, on the group's loop,
// for two members whose copies differ: a handler does not do the same everywhere. It is called before Open, at every member with
// the same number. The state is encoded for it while commands wait, so the number should not be small; a
// Snapshotter must write equal states alike.
func (o *object) Check(every uint64, diverged func(*DivergedError)) {
	o.check.every, o.check.diverged = every, diverged
}

// takeDigest computes the digest of this copy if it is time. The lock is held.
func (o *object) takeDigest() {
	n := o.machine.Executed()
	if o.check.every == 0 || n%o.check.every != 0 || o.self.Load() == 0 {
		return
	}
	write, err := o.capture()
	sum := fnv.New64a()
	if err == nil {
		err = write(sum)
	}
	if err != nil {
		return // a copy that cannot be encoded is told where it is to be handed over
	}
	o.check.mu.Lock()
	o.check.own = digest{n, sum.Sum64(), o.machine.Shard()}
	o.check.mu.Unlock()
	o.stir()
}

// takeOwnDigest returns the last digest of a shard, once. One of a shard that this process has left is dropped.
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
