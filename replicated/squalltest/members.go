package squalltest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/squall-go/squall/internal/sim"
	"github.com/squall-go/squall/replicated/internal/machine"
	"github.com/squall-go/squall/replicated/internal/simulate"
)

// What members of shards do besides serving clients: they call commands themselves, and hand over
// what handlers sent to other shards.

// ownKey is what the record of a member's own command has.
type ownKey struct{ node, call uint64 }

// ownCall is a member's own command.
type ownCall struct {
	shard  int
	at     place    // where it was executed
	index  uint64   // among the records of its message
	done   bool     // it was
	passed bool     // it came, and was not executed there
	denied bool     // its caller learned that it was not executed, and never will be
	told   bool     // its caller learned that it was executed
	left   bool     // the process left the shard before it was executed
	before *ownCall // the one before it of the same process
}

// callOwn has the member call commands on the shard that it is in, as long as it goes on.
func (c *copyAt) callOwn() {
	r := c.run
	r.world.After(time.Duration(r.random.Int64N(int64(r.world.Plan().FailAfter()))), func() {
		if c.gone || r.ownCalls >= maxOwnCalls || !r.busy() {
			return
		}
		defer c.callOwn()
		if c.host.Hangs() > 0 || c.copy.Shard() == 0 && r.declared.Shards > 1 {
			return
		}
		for range 1 + r.random.IntN(4) {
			c.callOwnOnce()
		}
	})
}

func (c *copyAt) callOwnOnce() {
	r := c.run
	own := &ownCall{shard: max(0, c.copy.Shard()-1), before: c.last}
	name, args := r.cfg.own(r.random, own.shard)
	call, ok := c.copy.Call(name, args, func(executed, not bool) {
		own.told, own.denied = executed, not
		r.outcomes[outcomeOf(executed, not)]++
	})
	if ok {
		r.ownCalls++
		r.owns[ownKey{c.ID(), call}] = own
		c.last = own
	}
}

// busy reports whether a client is not done: only then members do something of their own.
func (r *run) busy() bool {
	return slices.ContainsFunc(r.clients, func(c *Client) bool { return c.lanes > 0 })
}

// maxOwnCalls bounds the commands that members call in a run.
const maxOwnCalls = 200

// Outcomes of members' own commands.
const (
	wasExecuted = iota
	wasNot
	isUnknown
)

func outcomeOf(executed, not bool) int {
	switch {
	case executed:
		return wasExecuted
	case not:
		return wasNot
	}
	return isUnknown
}

// cameOwn notes that a member's own command came, and was executed or not, if a record is one.
func (r *run) cameOwn(at place, sender uint64, data []byte, index uint64, executed bool) {
	if machine.Kind(data[0]) != machine.Command {
		return
	}
	own := r.owns[ownKey{sender, machine.Call(data)}]
	switch {
	case own == nil:
	case !executed:
		own.passed = true
	case own.before != nil && !own.before.done && !own.before.passed && !r.forgets() && len(r.lost) == 0 && !(own.before.left && r.vacant[at.shard]):
		r.world.Fail(fmt.Errorf("a command of node %d is executed at %v, and one that it called before is not", sender, at.v))
	case own.shard != at.shard:
		r.world.Fail(fmt.Errorf("RO10 is violated: shard %d executes at %v what node %d sent to shard %d", at.shard, at.v, sender, own.shard))
	case own.done && (own.at != at || own.index != index) && !r.forgets():
		r.world.Fail(fmt.Errorf("a command of node %d is executed at %v, and was at %v", sender, at.v, own.at.v))
	case own.denied:
		r.world.Fail(fmt.Errorf("a command of node %d is executed at %v, and its caller learned that it is not", sender, at.v))
	default:
		own.at, own.index, own.done = at, index, true
	}
}

var (
	errLostCommand = errors.New("a member learned that its command was executed, and it was not")
	errDeniedDone  = errors.New("a member learned that its command was not executed, and it was")
)

// judgeOwn checks what members learned of their own commands.
func (r *run) judgeOwn() error {
	for _, own := range r.owns {
		switch {
		case own.told && !own.done:
			return errLostCommand
		case own.denied && own.done:
			return errDeniedDone
		}
	}
	return nil
}

// handOver forwards what handlers sent to shards, several items at a time. The network loses
// requests and answers, brings requests twice, late and out of order, and a stranger brings them to
// members of other shards.
func (c *copyAt) handOver() {
	r := c.run
	if c.gone || r.declared.Shards < 2 || !r.busy() {
		return
	}
	for _, f := range c.copy.Forwards() {
		over := false
		end := func(answer []byte) {
			if over || c.gone {
				return
			}
			over = true
			if r.busy() {
				c.copy.Handed(f, answer)
			}
			r.world.After(4*r.hop(), c.handOver)
		}
		r.world.After(r.world.Plan().FailAfter()/2, func() { end(nil) })
		r.world.After(r.hop(), func() {
			if r.random.IntN(16) == 0 {
				return
			}
			c.carry(f, f.To, func(answer []byte) {
				if r.random.IntN(8) > 0 {
					r.world.After(r.hop(), func() { end(answer) })
				}
			})
		})
		r.forwarded++
		for _, odd := range []int{f.To, 1 + r.random.IntN(r.declared.Shards)} {
			if r.random.IntN(4) == 0 {
				r.world.After(time.Duration(r.random.Int64N(int64(r.world.Plan().FailAfter()))), func() { c.carry(f, odd, func([]byte) {}) })
			}
		}
	}
}

// carry brings a request to a member of a shard.
func (c *copyAt) carry(f simulate.Forward, shard int, answer func([]byte)) {
	r := c.run
	if c.gone || !r.busy() {
		return
	}
	var there []*copyAt
	for at := range r.world.Nodes() {
		if h, ok := r.world.Host(at); ok && h.Hangs() == 0 && h.Copy().(*copyAt).in(h, shard) {
			there = append(there, h.Copy().(*copyAt))
		}
	}
	if len(there) > 0 {
		there[r.random.IntN(len(there))].copy.Take(shard, f.Request, answer)
	}
}

// in reports whether the process is in a shard.
func (c *copyAt) in(h *sim.Host, shard int) bool {
	_, shards := c.View()
	for _, m := range shards[shard-1] {
		if m.Node == uint64(h.ID()) {
			return true
		}
	}
	return false
}
