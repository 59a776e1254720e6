// Package logs is the command "squall bench log": what it costs a group to keep all that it
// delivers, on every member's disk.
//
// The members are processes on this machine, each with a directory of its own on one disk. All of
// them send. A message counts when it is delivered at the slowest member and on all disks. Beside
// each figure stands its limit, measured in turn with it: processes that do nothing but write to
// that disk and wait for it, through the page cache and around it, one that waits for a single
// page, some that do what one commit of a tree of pages must do, and other systems that do the same
// work.
//
// Life of a run: directories are made → members open the group → warm-up → all count what is
// delivered, and what is on every disk, at the same two instants → the senders stop → everything is
// on every disk → the members end → their logs are read and compared, record by record → the
// directories are removed.
//
// At the end of each run all logs must hold the same records, with the same versions, times,
// senders and data, and as many as were sent; or the run fails.
package logs
