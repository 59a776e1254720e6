// Package multicast turns rings into one order: received → stable → delivered.
//
// One Subgroup is one member's part in one subgroup of a view. A cycle has two parts, each of which goes as far as it can now.
// Exchange receives what is visible, publishes what is committed and the nulls that are owed, and acknowledges what is
// here; then the caller flushes; then Deliver delivers what is stable and releases what everybody delivered. A round or less
// is delivered in Exchange already, so that what its upcalls send leaves with the acknowledgements. Both return the work
// they did; waiting is a state, never a call.
//
// Life of a message, as counters. k is its index at sender s of S, q = k·S + s its seq:
//
//	sent[s] > k          s published it                        (word sent of s)
//	got[s] > k           this member has it
//	received > q         it has everything up to q             (word received of this member)
//	stable > q           every member has everything up to q   (min of received)
//	delivered > q        this member's application saw it      (word delivered of this member)
//	released             every member delivered it: its room may be used again
//
// Invariants:
//
//	M1  delivered ≤ stable ≤ received at every member
//	M2  got[s] ≤ sent[s], and neither ever shrinks
//	M3  positions are delivered in order, each once: a message or, if its sender had nothing to say, a null
//	M4  room is released only when min delivered of all members passed it
//	M5  in unordered mode each sender's messages are delivered in its order, each once, when they are here
//
// Columns. Each member's row has one line per subgroup it is in, and in unordered mode a vector:
//
//	word          written by      meaning
//	sent          sender's loop   indexes published: messages and nulls
//	skipped       sender's loop   indexes declared silent ahead: all of them that are not sent are nulls
//	received      member's loop   length of the gap-free prefix of the order that is here
//	delivered     member's loop   length of the prefix that was delivered
//	taken[s]      member's loop   unordered mode: messages of sender s that were delivered
//
// Source: Spindle §2.2–2.4 (protocol), §3.2 (opportunistic batching), §3.3 (nulls; the rule is package nullsend).
package multicast
