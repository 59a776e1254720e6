// Package squall is atomic multicast for Go: the processes of a group send messages, and all of them deliver the same
// sequence.
//
// Every process opens a Group. The group's members replicate a table of monotonic counters by one-sided writes, through
// shared memory within a host and TCP between hosts; one polling loop per process sends, receives, orders and delivers in
// opportunistic batches. A group has subgroups: each has its members, its senders and an order of its own.
//
//	g, err := squall.Open(ctx, squall.Config{
//		Cluster: "prices", ID: 1, Listen: "10.0.0.1:7001", Join: []string{"10.0.0.1:7001"}, InitialMembers: 3,
//		Subgroups: []squall.SubgroupConfig{{Name: "ticks", Deliver: func(m squall.Message) { … }}},
//	})
//	ticks, err := g.Subgroup("ticks")
//	err = ticks.Send(ctx, []byte("hello"))
//
// What a group promises is in docs/protocol.md: total order and FIFO (G1), atomicity (G2), that nothing of a member that goes on is lost
// (G3), one sequence of views (G4) and no split brain (G5), that what every member's disk has outlives all of them (G6), and that a
// silent sender holds up nobody (G7). When members fail, leave or come, a view ends and the next one begins, while everybody may go on
// sending. A member that the others took for failed, or that can reach too few of them, halts: Err, Send and the event say why.
//
// A subgroup whose Mode is Persistent keeps all messages in a log at every member (Config.Dir, SubgroupConfig.Log). Future.Persisted tells
// when a message is on every disk; Subgroup.Log reads by version and by time, follows, and takes snapshots. When all members have ended, those
// that are started again with their directories go on together where the logs end.
//
// Life of a message: Claim (room in the ring) → fill → Commit → published by the loop → received by every member → stable →
// delivered, in the same order everywhere → its room is used again. Send does the first three in one.
//
// Upcalls run on the loop. While one runs, this process neither acknowledges nor sends, and a process whose upcall takes
// longer than FailAfter counts as failed. Slow applications set AsyncQueueBytes. Message.Data belongs to the ring: copy what you keep.
// An upcall may use TrySend; Send could wait there for room that only the loop can make. AsyncQueueBytes changes little about that: while
// its upcall waits in Send, nothing takes messages out of the queue, and once that is full the room may never come.
package squall
