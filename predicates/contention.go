package predicates

import "time"

// Contention decides whether a thread that waits spins or sleeps, from what the kernel says of the
// thread: how long it ran, and how long it could run and waited for a core.
//
// To spin costs nothing where a core is free. Where another thread needs the core, a loop that spins,
// or yields, uses up its claim to it: a scheduler that shares by deadlines (EEVDF) has it wait then
// until the other one used as much, which takes whole time slices. A loop that sleeps keeps its claim,
// and runs within microseconds after it is woken.
//
// Loops of one group that are more than the cores wait for each other. That is no contention as long as
// each gets half of its share of the cores.
type Contention struct {
	least  float64 // the part of the time in which the thread could run that it has to get
	from   usage   // at the beginning of the window
	looked time.Duration
	until  time.Duration // when the verdict ends
	kernel kernel
	ask    func() usage // in place of the kernel; nil but in tests
}

// usage is what the kernel says of a thread.
type usage struct {
	thread  int           // 0: nothing is known
	ran     time.Duration // on a core
	delayed time.Duration // when it could run, and another thread had the core
}

const (
	contentionWindow = 5 * time.Millisecond   // between two looks
	contentionTime   = 500 * time.Millisecond // how long a verdict holds: the next windows cost a hundredth of it
	leastDelay       = 500 * time.Microsecond // in a window: less is not worth a sleep
	leastAlone       = 7.0 / 8                // of a core where loops are no more than cores
)

// SetLoops says how many loops compete for how many cores.
func (c *Contention) SetLoops(loops, cores int) {
	c.least = leastAlone
	if loops > cores {
		c.least = float64(cores) / float64(loops) / 2
	}
}

// Found reports whether other threads need the core at present. now is the time on a clock that never
// goes back. Mostly it compares two times; once in a window it asks the kernel.
func (c *Contention) Found(now time.Duration) bool {
	if now < c.until {
		return true
	}
	if now-c.looked < contentionWindow {
		return false
	}
	if c.ask != nil {
		return c.look(now, c.ask())
	}
	return c.look(now, c.kernel.usage())
}

// look takes what the kernel says of the window that ends now.
func (c *Contention) look(now time.Duration, u usage) bool {
	from := c.from
	c.from, c.looked = u, now
	if u.thread == 0 || u.thread != from.thread {
		return false
	}
	ran, delayed := u.ran-from.ran, u.delayed-from.delayed
	if delayed < leastDelay || float64(ran) >= c.least*float64(ran+delayed) {
		return false
	}
	c.from, c.until = usage{}, now+contentionTime // the window after the verdict begins with a look of its own
	return true
}

// Close releases what it asks the kernel with.
func (c *Contention) Close() { c.kernel.close() }
