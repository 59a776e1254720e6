// Package sim runs groups of processes in a deterministic world, from a seed to a verdict.
//
// A Plan is drawn from a seed: nodes of the first view and nodes that join later, subgroups
// and shards with small rings, how the pairs are connected, how fast each process steps, what the
// applications send, and which faults occur, when, or on which move of a view change. A run steps
// real members, and the cores of real joins, on internal/simnet, and the applications and the
// faults, in virtual time, on one goroutine. What is imitated, and what is not simulated, is in
// docs/testing.md.
//
// Where subgroups are persistent every node has a disk, which outlives its processes and forgets
// what was not synced when the power goes. What package persist does with goroutines and files is
// done here in virtual time; the journals, the books, the recorders and the core of restarts are
// the code that ships. Code that waits is a routine, which waits in virtual time (routine.go): the
// writer of a log, a log that catches up, the reconciliation of logs after a restart, and the
// delivery of a backlog.
//
// Package life decides what a process does until it is in a view; its effects are performed in
// virtual time (lives.go). Package shard decides what a member that enters a shard needs; its
// effects are performed here in virtual time (stays.go, activity.go). The code of package catchup
// brings a log up to the log of another process (fetch.go). The conversations of packages transfer
// and logwire are modelled as delays and as sources that break off; the backlog is the production
// code. In half of the subgroups applications have a state, a digest of all that they were given,
// which new members take over.
//
// The bodies of large messages move by the relays of package relay, for which each process performs
// what package rdmc does with goroutines, connections and memory (transfers.go, links.go), below
// the couriers that ship (bodies.go). How they meet is decided by package attach.
//
// Life of a process: joins (or is in the view that the run begins with, or comes back with its
// disk) → is a member, of one view after the other → crashes, or halts and ends → its node may
// begin another one. Life of a run: drawn (Draw) → laid out → busy, until the last fault is over
// and all messages that a quorum of the last view accepted are delivered, or all members have
// halted → quiet, as long as it takes to see that nothing is sent any more → judged. The first
// violation ends it.
//
// What is checked, one file per promise:
//
//	check_order.go    G1  in every subgroup of every view one order for all: deliveries are a
//	                      prefix of the same sequence
//	check_fifo.go     G1  each sender's messages in the order of their claims, each once, over all
//	                      views
//	check_content.go      nothing is made up and nothing altered: content is a function of
//	                      declaration, process, number and length
//	check_atomic.go   G2  what one member is given, every member holds; and is given in that view,
//	                      if it goes on
//	check_loss.go     G3  what a member accepted that goes on, or left in peace, is delivered
//	                      exactly once
//	check_future.go   G3  and an application that waits for that is told where, or that the member
//	                      halted
//	check_views.go    G4  all install the same views, one after the other
//	check_brain.go    G5  a view begins with a quorum of the one before, none has two successors,
//	                      suspects are heard no more, and a member that halts has a reason
//	check_log.go      G6  all logs of a shard are one history, which is what is delivered; nothing
//	                      is said to be on a disk, or on every disk, that is not on the platter;
//	                      and what was said to be on every disk is in the logs of all members that
//	                      go on
//	check_live.go         after the last fault the view settles, within bounded time, to the
//	                      members that live; none is suspected for nothing
//	check_stall.go    G7  while no process fails, delivery takes a bounded virtual time from the
//	                      commit, whatever other applications do
//	check_quiet.go    G8  then only heartbeats are sent, old views are gone, and no more nulls
//	                      were sent than were needed
//	check_release.go      and all rings are empty
//	check_shards.go       no shard waits for members, or for its log, that are there
//	check_state.go        applications of a shard that got to the same message have the same
//	                      state, however they came to it
//	check_restart.go      what a restart decides was promised and voted, on disks; one view has
//	                      one successor
//	check_join.go         joiners that did not appear are held back
//	check_halt.go         a member that halted is given nothing and accepts nothing; one that may
//	                      not send is told why
//	reads.go              a confirmed read (B11, B12) is not older than what any application had
//	                      as it began, and is answered
//
// The scenarios in testdata are runs in which nothing is drawn: see Script in script_test.go.
//
// Same seed, same run: the events of a run have a hash, and the trace of a failed one is printed by
// running it once more. A Campaign runs many seeds; Probes count the rare branches that it took.
package sim
