//go:build linux

// Package verbs is the fabric link between hosts that have RDMA devices: InfiniBand, or RoCE.
//
// A row's bytes go straight from the own row into the peer's replica, by RDMA writes. Control lines
// go in small messages into buffers that the peer posted, and the peer's loop stores them word by
// word. The InfiniBand specification promises nothing about the order in which plain writes become
// visible, and devices make use of that (adaptive routing, direct data placement). It promises that
// what was written before a message is in place when the message completes (o9-20). So lines are
// messages, and bytes need no order among themselves (F2); words are whole because the processor
// stores them (F1), lines are validated like those of package tcp, and completions wake a loop that
// sleeps.
//
// The device is used through the interface Device. Package ibverbs has the one of libibverbs, which
// needs cgo; internal/fake has one that does, from a seed, everything that the specification
// allows.
//
// Life of a flush: pushed (fabric.Pending) → laid out as a frame (the ranges, and the lines as they
// are at that moment) → posted (writes, then messages; one call of the device for both) → placed in
// the peer's replica in any order → the message completes there → its lines are stored → its buffer
// is posted again, which the next message in the other direction reports.
//
//	message:  u16 lines | u8 flags | u8 0 | u32 receives posted in all | { u64 off, 8 × u64 } × lines
//
// All numbers are little endian. Flag 1: more lines of the same frame follow. Flag 2: this is the
// last message.
//
// Counters of a direction: receives posted there ≥ messages sent here ≥ messages completed there ≥
// receives posted again; requests posted here ≥ requests known to be complete.
//
// Receives are never exhausted. A message needs a receive that the peer reported; one with lines
// leaves one over. A side that holds half of the receives, and can send nothing else, sends a
// message without lines, which may take the last one. A process that takes the last one thereby
// gives at least half to the other side, which then can answer: so both never wait for each other.
// Devices are set up not to try again when there is no receive, so a fault of this argument is an
// error.
//
// When bytes may change: the device reads the own row whenever it sends or sends again, until a
// request is complete. A peer reports what it delivered, and it can deliver only what is in place,
// so a ring that waits for the peer is safe. A ring that does not wait any more, because the peer's
// row is frozen, is safe because Freeze closes the pair first.
//
// Keys are no protection: they are 32 bits that can be guessed. What protects is what a key could
// reach: each peer has a protection domain of its own, in which there is nothing that is remotely
// writable but the bytes of that peer's own replica, and each stream has one with nothing but its
// slots. Nothing is remotely readable.
//
// Large messages do not fit rows. Stream gives packages rdmc and ripc a stream of bytes over a pair
// of its own, through slots of memory that are registered once; see slots.
//
// Neither bytes nor lines are encrypted or authenticated on the wire. The connection over which
// pairs are set up is: it is the one for rows (package handshake). It stays open as long as the
// link, because its end tells at once that the peer's process ended.
//
// Invariants:
//
//	QP1  the lines of a frame are sent after all of its ranges
//	QP2  a message is sent only into a receive that the peer reported, and one with lines leaves one
//	QP3  a receive is posted again only after its message was used up
//	QP4  a peer can write only the bytes of its own replica and the slots of its streams, and read
//	     nothing
//	QP5  after Freeze, or Close, the device uses neither the own row nor the replica for that peer
//	QP6  a completion counts only for the pair that posted it
//	QP7  before a loop sleeps the queue is armed, and polled after that
//	QP8  a message is as the format says, its lines lie in the control part, and it reports receives
//	     that can be; a violation ends the link. The same holds for a note of a stream
//	QP9  a note of a stream is sent after the bytes of its slot
//	QP10  a slot is written again only after its reader freed it
package verbs
