package ripc

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/predicates"
	"github.com/squall-go/squall/ripc/internal/pair"
)

// waiter is a goroutine that waits. The endpoint's mu guards it.
type waiter struct {
	bell   chan struct{} // rung when what it waits for may be there, or the watch is its own
	goal   goal
	yields bool // as a keeper it hands the watch to another goroutine that wants it: what it waits for is not urgent

	service *Service // goalMessage

	peer    *peer // goalRoom, goalAnswer
	channel int   // goalAnswer
	route   *route
	turned  bool        // the service has moved
	asks    *waiter     // for the answer to the request that waits for space
	halts   func() bool // the stream does not write any more
	entry   pair.Entry[*waiter]

	frame    *pair.Frame // goalAnswer: the reply, the refusal, or nil
	err      error
	answered bool
	ordinal  uint32     // the messages of the channel when the request was sent
	into     []byte     // the return buffer
	reply    *receiving // the long reply that is on its way

	check func() bool // goalStream

	prev, next *waiter // in Endpoint.waiting
	listed     bool

	ctx  context.Context // that wakes the watch when it ends
	stop func() bool
}

// goal is what a waiter waits for.
type goal uint8

const (
	goalNone    goal = iota // nothing: the watch itself
	goalMessage             // a message of a service
	goalAnswer              // a reply, or the answer to the opening of a channel
	goalRoom                // room for a message
	goalNotice              // a notice
	goalStream              // something about a stream
)

func newWaiter() *waiter { return &waiter{bell: make(chan struct{}, 1)} }

// reached reports whether what it waits for is there.
func (w *waiter) reached() bool {
	switch w.goal {
	case goalMessage:
		return w.service.queue.len() > 0 || w.service.closed
	case goalAnswer:
		return w.answered
	case goalRoom:
		return w.entry.Woken() || w.isHalted()
	case goalNotice:
		return len(w.service.boards) > 0 || w.service.closed
	case goalStream:
		return w.check()
	}
	return false
}

// isHalted reports whether a frame that waits for buffer space has no place there any more.
func (w *waiter) isHalted() bool {
	return w.turned || w.peer.ended || w.route.isOver() || w.asks != nil && w.asks.answered || w.halts != nil && w.halts()
}

// ring wakes the waiter, if it sleeps on its bell.
func (w *waiter) ring() {
	select {
	case w.bell <- struct{}{}:
	default:
	}
}

// wakeOn has the parker woken when ctx ends. The registration of one context serves until another one comes: mostly it is the same
// again and again.
func (w *waiter) wakeOn(ctx context.Context, p *fabric.Parker) {
	if ctx.Done() == nil || w.ctx == ctx {
		return
	}
	if w.stop != nil {
		w.stop()
	}
	w.ctx, w.stop = ctx, context.AfterFunc(ctx, p.Wake)
}

// waiter is one for a goroutine that is about to wait, which gives it back. The caller holds the mu.
func (e *Endpoint) waiter() *waiter {
	if last := len(e.spare) - 1; last >= 0 {
		w := e.spare[last]
		e.spare = e.spare[:last]
		return w
	}
	return newWaiter()
}

func (e *Endpoint) giveBack(w *waiter) {
	if w.reply != nil {
		w.detach()
	}
	w.peer, w.route, w.service, w.frame, w.err, w.check, w.halts, w.into, w.asks = nil, nil, nil, nil, nil, nil, nil, nil, nil
	e.spare = append(e.spare, w)
}

// watch is the duty of looking at the peers, of which one goroutine at a time keeps. All of it is under the endpoint's mu, but
// for wanting.
//
//	word     written by  read by  meaning
//	wanting  all         keeper   not 0: goroutines wait for the mu, which the keeper holds while it spins
type watch struct {
	keeper    *waiter
	caretaker *waiter // keeps the watch when no other goroutine does
	head      *waiter // of the waiters without the watch, oldest first
	tail      *waiter
	turns     uint64 // how often the watch was taken
	napping   bool   // the keeper sleeps in the parker
	away      bool   // the keeper lets goroutines run that move long messages, and does not look meanwhile
	dozers    int    // goroutines that are in the parker: the keeper, and some that lost the watch and were woken
	heated    bool   // a peer became hot since the keeper was about to nap
	idle      bool   // the caretaker waits for care
	care      chan struct{}
	roused    bool // waiters were woken since the keeper let others run

	spare       []*waiter
	hot         []*peer // looked at directly; the others ring
	stirred     []*peer // that were sent to while they were not hot
	steps       uint64
	glances     uint64
	glanceLooks int  // of one glance
	rested      bool // the keeper slept since the last look at the sockets
	patience    time.Duration
	contention  predicates.Contention
	began       time.Time
	core        uint64 // where this process was seen last

	wanting atomic.Int32
}

const (
	burst        = 64                   // looks between two readings of the clock
	yieldEvery   = 8                    // bursts between two offers of the core, to goroutines and processes
	lookInterval = 64                   // steps between two looks at the sockets, if they are few
	fewHot       = 8                    // so many are looked at without asking whether that pays
	glanceLooks  = 1024                 // looks of a glance: somewhat longer than a round trip takes
	glanceFrames = 32                   // taken in one look of a glance: as many as the caches hold besides the messages
	glanceLimit  = 32                   // of so many, one is a whole step
	coolAfter    = 4096                 // steps in which nothing came, where hot peers are many
	careInterval = 5 * time.Millisecond // the longest time without a watch
	careSleeps   = 4                    // intervals with one nap of another keeper, before the caretaker sleeps
)

// lock takes the mu, and lets a keeper that spins with it know.
func (e *Endpoint) lock() {
	if e.mu.TryLock() {
		return
	}
	e.wanting.Add(1)
	e.mu.Lock()
	e.wanting.Add(-1)
}

func (e *Endpoint) unlock() { e.mu.Unlock() }

// wait returns when the waiter has what it waits for, or ctx ends, or the endpoint is closed. The caller holds the mu.
func (e *Endpoint) wait(ctx context.Context, w *waiter) (err error) {
	for {
		if w.reached() {
			break
		}
		if e.closed {
			err = ErrClosed
			break
		}
		if err = ctx.Err(); err != nil {
			err = context.Cause(ctx)
			break
		}
		if e.keeper == nil || e.away || e.keeper.yields && !w.yields {
			e.keep(ctx, w)
			continue
		}
		e.enlist(w)
		e.unlock()
		if done := ctx.Done(); done == nil {
			<-w.bell
		} else {
			select {
			case <-w.bell:
			case <-done:
			}
		}
		e.lock()
		e.delist(w)
		select {
		case <-w.bell:
		default:
		}
	}
	e.pass()
	return err
}

// glance is a short watch without its formalities: of a goroutine whose message is about to come. It reports whether the waiter, or
// the service, has what it waits for. The caller holds the mu.
func (e *Endpoint) glance(w *waiter, s *Service) bool {
	if e.keeper != nil && !e.away || len(e.hot) == 0 && len(e.stirred) == 0 {
		return false
	}
	if e.glances++; e.glances%glanceLimit == 0 { // the rest of a step must not wait for a message that does not come
		return false
	}
	e.heatStirred()
	most := e.glanceLooks
	if e.parker.Shared() {
		most = 1
	}
	for looks := 0; looks < most; looks += len(e.hot) {
		for _, p := range e.hot {
			if !p.direct || p.ended {
				return false
			}
			if !p.rx.Pending() {
				continue
			}
			if p.take(glanceFrames) > 0 {
				if w != nil && w.answered || s != nil && s.queue.len() > 0 {
					return true
				}
				if p.ended {
					return false
				}
			}
		}
		if e.wanting.Load() > 0 {
			return false
		}
	}
	return false
}

// pass hands the watch to a waiter, if there is one and no goroutine keeps the watch.
func (e *Endpoint) pass() {
	if e.keeper != nil {
		return
	}
	if e.head != nil {
		e.rouse(e.head)
		return
	}
	if e.idle {
		e.idle = false
		e.care <- struct{}{} // has room: it is sent once for each time that idle is set
	}
}

func (e *Endpoint) enlist(w *waiter) {
	w.listed, w.prev, w.next = true, e.tail, nil
	if e.tail != nil {
		e.tail.next = w
	} else {
		e.head = w
	}
	e.tail = w
}

func (e *Endpoint) delist(w *waiter) {
	if !w.listed {
		return
	}
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		e.head = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		e.tail = w.prev
	}
	w.listed, w.prev, w.next = false, nil, nil
}

// rouse wakes a waiter: on its bell, or in the parker if it keeps the watch and sleeps.
func (e *Endpoint) rouse(w *waiter) {
	switch {
	case w.listed:
		e.delist(w)
		w.ring()
		e.roused = true
		e.counts.Wakes++
	case w == e.keeper && e.napping:
		e.parker.Wake()
	}
}

// keep keeps the watch until the waiter has what it waits for, or has to stop, or another one took the watch.
func (e *Endpoint) keep(ctx context.Context, w *waiter) {
	if e.napping { // a keeper that yields: it finds that the watch is not its own any more
		e.napping = false
		e.parker.Wake()
	}
	e.keeper, e.away = w, false
	e.turns++
	var began time.Time // of the time without work
	offered := false    // the core, to other goroutines, since there was work
	for rounds := 0; e.keeper == w; rounds++ {
		e.heatStirred()
		worked := e.step()
		if w.reached() || e.closed || ctx.Err() != nil {
			break
		}
		if worked {
			began, offered = time.Time{}, false
			e.letRun()
			continue
		}
		now := time.Now()
		if began.IsZero() {
			began = now
		}
		if w.goal != goalNone && now.Sub(began) < e.patience && !e.contention.Found(now.Sub(e.began)) && !e.parker.Shared() {
			e.spin(rounds)
			continue
		}
		if !offered { // goroutines that can run must not wait for the end of the nap, which keeps the core for a while
			offered = true
			e.yield()
			continue
		}
		if w.goal != goalNone {
			e.patience -= e.patience / 8
		}
		e.nap(ctx, w)
		began, offered = time.Time{}, false
	}
	if e.keeper == w {
		e.keeper = nil
	}
}

// letRun lets goroutines run that were woken: what they send may be waited for.
func (e *Endpoint) letRun() {
	if !e.roused {
		return
	}
	e.yield()
}

// yield lets other goroutines run. If some of them move long messages, one that is about to wait takes the watch: the keeper gets to look only after
// their pieces.
func (e *Endpoint) yield() {
	e.away, e.roused = e.memory.moving > 0, false
	e.unlock()
	runtime.Gosched()
	for k := 0; k < 100 && e.wanting.Load() > 0; k++ {
		runtime.Gosched()
	}
	e.lock()
	e.away = false
}

// letOthers lets other goroutines run, and the keeper look: short messages come first. Goroutines call it that move the bytes of long ones.
func (e *Endpoint) letOthers() {
	e.parker.Rouse()
	runtime.Gosched()
}

// spin looks at the hot peers for a while, and lets others have the mu and the core now and then.
func (e *Endpoint) spin(rounds int) {
	for range burst {
		if e.peek() || e.wanting.Load() > 0 {
			break
		}
	}
	wanted := e.wanting.Load() > 0
	if !wanted && rounds%yieldEvery != yieldEvery-1 {
		return
	}
	if !wanted && e.sharesCore() {
		e.unlock()
		e.parker.Yield()
		e.lock()
	}
	e.yield()
}

// sharesCore reports whether a hot peer said that it runs on the core of this goroutine, and tells the peers which one that is. A
// peer on the same core runs only if this process lets it; and the system moves one of two that run, but not one of two that sleep.
// To yield whenever nothing comes would give whole slices of time to programs that have nothing to do with it.
func (e *Endpoint) sharesCore() (shares bool) {
	core := currentCore()
	e.core = core
	for _, p := range e.hot {
		if p.ended {
			continue
		}
		p.tellCore(core)
		shares = shares || core != 0 && pair.Core(p.row) == core
	}
	return shares
}

// peek reports whether a hot peer has something, or has to be asked. One that has ended is hot until the next step, and its rows are not
// there any more.
func (e *Endpoint) peek() bool {
	for _, p := range e.hot {
		if !p.direct || p.ended || p.rx.Pending() {
			return true
		}
	}
	return false
}

// nap sleeps until a peer rings, unless the last look finds something.
func (e *Endpoint) nap(ctx context.Context, w *waiter) {
	for _, p := range e.hot {
		p.park()
	}
	e.heated = false
	e.parker.Announce()
	w.wakeOn(ctx, e.parker)
	if e.lastLook() || e.heated || e.roused || w.reached() || e.closed || ctx.Err() != nil || len(e.stirred) > 0 {
		e.retract()
		for _, p := range e.hot {
			p.unpark()
		}
		return
	}
	cold := e.hot[:0]
	for _, p := range e.hot {
		if p.polled {
			cold = append(cold, p)
			continue
		}
		p.hot = false
		p.stirs.Store(true)
	}
	clear(e.hot[len(cold):])
	e.hot = cold
	e.napping = true
	e.counts.Sleeps++
	e.dozers++
	before, busy := time.Now(), e.memory.moving > 0
	e.unlock()
	e.parker.Doze(busy)
	e.lock()
	e.core = currentCore()
	e.dozers--
	e.retract()
	if e.keeper != w {
		return
	}
	e.napping, e.rested = false, true
	if most := e.cfg.MaxSpin; time.Since(before) < most {
		e.patience = min(most, e.patience+most/4)
	}
}

// lastLook is a step before a sleep. Sockets need none: what they have ends the sleep.
func (e *Endpoint) lastLook() (worked bool) {
	for _, p := range e.hot {
		if p.direct || p.polled {
			worked = p.step() || worked
		}
	}
	return worked
}

// retract takes back what was announced to ringers, when all that were in the parker have left it: until then the next look must not
// take out the bell that wakes them.
func (e *Endpoint) retract() {
	if e.dozers == 0 {
		e.parker.Retract()
	}
}

// step looks once at all hot peers, and at the peers that rang.
func (e *Endpoint) step() (worked bool) {
	e.steps++
	if e.rested || e.steps%lookInterval == 0 || !fabric.FewSockets(e.parker) {
		e.rested = false
		e.parker.Look()
		for _, r := range e.parker.Rang() {
			e.heat(r.Owner.(*peer))
		}
	}
	for i := 0; i < len(e.hot); i++ {
		p := e.hot[i]
		if p.step() {
			worked = true
			p.worked = e.steps
		} else if len(e.hot) > fewHot && e.steps-p.worked > coolAfter && !p.polled {
			p.park()
			if p.step() { // it sent before it saw
				p.unpark()
				worked = true
				p.worked = e.steps
			} else {
				p.hot = false
				p.stirs.Store(true)
			}
		}
		if p.ended || !p.hot {
			p.hot = false
			last := len(e.hot) - 1
			e.hot[i] = e.hot[last]
			e.hot[last] = nil
			e.hot = e.hot[:last]
			i--
		}
	}
	return worked
}

// heat has a peer looked at directly. One that is hot may have to be looked at by a keeper that sleeps: of the peers whose sockets goroutines serve.
func (e *Endpoint) heat(p *peer) {
	if p.ended {
		return
	}
	e.heated = true
	if !p.hot {
		p.hot, p.worked = true, e.steps
		p.tellCore(e.core)
		p.stirs.Store(false)
		e.hot = append(e.hot, p)
		p.unpark()
	}
	if e.napping {
		e.parker.Wake()
	}
}

// heatStirred makes the peers hot to which a frame was sent: an answer may come soon.
func (e *Endpoint) heatStirred() {
	for i, p := range e.stirred {
		p.stirring = false
		e.heat(p)
		e.stirred[i] = nil
	}
	e.stirred = e.stirred[:0]
}

// stir notes that something was sent to a peer that is not hot.
func (e *Endpoint) stir(p *peer) {
	p.stirs.Store(false)
	if !p.stirring && !p.hot && !p.ended {
		p.stirring = true
		e.stirred = append(e.stirred, p)
	}
}

// takeCare keeps the watch when no other goroutine did for a while.
func (e *Endpoint) takeCare(ctx context.Context) {
	defer close(e.cared)
	w := e.caretaker
	tick := time.NewTimer(careInterval)
	defer tick.Stop()
	var seen uint64
	same := 0
	for {
		select {
		case <-tick.C:
		case <-e.care:
		case <-ctx.Done():
			return
		}
		e.lock()
		if e.turns != seen {
			seen, same = e.turns, 0
		} else {
			same++
		}
		switch {
		case e.closed:
		case e.keeper == nil && same > 0:
			e.keep(ctx, w)
			e.pass()
		case e.keeper != nil && same >= careSleeps:
			e.idle, same = true, 0
			e.unlock()
			continue // until a keeper leaves
		}
		e.unlock()
		tick.Reset(careInterval)
	}
}
