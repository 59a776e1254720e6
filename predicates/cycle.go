package predicates

// Step is a predicate and its trigger: it looks whether the predicate holds, does what that allows,
// without waiting, and returns how much that was. 0 means that the predicate does not hold.
type Step func() (work int)

// Cycle is an ordered list of steps. It is stepped by one goroutine at a time.
type Cycle struct{ steps []Step }

// Then adds a step after the others.
func (c *Cycle) Then(s Step) { c.steps = append(c.steps, s) }

// Step evaluates every step once (P1) and returns the work that all of them did.
func (c *Cycle) Step() (work int) {
	for _, s := range c.steps {
		work += s()
	}
	return work
}
