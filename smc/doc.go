// Package smc is the small-message ring: how one sender's messages lie in its row, and how the
// others find them.
//
// A sender has a ring of descriptors and a ring of bytes. A message takes one descriptor and its
// length in bytes, rounded up to 8, in one piece; a null takes nothing.
//
//	descriptor, 16 bytes:   ┌──────────── stamp, u64 ───────────┐┌── offset, u32 ──┐┌─ length, u32 ─┐
//	                         the message's index + 1              place in the byte ring, + 1 if it is large
//
// Of a large message the ring carries only a record, which tells receivers which message it is; the
// body takes another way. The record takes its place in the ring when every member has the body. So
// every published message is complete at every member, and no large message holds up others.
//
// Life of a message, as a chain of counters of its sender:
//
//	claimed ≥ published ≥ released            counted in claims
//	          stamped                         counted in descriptors: published without the aborted ones
//	          sent                            counted in indexes: stamped plus nulls (package multicast owns it)
//
// An application goroutine claims room, fills it in place and commits or aborts. The loop publishes
// the committed prefix: it stamps each descriptor with the next index, has descriptors and bytes
// pushed, and then the guard sent. When every member delivered an index, the loop releases its
// room.
//
// A receiver that finds sent advanced looks at the next descriptor when it delivers: a stamp equal
// to the index at hand plus one is that message; any other stamp is of a later index, or an older
// one of the ring's last round, and the index at hand is a null. Stale descriptors always carry an
// older index, so nothing has to be cleared.
//
// When a view ends, so do its rings. The ring of the next view takes over what was not delivered
// (Sender.Carry): messages that were published or committed are copied, and are unpublished there.
// Of an open claim only the number and the room move; the application goes on filling it where it
// is, hears from Commit that it moved, and has it copied then (Sender.CommitMoved). Until it does,
// that memory must stay (Sender.Foreign). A ring on plain memory keeps what a member cannot send
// for now.
//
//	       released          published        claimed                          ring of view 1
//	──────────┴─ 7 ── 8 ── 9 ───┴─ 10 ── 11 ─────┴──
//	              └─ delivered up to here
//	             ┴─ 8 ── 9 ── 10 ── 11 ──┴──                                   ring of view 2: nothing is published yet
//
// Invariants:
//
//	S1  released ≤ published ≤ claimed ≤ released + window
//	S2  the bytes of claims that are not released do not overlap: end(claimed) − end(released) ≤ ring
//	S3  a descriptor is stamped again only after its message was released
//	S4  what a receiver takes lies in the ring, whatever the descriptor says
//	S5  a claim is committed or aborted once, whatever rings it moved through
//	S6  what was not delivered when a ring ends moves to the next: each claim once, in its order,
//	    under its number
//	S7  all that moves has room in a ring of the same size
//	S8  a large message is published only when every member of the ring's view has its body, and
//	    holds up its sender's later ones until then
//
// Shared words:
//
//	word                 written by        read by              published by
//	slots[i].state       application, loop loop                 itself (atomic); the loop's part is to mark a claim as moved
//	freed, freedBytes    loop              application          itself (atomic)
//	starved              application       loop                 itself (atomic); a hint
//	descriptor, bytes    loop, application receivers            sent
//
// Source: Spindle §2.3; descriptors instead of fixed slots, and nulls without room, are Squall's.
package smc
