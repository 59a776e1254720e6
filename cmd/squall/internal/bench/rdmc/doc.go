// Package rdmc is the command "squall bench rdmc": it measures how long a large message takes to
// all nodes, by each schedule.
//
// Life of a run: a process per node, on hosts of a lab or on loopback → they prepare: groups are
// open everywhere, buffers are allocated and touched, the root's is filled → all start at one
// instant → each notes when it has the whole message → when all have it, each reports its times,
// its processor time and its greatest memory, and checks every byte → the groups are closed. Runs
// of all cases take turns, so that other work of the machine affects all of them. The processes,
// and their connections, stay for all runs with as many nodes.
//
// All processes are on one machine and share its monotonic clock, so the times of different
// processes can be compared.
//
// Terms. The ideal time is the message's bytes at the rate of a link. The skew is the time between
// the first receiver that has the message and the last one; it is told in block times, which are
// that of one block at the rate of a link. Processor time is that of all nodes, per GB that a
// receiver got. Beside it stands that of the whole machine: the kernel passes packets on in
// interrupts, and charges their time to the process that they interrupt, or to no process on an idle
// core, so that a program that leaves the cores idle looks cheaper than it is. Memory is the most
// that a receiver had in use, less what it had in use, with its buffer, before the message came.
//
// Limits, measured in the same run: plain TCP, with which the root sends the message to one
// receiver after another; one copy of the message in memory by each receiver at once; MPI_Bcast of
// other programs in the same lab.
package rdmc
