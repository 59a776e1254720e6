// Package multicast turns rings into one order: received → stable → delivered.
//
// One Subgroup is one member's part in one subgroup of a view. A cycle has two parts, each of which
// goes as far as it can now. Exchange receives visible messages, publishes committed messages and
// owed nulls, and acknowledges received messages; then the caller flushes; then Deliver delivers
// stable messages and releases messages that every member delivered. Exchange already delivers a
// round or less, so that messages that the upcalls send leave with the acknowledgements. Both
// return the work they did; waiting is a state, never a call.
//
// Life of a message, as counters. k is its index at sender s of S, q = k·S + s its seq:
//
//	sent[s] > k          s published it                        (word sent of s)
//	got[s] > k           this member has it
//	received > q         it has everything up to q             (word received of this member)
//	stable > q           every member has everything up to q   (min of received)
//	delivered > q        this member's application saw it
//	kept ≤ q             … and may still read it
//	let go               … and does not any more               (word delivered of this member)
//	released             every member let it go: its room may be used again
//
// The end of a view. A wedge (Wedge) can come at any moment of that life:
//
//	wedged               reach[s] = max(got[s], skipped) stands at this member; it tells the others
//	trimmed              trim[s] = least reach[s] of all survivors: what each of them has
//	finished             every position below the trims is delivered, and missing ones between them are passed over
//	carried              own messages from trim on move to the ring of the next view (smc.Sender.Carry), and are sent there
//
//	                   trim[0] = 4              reach[0] = 5 here
//	sender 0:  seq 0   3   6   9 │ 12           what lies after the bar was missing at some survivor: it is delivered nowhere
//	sender 1:  seq 1   4 │                      a failed one: everything that a survivor lacks is lost with it
//	sender 2:  seq 2   5   8 │                  its next message is sent again in the next view
//	delivered: 0 1 2 3 4 5 6 8 9
//
// The next view's part may exchange while the rest of this one is delivered, and delivers nothing
// before Deliver is called.
//
// In unordered mode messages are delivered as soon as they are received, so some members deliver
// beyond the trim. Such messages are sent again for the others, and members that have delivered
// them drop them (Ahead). A message's Seq is its index at its sender in the view of its Message, so
// such a message has another version at the members that delivered it in the next view. For the
// same reason the survivors may differ in what they delivered from a sender that failed.
//
// Invariants:
//
//	M1  delivered ≤ stable ≤ received at every member
//	M2  got[s] ≤ sent[s], and neither ever shrinks
//	M3  positions are delivered in order, each once: a message or, if its sender had nothing to say,
//	    a null
//	M4  room is released only when min delivered of all members passed it
//	M5  in unordered mode each sender's messages are delivered in its order, each once, when they are
//	    here
//	M6  what was stable at any member when it wedged lies below the trim
//	M7  what lies below the trim is here at every survivor: trim[s] ≤ reach[s]
//	M8  after a wedge nothing is received, published, acknowledged or released: reach stands
//	M9  the end of a view is every position below the trim, in order, each once, and nothing else
//	M10  in unordered mode what a member delivered beyond the trim is not delivered there in a later
//	     view
//	M11  in persistent mode a member's persisted ≤ delivered, both only grow, and persisted > 0 only
//	     where whole
//	M12  what a member publishes as delivered is at most delivered and at most kept, and the
//	     application keeps nothing of a view whose memory goes
//
// Columns. Each member's row has one line per subgroup it is in, and in unordered mode a vector.
// The words of a line stand in the order in which they are loaded (D4):
//
//	word          written by      meaning
//	skipped       sender's loop   indexes declared silent ahead: all of them that are not sent are nulls
//	sent          sender's loop   indexes published: messages and nulls
//	position      sender's loop   end of the published records in the ring
//	persisted     member's loop   persistent mode: length of the prefix that is on its disk, nulls included
//	whole         member's loop   persistent mode: 1: its disk has everything that was delivered before this view
//	delivered     member's loop   length of the prefix that was delivered and is not kept
//	received      member's loop   length of the gap-free prefix of the order that is here
//	taken[s]      member's loop   unordered mode: messages of sender s that were delivered
//
// Source: Spindle §2.2–2.4 (protocol), §3.2 (opportunistic batching), §3.3 (nulls; the rule is
// package nullsend).
package multicast
