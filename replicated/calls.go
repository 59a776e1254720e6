package replicated

import (
	"math/rand/v2"
	"sync"
)

// calls finds the calls of this process by the number that their records carry.
type calls struct {
	mu    sync.Mutex
	slots []slot
	free  []uint32
	err   error // no call will end by itself any more
}

// slot is a place for a call. Its lap tells the calls apart that had it.
type slot struct {
	lap  uint32
	call pending
}

// put returns the number of a call. It fails once the calls were given up.
func (c *calls) put(p pending) (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	if len(c.free) == 0 {
		c.free = append(c.free, uint32(len(c.slots)))
		c.slots = append(c.slots, slot{lap: rand.Uint32()}) // a process before this one had other laps
	}
	i := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	s := &c.slots[i]
	s.lap++
	s.call = p
	return uint64(s.lap)<<32 | uint64(i+1), nil
}

// take returns the call with a number and forgets it, or nil.
func (c *calls) take(number uint64) pending {
	i := uint32(number) - 1
	c.mu.Lock()
	defer c.mu.Unlock()
	if uint64(i) >= uint64(len(c.slots)) || c.slots[i].lap != uint32(number>>32) {
		return nil
	}
	p := c.slots[i].call
	if p != nil {
		c.slots[i].call = nil
		c.free = append(c.free, i)
	}
	return p
}

// giveUp ends all calls with an error, and refuses further ones.
func (c *calls) giveUp(err error) {
	c.mu.Lock()
	var all []pending
	for i := range c.slots {
		if p := c.slots[i].call; p != nil {
			all = append(all, p)
			c.slots[i].call = nil
		}
	}
	c.err = err
	c.mu.Unlock()
	for _, p := range all {
		p.complete(outcome{err: err})
		p.signal()
	}
}
