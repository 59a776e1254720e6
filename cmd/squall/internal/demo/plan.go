package demo

import (
	"math/rand/v2"
	"time"
)

// fate is what happens to a member.
type fate string

const (
	killed fate = "killed"
	hung   fate = "hung"
	leaves fate = "leaves"
)

// plan draws what happens. Equal seeds draw the same; when there is room for it is up to the
// members and the machine.
type plan struct {
	random *rand.Rand // processes and times
	fates  pack[fate]
	same   pack[bool]
}

func newPlan(seed uint64) *plan {
	return &plan{
		random: rand.New(rand.NewPCG(seed, 0)),
		fates:  newPack(rand.New(rand.NewPCG(seed, 1)), killed, hung, leaves),
		same:   newPack(rand.New(rand.NewPCG(seed, 2)), true, true, false),
	}
}

// pack is cards that are shuffled anew when all were drawn: also a short run has some of each. What
// it deals does not depend on what is drawn elsewhere meanwhile.
type pack[T any] struct {
	random *rand.Rand
	cards  []T
	dealt  int
}

func newPack[T any](random *rand.Rand, cards ...T) pack[T] { return pack[T]{random, cards, len(cards)} }

func (p *pack[T]) draw() T {
	if p.dealt == len(p.cards) {
		p.random.Shuffle(len(p.cards), func(i, j int) { p.cards[i], p.cards[j] = p.cards[j], p.cards[i] })
		p.dealt = 0
	}
	p.dealt++
	return p.cards[p.dealt-1]
}

func (p *plan) fate() fate { return p.fates.draw() }

// victim is one of n members.
func (p *plan) victim(n int) int { return p.random.IntN(n) }

// sameNode draws whether a member is replaced by the same node.
func (p *plan) sameNode() bool { return p.same.draw() }

// rest is for how long nothing happens next.
func (p *plan) rest() time.Duration { return p.between(200*time.Millisecond, 800*time.Millisecond) }

// vacant is for how long a place stays empty.
func (p *plan) vacant() time.Duration { return p.between(0, 600*time.Millisecond) }

// hang is for how long a member hangs that the others miss after failAfter.
func (p *plan) hang(failAfter time.Duration) time.Duration {
	return p.between(failAfter*5/4, failAfter*2)
}

func (p *plan) between(least, most time.Duration) time.Duration {
	return least + time.Duration(p.random.Int64N(int64(most-least)))
}
