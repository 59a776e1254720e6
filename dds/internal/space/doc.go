// Package space is the replicated state of a topic space: topics, writers, readers, instances and histories, all of
// which are functions of one order of records.
//
// Life of a sample: encoded by its writer's member → ordered (one record of the space) → applied by every member →
// accepted or not, by the owner of its instance → in the history of a topic that is durable, and in the caches of the readers that
// match → read, taken, replaced by a newer one, or expired.
//
// Everything that DDS leaves to each reader's clock and to its own view of the others is decided by the records before it:
//
//   - A writer and a reader match at the position at which the later one of them was opened, and stop at the position at which one is
//     closed. A reader of a durable topic begins with the history as it is at that position, in its order, and goes on with what came behind it: nothing is
//     missing and nothing there twice, whatever the history drops until the reader has all of it (filling).
//   - The end of a process is a record too (AppendRoster). Its writers, its instances and its open sets end at that position everywhere.
//   - An instance of an exclusive topic belongs to the strongest writer that is registered with it and has not missed its deadline. A
//     missed deadline is a record (AppendLapse).
//   - A coherent set takes effect at the position of its end, or never.
//   - Time is the largest time of any record so far. It decides what expires and what a time-based filter lets through. Source times
//     of a topic by source never go back.
//
// What only one process has is in a Cache: the samples of one of its readers. Caches of readers with the same policies, of
// which nothing was taken, are equal at equal positions.
//
// The package is pure. Its caller orders records, applies them at all members, and says when the membership changed.
package space
