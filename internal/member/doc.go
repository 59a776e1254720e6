// Package member is one process's part in a group, over all its views. It wires the cores of each
// view together on its table, and is stepped by hand or by a thread.
//
// Step is one cycle: run what the application asked the loop to do, then, for the view in force,
// take in what peers wrote, step every subgroup, bump the heartbeat, look after peers, step the
// view change, flush, and call the application; views that are over here and not everywhere are
// stepped before. Nothing in it waits, so the simulator runs the very code that ships.
//
// Life of a view at a member (an epoch): opened (its table is there, links come up) → in force →
// ended (a decision came: what is below its trim is still delivered) → lingering (others may need
// this member's row) → over (its table goes back).
//
// Life of a message: claimed → committed → published → delivered → released; of a large one:
// admitted → filled, while its body moves to the others → everywhere → placed, from where it goes
// on like any other. A body is large, and a place in the order takes nothing: so the body goes
// first, and holds up no other message. A message that is not delivered when a view ends begins
// anew in the next one.
//
// Life of a message of a persistent subgroup, behind delivered: appended (to the log of its shard,
// by a Recorder) → durable (here) → everywhere (the least of what all members say of their disks) →
// settled (its time, once no earlier one can come). The Frontier tells the goroutines that wait.
//
// Life of a confirmation: asked for (if a direct round confirms it at once, it ends here) → in a
// round (a confirmation round of viewchange serves it, in this view or, if that ends, in the
// next one) → received (the round is confirmed; what had been received as it began is being
// delivered) → given (to the application) → ended.
//
// Life of a member: in a view → in the next … → halted: it left, was evicted, is cut off, or was
// closed.
//
// Invariants:
//
//	B1  the heartbeat grows at least every Heartbeat while the member steps, and only then: a hung
//	    process is a silent one
//	B2  a peer whose heartbeat stood still, and from which nothing arrived, for FailAfter, while this
//	    member was awake, has failed
//	B3  after halting nothing is delivered and no send is accepted; every waiting sender gets the
//	    reason
//	B4  a view is delivered only after the one before it was delivered up to its trim
//	B5  a large message has its place only when every member of the view in force has its body, and
//	    large ones in the order of their admission
//	B6  the bodies of one sender that are not delivered everywhere are LargeMemoryBytes at most
//	B7  a message of a persistent subgroup is in the log once, before the application sees it; with
//	    AfterPersist, a new one is on every disk before it
//	B8  a version counts as persisted here only when it is on disk with all that come before it, and
//	    nulls behind the last one hold nothing up
//	B9  no version with a settled time comes after the versions that existed when it settled, in this
//	    view or a later one
//	B10  no message of a persistent subgroup is received, and no view followed, whose time lies
//	     2·MaxSkew ahead of the wall clocks
//	B11  a confirmation ends well only when this application was given everything that any
//	     application of the shard had been given when the confirmation was asked for
//	B12  every confirmation ends: well, or with the reason for which it cannot
//	B13  the callbacks of one step stop between two messages once they took a tenth of FailAfter
//	B14  a member that lacks a state or a log of others gives up deliveries only when the view
//	     without it is in force, and no other member needs its row
//
// Shared words of the member line, one per row:
//
//	word       written by     read by         meaning
//	heartbeat  owner's loop   all             cycles of the owner's life; its value means nothing, only that it changes
//	clock      owner's loop   all             in views with persistent subgroups: what the owner publishes later has no earlier time
//	complete   owner's loop   all             a bit for each declaration of which the owner has the state of its shard, or all of its log
//	wall       owner's loop   all             in views with persistent subgroups: its wall clock
package member
