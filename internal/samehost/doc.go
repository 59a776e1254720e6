// Package samehost connects processes of one host: abstract unix sockets, over which descriptors
// pass, sealed segments of memory, whose descriptors do, and the memory for large messages, made of
// such segments. The kernel tells each end of a socket which process and which user the other one
// is. On other systems than Linux there are no sockets, and memory is private to the process.
//
// The owner of memory for large messages writes it, and the processes that the owner names it to
// read it in place. Where the system gives no segment, this memory is private, too.
//
// Life of a segment, which is one memfd:
//
//	made (its pages are there, and sealed) → allocated ⇄ idle → dropped
//	     → named to a peer → asked for over the owner's socket → mapped by the peer ⇄ idle there → unmapped
//
// The two lives end apart: what a peer has mapped stays as it is when the owner drops it, or is
// killed. A segment is used again, because making the pages of a new one takes several times as
// long as copying them, and mapping them as long as copying them once more.
//
// What protects a segment is its name, 16 random bytes that only the owner's messages carry, and
// the user, which the kernel knows of both ends of a socket. A process that was told a name once
// sees what the owner puts into that segment later, too, until the owner drops it. That is no more
// than a process of the same user may see in any case.
//
// Invariants:
//
//	E1  a segment is sealed before any process is given it: it keeps its size, and no process but its
//	    owner ever writes it
//	E2  memory that was seen by others is used again only when they said that they do not look at it
//	    any more; else it is dropped
//	E3  a segment is given to processes of the same user that know its name, and to no other process
//	E4  what is not in use is bounded, by count, bytes and time, at the owner and at the processes
//	    that look at it; so are the callers that are served
//	E5  a view stays as long as it is held, whatever becomes of the owner
//
// Shared words: the bytes of a segment, and nothing in them has a meaning here. That they are there
// is said by messages.
package samehost
