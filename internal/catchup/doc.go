// Package catchup decides how a log becomes that of another process: which part of it is dropped,
// what is asked for, and what a process gives that catches up itself. It is pure: its code reads
// two logs, one here and one behind a Source, and changes the one here. Package logwire puts a
// connection between the two, the simulator virtual time.
//
// Life of a Task: the own log is made durable, because reads see durable records only → ready (the
// source has all wanted records on its disk) → the common prefix is found → records behind the
// prefix in the own log are dropped, unless they have to be kept → a snapshot is installed, if the
// source does not have all the records behind the prefix → records are imported → durable. A Task
// that failed may be run again with another source: the imported records stay, and become the
// prefix.
//
// A source whose log lacks records gives only records before a version that it has (Ready): a
// message has the same version in all logs that contain it, and each of these logs contains all
// messages before it.
//
// Invariants:
//
//	CU1  nothing is dropped that the source has, nor anything at all of a log that has to be kept
//	CU2  the end of a log that may lack something is no source's end: no log is cut to it
//	CU3  what was appended is durable when catching up ends, also if it is stopped or fails
//
// Shared: nothing. The code runs in the goroutine that calls it, and waits where the two logs wait.
package catchup
