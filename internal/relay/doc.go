// Package relay is one node's part in one group of transfers, as a pure state machine: words of
// other nodes, arrivals of blocks and wishes of the application go in, frames to send and calls to
// make come out. Package rdmc drives it over connections, its tests over a network that a seed
// makes.
//
// Life of a message at the root, and at a receiver:
//
//	started → announced → sent (the memory is free) → everywhere
//	          announced → room (the application gave memory) → complete → over (the application was told) → acked
//
// and one that lies in memory of the root which all others see:
//
//	started → offered → everywhere → released by all who looked (the memory is free)
//	          offered → looked at → copied piece by piece, or just filled → complete → over → acked → released
//
// The package uses places, not ranks: a node's place is its rank in the schedule, and 0 is the
// root. At most Window messages are announced ahead of the slowest receiver. A receiver that has
// room for a message says ready to the nodes that will send it blocks, and is then ready for all of
// its blocks. A node goes on to the next message when its own sends of one are done; different
// messages are therefore under way at different nodes at the same time.
//
// The rejected alternative to the announcement is that the first block tells the size. Then room is
// made, and a page fault taken, at every hop once more, while the pipeline waits; and a receiver
// could be ready for no more than a first block.
//
// Invariants:
//
//	R1  messages are over at a receiver in the order in which they were announced, each once:
//	    complete, or aborted
//	R2  a node sends the blocks of a group one at a time in the order of the schedule, each when it
//	    is here and its target is ready
//	R3  a block is read only if it is the next one that its sender owes by the schedule, and as long
//	    as it must be; else the group fails
//	R4  a group fails once, for the first reason that the node learns, which it tells all others;
//	    nothing is completed after that
//	R5  the application gets memory back only when no block is being read into it or sent from it
//	R6  the root's application is told that shared memory is free, without an error, only when every
//	    receiver has copied it or released it
//
// Shared words: none. A driver calls one method at a time.
package relay
