// Package squalltest runs an application's replicated object in a simulated world, for tests.
//
//	func TestBank(t *testing.T) {
//		squalltest.Run(t, squalltest.Config{}, newObject, func(c *squalltest.Client) {
//			for range 10 {
//				_, _ = Deposit.Call(c.Context(), c.Object(), Amount{"ann", int64(c.Rand().IntN(100))})
//			}
//		}, func(b *Bank) error { … })
//	}
//
// The members and their disks, the network and the clocks are simulated; the protocol, the object,
// its handlers and what clients decide are what programs run. A seed says which members there are,
// how fast they and the network are, and what goes wrong: members crash, hang, lose power, are cut
// off, leave, join and come back. A run is the same each time that its seed is played.
//
// Life of a run: a group is bootstrapped → clients call operations, in virtual time → the last
// client is done, and the last fault is over → what clients saw is checked. Many seeds are played,
// one after the other.
//
// What is checked:
//
//   - After each record that a member applies its copy, with sessions and replies, is the same as that of every other member at that place.
//   - After each command the invariants hold at every copy.
//   - A number of a session is executed once, whichever members it was sent to.
//   - What clients saw is linearizable. The model is the object itself: a history is right if its replies are those of one copy that executes
//     its operations one after the other. Package porcupine looks for such an order.
//     A persistent object is checked so, and for commands that are executed twice, unless it has EarlyReplies: such an
//     object forgets commands that it has answered when all members end at once.
//   - A client gets an answer, once a quorum works and nothing goes wrong any more.
//   - All that package squall promises its applications.
//
// An object in shards is played in them. Members move between shards as others come and go; a shard
// in memory that has lost all its members begins anew, and the history of its clients is not
// checked. Each shard has a history of its own, and a command that members or handlers call is
// executed by no other one.
//
// What handlers send to other shards of the object (Command.Send) is forwarded. What else they
// send (Context.Message, Context.Start, and Command.Send in an object without shards) stays in the
// outbox, and is forwarded in no run; no run gathers the replies of all members, and none asks
// about the past.
//
// The flag -squalltest.seed plays one seed again, -squalltest.seeds says how many are played, and
// -squalltest.trace prints what happens.
package squalltest
