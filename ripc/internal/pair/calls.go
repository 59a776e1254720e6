package pair

// Calls matches replies to requests (RP8). An id is a slot and the number of its use, so that a
// reply that comes late, twice or unasked finds no call. Slots are few words each and are used
// again. The zero value is ready.
type Calls[T any] struct {
	slots []call[T]
	spare []uint32
	open  int
}

type call[T any] struct {
	use   uint32 // odd while it is open
	value T
}

// Begin opens a call that is waited for by value, and returns its id, which is never 0.
func (c *Calls[T]) Begin(value T) (id uint64) {
	var slot uint32
	if last := len(c.spare) - 1; last >= 0 {
		slot = c.spare[last]
		c.spare = c.spare[:last]
	} else {
		slot = uint32(len(c.slots))
		c.slots = append(c.slots, call[T]{})
	}
	s := &c.slots[slot]
	s.use++
	s.value = value
	c.open++
	return uint64(s.use)<<32 | uint64(slot)
}

// End closes the call with an id and returns what waits for it; false if there is no such call, or
// not any more.
func (c *Calls[T]) End(id uint64) (value T, ok bool) {
	value, ok = c.Find(id)
	if !ok {
		return value, false
	}
	s := &c.slots[uint32(id)]
	var none T
	s.use++
	s.value = none
	c.open--
	if s.use != 0 { // a slot whose uses are used up is not used again
		c.spare = append(c.spare, uint32(id))
	}
	return value, true
}

// Find returns what waits for a call that is open.
func (c *Calls[T]) Find(id uint64) (value T, ok bool) {
	slot, use := uint32(id), uint32(id>>32)
	if int(slot) >= len(c.slots) || use&1 == 0 || c.slots[slot].use != use {
		return value, false
	}
	return c.slots[slot].value, true
}

// Open is the number of open calls.
func (c *Calls[T]) Open() int { return c.open }

// All visits the open calls in the order of their slots. The visitor may end the call it is given.
func (c *Calls[T]) All(visit func(id uint64, value T)) {
	for slot := range c.slots {
		if s := &c.slots[slot]; s.use&1 == 1 {
			visit(uint64(s.use)<<32|uint64(slot), s.value)
		}
	}
}
