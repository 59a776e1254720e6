// Package copy is the commands "squall cp" and "squall recv": files and directories that go to many
// machines at once, over package rdmc. What is in all files, one after the other, is the archive.
//
// Life of a push, one connection per receiver (of kind copy) and one group of package rdmc for all
// of them. The pusher goes on when all receivers have answered a request; a receiver that fails
// says so at once.
//
//	pusher                                    each receiver
//	hello: version                    ───▶    greeting: version, rack; from here on TLS if there is a token
//	offer, and all entries            ───▶    judges them, or says why it refuses them
//	start: members and key of a group ───▶    joins it
//	the archive, through the group    ═══▶    hashes and extracts it
//	verify: digest of the archive     ───▶    compares the digest, and answers start
//	place                             ───▶    gives everything its name
//	keep, once all have placed        ───▶    removes what it needs to undo that
//
// A receiver extracts the archive in a hidden directory, the stage, inside the target directory;
// there is nothing else to clean up. It knows all entries before the archive comes, and takes no
// others.
//
// Invariants:
//
//	C1  a receiver writes nothing outside its directory, whatever the entries say
//	C2  under a token, a process with another one is offered nothing, and nothing of its is written
//	C3  nothing that is there is overwritten without force, and no directory ever
//	C4  a receiver ends with all entries of a push in their places, or with none
//	C5  no file gets its name unless the SHA-256 of the archive is that of what the pusher read
package copy
