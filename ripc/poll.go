package ripc

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/ripc/internal/pair"
	"github.com/squall-go/squall/ripc/internal/table"
)

// polling is how the goroutines of an endpoint wait: one of them polls the peers. Package table
// decides which one, and which peers; this file looks, spins and sleeps. All of it is under the mu,
// but for wanting.
//
//	word     written by  read by  meaning
//	wanting  all         poller   not 0: goroutines wait for the mu, which the poller holds while it spins
type polling struct {
	mu        sync.Mutex
	wanting   atomic.Int32
	parker    *fabric.Parker
	role      table.Role[*waiter]
	hot       table.Peers[*peer]
	pace      pace
	rested    bool          // the poller slept since the last look at the sockets
	caretaker *waiter       // polls when no other goroutine does
	care      chan struct{} // has room for the word that nobody polls
	cared     chan struct{} // closed when the caretaker has ended
	spare     []*waiter
	moving    int    // long messages whose bytes goroutines bring, or send
	closed    bool   // nothing is sent or received any more
	sleeps    uint64 // times that the poller slept
	wakes     uint64 // times that another goroutine was woken
}

const (
	burst        = 64                   // looks between two readings of the clock
	yieldEvery   = 8                    // bursts between two offers of the core, to goroutines and processes
	lookInterval = 64                   // steps between two looks at the sockets, if they are few
	glanceLooks  = 1024                 // looks of a glance: somewhat longer than a round trip takes
	glanceFrames = 32                   // taken in one look of a glance: as many as the caches hold besides the messages
	glanceLimit  = 32                   // of so many, one is a whole step
	careInterval = 5 * time.Millisecond // the longest time in which nobody polls
	careSleeps   = 4                    // intervals with one nap of another poller, before the caretaker sleeps
)

// pace says for how long the poller spins before it sleeps.
type pace struct {
	glances     uint64
	glanceLooks int // of one glance
	maxSpin     time.Duration
	patience    time.Duration
	contention  wait.Contention
	began       time.Time
	core        uint64 // where this process was seen last
}

func newPace(maxSpin time.Duration) pace {
	p := pace{glanceLooks: glanceLooks, maxSpin: maxSpin, patience: max(maxSpin, 0), began: time.Now()}
	if maxSpin < 0 {
		p.glanceLooks = 1
	}
	p.contention.SetLoops(1, runtime.NumCPU())
	return p
}

// spins reports whether the poller spins on that found nothing since a time.
func (p *pace) spins(idle time.Time) bool {
	now := time.Now()
	return now.Sub(idle) < p.patience && !p.contention.Found(now.Sub(p.began))
}

// slept takes in how long the poller slept: after a short time it spins for longer.
func (p *pace) slept(d time.Duration) {
	if most := p.maxSpin; d < most {
		p.patience = min(most, p.patience+most/4)
	}
}

// openPolling makes the parker, and what the goroutines that wait have in common.
func (t *polling) openPolling(maxSpin time.Duration) (err error) {
	t.pace, t.care, t.cared = newPace(maxSpin), make(chan struct{}, 1), make(chan struct{})
	t.caretaker = newWaiter()
	t.caretaker.seat.Yields = true
	if t.parker, err = fabric.NewParker(); err != nil {
		return fmt.Errorf("ripc: %w", err)
	}
	t.pace.contention.Begin()
	return nil
}

func (t *polling) closeParker() error {
	t.pace.contention.Close()
	return t.parker.Close()
}

// quit releases the parker when no goroutine sleeps in it any more.
func (t *polling) quit() error {
	for {
		t.lock()
		used := t.role.IsUsed()
		t.unlock()
		if !used {
			return t.closeParker()
		}
		t.parker.Wake()
		pause()
	}
}

// lock takes the mu, and lets a poller that spins with it know.
func (t *polling) lock() {
	if t.mu.TryLock() {
		return
	}
	t.wanting.Add(1)
	t.mu.Lock()
	t.wanting.Add(-1)
}

func (t *polling) unlock() { t.mu.Unlock() }

// glance polls for a short time without the role: the message of the goroutine is about to come. It
// reports whether the waiter, or the service, has what it waits for. The caller holds the mu.
func (t *polling) glance(w *waiter, s *Service) bool {
	if !t.role.IsVacant() || t.hot.IsEmpty() {
		return false
	}
	if t.pace.glances++; t.pace.glances%glanceLimit == 0 { // the rest of a step must not wait for a message that does not come
		return false
	}
	t.heatStirred()
	if len(t.hot.Polled()) == 0 { // those that were stirred have ended
		return false
	}
	most := t.pace.glanceLooks
	if t.parker.Shared() {
		most = 1
	}
	for looks := 0; looks < most; looks += len(t.hot.Polled()) {
		for _, spot := range t.hot.Polled() {
			p := spot.Peer
			if !p.direct || p.ended() {
				return false
			}
			if !p.rx.Pending() {
				continue
			}
			if p.take(glanceFrames) > 0 {
				if w != nil && w.answered || s != nil && s.queue.len() > 0 {
					return true
				}
				if p.ended() {
					return false
				}
			}
		}
		if t.wanting.Load() > 0 {
			return false
		}
	}
	return false
}

// poll polls until the waiter has what it waits for, or has to stop, or another goroutine took the
// role.
func (t *polling) poll(ctx context.Context, w *waiter) {
	if t.role.Take(&w.seat) { // from a poller that yields and sleeps
		t.parker.Wake()
	}
	var idle time.Time // when there was no work first
	offered := false   // the core, to other goroutines, since there was work
	for rounds := 0; t.role.Has(&w.seat); rounds++ {
		t.heatStirred()
		worked := t.step()
		if w.reached() || t.closed || ctx.Err() != nil {
			break
		}
		if worked {
			idle, offered = time.Time{}, false
			if t.role.HasRoused() { // what these goroutines send may be waited for
				t.yield()
			}
			continue
		}
		if idle.IsZero() {
			idle = time.Now()
		}
		if w.goal != goalNone && t.pace.spins(idle) && !t.parker.Shared() {
			t.spin(rounds)
			continue
		}
		if !offered && t.mustOffer() {
			offered = true
			t.yield()
			continue
		}
		if w.goal != goalNone {
			t.pace.patience -= t.pace.patience / 8
		}
		t.nap(ctx, w)
		idle, offered = time.Time{}, false
	}
	t.role.Drop(&w.seat)
}

// yield lets other goroutines run. If some of them move long messages, one that is about to wait
// takes the role: the poller gets to look only after their pieces.
func (t *polling) yield() {
	t.role.Yield(t.moving > 0)
	t.unlock()
	runtime.Gosched()
	for k := 0; k < 100 && t.wanting.Load() > 0; k++ {
		runtime.Gosched()
	}
	t.lock()
	t.role.Resume()
}

// mustOffer reports whether goroutines that can run might wait for the end of a nap, which keeps
// its processor of the runtime for a while. Where there are others, an idle one takes the
// goroutines over, and an offer would only move the poller to another thread; if none is idle, the
// runtime's monitor does after some milliseconds at most.
func (t *polling) mustOffer() bool {
	return t.role.HasRoused() || t.moving > 0 || runtime.GOMAXPROCS(0) == 1
}

// letOthers lets other goroutines run, and the poller look: short messages come first. Goroutines
// call it that move the bytes of long ones.
func (t *polling) letOthers() {
	t.parker.Rouse()
	runtime.Gosched()
}

// spin looks at the hot peers for a while, and lets others have the mu and the core now and then.
func (t *polling) spin(rounds int) {
	for range burst {
		if t.peek() || t.wanting.Load() > 0 {
			break
		}
	}
	wanted := t.wanting.Load() > 0
	if !wanted && rounds%yieldEvery != yieldEvery-1 {
		return
	}
	if !wanted && t.sharesCore() {
		t.unlock()
		t.parker.Yield()
		t.lock()
	}
	t.yield()
}

// sharesCore reports whether a hot peer said that it runs on the core of this goroutine, and tells
// the peers which one that is. A peer on the same core runs only if this process lets it; and the
// system moves one of two that run, but not one of two that sleep. To yield whenever nothing comes
// would give whole slices of time to programs that have nothing to do with it.
func (t *polling) sharesCore() (shares bool) {
	core := currentCore()
	t.pace.core = core
	for _, spot := range t.hot.Polled() {
		p := spot.Peer
		if p.ended() {
			continue
		}
		p.tellCore(core)
		shares = shares || core != 0 && pair.Core(p.line.row) == core
	}
	return shares
}

// peek reports whether a hot peer has something, or has to be asked. One that has ended is hot
// until the next step, and its rows are not there any more.
func (t *polling) peek() bool {
	for _, spot := range t.hot.Polled() {
		if p := spot.Peer; !p.direct || p.ended() || p.rx.Pending() {
			return true
		}
	}
	return false
}

// nap sleeps until a peer rings, unless the last look finds something.
func (t *polling) nap(ctx context.Context, w *waiter) {
	for _, spot := range t.hot.Polled() {
		spot.Peer.park()
	}
	t.hot.Announce()
	t.parker.Announce()
	w.wakeOn(ctx, t.parker)
	if t.lastLook() || !t.hot.MayDoze() || t.role.HasRoused() || w.reached() || t.closed || ctx.Err() != nil {
		if t.role.MayRetract() {
			t.parker.Retract()
		}
		for _, spot := range t.hot.Polled() {
			spot.Peer.unpark()
		}
		return
	}
	t.hot.Doze(func(p *peer) { p.stirs.Store(true) })
	t.role.Doze()
	t.sleeps++
	before, busy := time.Now(), t.moving > 0
	t.unlock()
	t.parker.Doze(busy)
	t.lock()
	t.pace.core = currentCore()
	mine, retract := t.role.Wake(&w.seat)
	if retract {
		t.parker.Retract()
	}
	if mine {
		t.rested = true
		t.pace.slept(time.Since(before))
	}
}

// lastLook is a step before a sleep. Sockets need none: what they have ends the sleep.
func (t *polling) lastLook() (worked bool) {
	for _, spot := range t.hot.Polled() {
		if p := spot.Peer; p.direct || spot.Always {
			worked = p.step() || worked
		}
	}
	return worked
}

// step looks once at all hot peers, and at the peers that rang.
func (t *polling) step() (worked bool) {
	number := t.hot.Step()
	if t.rested || number%lookInterval == 0 || !t.parker.FewSockets() {
		t.rested = false
		t.parker.Look()
		for _, r := range t.parker.Rang() {
			t.heat(r.Owner.(*peer))
		}
	}
	for i := 0; i < len(t.hot.Polled()); i++ {
		spot := t.hot.Polled()[i]
		p := spot.Peer
		switch {
		case p.step():
			t.hot.Worked(spot)
			worked = true
		case t.hot.Idle(spot):
			worked = t.leave(p) || worked
		}
		if ended := p.ended(); t.hot.Sweep(i, ended) {
			if !ended {
				p.stirs.Store(true)
			}
			i--
		}
	}
	return worked
}

// leave has a peer ring from now on, and looks at it once more: it may have sent before it saw
// that.
func (t *polling) leave(p *peer) (worked bool) {
	p.park()
	if !p.step() {
		t.hot.Idle(&p.spot)
		return false
	}
	if t.hot.Worked(&p.spot) {
		p.unpark()
	}
	return true
}

// heat has a peer polled. One that is hot may have to be looked at by a poller that sleeps: of the
// peers whose sockets goroutines serve.
func (t *polling) heat(p *peer) {
	if p.ended() {
		return
	}
	if t.hot.Heat(&p.spot) {
		p.tellCore(t.pace.core)
		p.stirs.Store(false)
		p.unpark()
	}
	if t.role.IsAsleep() {
		t.parker.Wake()
	}
}

// heatStirred makes the peers hot to which a frame was sent: an answer may come soon.
func (t *polling) heatStirred() {
	for spot := t.hot.Stirred(); spot != nil; spot = t.hot.Stirred() {
		t.heat(spot.Peer)
	}
}

// stir notes that something was sent to a peer that is not hot.
func (t *polling) stir(p *peer) {
	p.stirs.Store(false)
	if !p.ended() {
		t.hot.Stir(&p.spot)
	}
}

// takeCare polls when no other goroutine did for a while.
func (t *polling) takeCare(ctx context.Context) {
	defer close(t.cared)
	w := t.caretaker
	tick := time.NewTimer(careInterval)
	defer tick.Stop()
	var seen uint64
	same := 0
	for {
		select {
		case <-tick.C:
		case <-t.care:
		case <-ctx.Done():
			return
		}
		t.lock()
		if turns := t.role.Turns(); turns != seen {
			seen, same = turns, 0
		} else {
			same++
		}
		switch polled := t.role.Poller() != nil; {
		case t.closed:
		case !polled && same > 0:
			t.poll(ctx, w)
			t.pass()
		case polled && same >= careSleeps:
			t.role.AskNext()
			same = 0
			t.unlock()
			continue // until the poller leaves
		}
		t.unlock()
		tick.Reset(careInterval)
	}
}
