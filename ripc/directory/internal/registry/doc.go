// Package registry is the state of a directory: which services are where, whose their names are,
// and until when. Every member of the directory's group applies the same commands in the same
// order.
//
// A name has an owner, which proves what it says with a signature, or whose identity the member
// proved that passed it on. The owner claims the name for a place, renews that, and withdraws it. A
// claim is good until a time of the directory, its lease. Afterwards the name stays the owner's for
// as long as the owner asked for, its hold.
//
// The time of a directory is not that of a clock. A member that has measured how much time has
// passed proposes a step from one time to the next.
//
// Invariants:
//
//	RD1  a name belongs to the owner that took it first, until its hold ends: no other owner changes where it is
//	RD2  what an owner said takes effect once, and not after what it said later: the numbers of its records grow
//	RD3  two steps from one time to the next are one
//	RD4  a place is known until its lease ends, and not at any later time
//	RD5  a name has one place, or, if it is shared, one for each endpoint
//	RD6  a name's version grows when its places change, and with no renewal
//	RD7  the same commands lead to the same state, also through a snapshot between any two of them
//	RD8  an owner has at most as many names as its records say that one may have, and all owners that speak from one process or host have
//	     a bounded number together: others find room
package registry
