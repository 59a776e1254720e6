// Package predicates evaluates a node's predicates over its table, in a fair cycle, on one thread
// that polls and parks.
//
// A predicate is a condition on counters that only grow (package sst): once it holds, it holds
// until its trigger acts. A Cycle is a list of steps; each is a predicate and its trigger, does
// what the predicate allows now, and returns how much that was. Stepping a cycle by hand is what
// tests and the simulator do. A Runner owns the goroutine that steps it for real: while there is
// work it goes round; when there is none it spins briefly, then sleeps in its parker.
//
// Life of an idle moment: no work → spin (as long as it pays) → announce → look once more → sleep →
// retract.
//
// Invariants:
//
//	P1  every step is evaluated once per cycle, in the same order: none can starve another
//	P2  whatever is written between the last look and the sleep is followed by a ring (no lost
//	    wake-up)
//	P3  the runner sleeps at most until the next deadline of its timers
//
// Spinning pays when what is awaited comes within the time a sleep and a wake-up cost, and when a
// core is free to wait on. Both are learnt: a sleep that turned out shorter than a spin asks for
// longer spins, a spin that found nothing for shorter ones. Where more loops run on a host than it
// has cores, the runner yields its core between two looks instead of spinning. Where the kernel
// says that other threads take the core (wait.Contention), the runner sleeps at once, or yields if
// another core is free.
//
// Source: Spindle §2.4 (one polling thread, quiescing with a doorbell); the adaptation is Squall's.
package predicates
