package member

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/extension"
)

// keeper keeps messages in the ring to which the histories of a space refer, in place of copies
// (package space says what the life of such a loan is). Senders use the room of the first message
// that is kept, and of all later ones, only when it is let go: when no history refers to it any
// more, when it is one of more than the space lends of a sender, when its sender may wait for
// buffer space, or when it is old. In the last three cases the histories copy what they still have
// of it, first.
//
// What is let go is told in one place: tell stores from, under the lock, after Repay or Owes have
// said that no history has anything before. The loop reads it, publishes what is let go with its
// delivered counter (M12), and then the sender may use the room.
//
// The member's lock guards all but the constants and the atomics.
type keeper struct {
	p       *backend
	largest int          // message that is kept. Constant
	share   int          // of the ring, in bytes: so much is written until the loop publishes it. Constant
	written atomic.Int64 // about so much, since then. W, R: writers

	from    atomic.Uint64 // what Kept returns. W: with the lock. R: any goroutine.
	offered atomic.Bool   // the data of the messages that the upcall is about to get stay. Loop.
	runs    []run         // the oldest first
	gone    int           // of runs, the first ones are let go
	timer   *time.Timer   // of look; nil: never set
	set     bool          // it is set
	looks   int           // since old was the position of the space
	last    uint64        // the position of the space at the last look
	old     uint64        // … at an earlier one
}

// run is what was delivered at once.
type run struct {
	seq         squall.Seq // of the first message
	first, last uint64     // positions of the records
}

// While messages are kept, the keeper looks every lookTime at what is to be let go. A sender of
// which much is kept, and that sent nothing between two looks, may wait for the space: a member
// does not see whether another one does. If it does not wait, it is idle, and a copy costs nothing
// that is needed. A message is let go after oldLooks at the least, and twice as many at the most,
// for senders that send little.
const (
	lookTime = 2 * time.Millisecond
	oldLooks = 12
)

// newKeeper has the histories of a space refer to the ring. A sender that waits goes on when a
// quarter of its ring is free: somewhat more is never kept, for the gap at the end of the ring.
func newKeeper(p *backend, sg *squall.SubgroupConfig) *keeper {
	k := &keeper{p: p, largest: sg.RingBytes / 64, share: sg.RingBytes / 8}
	k.from.Store(math.MaxUint64)
	p.Space.Lend(sg.Window/16*11, sg.RingBytes/16*11)
	sg.Extend(extension.Config{Keeper: k})
	return k
}

// Offer implements extension.Keeper.
func (k *keeper) Offer() { k.offered.Store(true) }

// Kept implements extension.Keeper.
func (k *keeper) Kept() uint64 { return k.from.Load() }

// LetGo implements extension.Keeper.
func (k *keeper) LetGo() {
	k.p.Mu.Lock()
	k.letGo()
	k.p.Space.Forget()
	k.p.Mu.Unlock()
}

// stays reports whether the data of the messages that the upcall has got stay. Without a keeper
// they do not.
func (k *keeper) stays() bool { return k != nil && k.offered.Swap(false) }

// letGo keeps nothing any more, also of a delivery that is no run yet. The lock is held.
func (k *keeper) letGo() {
	k.p.Space.Repay(k.p.Space.Position())
	k.gone = len(k.runs)
	k.tell()
}

// letFirstGo lets the first run go, which histories may refer to. The lock is held.
func (k *keeper) letFirstGo() {
	k.p.Space.Repay(k.runs[k.gone].last)
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

// delivered keeps what was delivered at once, and lets go what is due and what no history refers
// to. The lock is held.
func (k *keeper) delivered(r run) {
	k.runs = append(k.runs, r)
	for ; k.gone < len(k.runs) && k.runs[k.gone].first <= k.p.Space.Due(); k.letFirstGo() {
	}
	for ; k.gone < len(k.runs) && !k.p.Space.Owes(k.runs[k.gone].last); k.gone++ {
	}
	k.tell()
	if len(k.runs) > 0 && !k.set {
		k.looks, k.last, k.old = 0, k.p.Space.Position(), k.p.Space.Position()
		k.watch()
	}
}

// watch has look called. The lock is held.
func (k *keeper) watch() {
	k.set = true
	if k.timer == nil {
		k.timer = time.AfterFunc(lookTime, k.look)
	} else {
		k.timer.Reset(lookTime)
	}
}

// look lets go what a sender may wait for, and what is old.
func (k *keeper) look() {
	k.p.Mu.Lock()
	to, aged := k.overdue(), false
	for k.gone < len(k.runs) && k.runs[k.gone].first <= to {
		k.letFirstGo()
		k.tell()
		k.p.Mu.Unlock() // deliveries do not wait for all of it
		k.p.Mu.Lock()
		aged = true
	}
	k.set = false
	if len(k.runs) > 0 {
		k.watch()
	}
	sub := k.p.sub
	k.p.Mu.Unlock()
	if aged && sub != nil {
		sub.Resume() // the loop publishes what is kept
	}
}

// overdue returns the position up to which a look lets go. The lock is held.
func (k *keeper) overdue() (to uint64) {
	if len(k.runs) == 0 {
		return 0
	}
	now := k.p.Space.Position()
	if to = k.p.Space.Stalled(k.runs[k.gone].first, k.last); now == k.last {
		to = now
	}
	if k.looks++; k.looks == oldLooks {
		to = max(to, k.old)
		k.looks, k.old = 0, now
	}
	k.last = now
	return to
}

// pace counts bytes that a writer has written while messages are kept. If they are many it reports
// that the writer is to let the loop publish them, once it holds no lock. Where writer and loop
// share one processor, the writer goes on otherwise until the ring is full: the readers, which have
// read all before, sleep meanwhile, and then the writer waits for them. Where much of the ring is
// kept, that is often. No lock is needed.
func (k *keeper) pace(bytes int) (yield bool) {
	if k == nil || k.from.Load() == math.MaxUint64 || k.written.Add(int64(bytes)) < int64(k.share) {
		return false
	}
	k.written.Store(0)
	return true
}
