// Package shard decides how a process gets, keeps and gives up the state of the shards of one
// subgroup. It is pure: inputs go in, effects come out. The root package performs them with
// goroutines, disks and connections, the simulator in virtual time.
//
// A stay is the time in which the process is a member of one shard without a break, from the view
// in which it enters the shard. A process that enters another shard, or the same one anew, begins
// another stay. The stay before it is superseded: the application's state is replaced.
//
//	                 ┌────────────────────── waiting ──────────────────────┐
//	Enter ──▶ queued ──▶ getting the state ──▶ taking over ──▶ handing over ──▶ live ──▶ over
//	             └──────────────┴──────────────────┴────────────────┴────────────────────▲
//
// Queued: earlier stays still work on the application, or the application has not got every message
// of earlier views. Getting the state: a member that is fresh in an ordered shard has its
// application restore the state of another member. A member that is fresh in a shard with logs
// learns from another member where the log ends, brings its own log up to that end, makes it
// durable, and notes that the log is complete. Sources are asked one after the other, round after
// round, with a growing pause between two rounds. A source that is no member any more is left at
// once; the source of a log only if another member has the whole log. Sources of a state are the
// members that were in the shard before. When none of these is left, the members that came into the
// shard in the same view are asked: a member that has got the state offers it as of the same
// boundary. A member that has to ask them withholds its own offer, so that no two members wait for
// each other, and a member that has the state does not leave while another one waits for it. Taking
// over: at a member that holds the log of the shard, the application recovers from the log; at a
// member whose shard begins, it restores from nothing. Handing over: the application gets the
// messages that were delivered meanwhile, which the stay's backlog kept. Live: the application gets
// the messages that the shard delivers. Over: the application gets no more messages; a complete log
// still does.
//
// Life of an activity: an effect that takes time has a number, and its performer says with Ended
// how it came out. There is one activity at a time, for all stays together. One that is cancelled
// ends, too: the next one begins after its end, because an upcall of the application may still run
// until then.
//
// Order of inputs: for each view Enter, if the process is in a shard of it, and then Installed,
// both before anything is delivered in it. Begins when everything of earlier views is delivered.
// All inputs come from one goroutine. After each input Perform has all effects performed in
// their order; an input that arrives meanwhile waits until that is done.
//
// Invariants:
//
//	SH1  one activity at a time works on the application and the log, and none begins before the one
//	     before has ended
//	SH2  the backlog of a stay is handed over only when the application has the state of the stay
//	SH3  a log is noted as complete only when everything in it up to the boundary is durable, and the
//	     application recovers from no other log
//	SH4  no result of an activity that was cancelled is used
//	SH5  a process offers the state at a boundary only if its application, or its log, got everything
//	     that the shard delivered before
//	SH6  a log is held from the beginning of a stay with a backlog until the backlog is in it, although
//	     an earlier stay in the same shard is over meanwhile
//
// Shared: nothing. A Core belongs to the goroutine that gives it inputs.
package shard
