// Package journal is the pure core of a log: what was appended and is not durable (Journal), and
// what is, to be read and cut (Book). Both know a Store, which keeps numbered entries and does
// nothing else; whether that is a disk or a simulated one they cannot tell.
//
// Life of a record: copied into the open block, behind room for the block's header (Append) → its
// block is taken into a group (Take) → checksums, seals and headers are put in (Finish) → the
// group's blocks are entries of the store, all or none → durable (Written) → read (Read, Records) →
// dropped with its block, from the front (DropBefore) or from the end (CutFrom):
//
//	appended ≥ taken ≥ durable
//
// A record is copied once, to where it stays, and everything that costs time per byte happens in
// Finish, beside the calls that append.
//
// # Finding
//
// The entries have consecutive indexes, and each header says which versions, times and numbers are
// in its block, and what was before it. So an opened log needs its first and its last block only,
// and a search reads as many blocks as their number has bits. There is no index to be kept,
// repaired or synced.
//
// Invariants:
//
//	A1  versions and times grow strictly along a log, whether records are delivered or imported
//	A2  a record counts as durable once the store has it as a whole, in the order it was appended in,
//	    and never before
//	A3  of a record in fragments all are there, or it is dropped when the log is opened, which is
//	    reported
//	A4  a cut that is interrupted is done as a whole or not at all, once the log is opened again
//	A5  bytes that are not as they were written are a Damage, or a newer format; never a record, and
//	    never a panic
//
// Shared words: none. A Journal belongs to the goroutine that appends and may be shared under a
// lock; a Book belongs to one goroutine.
package journal
