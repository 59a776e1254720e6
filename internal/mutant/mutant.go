// Package mutant lets the simulator's tests switch deliberate faults on, one at a time, in builds
// with the tag "mutants".
//
// A mutant stands where the rule that it breaks is kept, and takes one statement:
//
//	if mutant.Enabled && mutant.On(mutant.Unstable) {
//		stable = s.received
//	}
//
// Enabled is a constant: without the tag the compiler drops the statement, so that the hottest loop
// pays nothing, and no program that is built to be used can misbehave on purpose.
package mutant

// Name is a deliberate fault.
type Name string

// The faults of the core. What each must be caught as stands in the simulator's tests.
const (
	Unstable       Name = "delivered as soon as it is here, not when everybody has it"
	OneTooMany     Name = "one more is received than was sent"
	EarlyRelease   Name = "room is used again one message too early"
	LateRelease    Name = "room of the last message is never used again"
	LazyNulls      Name = "one null too few"
	EagerNulls     Name = "one null too many"
	EarlyDelivered Name = "delivered is published before the application saw it"
	AfterHalt      Name = "a halted member goes on"
	SentFirst      Name = "sent is loaded before skipped"
	TurnsKept      Name = "a sender without space sends no nulls"
	FollowsItself  Name = "a sender without space takes its own turn for one that another sender has to take"
	HoldsAnew      Name = "a sender that was given space holds its nulls anew in each step"
)

// SecondFirst is found by a test of its own: a run seldom gives up a member that lives and sends.
const SecondFirst Name = "of a line of a frozen row the second word is copied first"

// Names are all others.
var Names = []Name{Unstable, OneTooMany, EarlyRelease, LateRelease, LazyNulls, EagerNulls, EarlyDelivered, AfterHalt, SentFirst, TurnsKept, FollowsItself, HoldsAnew}

var active Name

// Nulls is what a sender that owes so many sends.
func Nulls[T ~uint64](owed T) T {
	if On(LazyNulls) {
		return owed - min(owed, 1)
	}
	if On(EagerNulls) && owed > 0 {
		return owed + 1
	}
	return owed
}

// Released is the index below which room is freed, when every member delivered everything below
// everywhere.
func Released[T ~uint64](everywhere T) T {
	if On(EarlyRelease) {
		return everywhere + 1
	}
	if On(LateRelease) {
		return everywhere - min(everywhere, 1)
	}
	return everywhere
}

// Set switches one fault on and all others off; "" is none. Nothing may run meanwhile.
func Set(n Name) { active = n }

// On reports whether a fault is switched on.
func On(n Name) bool { return active == n }

// AtPause is what Pause calls, unless it is nil.
var AtPause func()

// Pause stands between two accesses to a word that other goroutines write as well. With AtPause a
// test has them write there.
func Pause() {
	if AtPause != nil {
		AtPause()
	}
}
