package table

import (
	"math"
	"slices"

	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/internal/mutant"
)

// Budget bounds the bodies of long messages of all services of an endpoint.
type Budget struct {
	Max   int64
	used  int64
	short bool // a body waits for some of it
}

// Used is the memory of the bodies that are charged.
func (b *Budget) Used() int64 { return b.used }

// Short reports once, after a refund, that bodies of any service may have found no place because of
// the budget: all of them are placed again.
func (b *Budget) Short() bool {
	short := b.short
	b.short = false
	return short
}

// Rules say which bodies a service takes.
type Rules struct {
	InPlace         bool  // bodies in memory of a sender of this host are read there
	MaxBytes        int64 // of bodies in memory of the library, or read in place
	MaxPartyBytes   int64 // of these, of one party
	MaxPartyWindows int   // windows that were posted and one party has; 0: no bound
	Asks            bool  // the application is asked for windows
	Refuses         bool  // instead of waiting
}

// Want is a body that needs a place.
type Want struct {
	Size    int64
	Account string
	Shown   bool // this process can look at the memory of the sender
}

// Verdict says where a body goes.
type Verdict uint8

const (
	Waits    Verdict = iota // it is placed again when something was given back or posted
	Asked                   // it waits, and the application is asked for a window
	InPlace                 // it is read where it is; it is charged
	Posted                  // into a window that was posted
	Made                    // into memory of the library; it is charged
	TooLarge                // it is refused: it never has a place
	NoWindow                // it is refused: there is no window at the moment
	NoLong                  // it is refused: the service takes no long messages
)

// Intake decides where the bodies of the long messages of one service go. The zero value takes
// none.
type Intake[W any] struct {
	rules   Rules
	open    bool // bodies may wait
	posted  []window[W]
	bytes   int64            // taken of MaxBytes
	ofOne   map[string]int64 // by account
	windows map[string]int   // that were posted and bodies have, by account
}

type window[W any] struct {
	window W
	size   int64
}

// Follow sets the rules. All bodies that wait are placed again.
func (i *Intake[W]) Follow(r Rules) { i.rules, i.open = r, true }

// Rules are the rules that were set last.
func (i *Intake[W]) Rules() Rules { return i.rules }

// Windows is the number of windows that were posted and no body has.
func (i *Intake[W]) Windows() int { return len(i.posted) }

// Open has bodies wait for windows that will be posted, also without rules.
func (i *Intake[W]) Open() { i.open = true }

// Post adds a window. All bodies that wait are placed again.
func (i *Intake[W]) Post(w W, size int64) { i.posted = append(i.posted, window[W]{w, size}) }

// Repost gives a window back that was not used: it is the first one. All bodies that wait are
// placed again.
func (i *Intake[W]) Repost(w W, size int64) {
	i.posted = slices.Insert(i.posted, 0, window[W]{w, size})
}

// IsIdle reports whether no body has anything that is counted.
func (i *Intake[W]) IsIdle() bool { return i.bytes == 0 && len(i.ofOne) == 0 && len(i.windows) == 0 }

// Drop forgets the windows that no body has.
func (i *Intake[W]) Drop() { i.posted = nil }

// Most is the largest body that ever finds a place without a window of the application's.
func (i *Intake[W]) Most(b *Budget) int64 {
	return min(i.rules.MaxBytes, i.rules.MaxPartyBytes, b.Max)
}

// Place finds a place for a body, and takes it.
func (i *Intake[W]) Place(w Want, b *Budget) (v Verdict, into W) {
	fits := w.Size <= i.Most(b) && w.Size <= math.MaxInt
	if w.Shown && i.rules.InPlace && fits && i.charge(w, b) {
		return InPlace, into
	}
	if k := i.find(w); k >= 0 {
		into = i.posted[k].window
		i.posted = slices.Delete(i.posted, k, k+1)
		if i.windows == nil {
			i.windows = map[string]int{}
		}
		i.windows[w.Account]++
		return Posted, into
	}
	switch {
	case !i.open:
		return NoLong, into
	case i.rules.Asks:
		return Asked, into
	case !fits && i.rules.MaxBytes > 0:
		return TooLarge, into
	case fits && i.charge(w, b):
		return Made, into
	case i.rules.Refuses:
		return NoWindow, into
	}
	return Waits, into
}

// find returns the index of the first window that is large enough, if the party may have one more;
// -1 otherwise.
func (i *Intake[W]) find(w Want) int {
	if most := i.rules.MaxPartyWindows; most > 0 && i.windows[w.Account] >= most {
		return -1
	}
	return slices.IndexFunc(i.posted, func(p window[W]) bool { return p.size >= w.Size })
}

// charge takes the bytes of a body from the limits, if they are free.
func (i *Intake[W]) charge(w Want, b *Budget) bool {
	if w.Size > b.Max-b.used {
		b.short = !(mutant.Enabled && mutant.On(mutant.TableForgetsShort))
		return false
	}
	if w.Size > i.rules.MaxBytes-i.bytes || w.Size > i.rules.MaxPartyBytes-i.ofOne[w.Account] {
		return false
	}
	if i.ofOne == nil {
		i.ofOne = map[string]int64{}
	}
	i.bytes += w.Size
	i.ofOne[w.Account] += w.Size
	b.used += w.Size
	return true
}

// Refund gives the bytes of a body back that was charged. All bodies that wait are placed again,
// and those of other services if the budget was short.
func (i *Intake[W]) Refund(account string, n int64, b *Budget) {
	i.bytes -= n
	b.used -= n
	if i.ofOne[account] -= n; i.ofOne[account] == 0 {
		delete(i.ofOne, account)
	}
	if invariants.Enabled {
		invariants.Check(i.bytes >= 0 && b.used >= i.bytes && i.ofOne[account] >= 0, "EP9", "more is given back than was charged")
	}
}

// HandBack notes that a body does not count any more that got a window which was posted. With
// again, all bodies that wait are placed again.
func (i *Intake[W]) HandBack(account string) (again bool) {
	if i.windows[account]--; i.windows[account] == 0 {
		delete(i.windows, account)
	}
	return i.rules.MaxPartyWindows > 0
}
