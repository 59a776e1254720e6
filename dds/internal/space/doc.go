// Package space is the replicated state of a topic space: topics, writers, readers, instances and
// histories, all of which are functions of one order of records.
//
// Life of a sample: encoded by its writer's member → ordered (one record of the space) → applied by
// every member → accepted or not, by the owner of its instance → in the history of a topic that is
// durable, and in the caches of the readers that match → read, taken, replaced by a newer one, or
// expired.
//
// Everything that DDS leaves to each reader's clock and to its own view of the others is decided by
// the records before it:
//
//   - A writer and a reader match at the position at which the later one of them was opened, and
//     stop at the position at which one is closed. A reader of a durable topic begins with the
//     history as it is at that position, in its order, and goes on with what comes after it: nothing
//     is missing and nothing is there twice, whatever the history drops until the reader has all of
//     it (filling).
//   - The end of a process is a record too (AppendRoster). Its writers, its instances and its open
//     sets end at that position everywhere.
//   - An instance of an exclusive topic belongs to the strongest writer that is registered with it
//     and has not missed its deadline. A missed deadline is a record (AppendLapse).
//   - A coherent set takes effect at the position of its end, or never.
//   - Time is the largest time of any record so far. It decides what expires and what a time-based
//     filter lets through. Source times of a topic by source never go back.
//
// What only one process has is in a Cache: the samples of one of its readers. Caches of readers
// with the same policies, from which no sample was taken, are equal at equal positions.
//
// The package is pure. Its caller orders records, applies them at all members, and says when the
// membership changed.
//
// Invariants. They hold between any two calls, and the file invariants.go checks them. Why they
// hold is in docs/invariants.md. A state from another process that breaks one of the first five is
// refused.
//
//	TS1  each topic is found by its name, and each open endpoint by its id and in its topic
//	TS2  matches are mutual, and between an open writer and an open reader of one topic
//	TS3  each instance is found by its key; registered with it are open writers of its topic, once
//	     each
//	TS4  samples of a history are of writers of the topic, in the order of their positions; samples
//	     of a set are of writers of its process
//	TS5  an origin counts its open writers, and the last one that was opened stands for it
//	TS6  open endpoints match exactly if their policies do, and what a writer knows of the caches
//	     that it fills follows from its matches
//	TS7  an instance has writers or a history
//	TS8  a history is within its depth and limits, its samples are counted, and source times are at
//	     most SourceAhead after the time of the order; by source, they do not go back
//	TS9  nothing is there whose time has come, and what comes later is looked at then
//	TS10  a set whose sample's writer was closed is broken, and a broken set has no samples
//	TS11  leases and silent writers are counted, and a silent writer has no part in an instance
//	TS12  borrowed data of an instance are within its last loose samples, none of them is in a view,
//	      and a loan covers each; Due covers what has to be repaid to any sender
//	TS13  a cache has each sample once, in its order and within the depth, and counts them; an
//	      instance that was removed has none
//	TS14  steps of the tail are in the order of their positions, after what the tail has dropped of
//	      their topics, and within the limit of bytes
package space
