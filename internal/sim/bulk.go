package sim

import (
	"errors"
	"time"

	"github.com/squall-go/squall/internal/member"
)

// errGivenUp is why an application gives a large message up.
var errGivenUp = errors.New("the application thought better of it")

// bulk is a large message that has no place in the order yet. Its application waits for that, as
// one that calls Send does.
type bulk struct {
	*member.Large
	number int
	filled bool
	part   int           // bytes that are filled first; 0: all are at once
	parts  time.Duration // when they are
	fills  time.Duration // when the rest is
	aborts time.Duration // when the application gives it up; never: it does not
	future *member.Future
}

// begin admits a large message, and reports whether there was room.
func (a *app) begin(now time.Duration) bool {
	w, l := a.world, a.ledger
	size := 8 + a.dice.IntN(w.plan.Decls[l.decl].MaxMessageBytes-7)
	large, err := a.outbox().TryLarge(size)
	if err != nil {
		return a.turnedDown(now, err)
	}
	w.judge("halt", checkAccepted(w, a.proc))
	a.refusals, a.unable = 0, never
	b := &bulk{Large: large, number: len(l.claims), fills: now, aborts: never}
	if a.dice.oneIn(a.plan.HoldIn) {
		b.fills = now + a.dice.upTo(a.plan.Hold)
	}
	if a.dice.oneIn(2) {
		b.part, b.parts = a.dice.IntN(size), b.fills
		b.fills += a.dice.upTo(w.plan.Hop())
	}
	if a.dice.oneIn(a.plan.AbortIn) {
		b.aborts = now + a.dice.upTo(2*w.plan.Hop())
	}
	if a.dice.oneIn(a.plan.FutureIn) {
		b.future = large.Future()
	}
	l.claims = append(l.claims, claim{bytes: size, view: a.proc.member.View().ID})
	a.left--
	a.bulk, l.bulk = b, a
	w.stir()
	w.event(claimed, a.proc.node.place, uint64(l.decl), uint64(b.number), uint64(size))
	a.proc.print("%s+%d %dB large", a.name, b.number, size)
	a.carryOn(now)
	return true
}

// carryOn does what is due for the large message at hand.
func (a *app) carryOn(now time.Duration) {
	b := a.bulk
	if b.part > 0 && now >= b.parts {
		a.fillPart(b)
	}
	if !b.filled && now >= b.fills {
		b.filled = true
		fill(b.Body(), a.ledger.key, b.number)
		b.Fill(len(b.Body()))
	}
	if a.lookForPlace(now) {
		return
	}
	if err := a.outbox().Able(); err != nil && a.proc.member.Err() == nil {
		a.wait(now)
		if a.left == 0 {
			b.aborts = now
		}
	}
	if b.aborts != never && now >= b.aborts {
		b.Abort(errGivenUp)
		a.proc.wake()
	}
}

// fillPart fills the first bytes, which may leave while the rest is still something else.
func (a *app) fillPart(b *bulk) {
	fill(b.Body(), a.ledger.key, b.number)
	for i := range b.Body()[b.part:] {
		b.Body()[b.part+i] = spoiled
	}
	b.Fill(b.part)
	b.part = 0
}

// lookForPlace reports whether the large message at hand has its place, or never will.
func (a *app) lookForPlace(now time.Duration) bool {
	b := a.bulk
	select {
	case <-b.Placed():
		a.bulk, a.ledger.bulk = nil, nil
		a.placed(b, now)
		return true
	default:
		return false
	}
}

// placed notes what became of a large message: a place in the order, or nothing.
func (a *app) placed(b *bulk, now time.Duration) {
	w, l, s := a.world, a.ledger, committed
	if err := b.Err(); err != nil {
		s = aborted
		w.sometimes(LargeAborted, errors.Is(err, errGivenUp))
		if reason := a.proc.member.Err(); !errors.Is(err, errGivenUp) && !errors.Is(err, reason) {
			w.fail(violated("G3", "node %d: %q: large message %d: %v", a.proc.self.ID, a.name, b.number, err))
		}
	} else {
		a.kept++
		if b.future != nil {
			l.futures = append(l.futures, promised{number: b.number, future: b.future})
		}
	}
	l.settle(b.number, s, now)
	w.stir()
	w.event(settledClaim, a.proc.node.place, uint64(l.decl), uint64(b.number))
	a.proc.print("%s%s%d large", a.name, map[bool]string{true: "-", false: "!"}[s == aborted], b.number)
}
