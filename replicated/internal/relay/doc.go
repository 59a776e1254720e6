// Package relay decides what a member does with a client's request: what it has ordered for it, by
// what it finds the request when the order has it, and what it answers. It is pure: package member
// performs it with connections and goroutines, and package squalltest in virtual time.
//
// Life of a request: parsed → ordered, as a record with the number of a call → applied by every
// member → answered, by the member that relayed it. What needs no order is answered at once.
//
// Invariants:
//
//	RL1  a call is taken once, with the number that it was given
//	RL2  a number of a call that was taken or given up finds no later call, until its slot was used 2^32 times
package relay
