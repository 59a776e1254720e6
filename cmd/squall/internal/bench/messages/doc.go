// Package messages is the command "squall bench": it measures groups of real processes, and beside
// every figure its limit.
//
// Life of a run: member processes start → each tells where it listens → all connect → warm-up →
// every member samples its counters at the same two instants → the senders stop → everything is
// drained → the digests of what was delivered are compared → the processes end. The figure is the
// slowest member's. Runs of a figure and of its limits take turns (limit, squall, limit, squall …),
// each with fresh processes, so that whatever else the machine does hits both.
//
// Limits. The application's part is the same in all of them: every byte of a message is written,
// one byte of each cache line is read at every delivery.
//
//	fan-out          plain TCP: every process writes each message to a buffer of 64 KiB for each of the others, and they take it
//	                 out of such a buffer and count it. No order.
//	batched fan-out  the same, but a batch is filled once, written to everybody, and counted where it was received.
//	memory           rings of the same size in memory that all processes share, and counters for flow control. No order.
//	round trip       one message there and back over a TCP or unix socket between two processes, with blocking system calls or
//	                 spinning.
//
// Invariants, checked at the end of each run:
//
//	B1  all members delivered the same sequence; in unordered mode, the same sequence of each sender
//	B2  each sender's messages came in the order it sent them, each once
//	B3  everything that was sent was delivered, unless nulls are off and a silent sender holds up the order
package messages
