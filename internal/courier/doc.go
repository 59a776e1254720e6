// Package courier moves the bodies of a subgroup's large messages between its members, in one view:
// the Transfers of package member, over package rdmc. Each sender has a group of transfers of its
// own, of which it is the root and the subgroup's members are the members.
//
// Life of a body at its sender: sent (it is on its way, and here for its own delivery) →
// everywhere, or given up. Life of a body at the others: announced (room is made, in memory or in a
// file) → coming → here → taken (the order delivers it) → freed (it is not held any more). A body
// that is incomplete when the view ends is freed, and so is a complete one that was never taken.
//
// Invariants:
//
//	CO1  what is coming from one sender, and is here and not taken, is LargeMemoryBytes at most: more
//	     is refused
//	CO2  a body that is here is whole
//	CO3  no memory is given back while anything may still write to it
package courier
