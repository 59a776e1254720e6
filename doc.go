// Package squall is atomic multicast for Go: the processes of a group send messages, and all of
// them deliver the same sequence.
//
// The members of a group replicate a table of monotonic counters by one-sided writes, through
// shared memory within a host and TCP between hosts. One polling loop per process sends, receives,
// orders and delivers messages in opportunistic batches. A group has subgroups; each subgroup has
// members, senders and an order of its own.
//
// # Life of a program
//
// Every process opens the group, finds its subgroups and sends:
//
//	g, err := squall.Open(ctx, squall.Config{
//		Cluster: "prices", ID: 1, Listen: "10.0.0.1:7001", Join: []string{"10.0.0.1:7001", "10.0.0.2:7001", "10.0.0.3:7001"},
//		Subgroups: []squall.SubgroupConfig{{Name: "ticks", Deliver: func(m squall.Message) { … }}},
//	})
//	ticks, err := g.Subgroup("ticks")
//	err = ticks.Send(ctx, []byte("hello"))
//	err = g.Close(ctx)
//
// Open returns when the process is a member. All members have the same list in Join, and a majority
// of it forms the first view; a process that comes later joins through any member that Join names.
// From then on the group calls Deliver for each message. When members fail, leave or join, a view
// ends and the next one begins, while all members may go on sending: View returns the view in
// force, Views and Config.OnView deliver each later view. Config.Events receives every event, as a
// value of one of the event types.
//
// A member that the others suspect, or that can reach too few of them, halts: Done is closed, and
// Err and the event Halted say why. Close leaves the group when all that this process sent is
// delivered.
//
// # Messages
//
// A message goes through these steps: Claim takes space in the ring of this process, the
// application fills it, Commit gives it to the loop, the loop publishes it, every member receives
// it, and all members deliver it at the same position of the order; then its space is free again.
// Send does the first three steps. SendFuture and CommitFuture return a Future of the delivery. A
// message that the ring does not take is a large message (SubgroupConfig.MaxMessageBytes): its body
// goes over connections of its own before it takes its position. Message.Data is part of the ring:
// a callback copies what it keeps.
//
// # Callbacks
//
// Deliver, DeliverBatch, OnView, Snapshot and most Events run on the loop. While one of them runs,
// this process neither acknowledges nor sends, and a process whose callback takes longer than
// FailAfter is suspected. A slow application sets SubgroupConfig.AsyncQueueBytes: then the loop
// copies messages to a queue, and Deliver gets them on a goroutine of its own. An application that
// may have no space for a message sets DeliverSome, which returns how many messages it took, and
// calls Subgroup.Resume when it has space.
//
// TrySend and all calls that do not wait work in a callback. A call that would wait for the loop,
// such as Send without space or Future.Wait, returns ErrInCallback in a callback that runs on the
// loop, and Close returns it in every callback. A callback that gets its messages from a queue may
// wait in Send, but nothing takes messages out of the queue meanwhile: once the queue is full, the
// space that Send needs may never become free.
//
// # State and logs
//
// A process that joins a subgroup gets the state that the others built from earlier messages
// through SubgroupConfig.Snapshot and SubgroupConfig.Restore. A subgroup whose Mode is Persistent
// keeps all messages in a log at every member (Config.Dir, SubgroupConfig.Log); the program imports
// the engine of its logs, package persist/bolt or persist/wal. Future.Persisted waits until a
// message is on every disk; Subgroup.Log reads by version and by time, and follows. After all
// processes of a group have ended, processes that start with the old directories continue the group
// from the end of its logs: each process restores the state from the last snapshot of its log
// (Subgroup.TakeSnapshot), and the log replays the messages after the snapshot (Message.Replayed).
//
// # Promises
//
// docs/protocol.md states and proves what a group promises: total order and FIFO (G1), atomicity
// (G2), that no message of a member that goes on is lost (G3), one sequence of views (G4), no split
// brain (G5), that what is on every member's disk survives the end of all of them (G6), and that a
// silent sender delays no other one (G7).
package squall
