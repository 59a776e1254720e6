package sim

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/smc"
)

// app is what the application of one process does in one declaration: it claims, fills, commits or
// aborts, sometimes much later, skips rounds, and does not want to send for a while.
type app struct {
	world    *world
	plan     App
	dice     dice
	proc     *process
	ledger   *ledger
	name     string
	left     int // messages
	kept     int // claims that were not given back
	held     []held
	bulk     *bulk // nil: it waits for no large message
	begun    time.Duration
	burst    time.Duration // when the next one is due
	refusals int           // since there was room
	unable   time.Duration // since when it may not send; never: it may
	muted    bool
	turn     *turn
}

// held is a claim that is open.
type held struct {
	claim  smc.Claim
	number int
	abort  bool
	due    time.Duration
}

// addApp begins what a process that became a member sends in a declaration.
func (w *world) addApp(p *process, decl int) {
	plan := w.plan.Apps[p.node.place*len(w.plan.Decls)+decl]
	if p.self.Incarnation > 1 {
		plan.Messages = (plan.Messages + 2) / 3
	}
	w.sometimes(SilentSender, plan.Messages == 0)
	if plan.Messages == 0 && plan.Mute == 0 {
		return
	}
	w.busyApps++
	a := &app{
		world: w, plan: plan, proc: p, ledger: p.ledgers[decl], name: w.plan.Decls[decl].Name, left: plan.Messages, unable: never,
		begun: w.now, burst: w.now + plan.Start,
		dice: dice{rand.New(rand.NewPCG(w.plan.Seed, 1000+uint64(p.node.place)<<8+uint64(decl)+p.self.Incarnation<<32))},
	}
	start := w.now + plan.Start
	a.turn = w.schedule.add(start, a)
	p.apps = append(p.apps, a)
	w.lastStart = max(w.lastStart, start, w.now+plan.Mute+plan.Unmute)
}

func (a *app) outbox() *member.Outbox { return a.proc.member.Outbox(a.name) }

// act implements actor.
func (a *app) act(now time.Duration) time.Duration {
	if a.proc.over {
		return a.done()
	}
	if now < a.proc.hangs {
		return a.proc.hangs
	}
	a.muteOrNot(now)
	a.settleDue(now)
	if a.bulk != nil {
		a.carryOn(now)
	}
	if a.left > 0 && a.bulk == nil && now >= a.burst {
		a.send(now)
	}
	if a.left == 0 && len(a.held) == 0 && a.bulk == nil && a.wished() {
		a.world.sometimes(OnlyAborted, a.kept == 0 && a.plan.Messages > 0)
		return a.done()
	}
	return max(a.next(), now+1)
}

// goBeside has one of the process's applications go on in the middle of a step of its member, as a
// goroutine beside the loop may: it sends what it has to send, skips, and finishes claims that it
// left open. It does not while a view is being installed: a goroutine would wait for the loop then.
func (p *process) goBeside() {
	w := p.world
	if len(p.apps) == 0 || p.told || p.seat().record.view.ID != p.member.View().ID {
		return
	}
	a := p.apps[w.beside.IntN(len(p.apps))]
	if a.turn.place < 0 || a.plan.LargeIn > 0 || !a.wished() || a.left == 0 && len(a.held) == 0 || w.now < a.begun+a.plan.Start {
		return
	}
	w.probes[WentBeside]++
	a.burst = w.now
	for i := range a.held {
		if w.beside.oneIn(2) {
			a.held[i].due = w.now
		}
	}
	p.beside = true
	w.schedule.put(a.turn, a.act(w.now))
	p.beside = false
}

func (a *app) done() time.Duration {
	a.world.busyApps--
	a.world.stir()
	return never
}

// next is when there is something to do.
func (a *app) next() time.Duration {
	next := never
	if a.bulk != nil {
		next = a.world.now + a.world.plan.Hop()/2
	} else if a.left > 0 {
		next = a.burst
	}
	for _, h := range a.held {
		next = sooner(next, h.due)
	}
	if !a.muted && a.plan.Mute > 0 {
		next = sooner(next, a.begun+a.plan.Mute)
	}
	if a.muted && a.plan.Unmute > 0 {
		next = sooner(next, a.begun+a.plan.Mute+a.plan.Unmute)
	}
	return next
}

// wished reports whether it has said all that it has to say about where it wants to send.
func (a *app) wished() bool { return a.plan.Mute == 0 }

// muteOrNot changes whether it wants to send.
func (a *app) muteOrNot(now time.Duration) {
	switch {
	case a.proc.told:
		a.plan.Mute = 0
		return
	case a.plan.Mute == 0:
		return
	case !a.muted && now >= a.begun+a.plan.Mute:
		a.muted = true
		if a.plan.Unmute == 0 {
			a.plan.Mute = 0
		}
		a.mute(true)
	case a.muted && now >= a.begun+a.plan.Mute+a.plan.Unmute:
		a.muted, a.plan.Mute = false, 0
		a.mute(false)
	}
}

func (a *app) mute(on bool) {
	w, p := a.world, a.proc
	p.mute &^= 1 << a.ledger.decl
	if on {
		p.mute |= 1 << a.ledger.decl
	}
	w.event(muted, p.node.place, p.mute)
	p.print("%s mute %v", a.name, on)
	p.member.Mute(p.mute)
	p.wake()
	// a wish may be taken back before the leader has heard of it, and bring another view all the
	// same
	w.calm = w.now
	w.stir()
}

// settleDue finishes the claims whose time has come, in the order in which they are due.
func (a *app) settleDue(now time.Duration) {
	kept := a.held[:0]
	for _, h := range a.held {
		if h.due > now {
			kept = append(kept, h)
			continue
		}
		a.settle(h, now)
	}
	a.held = kept
}

func (a *app) settle(h held, now time.Duration) {
	w, l := a.world, a.ledger
	w.watchSettle(a, h)
	var err error
	if h.abort {
		w.probes[ClaimAborted]++
		l.settle(h.number, aborted, now)
		err = a.outbox().Abort(h.claim)
	} else {
		fill(h.claim.Bytes, l.key, h.number)
		a.kept++
		l.settle(h.number, committed, now)
		err = a.commit(h)
	}
	w.stir()
	// a halted member returns its reason
	if reason := a.proc.member.Err(); err != nil && (h.abort || reason == nil || !errors.Is(err, reason)) {
		w.fail(violated("S5", "node %d: %q: claim %d: %v", a.proc.self.ID, a.name, h.number, err))
	}
	w.event(settledClaim, a.proc.node.place, uint64(l.decl), uint64(h.number))
	if w.trace.out != nil {
		a.proc.print("%s%s%d", a.name, map[bool]string{true: "-", false: "!"}[h.abort], h.number)
	}
}

// commit commits a claim, and waits for its delivery now and then.
func (a *app) commit(h held) error {
	if !a.dice.oneIn(a.plan.FutureIn) {
		return a.outbox().Commit(h.claim)
	}
	f, err := a.outbox().CommitFuture(h.claim)
	if a.world.lie == WrongFuture {
		h.number = max(0, h.number-1)
	}
	if err == nil {
		a.ledger.futures = append(a.ledger.futures, promised{number: h.number, future: f})
	}
	return err
}

// send is one burst: as many claims as the ring takes.
func (a *app) send(now time.Duration) {
	a.burst = now + a.dice.upTo(2*a.plan.Gap)
	for range 1 + a.dice.IntN(a.plan.Burst) {
		if a.left == 0 || a.bulk != nil {
			return
		}
		if !a.claim(now) {
			// the ring is full, or nothing may be sent now
			a.burst = max(a.burst, now+10*time.Microsecond<<min(a.refusals, 8))
			a.refusals++
			return
		}
	}
	if !a.dice.oneIn(a.plan.SkipIn) {
		return
	}
	if a.dice.oneIn(2) {
		a.skip()
		return
	}
	// the messages may be published by then
	a.world.callAt(now+a.dice.upTo(4*a.proc.pace.Step), func() {
		if p := a.proc; !p.over && !p.told {
			a.skip()
		}
	})
}

func (a *app) skip() {
	w, rounds := a.world, order.Index(1+a.dice.IntN(6))
	w.probes[RoundsSkipped]++
	w.event(skip, a.proc.node.place, uint64(a.ledger.decl), uint64(rounds))
	a.proc.print("%s skips %d", a.name, rounds)
	if m := a.proc.member; a.proc.stepping {
		m.Call(func() { m.Skip(a.name, rounds) })
	} else {
		m.Skip(a.name, rounds)
	}
	a.proc.wake()
}

// claim takes room for a message and fills it, now or later, and reports whether there was room.
func (a *app) claim(now time.Duration) bool {
	if a.dice.oneIn(a.plan.LargeIn) {
		return a.begin(now)
	}
	w, l, size := a.world, a.ledger, a.size()
	c, err := a.outbox().TryClaim(size)
	if err != nil {
		return a.turnedDown(now, err)
	}
	w.judge("halt", checkAccepted(w, a.proc))
	for i := range c.Bytes {
		c.Bytes[i] = 0xee // what is not committed must not be seen
	}
	a.refusals, a.unable = 0, never
	h := held{claim: c, number: len(l.claims), abort: a.dice.oneIn(a.plan.AbortIn), due: now}
	if a.dice.oneIn(a.plan.HoldIn) {
		h.due = now + a.dice.upTo(a.plan.Hold)
	}
	l.claims = append(l.claims, claim{bytes: size, view: a.proc.member.View().ID})
	a.left--
	w.stir()
	w.event(claimed, a.proc.node.place, uint64(l.decl), uint64(h.number), uint64(size))
	if w.trace.out != nil {
		a.proc.print("%s+%d %dB", a.name, h.number, size)
	}
	if h.due == now {
		a.settle(h, now)
	} else {
		a.held = append(a.held, h)
	}
	return true
}

// turnedDown does what follows from a message that was not accepted, and reports that.
func (a *app) turnedDown(now time.Duration, err error) (accepted bool) {
	w := a.world
	switch {
	case errors.Is(err, member.ErrWindowFull):
		w.probes[RingFull]++
		w.event(full, a.proc.node.place, uint64(a.ledger.decl))
	case errors.Is(err, member.ErrNotSender) || errors.Is(err, member.ErrNotProvisioned):
		w.judge("halt", checkUnable(w, a, err))
		a.wait(now)
	default:
		a.left = 0 // checkRefused says whether that is right
		w.event(refused, a.proc.node.place, uint64(a.ledger.decl))
		w.judge("halt", checkRefused(w, a.proc, err))
	}
	return false
}

// wait gives up when this process has not been able to send for long, and nothing more will change
// that.
func (a *app) wait(now time.Duration) {
	w := a.world
	if a.unable == never {
		a.unable = now
	}
	if wait := 4 * w.plan.FailAfter(); w.pending == 0 && a.wished() && now > max(a.unable, w.calm)+wait {
		a.left = 0
		w.probes[UnableToSend]++
	}
}

// size draws a message's length: small ones as often as large ones, and now and then none or the
// limit.
func (a *app) size() int {
	if a.plan.MaxBytes == 0 || a.dice.oneIn(20) {
		return 0
	}
	if a.dice.oneIn(30) {
		return a.plan.MaxBytes
	}
	return a.dice.IntN(a.plan.MaxBytes>>a.dice.IntN(3) + 1)
}
