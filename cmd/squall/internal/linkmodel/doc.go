// Package linkmodel plays schedules of large messages on modelled links in virtual time: how long
// they take, and what they load.
//
// Nodes behave like the engine. No node waits for a step: a node makes its sends of a transfer in
// the order of its schedule, each as soon as the block is here and the previous send is through.
// Its sends of other transfers go on meanwhile. On its way a block passes stages, each of which
// serves one block after the other at a rate: the sender's egress, the uplink of its rack, the
// downlink of the receiver's rack, the receiver's ingress. It passes all of them at the same time,
// like bytes that a switch forwards as they come, and is through when the slowest stage has served
// it.
//
// Nodes do not keep to steps once a node had nothing to send in one of them: this node is ahead,
// and may send to a node that is to receive from another one first. A receiver that takes blocks in
// its schedule's order (InTurn) makes it wait, and then no send ends later than its step would on
// ideal links. A receiver that takes blocks as they come loses up to half of its bandwidth where
// vertices of the pipeline are pairs.
//
// Life of a send: asked for (it is next in the schedule, its block is here, and the receiver takes
// it) → ready (jitter is over) → begun (the egress is free: every other stage puts it in its queue)
// → through (all stages served it: the node goes on to its next send) → arrived (a latency later:
// the receiver may send it on).
//
// Invariants:
//
//	L1  a node makes its sends of a transfer in the schedule's order, one at a time, and none before it has the block; blocks that
//	    are taken in turn arrive in the order of the receiver's schedule
//	L2  a stage is never busy for longer than time has passed: nothing goes faster than its rate
//	L3  the same network, transfers and seed give the same result
//	L4  a run ends with every block at every node of its transfer
//
// Shared words: none. A run belongs to its caller.
//
// The model leaves out lost packets and congestion control, memory and processors (except for the
// overhead of each block), the messages before a transfer begins, and how blocks that meet at a
// stage share it: the model serves them in the order in which they came.
package linkmodel
