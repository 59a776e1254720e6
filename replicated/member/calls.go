package member

import (
	"math/rand/v2"
	"sync"

	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/replicated/internal/relay"
)

// calls finds the calls of this process by the number that their records carry.
type calls struct {
	mu    sync.Mutex
	table relay.Calls[called]
}

// called is a call. Of is the stay in which this process made a command for its shard. Any other
// call has none, and is made again where it was not executed: the members know that they have
// executed it.
type called struct {
	invoke.Pending
	of *stay
}

// put returns the number of a call. It fails once the calls were given up.
func (c *calls) put(p invoke.Pending) (uint64, error) {
	number, _, err := c.add(p, nil)
	return number, err
}

// add is like put, for a command of a stay, and returns how many calls are under way.
func (c *calls) add(p invoke.Pending, of *stay) (number uint64, under int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.table.Lap == nil {
		c.table.Lap = rand.Uint32
	}
	number, err = c.table.Put(called{p, of})
	return number, c.table.Len(), err
}

// take returns the call with a number and forgets it, or nil.
func (c *calls) take(number uint64) invoke.Pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, _ := c.table.Take(number)
	return p.Pending
}

// giveUp ends all calls with an error, and refuses further ones.
func (c *calls) giveUp(err error) {
	c.mu.Lock()
	all := c.table.GiveUp(err)
	c.mu.Unlock()
	endAll(all, err)
}

// lose ends the calls for which f holds with an error.
func (c *calls) lose(err error, f func(number uint64, p called) bool) {
	c.mu.Lock()
	all := c.table.TakeWhere(f)
	c.mu.Unlock()
	endAll(all, err)
}

// once returns the numbers of the calls that must not be made again, of a stay and of those before
// it. Commands of a later stay may not have been sent yet.
func (c *calls) once(last *stay) map[uint64]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[uint64]bool{}
	c.table.TakeWhere(func(number uint64, p called) bool {
		if p.of != nil && p.of.order <= last.order {
			all[number] = true
		}
		return false
	})
	return all
}

func endAll(all []called, err error) {
	for _, p := range all {
		p.Complete(&invoke.Outcome{Err: err})
		p.Signal()
	}
}
