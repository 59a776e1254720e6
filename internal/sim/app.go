package sim

import (
	"errors"
	"time"

	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/smc"
)

// app is an application at one sender: it claims, fills, commits or aborts, sometimes much later, and skips rounds.
type app struct {
	world    *world
	plan     App
	dice     dice
	node     *node
	group    *group
	sender   order.SenderRank
	left     int // messages
	kept     int // claims that were not given back
	held     []held
	burst    time.Duration // when the next one is due
	refusals int           // since there was room
}

// held is a claim that is open.
type held struct {
	claim  smc.Claim
	number int
	abort  bool
	due    time.Duration
}

func (a *app) outbox() *member.Subgroup { return a.node.member.Subgroup(a.group.index) }

func (a *app) ledger() *ledger { return a.group.ledgers[a.sender] }

// act implements actor.
func (a *app) act(now time.Duration) time.Duration {
	if a.node.gone {
		a.world.busyApps--
		return never
	}
	a.settleDue(now)
	if a.left > 0 && now >= a.burst {
		a.send(now)
	}
	if a.left == 0 && len(a.held) == 0 {
		a.world.sometimes(OnlyAborted, a.kept == 0)
		a.world.busyApps--
		a.world.progress = now
		return never
	}
	next := time.Duration(-1)
	if a.left > 0 {
		next = a.burst
	}
	for _, h := range a.held {
		if next < 0 || h.due < next {
			next = h.due
		}
	}
	return max(next, now+1)
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
	w, l := a.world, a.ledger()
	var err error
	if h.abort {
		w.probes[ClaimAborted]++
		l.settle(h.number, aborted, now)
		err = a.outbox().Abort(h.claim)
	} else {
		fill(h.claim.Bytes, l.key, h.number)
		a.kept++
		w.undone += len(a.group.readers)
		l.settle(h.number, committed, now)
		err = a.outbox().Commit(h.claim)
	}
	w.progress = now
	if reason := a.node.member.Err(); err != nil && (h.abort || reason == nil || !errors.Is(err, reason)) { // a halted member says so
		w.fail(violated("S5", "rank %d: subgroup %q: claim %d: %v", a.node.rank, a.group.sg.Name, h.number, err))
	}
	w.event(settledClaim, a.node.rank, uint64(a.group.index), uint64(h.number))
	if w.trace.out != nil {
		w.print(a.node.rank, "%s%s%d", a.group.sg.Name, map[bool]string{true: "-", false: "!"}[h.abort], h.number)
	}
}

// send is one burst: as many claims as the ring takes.
func (a *app) send(now time.Duration) {
	a.burst = now + a.dice.upTo(2*a.plan.Gap)
	for range 1 + a.dice.IntN(a.plan.Burst) {
		if a.left == 0 {
			return
		}
		if !a.claim(now) {
			a.burst = max(a.burst, now+10*time.Microsecond<<min(a.refusals, 6)) // the ring is full, or the member halted
			a.refusals++
			return
		}
	}
	if a.dice.oneIn(a.plan.SkipIn) {
		a.skip()
	}
}

func (a *app) skip() {
	w, rounds := a.world, order.Index(1+a.dice.IntN(6))
	w.probes[RoundsSkipped]++
	w.event(skip, a.node.rank, uint64(a.group.index), uint64(rounds))
	if w.trace.out != nil {
		w.print(a.node.rank, "%s skips %d", a.group.sg.Name, rounds)
	}
	w.fail(a.outbox().Skip(rounds))
}

// claim takes room for a message and fills it, now or later, and reports whether there was room.
func (a *app) claim(now time.Duration) bool {
	w, l, size := a.world, a.ledger(), a.size()
	c, err := a.outbox().TryClaim(size)
	if errors.Is(err, member.ErrWindowFull) {
		w.probes[RingFull]++
		w.event(full, a.node.rank, uint64(a.group.index))
		return false
	}
	if err != nil {
		a.left = 0 // checkRefused says whether that is right
		w.event(refused, a.node.rank, uint64(a.group.index))
		w.judge("halt", checkRefused(w, a.node, err))
		return false
	}
	w.judge("halt", checkAccepted(w, a.node))
	for i := range c.Bytes {
		c.Bytes[i] = 0xee // what is not committed must not be seen
	}
	a.refusals = 0
	h := held{claim: c, number: len(l.claims), abort: a.dice.oneIn(a.plan.AbortIn), due: now}
	if a.dice.oneIn(a.plan.HoldIn) {
		h.due = now + a.dice.upTo(a.plan.Hold)
	}
	l.claims = append(l.claims, claim{bytes: size})
	a.left--
	w.progress = now
	w.event(claimed, a.node.rank, uint64(a.group.index), uint64(h.number), uint64(size))
	if w.trace.out != nil {
		w.print(a.node.rank, "%s+%d %dB", a.group.sg.Name, h.number, size)
	}
	if h.due == now {
		a.settle(h, now)
	} else {
		a.held = append(a.held, h)
	}
	return true
}

// size draws a message's length: small ones as often as large ones, and now and then none or the limit.
func (a *app) size() int {
	if a.plan.MaxBytes == 0 || a.dice.oneIn(20) {
		return 0
	}
	if a.dice.oneIn(30) {
		return a.plan.MaxBytes
	}
	return a.dice.IntN(a.plan.MaxBytes>>a.dice.IntN(3) + 1)
}
