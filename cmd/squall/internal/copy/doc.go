// Package copy is the commands "squall cp" and "squall recv": files and directories that go to many
// machines at once.
//
// Life of a push, one conversation per receiver (connections of kind copy) beside one group of
// package rdmc for all of them:
//
//	pusher                                    each receiver
//	hello: version                    ───▶    greeting: version, rack; from here on TLS if there is a token
//	offer, and all entries            ───▶    judges them, reserves room: accepted, or refused and why
//	start: members and key of a group ───▶    joins it
//	pieces, through the group         ═══▶    writes, hashes, counts: pieces
//	verify: digest of all digests     ───▶    compares every file: ready
//	place, once all are ready         ───▶    gives everything its name: placed
//	keep, once all have placed        ───▶    lets go of what it could have gone back to: kept
//
// Entries are paths, sizes, modes and times. Pieces are what messages carry: many small files, or a
// part of a large one. Both ends compute the same pieces from the same entries, so a message needs
// no header, and 10,000 small files are a few messages. A receiver assembles files in a hidden
// directory, the stage, inside the target directory; there is nothing else to clean up.
//
// Invariants:
//
//	C1  a receiver writes nothing outside its directory, whatever the entries say
//	C2  under a token, a process with another one is offered nothing, and nothing of its is written
//	C3  nothing that is there is overwritten without force, and no directory ever
//	C4  a receiver ends with all entries of a push in their places, or with none
//	C5  no file gets its name unless its SHA-256 is that of what the pusher read
package copy
