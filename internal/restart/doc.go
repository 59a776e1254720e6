// Package restart brings a group back after all of its members were down at once: a process's
// durable memory of views, and the agreement on the view to go on with and on where its logs begin.
//
// The agreement is Paxos over what follows the last view in force. Its acceptors are that view's
// members, each with the disk that it had; what they echoed in the change within the view counts as
// votes in ballots below all others. A view that may have been decided is completed, and the group
// restarts from that one. Otherwise the leader makes a view of the members that are here, and puts
// it to the vote when all of them have brought their logs to the agreed ends.
//
// Life of a restart at a process:
//
//	here         it says hello to all processes that may be there, and learns the newest view in force from their answers
//	promised     it votes in no lower ballot, and says what it voted for and where its logs end      (on disk)
//	reconciled   its logs are where the leader says that they are to be                              (on disk)
//	voted        it voted for the view                                                               (on disk)
//	decided      a quorum of the last view did: it is in force                                       (on disk)
//	entered      the process is in it, or finds the group running and joins it
//
//	leader                                           member of the last view
//	hello, with its view         ◀──────────────▶    hello, with its view
//	prepare                      ───────────────▶
//	                             ◀───────────────    promise: its vote, its echo, its logs' ends
//	plan: the view, the logs     ───────────────▶    fetches, or cuts
//	                             ◀───────────────    ready
//	accept                       ───────────────▶
//	                             ◀───────────────    vote
//	decided                      ───────────────▶
//
// Messages may be lost, doubled and reordered: each is repeated until it is answered. A process
// needs a clock only to decide how long to wait before it tries. The leader is the most senior
// process that sees a quorum; two processes that both lead cost time only.
//
// Invariants:
//
//	Y1  a process that promises or votes was a member of the last view, with the disk that it has
//	    now
//	Y2  a decision is on a member's disk before its row echoes it, and a promise or a vote before it
//	    is sent
//	Y3  a process votes in no ballot below one that it promised
//	Y4  before the vote on a new view all of its members have their logs, durably, up to the same
//	    ends
//	Y5  a process that promised to help replacing a view does not enter it, and a process that
//	    entered it does not promise
//	Y6  there is one view with a number
//	Y7  a log that was whole loses nothing, so whatever every member's disk had is in all logs with
//	    which a view begins
//	Y8  a message changes nothing unless its sender knows the secret of the group and it is for this
//	    very process
//
// State, Core and their messages are plain values, and pure; Memory keeps a State on a disk, Run
// carries a Core over connections, and Server answers in its place when the group works.
//
// Source: Lamport, "The Part-Time Parliament"; the last view takes the place of its fixed
// parliament.
package restart
