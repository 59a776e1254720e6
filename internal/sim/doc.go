// Package sim runs whole members in a deterministic world: a seed goes in, a verdict comes out.
//
// A Plan is drawn from a seed: members, subgroups with small rings, how the pairs are connected, how fast everybody steps,
// what the applications send, and what goes wrong. A run lays real members on fabric/simnet and steps them, the
// applications and the fault in virtual time, on one goroutine. Nothing of the protocol is imitated.
//
// Life of a run: drawn (Draw) → laid out → busy, until everything accepted is delivered, or a fault has stopped everybody
// → quiet, as long as it takes to see that nothing is sent any more → judged. The first violation ends it.
//
// What is checked, one file per promise:
//
//	check_order.go    G1  one order for all: every member's deliveries are a prefix of the same sequence
//	check_fifo.go     G1  each sender's messages in the order of their claims, each once
//	check_content.go      nothing is made up and nothing altered: content is a function of subgroup, sender, number and length
//	check_atomic.go   G2  what one member is given, every member holds
//	check_loss.go     G3  when nobody fails, everything accepted is delivered everywhere
//	check_stall.go    G7  and that within bounded virtual time of its commit, whatever other applications do
//	check_quiet.go    G8  then only heartbeats are sent, and no more nulls were sent than were needed
//	check_release.go      and all rings are empty
//	check_halt.go         who halted is given nothing and accepts nothing; when one fails everybody halts, and else nobody
//
// Same seed, same run: the events of a run have a hash, and the trace of a failed one is printed by running it once more.
package sim
