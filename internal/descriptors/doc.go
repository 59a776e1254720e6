// Package descriptors keeps file descriptors in reserve, so that a view change does not fail
// because the application has used up the descriptors of its process.
//
// Life of a reserved descriptor: held → given, when an operation of this library finds none free →
// held again, as soon as one is free.
//
// Descriptors belong to the process, and so does the reserve: all groups of a process share it, and
// each adds to it what it needs.
//
// Invariant:
//
//	FD1  an operation fails for the lack of descriptors only when none is held any more
package descriptors
