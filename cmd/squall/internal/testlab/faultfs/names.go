package faultfs

import (
	"math/rand/v2"
	"slices"
)

// slot is an entry of a directory, and what it leads to; nil: it is removed.
type slot struct {
	dir  *node
	name string
	to   *node
}

// naming is one operation on names. All of its slots change together.
type naming struct {
	step  uint64
	slots []slot
	gone  *node // the directory that it removes; nil: it removes none
}

func (n *naming) touches(dir *node) bool {
	return slices.ContainsFunc(n.slots, func(s slot) bool { return s.dir == dir })
}

// follows reports whether the operation cannot be on the platter without an earlier one.
func (n *naming) follows(earlier *naming) bool {
	if n.gone != nil && earlier.touches(n.gone) {
		return true
	}
	return slices.ContainsFunc(n.slots, func(s slot) bool {
		return slices.ContainsFunc(earlier.slots, func(e slot) bool { return s.dir == e.dir && s.name == e.name })
	})
}

// apply changes what the platter has.
func (n *naming) apply() {
	for _, s := range n.slots {
		if s.to == nil {
			delete(s.dir.kept, s.name)
		} else {
			s.dir.kept[s.name] = s.to
		}
	}
}

// syncNames makes durable what was done in a directory up to a step, with all that it follows, and
// returns what is not durable yet.
func syncNames(pending []*naming, dir *node, upTo uint64) (left []*naming) {
	with := make([]bool, len(pending))
	for i := len(pending) - 1; i >= 0; i-- {
		with[i] = with[i] || pending[i].step <= upTo && pending[i].touches(dir)
		for j := range pending[:i] {
			with[j] = with[j] || with[i] && pending[i].follows(pending[j])
		}
	}
	for i, n := range pending {
		if with[i] {
			n.apply()
		} else {
			left = append(left, n)
		}
	}
	return left
}

// settleNames lets operations that were not synced arrive on the platter as far as their fate says.
func (f Fate) settleNames(pending []*naming, dice *rand.Rand) {
	count := 0
	switch f {
	case Everything:
		count = len(pending)
	case Prefix:
		count = dice.IntN(len(pending) + 1)
	case Scattered:
		settleSubset(pending, dice)
	}
	for _, n := range pending[:count] {
		n.apply()
	}
}

func settleSubset(pending []*naming, dice *rand.Rand) {
	var absent []*naming
	for _, n := range pending {
		if dice.IntN(2) == 0 || slices.ContainsFunc(absent, n.follows) {
			absent = append(absent, n)
		} else {
			n.apply()
		}
	}
}
