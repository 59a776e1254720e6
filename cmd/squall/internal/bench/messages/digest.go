package messages

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// digest is a hash over (sender, index) in the order of delivery: one chain for everything, or in
// unordered mode one per sender.
type digest struct {
	unordered bool
	chains    [MaxNodes + 1]uint64
}

const fnvPrime = 1099511628211

// chain is the number of the chain that a sender's messages are in.
func (d *digest) chain(sender int) int {
	if d.unordered {
		return sender
	}
	return 0
}

func (d *digest) add(sender int, index uint64) {
	chain := &d.chains[d.chain(sender)]
	*chain = (*chain ^ (uint64(sender)<<56 | index)) * fnvPrime
}

// State is how far a member is.
type State struct {
	Sent      uint64
	Delivered uint64
	Digest    uint64 // of all subgroups
	Fault     string // what was wrong with the sequence, if anything (B2)
}

// ErrNotSettled says that the members have not delivered the same number of messages yet, or not
// all that were sent.
var ErrNotSettled = errors.New("not settled")

// ErrDifferent says that members delivered different sequences.
var ErrDifferent = errors.New("the members delivered different sequences")

// ErrSequence says that a member delivered something out of turn.
var ErrSequence = errors.New("wrong sequence")

// compare checks B1 to B3. stalled says that what was sent may be stuck.
func compare(states []State, stalled bool) error {
	var faults []error
	sent, unequal := uint64(0), false
	for i, s := range states {
		if s.Fault != "" {
			faults = append(faults, fmt.Errorf("%w (B2): member %d: %s", ErrSequence, i+1, s.Fault))
		}
		sent += s.Sent
		unequal = unequal || s.Delivered != states[0].Delivered
	}
	switch {
	case len(faults) > 0:
		return errors.Join(faults...)
	case unequal || !stalled && states[0].Delivered != sent:
		return fmt.Errorf("%w (B3): %d sent, delivered %s", ErrNotSettled, sent, list(states, func(s State) string { return fmt.Sprint(s.Delivered) }))
	case slices.ContainsFunc(states, func(s State) bool { return s.Digest != states[0].Digest }):
		return fmt.Errorf("%w (B1): digests %s", ErrDifferent, list(states, func(s State) string { return fmt.Sprintf("%016x", s.Digest) }))
	}
	return nil
}

func list(states []State, text func(State) string) string {
	var all []string
	for i, s := range states {
		all = append(all, fmt.Sprintf("%s at member %d", text(s), i+1))
	}
	return strings.Join(all, ", ")
}
