package dds

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds/internal/space"
	"github.com/squall-go/squall/internal/hooks"
)

// keeper keeps messages in the ring to which the histories of a space refer, in place of copies. Senders use the room of the first message that is kept, and of all later ones, only
// when it is let go. So the number of these messages, their bytes, and the time for which they are kept, have limits: a history copies what it still has of a message that is let go.
// The participant's lock guards all but the constants and the atomics.
type keeper struct {
	p *Participant

	// Constants: what is kept at most, of all senders together, and the largest message that is kept.
	samples, bytes, largest int

	from    atomic.Uint64 // what Kept returns
	offered atomic.Bool   // the data of the messages that the upcall is about to get stay
	runs    []run         // the oldest first
	gone    int           // of runs, the first ones are let go
	kept    run           // the sums of the others
	old     uint64        // position of the space when the timer was set
	timer   *time.Timer   // of age; nil: never set
	set     bool          // it is set
}

// run is what was delivered at once.
type run struct {
	seq            squall.Seq // of the first message
	position       uint64     // of the last record
	samples, bytes int
}

// keepTime is for how long messages are kept at least, if there is room for them; it is no more than twice that. A sender may wait for the room.
const keepTime = 25 * time.Millisecond

// newKeeper has the histories of a space refer to the ring. A sender that waits goes on when a quarter of its ring is free: somewhat more is never kept, for the gap at the end of the ring.
func newKeeper(p *Participant, sg *squall.SubgroupConfig) *keeper {
	k := &keeper{p: p, samples: sg.Window / 16 * 11, bytes: sg.RingBytes / 16 * 11, largest: sg.RingBytes / 64}
	k.from.Store(math.MaxUint64)
	p.space.Lent = space.Limits{Samples: k.samples, Bytes: k.bytes}
	hooks.Keep(sg, k)
	return k
}

// Offer implements hooks.Keeper.
func (k *keeper) Offer() { k.offered.Store(true) }

// Kept implements hooks.Keeper.
func (k *keeper) Kept() uint64 { return k.from.Load() }

// LetGo implements hooks.Keeper.
func (k *keeper) LetGo() {
	k.p.mu.Lock()
	k.letGo()
	k.p.mu.Unlock()
}

// stays reports whether the data of the messages that the upcall has got stay. Without a keeper they do not.
func (k *keeper) stays() bool { return k != nil && k.offered.Swap(false) }

// letGo keeps nothing any more, also of a delivery that is no run yet. The lock is held.
func (k *keeper) letGo() {
	for k.gone < len(k.runs) {
		k.letFirstGo()
	}
	k.p.space.Repay(k.p.space.Position())
	k.tell()
}

// letFirstGo lets the first run go. The lock is held.
func (k *keeper) letFirstGo() {
	r := &k.runs[k.gone]
	k.p.space.Repay(r.position)
	k.kept.samples -= r.samples
	k.kept.bytes -= r.bytes
	k.gone++
}

// tell has Kept return what is kept now. The lock is held.
func (k *keeper) tell() {
	if k.gone == len(k.runs) {
		k.runs, k.gone = k.runs[:0], 0
		k.from.Store(math.MaxUint64)
		return
	}
	if 2*k.gone > len(k.runs) {
		k.runs, k.gone = append(k.runs[:0], k.runs[k.gone:]...), 0
	}
	k.from.Store(uint64(k.runs[k.gone].seq))
}

// delivered keeps what was delivered at once, and lets go what no history refers to and what is too much. The lock is held.
func (k *keeper) delivered(r run) {
	k.runs = append(k.runs, r)
	k.kept.samples += r.samples
	k.kept.bytes += r.bytes
	for k.gone < len(k.runs) && (k.kept.samples > k.samples || k.kept.bytes > k.bytes || !k.p.space.Owes(k.runs[k.gone].position)) {
		k.letFirstGo()
	}
	k.tell()
	if len(k.runs) > 0 && !k.set {
		k.watch()
	}
}

// watch has age called. The lock is held.
func (k *keeper) watch() {
	k.set, k.old = true, k.p.space.Position()
	if k.timer == nil {
		k.timer = time.AfterFunc(keepTime, k.age)
	} else {
		k.timer.Reset(keepTime)
	}
}

// age lets go what was kept when the timer was set.
func (k *keeper) age() {
	k.p.mu.Lock()
	aged := false
	for k.gone < len(k.runs) && k.runs[k.gone].position <= k.old {
		k.letFirstGo()
		k.tell()
		k.p.mu.Unlock() // deliveries do not wait for all of it
		k.p.mu.Lock()
		aged = true
	}
	k.set = false
	if len(k.runs) > 0 {
		k.watch()
	}
	sub := k.p.sub
	k.p.mu.Unlock()
	if aged && sub != nil {
		sub.Resume() // the loop publishes what is kept
	}
}
