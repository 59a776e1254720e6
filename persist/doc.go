// Package persist keeps what a node must not forget: a directory with a few values, and the
// versioned logs of its persistent subgroups.
//
// A Store is the directory of one node in one cluster. It holds values (Get, Put), each Put durable
// as a whole, and logs (Log). A log is kept in an engine of raft's, through package
// internal/journal, which says what is in an entry. A program imports the engines that it uses,
// packages bolt and wal below this one; without one, Open returns ErrNoEngine.
//
// Life of a record: it is delivered and appended (Append; back-pressure is a false) → it waits in a
// block with others → the log's one writer takes all that waits, as a group → the engine stores the
// group (with one fdatasync, wal, or two, bolt) → it is durable (Durable, Wake), and readers see it
// (Get, At, Range, Between, Tail) → every member's disk has it (SetGlobal) → a snapshot stands for
// it, or retention spares it → its block is dropped:
//
//	appended ≥ durable ≥ global ≥ dropped
//
// Nothing is made, replaced or dropped but in an order that a crash may interrupt anywhere;
// docs/formats.md has the orders. What a disk says is never trusted. It is checked as it is read,
// and damage is an error with its place. One process's damage is repaired from other members, by
// the caller that asked for that: this package only drops what it is asked to drop, and a log that
// cannot be read at all is set aside.
//
// Invariants:
//
//	U1  what a name leads to is durable before the name is, and the name before any caller relies on
//	    it
//	U2  a snapshot is durable before a record that it stands for is dropped
//	U3  retention drops nothing that is not on every member's disk, and never the last block
//	U4  what reads differently than it was written is neither repaired nor made anew unasked: it is
//	    an error that names it
//	U5  one process writes to a directory, and no other one reads it meanwhile
//	U6  a log begins right after its snapshot: it yields no record that the snapshot stands for, and
//	    none is missing between the two
//	U7  a log takes nothing more once a change of its files failed: that may have been made, or be
//	    made when the log is opened again
//
// Shared words: none in the table. A log's state and global are atomic; the writer, or the
// goroutine that holds the files, writes the first, the loop the second.
package persist
