package predicates

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/internal/wait"
)

// Parker is where a runner sleeps. Announce tells writers to ring from now on, Retract that they
// need not.
type Parker interface {
	Announce()
	Sleep(d time.Duration)
	Retract()
	// Yield offers the core to other processes.
	Yield()
}

// Config is what a runner steps and where it sleeps.
type Config struct {
	// Step is one cycle at a time since the runner started; it returns the work it did.
	Step func(now time.Duration) (work int)
	// Deadline is how long after now the next timer expires; less than 0 is never.
	Deadline func(now time.Duration) time.Duration
	Parker   Parker
	// Shared, if not nil, reports whether other loops of this process need the processor that this
	// loop keeps while it waits without sleeping. Then the runner sleeps at once, if there are also
	// more loops than cores (SetLoops).
	Shared func() bool
	// MaxSpin bounds the time that the runner waits without sleeping; 0 is DefaultMaxSpin, less
	// than 0 forbids spinning.
	MaxSpin time.Duration
}

// DefaultMaxSpin is somewhat more than a sleep and a wake-up cost.
const DefaultMaxSpin = 50 * time.Microsecond

const (
	busyGosched = 64 // cycles with work between two offers to other goroutines
	spinGosched = 8  // idle cycles between two offers, while spinning
)

// Stats counts what a runner did. W: the runner. R: any goroutine.
type Stats struct {
	Cycles, Sleeps atomic.Uint64
}

// Runner steps a cycle on a goroutine of its own until it is stopped.
type Runner struct {
	Stats Stats

	cfg        Config
	start      time.Time
	now        time.Duration
	spin       time.Duration   // how long waiting without sleep pays at present
	crowded    bool            // more loops than cores compete: yielding pays more than spinning
	contention wait.Contention // other threads need the core: sleeping pays more than spinning or yielding
	busy       int
	stopped    atomic.Bool
	done       chan struct{}
}

// NewRunner makes a runner; Run, or Start, starts it.
func NewRunner(cfg Config) *Runner {
	if cfg.MaxSpin == 0 {
		cfg.MaxSpin = DefaultMaxSpin
	}
	r := &Runner{cfg: cfg, start: time.Now(), spin: max(cfg.MaxSpin, 0), done: make(chan struct{})}
	r.SetLoops(1)
	return r
}

// SetLoops says how many loops compete for the cores of this host. If they are more than it has,
// the runner yields instead of spinning. Before Start, or in a step.
func (r *Runner) SetLoops(n int) {
	cores := runtime.NumCPU()
	r.crowded = n > cores
	r.contention.SetLoops(n, cores)
}

// Start calls Run on a new goroutine.
func (r *Runner) Start() { go r.Run() }

// Stop ends the loop after the cycle at hand. wake must make a sleeping parker return. Stop does
// not wait; Done tells.
func (r *Runner) Stop(wake func()) {
	r.stopped.Store(true)
	wake()
}

// Done is closed when the loop has ended.
func (r *Runner) Done() <-chan struct{} { return r.done }

func (r *Runner) clock() time.Duration {
	r.now = time.Since(r.start)
	return r.now
}

// Run steps the cycle until Stop is called. It is called once.
func (r *Runner) Run() {
	defer close(r.done)
	r.contention.Begin()
	defer r.contention.Close()
	worked := true
	for !r.stopped.Load() {
		if r.step() {
			worked = true
			if r.busy++; r.crowded || r.busy%busyGosched == 0 {
				runtime.Gosched()
			}
			continue
		}
		// Only what comes after work is worth waiting for: a timer that found nothing to do is
		// followed by sleep.
		if worked && r.wait() {
			continue
		}
		worked = r.park()
	}
}

func (r *Runner) step() bool {
	r.Stats.Cycles.Store(r.Stats.Cycles.Load() + 1)
	return r.cfg.Step(r.clock()) > 0
}

// wait spins as long as it pays, or yields between looks, and reports whether there was work, or
// the runner has to stop.
func (r *Runner) wait() bool {
	if r.contention.Found(r.now) || r.crowded && r.cfg.Shared != nil && r.cfg.Shared() {
		runtime.Gosched() // a goroutine that this process can run now may bring work: the last look finds it
		return r.stopped.Load()
	}
	if r.crowded || r.contention.Shares(r.now) {
		return r.waitYielding()
	}
	start := r.now
	for k := 0; r.now-start < r.spin; k++ {
		if k%spinGosched == 0 {
			runtime.Gosched()
		}
		if r.step() || r.stopped.Load() {
			return true
		}
	}
	r.spin -= r.spin / 8
	return false
}

// waitYielding waits without keeping others from the core: the loop that is waited for may need it.
// A sleep and a wake-up cost more than some rounds of that, unless another process takes the core
// (see wait.Contention).
func (r *Runner) waitYielding() bool {
	start := r.now
	for r.now-start < r.cfg.MaxSpin {
		runtime.Gosched()
		if r.step() || r.stopped.Load() {
			return true
		}
		r.cfg.Parker.Yield()
		if r.step() || r.stopped.Load() {
			return true
		}
		if r.contention.Found(r.now) {
			return false
		}
	}
	return false
}

// park sleeps until a writer rings or a timer is due (P2, P3), unless the last look finds work.
func (r *Runner) park() (worked bool) {
	p := r.cfg.Parker
	if r.cfg.Deadline(r.now) == 0 { // due already: a sleep of no length would only cost peers their bells
		p.Yield()
		return r.step()
	}
	p.Announce()
	if r.step() || r.stopped.Load() {
		p.Retract()
		return true
	}
	before := r.clock()
	r.Stats.Sleeps.Add(1)
	p.Sleep(r.cfg.Deadline(before))
	p.Retract()
	if slept := r.clock() - before; slept < r.cfg.MaxSpin {
		r.spin = min(r.cfg.MaxSpin, r.spin+r.cfg.MaxSpin/4)
	}
	return false
}
