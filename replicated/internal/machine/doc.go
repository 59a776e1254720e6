// Package machine is the part of a replicated object that is not the application's: which
// operations the members agreed to execute, which sessions clients have, what was executed for
// them, and the object's time. It is a pure function of the records that the order delivers, so
// every member computes the same, and a log replays it.
//
// Life of an operation: known (each member announces the names that it can execute) → enabled (the
// leader of a view in which all members know it says so; the operation has a number from then on).
// An operation stays enabled. A record of an operation that is not enabled is refused at every
// member, and executed at none.
//
// Life of a session: opened (a token of the client stands for it, so that opening twice gives one
// session) → used (each command has a number; what it returned is kept until the client has
// acknowledged it) → ended (closed, or not used for its timeout, in the time of the object).
//
// Invariants:
//
//	RO1  a number of a session is executed once at most, whichever members relay it and however often
//	RO2  a number that was executed and is not acknowledged is answered with the reply of its execution, or with
//	     NotKept if the reply was too large to be kept
//	RO3  a session ends at the first record whose time is at or after its expiry, at every member; the first record of a
//	     view begins the time of each session anew
//	RO4  the time of the object never goes back
//	RO5  an operation is executed only if it was enabled by a record of a view whose members all knew it
//	RO6  a machine that was encoded and decoded applies every further record as the one that it came from
//	RO7  a watcher gets every event behind its cursor, in the order of the commands and once, or learns that some are
//	     not kept any more
//	RO8  what a handler sends to an object is executed there once, in the order in which its object sent it
//	RO9  what a handler sent is kept until a record confirms that its destination has executed or dropped it
//	RO10  a shard executes no record that its sender sent as a member of another shard
//	RO11  a number is executed if all numbers before it are acknowledged, however many replies are kept
//
// Life of what a handler sends: sent (it is in the outbox of its object, part of the state) →
// relayed (a member that executed the handler sends it to the destination; several may, one after
// the other) → executed by its destination, which skips what it has executed and refuses what comes
// before its predecessor (RO8) → dropped from the outbox, when the relay confirms it in the order
// of the sending object.
//
// Life of a shard: begun (no record has said which one it is, so that it executes nothing) → named
// (by the leader of a view, whose members are in it) → transferred to members that enter it, with
// the sessions of its clients.
//
// Shared words: a record is one ordered message of the object's subgroup, or one of several in such
// a message. What commands emit and send is counted over all commands of a message, so that a
// cursor is one event, or one thing that was sent. A relay is the member that sent a record for a
// client. The time is in nanoseconds since the Unix epoch: the largest that any record had.
package machine
