// Package faultfs is a disk for whole processes that loses power, fails, fills up, lies and is slow: a FUSE file system in memory that keeps what
// programs see apart from what the platter has.
//
// Life of a disk: New → Mount → processes use Mount.Dir → the power goes (Power.Cut, or Faults.CutAt) → Mount.Close → Settle drops what was not synced
// → Export copies what is left, or Mount gives it to the next processes.
//
// The model is as hostile as POSIX allows. It promises less than ext4 does:
//
//	write, truncate, allocate   seen at once. On the platter after an fsync or fdatasync of the file that began later; both make the size durable too
//	fsync of a file             nothing about its name: a new file is gone without an fsync of its directory, and so is a new directory
//	create, unlink, mkdir,      seen at once, each atomic. On the platter after an fsync of the directory; a rename between two directories after
//	rmdir, rename               an fsync of either. A synced name may lead to a file without content
//	mode and times              no part of the model
//
// When the power goes, for each file one of these is drawn: nothing of what was not synced has arrived; all of it; a prefix of the writes, the last one torn
// at a sector of 512 or of 4096 bytes; or any of the sectors, each with any of the versions that it had, and a size that the file had. Of the operations
// on names nothing has arrived, or all, or a prefix, or any subset in which an operation comes with those it depends on: earlier ones on the same name, and
// for the removal of a directory the removal of what was in it.
//
// A sync that fails tells the program nothing: what it should have written has arrived like after a power cut, and no later sync writes it, because the
// kernel takes the pages for clean.
package faultfs
