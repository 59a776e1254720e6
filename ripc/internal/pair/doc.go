// Package pair is the protocol of two processes that send each other short messages: a table with
// two rows, and a ring in each.
//
// A process owns one row and reads the peer's. A fabric link brings what is stored in one to the
// other: within a host the row is mapped read-only, else a replica follows. The ring of a row
// carries frames from its owner to the peer:
//
//	line 0   fabric's: parked
//	line 1   sent    position behind the last frame
//	line 2   hungry  not 0: a sender waits for buffer space          core     where the owner runs
//	line 3   freed   position in the peer's ring below which the peer may write again
//	line 4…  one word for each channel of the peer: bytes of its window given back
//	line 12… one word for each channel of the peer: messages received
//	bytes    the ring
//
//	frame:   ┌── length u32 ─┬ kind u8 ┬ channel u16 ┐┌──────── id u64 ────────┐┌── bytes, up to a multiple of 16 ──┐
//
// A channel carries the messages of one service to one other. Channel 0 carries replies and what
// the two processes say about their channels.
//
// Life of a frame, as positions in the ring: freed ≤ taken ≤ sent ≤ freed + ring. A frame is
// written, then sent covers it. Where the peer reads the row itself, sent is not used: the first
// word of a frame publishes it, and the word behind the last frame is zero. The reader takes a
// frame: it stays in place until it is freed, or is moved aside when it holds up the ring. A
// message is received when the application gets it, and freed when the application gives it back.
//
// A channel is used by one pair of services after the other:
//
//	not used → asked for → in use → given up by its opener, and closed by its server, in any order → not used
//	                     ↘ refused → not used
//
// The frame that gives it up comes behind the last message, and the one that closes it has the last
// count. An opener that gives up first is told that count when all of its messages are received.
// Windows and counts go on: what was not given back of a window stays taken, and a count begins
// where the one before ended.
//
// A long message has a head, which its offer carries, and a body, which does not go through the
// ring: the receiver looks at it in memory of the sender, or it comes in blocks on a connection of
// its own. Outbox and Inbox keep the states of both sides:
//
//	offered → (granted → blocks) → here → freed
//	        ↘ denied; what was sent of it by then is read and dropped, up to its end or a block of no bytes
//
// Invariants:
//
//	RP1  frames are taken once each, in the order in which they were sent, with the bytes that were sent
//	RP2  a frame is not overwritten before its reader freed it
//	RP3  a channel holds at most its window of bytes that are not freed, so that a service that does not receive leaves the ring to
//	     the others
//	RP4  frames that are taken and not received never fill the ring, while their reader has memory: the frames that hold it up are moved
//	     aside
//	RP5  what a reader takes lies in the ring, and is no more than the peer may have sent, whatever the peer writes, at any time
//	RP6  a peer's words are believed only if they are between what they were and what this side sent
//	RP7  the messages of a channel that were not received are its last ones, and both sides count the same
//	RP8  a reply is for the call whose id it carries, or for none: an id is given out once
//	RP9  of the notices with one key that were not taken, the latest stays
//	RP10  bytes of a long message go where they belong in the window that it was granted, and nowhere else
//	RP11  of the long messages of one channel a bounded number is open, as both sides count
//	RP12  a long message ends once for both sides: denied, or here with all of its bytes and then given back
//	RP13  memory that a peer looks at is used again only when it was given back, or the peer said that it does not look
//	RP14  what a peer says of a long message is believed only if it is possible at that moment
//	RP15  nothing of one use of a channel is taken for another: it is opened again when both sides ended its use, and its counts begin with
//	      the last ones
//	RP16  a sender that waits for buffer space is woken within one round of its poller when there is room for its frame behind the frames of
//	      the senders that were woken and have not sent yet; and what a reader received and freed is published within one round of its
//	      poller when a sender waits
//	RP17  what a reader allocates for frames is bounded by its Allowance and what its Memory gave; without memory frames stay in the
//	      ring, where they hold up no pair but their own
//	RP18  bytes that were sent and are not freed do not change: over a socket a write to them is refused. Memory of the peer itself can change
//	      at any time, so nothing is decoded in it
//
// Waiting for room (RP16): a sender that finds none joins a Queue, stores that it is hungry, wakes
// the reader's process if that sleeps, and looks once more. The reader publishes what it frees in
// large parts while the peer is not hungry; while the peer is, it publishes all at each Free and in
// each round of its poller, and wakes the peer's process. There each round of the poller wakes the
// senders that have room now. A sender that was woken claims the room for its frame, in the ring
// and in the window of its channel, until the frame is in the ring or the sender gives up; then the
// others are looked at again, because it may have taken less than it claimed. Both processes store
// before they load: hungry and then whether the reader sleeps, that it sleeps and then hungry; so
// one of them sees the other.
//
// Shared words, all in the own row:
//
//	word               written by        read by           published by
//	sent, hungry       sending half      peer's both       itself (atomic)
//	freed, by channel  receiving half    peer's sending    itself (atomic)
//	received           any goroutine     peer's sending    itself (atomic); only grows
//	core               waiting goroutine peer's            itself (atomic); a hint
//	frames             sending half      peer's receiving  sent, or their first word (atomic)
//
// The two halves may be used by two goroutines at a time.
package pair
