package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"
)

// disk is a node's. It outlives the node's processes, and forgets what was not synced when the node
// loses power.
//
// It has logs (engine.go), and what a process has to remember, by key. What a process sees is kept
// apart from what the platter has. Between the two stand the changes that are not synced, in the
// order in which they were made. When the power goes, a prefix of them has arrived; of the change
// after it a part may have, which is no change. When a process ends and the host goes on, nothing
// is lost.
//
// Times are the world's: a sync here takes effect at once, and the code that asks for it waits
// first for as long as takes says.
type disk struct {
	dice      dice
	plan      DiskPlan
	logs      map[string]*storedLog
	memo      stored[map[string][]byte]
	full      bool          // nothing more fits, until it is reset
	slow      string        // syncs of what has such a name, or one that begins so, are slow …
	slowUntil time.Duration // … until then

	syncs  int   // sync points that were passed
	fuse   int   // the power goes at this one, counted from 1; 0: at none
	arrive parts // what of the changes has arrived then

	lax DiskBug
}

// DiskPlan is the character of a disk.
type DiskPlan struct {
	Sync   time.Duration // what a sync takes, about
	SlowIn int           // one in so many syncs takes longer; 0: none
	Slow   time.Duration // how long that is at most
}

// DiskBug is a fault of what stands between a log and its disk, as a program might have one. Tests
// show with it that the checkers look.
type DiskBug uint8

const (
	SoundDisk     DiskBug = iota
	NoSync                // a sync says that it was done
	NoDirSync             // a sync of the name of a new log says so
	EarlyWritten          // what is written counts as synced
	CutsTooLittle         // a process that drops the end of a log keeps a record of it
	CutsTooMuch           // or drops one more
	OtherShard            // a log is brought up to the logs of another shard
	LateWhole             // that a log is whole is said late, whatever has become of it since
	// a process that comes back makes its log that of the first process that answers, before it
	// joins
	AheadOfAnybody
	DeafToLacks // of what others lack, only what concerns the first shard is heard
)

// parts says what has arrived of the changes that were not synced.
type parts uint8

const (
	someParts parts = iota // drawn, for every thing
	noParts
	tornParts // all, but for a part of the last
	allParts
)

// powerCut is what a sync panics with at which the power goes.
type powerCut struct{}

// errFull is what a full disk says.
var errFull = fmt.Errorf("simulated disk: %w", syscall.ENOSPC)

func newDisk(d dice, plan DiskPlan) *disk {
	return &disk{dice: d, plan: plan, logs: map[string]*storedLog{}}
}

// stored is one thing on a disk. Its states are not changed once they are stored.
type stored[T any] struct {
	seen    T   // by processes
	platter T   // what the platter has
	changes []T // in between: the states that followed
}

// change makes a change that is not synced.
func (s *stored[T]) change(to T) {
	s.seen, s.changes = to, append(s.changes, to)
}

// settle takes all changes to the platter.
func (s *stored[T]) settle() { s.platter, s.changes = s.seen, nil }

// lose keeps only what is on the platter, with what arrived of the changes in flight. It reports
// whether a part of a change arrived.
func (s *stored[T]) lose(d *disk) (torn bool) {
	n := d.arrived(len(s.changes))
	if d.arrive == tornParts && n > 0 {
		n, torn = n-1, true
	}
	torn = torn || n < len(s.changes) && d.arrive == someParts && d.dice.oneIn(2)
	if n > 0 {
		s.platter = s.changes[n-1]
	}
	s.seen, s.changes = s.platter, nil
	return torn
}

// sync is a sync point: it takes the changes of one thing to the platter.
func (d *disk) sync(what interface{ settle() }) {
	d.syncs++
	if d.syncs == d.fuse && d.arrive != allParts {
		panic(powerCut{})
	}
	if d.lax != NoSync {
		what.settle()
	}
	if d.syncs == d.fuse {
		panic(powerCut{})
	}
}

// disarm takes back a fault that waits for a sync.
func (d *disk) disarm() {
	if d != nil {
		d.fuse, d.full = 0, false
	}
}

// powerOff is what is left when the power comes back.
func (d *disk) powerOff() {
	if d.syncs != d.fuse {
		d.arrive = someParts
	}
	if d.full = false; d.syncs >= d.fuse {
		d.fuse = 0
	}
	for _, name := range slices.Sorted(maps.Keys(d.logs)) {
		if !d.logs[name].lose(d) {
			delete(d.logs, name)
		}
	}
	d.memo.lose(d)
}

// arrived draws how many of some changes are on the platter.
func (d *disk) arrived(n int) int {
	switch {
	case n == 0, d.arrive == noParts:
		return 0
	case d.arrive != someParts:
		return n
	}
	return d.dice.IntN(n + 1)
}

// replace puts an empty disk in the place of this one.
func (d *disk) replace() {
	d.logs, d.memo, d.full = map[string]*storedLog{}, stored[map[string][]byte]{}, false
}

// takes draws how long a sync of a file takes that is asked for now.
func (d *disk) takes(path string, now time.Duration) time.Duration {
	t := d.plan.Sync/2 + time.Duration(d.dice.Int64N(int64(d.plan.Sync)+1))
	if d.dice.oneIn(d.plan.SlowIn) {
		t += d.dice.upTo(d.plan.Slow)
	}
	if now < d.slowUntil && strings.HasPrefix(path, d.slow) {
		t = max(t, d.slowUntil-now)
	}
	return t
}

// memo has values by key. Put is atomic, and durable as it returns.
type memo struct {
	disk *disk
	kept *stored[map[string][]byte]
}

// openMemo makes what was put down durable: the process that did so may have ended before that.
func openMemo(d *disk, k *stored[map[string][]byte]) *memo {
	d.sync(k)
	return &memo{d, k}
}

// Get returns what was put under a key; nil: nothing.
func (m *memo) Get(key string) ([]byte, error) { return m.kept.seen[key], nil }

// Put changes some values, all or none of them; nil takes one away.
func (m *memo) Put(changes map[string][]byte) error {
	if m.disk.full {
		return errFull
	}
	values := map[string][]byte{}
	maps.Copy(values, m.kept.seen)
	for key, value := range changes {
		if values[key] = slices.Clone(value); value == nil {
			delete(values, key)
		}
	}
	m.kept.change(values)
	m.disk.sync(m.kept)
	return nil
}
