//go:build linux

// Package shm is the fabric link within a host: every row is one shared memory segment, so there is
// nothing to copy.
//
// The owner makes its row as a memfd, maps it read-write and seals it: no other process can map it
// writable, and none can truncate it under a reader. A pair meets over an abstract unix socket,
// which leaves no file behind, checks that the peer runs as the same user, and exchanges the
// descriptors of the two rows and of the two robust words, which the kernel marks when a process
// ends. Afterwards the socket carries bells, which wake a peer that sleeps, and its end says that
// the peer is gone. A push is a note that the peer's bell may have to be rung; a flush looks at the
// peer's parked word and rings.
//
//	H1  a peer's row is mapped read-only, sealed against shrinking, growing, holes and further
//	    writable mappings, and has all of its memory (F3)
//	H2  one bell at most for each time that a peer sleeps
//	H3  after Freeze the replica is a copy, made word by word from the start (D4), which no other
//	    process can reach (F4)
//	H4  nothing that a peer does, or leaves undone, makes a bell wait
//	H5  what Peek finds is as it was while the peer's process had all of its files, and the locks on
//	    them
package shm
