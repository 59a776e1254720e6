package replicated

import (
	"math/rand/v2"
	"sync"

	"github.com/squall-go/squall/replicated/internal/relay"
)

// calls finds the calls of this process by the number that their records carry.
type calls struct {
	mu    sync.Mutex
	table relay.Calls[pending]
}

// put returns the number of a call. It fails once the calls were given up.
func (c *calls) put(p pending) (uint64, error) {
	number, _, err := c.add(p)
	return number, err
}

// add is like put, and returns how many calls are under way.
func (c *calls) add(p pending) (number uint64, under int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.table.Lap == nil {
		c.table.Lap = rand.Uint32
	}
	number, err = c.table.Put(p)
	return number, c.table.Len(), err
}

// take returns the call with a number and forgets it, or nil.
func (c *calls) take(number uint64) pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, _ := c.table.Take(number)
	return p
}

// giveUp ends all calls with an error, and refuses further ones.
func (c *calls) giveUp(err error) {
	c.mu.Lock()
	all := c.table.GiveUp(err)
	c.mu.Unlock()
	endAll(all, err)
}

// lose ends the calls for which f holds with an error.
func (c *calls) lose(err error, f func(number uint64, p pending) bool) {
	c.mu.Lock()
	all := c.table.TakeWhere(f)
	c.mu.Unlock()
	endAll(all, err)
}

// once returns the numbers of the calls that must not be made again.
func (c *calls) once() map[uint64]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[uint64]bool{}
	c.table.TakeWhere(func(number uint64, p pending) bool {
		if !p.repeatable() {
			all[number] = true
		}
		return false
	})
	return all
}

func endAll(all []pending, err error) {
	for _, p := range all {
		p.complete(&outcome{err: err})
		p.signal()
	}
}
