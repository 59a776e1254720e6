package predicates

// Step does what can be done now, without waiting, and returns how much that was; 0 is nothing.
type Step func() (work int)

// Cycle is an ordered list of steps. It is stepped by one goroutine at a time.
type Cycle struct {
	steps []Step
	idle  []Step
}

// Then adds a step behind the others.
func (c *Cycle) Then(s Step) { c.steps = append(c.steps, s) }

// WhenIdle adds a step that is evaluated only in cycles in which no other step did anything: for
// work that gains by waiting, and must not wait for ever.
func (c *Cycle) WhenIdle(s Step) { c.idle = append(c.idle, s) }

// Step evaluates every step once (P1) and returns the work that all of them did.
func (c *Cycle) Step() (work int) {
	for _, s := range c.steps {
		work += s()
	}
	if work > 0 {
		return work
	}
	for _, s := range c.idle {
		work += s()
	}
	return work
}
