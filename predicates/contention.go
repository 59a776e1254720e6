package predicates

import "time"

// contention learns what it costs a loop to yield its core, and says when to sleep instead.
//
// Between loops of one group a yield is cheap: the core comes back as soon as the others have done
// their steps. A process that never yields nor sleeps keeps the core for a whole time slice, and a
// scheduler that shares by deadlines (EEVDF) counts that slice as used up by the loop that gave it
// away: a loop that yields beside such a process runs for microseconds in each few milliseconds,
// far below its share. A loop that sleeps keeps its claim, and is run soon after it is woken, ahead
// of processes that used more.
//
// So the time that passes in yields is held against the rest of the time in which the loop is
// awake. Where loops compete only with each other, each has its fair share of the cores; one that
// gets less than half of that shares them with another process.
type contention struct {
	fair   float64       // the share of a core that is left to each loop when all are busy: 1, or less where there are more loops than cores
	away   time.Duration // in yields, in this window
	here   time.Duration // awake otherwise
	asleep time.Duration // when the contention that was found last ends
}

const (
	contentionWindow = 20 * time.Millisecond  // awake or in yields, before a verdict
	contentionTime   = 500 * time.Millisecond // how long a verdict holds: the next window costs a twentieth of it
)

// setLoops says how many loops compete for how many cores.
func (c *contention) setLoops(loops, cores int) {
	c.fair = min(1, float64(cores)/float64(max(loops, 1)))
}

// awake notes time that the loop spent in steps.
func (c *contention) awake(d time.Duration) { c.here += d }

// yielded notes a yield that ended now, and gives the verdict when a window is full.
func (c *contention) yielded(took, now time.Duration) {
	c.away += took
	total := c.away + c.here
	if total < contentionWindow {
		return
	}
	if float64(c.here) < c.fair/2*float64(total) {
		c.asleep = now + contentionTime
	}
	c.away, c.here = 0, 0
}

// found reports whether yields cost too much at present.
func (c *contention) found(now time.Duration) bool { return now < c.asleep }
