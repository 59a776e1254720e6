package member

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/internal/invoke"
)

// An object with SubgroupConfig.Shards has a state for each shard, and a member has a copy of the
// one whose shard it is in. What is called for another shard is called as a client does, at a
// member of that shard. Every record names its shard (RO10).

func (o *object) sharded() bool { return o.sg.Shards > 1 }

// stays is where this process is, of an object in shards.
type stays struct {
	stay     atomic.Pointer[stay]
	settling sync.Mutex                        // of stays that are over, one after the other
	others   atomic.Pointer[replicated.Client] // calls the shards that this process is not in
}

// stay is the time that a process is in one shard. No stay stands for that of a process in an
// object without shards, which does not end.
type stay struct {
	order   uint64       // the stays of a process are numbered
	shard   int          // 1 + its number; 0: the process is in none
	sending atomic.Int64 // commands of this process that are being sent to it, and over when it is over
	idle    wait.Bell    // has an element when it is over, and nothing is being sent
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
		s.idle.Ring()
	}
}

// close ends the stay.
func (s *stay) close() {
	if s.sending.Add(over) == over {
		s.idle.Ring()
	}
}

// has reports whether the copy of this process belongs to a stay that goes on. The lock is held. An
// object without shards has one stay, nil.
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
	return fmt.Errorf("replicated: object %q: %w", o.sg.Name, invoke.ErrElsewhere)
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
	s := &stay{shard: shard, idle: wait.NewBell()}
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

// turnAway has clients, and what handlers sent, turn to the members of the shard: their sessions
// and cursors say what was executed.
func (o *object) turnAway() {
	o.calls.lose(fmt.Errorf("replicated: object %q: %w", o.sg.Name, squall.ErrLeftShard), func(_ uint64, p called) bool { return p.of == nil })
}

// settle ends the commands of this process that were sent to a shard which it has left, and of
// which it does not hear any more. Those that have a place in the order of that shard were executed
// here, unless the application was not given the last ones. The others come along to the next
// shard, which does not execute them (RO10), so that they are called again. They come before a
// record that is sent when all of them were.
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
	err := fmt.Errorf("replicated: object %q: %w: %w", o.sg.Name, replicated.ErrOutcomeUnknown, squall.ErrLeftShard)
	o.calls.lose(err, func(number uint64, _ called) bool { return all[number] })
}

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

// shardsOf returns how many shards an object of the group has: 1 if it has none, or is none.
func (o *object) shardsOf(name string) int {
	for _, other := range o.together {
		if other.sg.Name == name {
			return max(1, other.sg.Shards)
		}
	}
	return 1
}
