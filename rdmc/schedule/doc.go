// Package schedule computes which node sends which block of a large message to which node in which
// step.
//
// A Plan is a function of its algorithm, the number of nodes, the number of blocks and, for the
// hybrid, the racks. Every node computes its own part without messages between nodes: a receiver
// knows which block comes next, and from which node, before the block is sent. Steps are an order
// and no clock: a node may be ahead of another one, and sends a block as soon as it has the block
// and has finished its earlier sends.
//
// Life of a block: it is at the root from the start → in some step a node sends it on (Move) → from
// the next step on the receiver may send it too → after the last step it is everywhere.
//
// # The schedules
//
//	sequential  the root sends the whole message to one receiver after the other
//	chain       every node passes on to the next rank what it got from the one before
//	tree        every node that has the whole message sends it to one that has not: 1, 2, 4, 8 … nodes have it
//	pipeline    the tree for each block, one step apart, along the edges of a hypercube (cube.go): after the first steps
//	            every node receives a block in every step and nearly every node sends one
//	hybrid      a pipeline between one node of each rack, and a pipeline within each rack (hybrid.go)
//
// In steps, with k blocks and n nodes:
//
//	sequential  k·(n − 1)
//	chain       k + n − 2
//	tree        k·⌈log2 n⌉
//	pipeline    k + ⌈log2 n⌉ − 1, which is the least possible: the root needs k steps to let go of all its blocks,
//	            and the last of them ⌈log2 n⌉ to be everywhere
//	hybrid      about twice that of the larger of its pipelines, since the leaders have two to serve
//
// Invariants of every plan:
//
//	SC1  every node but the root gets every block, each once
//	SC2  a node that sends a block got it in an earlier step, or is the root
//	SC3  in a step a node sends at most one block and receives at most one
//	SC4  what a node computes for itself is what the others expect: All, Sends and Receives are three views of the same moves
//	SC5  the number of steps is the published one
//
// Shared words: none. A Plan never changes.
//
// Sources: Behrens et al., "RDMC: A Reliable RDMA Multicast for Large Objects" (DSN 2018) §4.3 and
// §4.4, and its early version §3 for groups that are no power of two; the binomial pipeline is that
// of Ganesan and Seshadri.
package schedule
