// Package faultfs is a disk for whole processes that loses power, fails, fills up, lies and is
// slow: a FUSE file system in memory that keeps what programs see apart from what the platter has.
//
// Life of a disk: New → Mount → processes use Mount.Dir → the power goes (Power.Cut, or
// Faults.CutAt) → Mount.Close → Settle drops what was not synced → Export copies what is left, or
// Mount gives it to the next processes.
//
// The model promises as little as POSIX allows, and less than ext4 does:
//
//	write, truncate, allocate    programs see it at once. It is on the platter after an fsync or
//	                             fdatasync of the file that began later; either makes the size
//	                             durable, too
//	fsync of a file              makes no name durable: a new file is gone without an fsync of its
//	                             directory, and a new directory without one of its parent
//	create, unlink, rename,      atomic; programs see it at once. It is on the platter after an
//	mkdir, rmdir                 fsync of the directory, for a rename between two directories of
//	                             either. The name of a file that was not synced leads to an empty
//	                             file
//	mode and times               are not part of the model
//
// When the power goes, the fate of what was not synced is drawn for each file: nothing of it
// arrives; all of it; a prefix of the writes, the last one torn at a sector of 512 or of 4096
// bytes; or any of the sectors, each in any version that it had, with any size that the file had.
// The fate of the operations on names is drawn, too: none arrives; all; a prefix; or any subset
// that has, with each operation, the operations that it depends on. An operation depends on earlier
// ones on the same name, and the removal of a directory on the removal of what was in it.
//
// When a sync fails, the writes that it covers get their fate at once, and no later sync writes
// them: the kernel takes the pages for clean.
package faultfs
