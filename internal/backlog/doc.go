// Package backlog keeps what a subgroup delivers to a member whose application cannot take it yet,
// because it has no state to which it could apply it.
//
// Life of a message: kept (a copy, at the end) → handed over (once the state is here, by the
// goroutine that restored it). When all is handed over the backlog is through for good, and
// messages go straight to the application again.
//
// Invariants:
//
//	Q1  the application gets every message once, in the order of delivery, from one goroutine at a
//	    time
//	Q2  a backlog holds no more than its bound, and takes less and less while it is handed over, so
//	    that this ends
//
// Shared: everything is under Backlog.mu, except for the message bytes of a part, which do not
// change once it is in.
package backlog
