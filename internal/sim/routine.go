package sim

import (
	"iter"
	"time"
)

// routine is code of a process that waits in the middle, as a goroutine would. It goes on in turns,
// on the goroutine of the world.
type routine struct {
	proc  *process
	held  func(now time.Duration) (until time.Duration, held bool)
	turn  *turn
	next  func() (pause time.Duration, more bool)
	stop  func()
	ended bool // with the world, where it waited
}

// routine begins one, which does nothing while it is held. Its wait lets time pass, and does not
// return if the world ends, or if it waits for never.
func (p *process) routine(at time.Duration, held func(time.Duration) (time.Duration, bool), do func(wait func(time.Duration))) *routine {
	r := &routine{proc: p, held: held}
	var stop func()
	r.next, stop = iter.Pull(func(yield func(time.Duration) bool) {
		defer func() {
			if r.ended {
				_ = recover()
			}
		}()
		do(func(pause time.Duration) {
			if !yield(pause) {
				panic(errStopped)
			}
		})
	})
	r.stop = func() {
		r.ended = true
		stop()
	}
	p.world.routines = append(p.world.routines, r)
	r.turn = p.world.schedule.add(at, r)
	return r
}

// act implements actor.
func (r *routine) act(now time.Duration) time.Duration {
	if until, held := r.held(now); held {
		return until
	}
	return r.proc.takes(now, func(now time.Duration) time.Duration {
		if pause, more := r.next(); more && pause != never {
			return now + pause
		}
		return never
	})
}
