// Package viewchange decides how one view of a group follows another.
//
// A Change is one member's part in ending one view and agreeing on the next: a pure core over
// columns of the view's table. Each member writes its own state into its own row, and members send
// each other no requests. The protocol is Paxos with the rows as registers: members ack a leader's
// ballot and echo its decision, and once a quorum has echoed a decision, no other decision can
// follow the view.
//
// Life of a change at a member:
//
//	steady     no member is suspected, and none has asked for a change
//	suspected  this member saw that another one failed, and froze its row           (word suspected)
//	proposed   the leader wrote its proposal for the next view                      (word proposed, record proposal)
//	wedged     this member stopped the view, published what it has, and acked       (record vectors, word acked)
//	decided    the leader has all acks; its decision is copied into this row        (record decision, word decided)
//	installed  all members that go on echoed it, and they are a quorum              (word installed)
//
// The leader is the lowest rank that is neither suspected nor leaving. If it fails, the next one
// begins anew with a higher ballot, and adopts the decision of the highest ballot that it finds in
// the rows of the members that it does not suspect, if it finds one.
//
// Invariants of a change:
//
//	V5  suspicion is for good: a suspect's row is frozen, nothing that it says later is heard, and it
//	    is in no further view
//	V6  the ballots in a row only grow: a member that acked one accepts no decision of a lower one,
//	    and a member that knows that one is final has its decision, or a later one
//	V7  a proposal or decision is acked or echoed only if it follows from this view: its members stay
//	    in order, and joiners come last
//	V8  two decisions that are installed after one view are the same
//	V9  a trim is at most what every member that goes on has, and at least what any member delivered
//	V10  where decisions are recorded, none is in a row before it is on its owner's disk
//	V13  the suspicions that a member publishes leave a quorum of the view, or the member knows that
//	     the view is over, is in the next one, and they leave a quorum of that
//
// Invariants of confirmation rounds, by which a member learns that its view was in force:
//
//	V14  when a round, or a direct round, is confirmed, no member had installed a later view as it
//	     began
//	V15  no member affirms a round before it began
//
// Shared words of the view line, one per row; all but mute only grow, and all are the owner's
// loop's:
//
//	word       read by    meaning
//	suspected  all        a bit for each rank that the owner takes for failed
//	leaving    all        1: the owner wants to be in no further view; said only before it is wedged
//	mute       leader     1<<63, and a bit for each declaration in which the owner does not want to send
//	proposed   all        guard of the proposal: its ballot
//	acked      leader     the highest ballot that the owner follows; guard of its vectors
//	installed  all        ballot of the decision that the owner knows to be final
//	decided    all        guard of the decision: its ballot
//	revision   all        changes with the other words, so that one load tells that nothing did
//
// Shared words of confirmation rounds, in lines of their own; all only grow, and all are the
// owner's loop's:
//
//	word      read by     meaning
//	begun     all         the number of rounds that the owner has begun
//	affirmed  rank k      one for each rank k: the last round of k that the owner affirmed
//
// Source: design of Derecho's view management as the SST papers describe it, with Paxos (Lamport,
// "The Part-Time Parliament") in place of its leader's log; quorums as in the primary-partition
// model of virtual synchrony.
package viewchange
