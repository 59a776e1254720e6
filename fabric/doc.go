// Package fabric makes each node's row of the table follow at its peers, by one-sided writes.
//
// A view's table has one row per member. A member owns its row and holds a replica of every other
// row. The owner writes its row, then pushes what it wrote; the fabric brings it to the replicas.
// Nothing is ever requested or answered.
//
// A row has two parts. Control comes first: 64-byte lines of eight 8-byte words, pushed line by
// line with PushLine. Bytes come after: rings, pushed range by range with Push. Bytes have no
// meaning until a word says so.
//
//	0              ControlBytes                      RowBytes
//	├─ line 0 ─┬─ line 1 ─┬ … ┼──────── bytes ─────────┤
//	 fabric's    words          rings
//
// A table is there at once when it is opened; its links come up later, one by one, while the loop
// runs already. A peer that is not linked yet has a row of zeros.
//
// Life of a link: pending (pushes to it wait) → up (Poll took it in: the row is another memory) →
// frozen. A pending link can be frozen too, and one that cannot come up is a failure.
//
// Life of a write: stored in the own row → pushed (marked for some peers) → flushed (handed to the
// link) → visible in the peer's replica → loaded by the peer's step.
//
// Invariants:
//
//	F1  A word of the control part is written and read whole; lines are 64-byte aligned.
//	F2  Per pair, what was pushed becomes visible in that order; bytes that were pushed before a word
//	    are visible when the word is. Several pushes may become visible at once, with the values of
//	    the latest.
//	F3  A node changes no row but its own, whatever it sends. A violation fails the link.
//	F4  After Freeze(rank), or Close, nothing changes in that replica any more.
//	F5  A failed peer is reported once, through Failures; never by a panic, never twice.
//	F6  What was pushed before a link came up is brought when it did.
//
// The pushed bytes of a row must not change until no peer needs them any more. Rings guarantee
// that: space is reused only after every member delivered what was in it. So a link may write
// straight from the row, whenever the socket takes it. A ring does not wait for a peer whose row is
// frozen: after Freeze(rank) a link reads nothing of the own row for that peer any more, not even
// to send it again.
//
// A row's memory is another one after its link came up and after Freeze; the table's hook (OnMove)
// says so at once.
//
// Shared words of line 0 (other words of the line are reserved):
//
//	word    written by    read by             meaning
//	parked  owner's loop  peers on the host   odd: the owner sleeps, or is about to; a writer rings its bell. The
//	                                          value changes with every sleep, so that one bell per sleep and peer is enough.
//
// All methods of Table and Link are for the loop that owns them, unless they say otherwise.
package fabric
