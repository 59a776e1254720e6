// Package simnet is a fabric in virtual time: rows on the heap, delays from a seed, no clock and no
// goroutine.
//
// A Net has nodes and the ways between them. OpenView returns one member's table of a view, whose
// links come up when both ends have opened it, and find their delays, their full sockets, cuts and
// crashes here; Open has the tables of all members at once, with all links up. Dial and Listen make
// channels. A node that crashed is back with Restart, as another process. The caller that steps the
// members sets the time with Advance; the same seed and the same calls give the same bytes at the
// same moments.
//
// Life of a link: its two ends are opened, in any order → joined → each is handed to its table (a
// delay of the way later, behind a cut) → taken in by the table's Poll → ended by one side → heard
// of by the other one, behind what it was sent.
//
// Life of a write on a Framed pair: pushed → taken into a frame (its ranges by reference, its lines
// copied) → handed to the socket piece by piece, as far as it has room (the bytes copied) → due
// (now + delay, never before what went ahead of it) → applied by the receiver's Poll, bytes first,
// lines word by word.
//
// Framed pairs may instead have links of a Transport, which moves the bytes itself: the network
// then says when they have arrived at the latest, which ways are cut, and which processes ended.
//
// On a Shared pair the replica is the owner's memory. On a Seeping pair it is what a reader on
// another core may see of shared memory: each stored word becomes visible on its own, in order, and
// the ranges that were pushed between two words in any order, at any moment in which the reader
// calls the fabric, so also within its step. With the option Loads it is also before any load of a
// word in a step (BeforeLoad). A freeze copies the row while writes go on becoming visible.
//
// Invariants, beyond the invariants of package fabric:
//
//	Z1  what happens depends on the seed and the calls alone
//	Z2  a socket holds at most SocketBytes and one line; what it does not take stays pending,
//	    coalesced
//	Z3  a node that crashed calls nothing and changes nothing any more
//	Z4  a link joins the two processes that opened the view, and no later process of either node
//
// All of it belongs to one goroutine.
package simnet
