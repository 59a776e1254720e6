// Package mapped is a file as memory: what is received goes straight to its place on the disk, and
// needs neither room in memory nor a copy of its own.
//
// Life of a file: created, its room on the disk reserved → mapped → filled, through Bytes → closed.
// One that is open already can be mapped as well.
//
// Reserving comes first because there is no error to return later: a process that writes to a
// mapped page for which the disk has no room is killed by a signal. So a full disk is found before
// a byte is received, and what was reserved cannot be lost to another process. The same signal
// meets a process that reads behind the end of a file that another process made shorter.
package mapped
