package wait

import "time"

// Contention decides whether a thread that waits spins or sleeps, from what the kernel says of the
// thread: how long it ran, and how long it could run and waited for a core.
//
// To spin costs nothing where a core is free. Where another thread needs the core, a loop that
// spins, or yields, uses up its claim to it: a scheduler that shares by deadlines (EEVDF) has it
// wait then until the other one used as much, which takes whole time slices. A loop that sleeps
// keeps its claim, and runs within microseconds after it is woken.
//
// Two loops that wake each other may share a core while another one is free, and the kernel spreads
// them if they go on spinning. So where a core was idle, it is no contention that a thread waited.
//
// Loops of one group that are more than the cores wait for each other. That is no contention as
// long as each gets half of its share of the cores.
type Contention struct {
	Kernel Kernel  // nil: that of this host
	least  float64 // the part of the time in which the thread could run that it has to get
	from   Usage   // at the beginning of the window
	looked time.Duration
	idle   time.Duration // of all cores, at asked
	asked  time.Duration // when the kernel was asked for it; 0: it was not
	until  time.Duration // when the verdict is examined again; 0: there is none
	yields time.Duration // until then the thread shares its core, and another core is free
	late   int           // windows in turn in which it was delayed
}

// Kernel is what a Contention asks.
type Kernel interface {
	Usage() Usage
	Idle() time.Duration // for how long the cores were idle, together; less than 0: unknown
	Close()
}

// Usage is what the kernel says of a thread.
type Usage struct {
	Thread  int           // 0: nothing is known
	Ran     time.Duration // on a core
	Delayed time.Duration // when it could run, and another thread had the core
}

const (
	contentionWindow = 5 * time.Millisecond   // between two looks at the thread
	idleWindow       = 50 * time.Millisecond  // between two looks at the cores: the kernel counts in steps of 10 ms
	contentionTime   = 100 * time.Millisecond // after which a verdict is examined
	leastDelay       = 500 * time.Microsecond // in a window: less is not worth a sleep
	leastWindows     = 3                      // in turn: threads of the system that run for once are no contention
	leastAlone       = 7.0 / 8                // of a core where loops are no more than cores
	mostIdle         = 1.0 / 4                // of a core, where no core is free
)

// SetLoops says how many loops compete for how many cores.
func (c *Contention) SetLoops(loops, cores int) {
	c.least = leastAlone
	if loops > cores {
		c.least = float64(cores) / float64(loops) / 2
	}
}

// Begin asks the kernel for the first time, so that a loop that has begun holds all descriptors
// that it will ever hold.
func (c *Contention) Begin() {
	if c.Kernel == nil {
		c.Kernel = &kernel{}
	}
	c.from = c.Kernel.Usage()
}

// Found reports whether other threads need the core at present. now is the time on a clock that
// never goes back. Mostly it compares two times; once in a window it asks the kernel.
func (c *Contention) Found(now time.Duration) bool {
	if now < c.until {
		return true
	}
	if c.Kernel == nil {
		c.Kernel = &kernel{}
	}
	if c.until > 0 {
		if c.noCoreIsFree(now) {
			c.until = now + contentionTime
			return true
		}
		c.until, c.from = 0, Usage{} // the next window begins with a look of its own
	}
	if now-c.looked < contentionWindow {
		return false
	}
	if c.late++; !c.delayed(now) {
		c.late = 0
	}
	if c.late >= leastWindows {
		c.yields = now + contentionTime
		if c.noCoreIsFree(now) {
			c.until = now + contentionTime
		}
	}
	return c.until > 0
}

// Shares reports whether the thread shared its core lately. Where contention is not found, it is
// best to yield: the other thread may be the one that is waited for.
func (c *Contention) Shares(now time.Duration) bool { return now < c.yields }

// delayed reports whether others had the thread's core for more than their share, in the window
// that ends now.
func (c *Contention) delayed(now time.Duration) bool {
	from, u := c.from, c.Kernel.Usage()
	c.from, c.looked = u, now
	if u.Thread == 0 || u.Thread != from.Thread {
		return false
	}
	ran, delayed := u.Ran-from.Ran, u.Delayed-from.Delayed
	return delayed >= leastDelay && float64(ran) < c.least*float64(ran+delayed)
}

// noCoreIsFree reports whether the cores were busy since the last look at them, if that is some
// time ago.
func (c *Contention) noCoreIsFree(now time.Duration) bool {
	if c.asked > 0 && now-c.asked < idleWindow {
		return false
	}
	before, asked := c.idle, c.asked
	c.idle, c.asked = c.Kernel.Idle(), now
	return asked > 0 && c.idle >= 0 && float64(c.idle-before) < mostIdle*float64(now-asked)
}

// Close releases what it asks the kernel with.
func (c *Contention) Close() {
	if c.Kernel != nil {
		c.Kernel.Close()
	}
}
