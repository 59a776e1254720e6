// Package table decides what an endpoint does about the processes that are connected to it, and
// about its own goroutines that wait. It has no lock, no socket and no clock: its methods change
// the table and return what the endpoint has to do, which then rings, polls and sleeps.
//
//	Accounts  memory and connections, counted by party: who is admitted, and who waits for memory
//	Peers     which peers are polled, and which have to ring
//	Role      which goroutine polls, and which one is woken
//	Answers   answers to one peer that wait for buffer space
//	Life      when the memory of a pair may be freed
//	Intake    where the bodies of the long messages of a service go, and which of them wait
//
// Life of a peer: it is admitted and enters its account, and is polled. In which turn it is polled
// and for how long is decided by Peers:
//
//	      ┌── something came ──┐
//	hot ──┴─ idle for long → leaving ─ still nothing → cold ─ it rings, or is sent to → hot
//	 └───────────── the poller sleeps ───────────────↗
//
// A peer that ended leaves its account. Its memory is counted, and stays, until the last of its
// frames is given back.
//
// Life of a goroutine that waits: it takes the role of polling if that is free, and joins the list
// otherwise. It is roused when what it waits for is there, or when the poller leaves and it is the
// oldest of the list.
//
// Invariants:
//
//	EP1  the bytes of all accounts are the bytes of the endpoint, and no account and no endpoint is
//	     charged beyond its limit
//	EP2  a peer that found no memory is polled again when memory is given back that it may have
//	EP3  a peer that is not polled rings: it is parked before the last look at it
//	EP4  a peer to which something was sent is polled in the next step
//	EP5  one goroutine polls at a time; while goroutines wait, one of them polls or was roused
//	EP6  when the poller leaves and no goroutine waits, the caretaker learns of it if it asked
//	EP7  answers go out in their order, and so many bytes of them wait at most as are allowed
//	EP8  the memory of a pair is freed once, when it has ended and no frame of it is in use
//	EP9  the bodies of long messages that are charged are those that have memory, and none is charged
//	     beyond the limits of its service, of its party and of the endpoint
//	EP10  a window that was posted is had by one body at a time, for which it is large enough
//	EP11  no body waits for a place that there is
package table
