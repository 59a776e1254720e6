// Package invariants executes the numbered invariants of the package docs in builds with the tag
// "invariants".
//
// A check stands where its invariant could break, and names it:
//
//	if invariants.Enabled {
//		invariants.Check(r.delivered <= r.received, "S3", "delivered %d > received %d", r.delivered, r.received)
//	}
//
// Enabled is a constant: without the tag the compiler drops the whole statement, arguments
// included, so that a check in the hottest loop costs nothing. The condition belongs at the call
// and not into Check, because the arguments of a call are evaluated whatever the callee does with
// them.
//
// A broken invariant panics. It is a fault of this program, never of a peer, a disk or a caller:
// their input is validated and answered with an error, with the tag and without.
package invariants

import "fmt"

// Violation is what Check panics with. The simulator recovers it to say which invariant broke in
// which run.
type Violation struct {
	ID     string // as in the package doc that declares it, "S3"
	Detail string // the values that break it
}

func (v Violation) Error() string { return fmt.Sprintf("invariant %s is broken: %s", v.ID, v.Detail) }

// Check panics with a Violation unless ok. Call it under `if Enabled`.
func Check(ok bool, id string, format string, args ...any) {
	if !ok {
		panic(Violation{ID: id, Detail: fmt.Sprintf(format, args...)})
	}
}
