package sim

import (
	"iter"
	"slices"
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

// routine makes one, which does nothing while it is held. Its wait lets time pass, and does not
// return if the world ends. After a wait for never it goes on once it is begun again.
func (p *process) routine(held func(time.Duration) (time.Duration, bool), do func(wait func(time.Duration))) *routine {
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
	return r
}

// begin has it go on at a time.
func (r *routine) begin(at time.Duration) { r.turn = r.proc.world.schedule.add(at, r) }

// act implements actor.
func (r *routine) act(now time.Duration) time.Duration {
	if until, held := r.held(now); held {
		return until
	}
	return r.proc.takes(now, func(now time.Duration) time.Duration {
		pause, more := r.next()
		if !more {
			w := r.proc.world
			w.routines = slices.DeleteFunc(w.routines, func(o *routine) bool { return o == r })
		}
		if !more || pause == never {
			return never
		}
		return now + pause
	})
}
