package relay

// Calls finds calls by the number that their records carry. The zero value has none.
type Calls[T any] struct {
	// Lap returns where a new slot begins to count, so that a process does not take the numbers of one
	// before it.
	Lap   func() uint32
	slots []slot[T]
	free  []uint32
	err   error // no call will end by itself any more
}

// slot is a place for a call. Its lap tells the calls apart that had it.
type slot[T any] struct {
	lap  uint32
	used bool
	call T
}

// Put returns the number of a call. It fails once the calls were given up.
func (c *Calls[T]) Put(call T) (uint64, error) {
	if c.err != nil {
		return 0, c.err
	}
	if len(c.free) == 0 {
		c.free = append(c.free, uint32(len(c.slots)))
		c.slots = append(c.slots, slot[T]{lap: c.Lap()})
	}
	i := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	s := &c.slots[i]
	s.lap++ // RL2
	s.call, s.used = call, true
	return uint64(s.lap)<<32 | uint64(i+1), nil
}

// Len returns how many calls there are.
func (c *Calls[T]) Len() int { return len(c.slots) - len(c.free) }

// Take returns the call with a number and forgets it (RL1).
func (c *Calls[T]) Take(number uint64) (call T, ok bool) {
	i := uint32(number) - 1
	if uint64(i) >= uint64(len(c.slots)) || c.slots[i].lap != uint32(number>>32) || !c.slots[i].used {
		return call, false
	}
	var none T
	call, c.slots[i].call, c.slots[i].used = c.slots[i].call, none, false
	c.free = append(c.free, i)
	return call, true
}

// GiveUp forgets all calls and returns them. Put returns err from now on.
func (c *Calls[T]) GiveUp(err error) (all []T) {
	all, c.err = c.TakeWhere(func(uint64, T) bool { return true }), err
	return all
}

// TakeWhere forgets the calls for which f holds, and returns them.
func (c *Calls[T]) TakeWhere(f func(number uint64, call T) bool) (all []T) {
	var none T
	for i := range c.slots {
		if s := &c.slots[i]; s.used && f(uint64(s.lap)<<32|uint64(i+1), s.call) {
			all = append(all, s.call)
			s.call, s.used = none, false
			c.free = append(c.free, uint32(i))
		}
	}
	return all
}
