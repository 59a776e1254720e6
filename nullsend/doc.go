// Package nullsend says how many nulls a sender owes.
//
// The senders of a subgroup take turns (package order), so a sender that has nothing to send would
// block all senders after it. It therefore fills the turns that other senders wait for with
// nulls, which cost a counter and no ring space.
//
// Life of a null: a message of sender s is seen (got[s] grows) → every own turn that lies before it
// in the order is counted → the turns not yet taken are owed (Owed) → the loop adds them to its
// count and publishes it in the same push as whatever else it has (sent += owed) → others see a
// count that grew.
//
// # The rule
//
// The last message seen from s, if got[s] = c > 0, has index c−1. A sender r whose turn comes
// before that of s in a round (r < s) must have taken its turns 0 … c−1, one whose turn comes after
// it (r > s) only 0 … c−2:
//
//	S = 3, sender 1 was seen to have sent 2:      round 0   round 1
//	                                  sender 0      x         x        0 < 1: needs 2
//	                                  sender 1      m         m
//	                                  sender 2      x         .        2 > 1: needs 1
//
// The rule does not ask whether what it saw was a null itself, and need not: see below. It is
// evaluated after a whole batch was received, and gives the same as one evaluation after each
// message, because it is a maximum.
//
// Why it is quiet: a null is placed before the message that caused it. If that was a null too, it
// was placed before its own cause, and so on; positions are finite, so the chain ends in a message
// that an application sent. No null ever lies beyond the last such message. When applications stop
// sending, the nulls stop as soon as the gaps before the last message are full.
//
// Why it never stalls: suppose that everything sent has arrived and no sender owes a null. Look at
// the last position that was ever taken, and at any sender. The sender has seen the message at that
// position, so it has taken all its turns before it. No gap is left below that position, so every
// node can receive up to it.
//
// # Skip
//
// A sender that knows that it will be silent declares it: all its indexes below a second counter,
// skipped, that it has not used are nulls. Its count is then max(sent, skipped), see Count; that
// count stands for it in the order and as its own count in the rule, and its next message takes
// that index. What others see of it in the rule (got) remains the word sent alone: a declaration
// obliges no other sender, so that skipping far ahead causes no nulls at all.
//
// Invariants:
//
//	N1  quiescence: once no application sends, a bounded number of steps leaves nothing in flight and
//	    no null owed
//	N2  no stall: then every message of an application lies below order.Turns.Received at every node
//	N3  rounds: then every sender's count reaches exactly to the last application message, at
//	    position q, and covers order.Turns.CountBefore(q+1, s) of its turns (at least so many if it
//	    skipped): counts differ by at most one and never grow with rank. Before that, no sender lags
//	    the messages that it has seen by more than one round
//	N4  need: a null always lies before some application's message, or claim that was aborted, which
//	    could not be delivered without it
//	N5  a receiver that loads skipped before it loads sent never takes a message for a null
//
// All but N5 are properties of the rule and are shown by exploring every interleaving of small
// groups; N5 binds the member that reads the two words.
//
// Shared words: none of its own. The words sent and skipped are written by their sender's loop and
// read by every receiver's.
//
// Source: Spindle §3.3. It adds one null per message received; a batch needs the number, and Skip
// is only sketched there.
package nullsend
