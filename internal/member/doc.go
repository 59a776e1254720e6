// Package member is one member of one view: it wires the cores of the view together on a table, and is stepped by hand or
// by a thread.
//
// Step is one cycle: take in what peers wrote, run what the application asked the loop to do, step every subgroup, bump
// the heartbeat, look after peers, and flush. Nothing in it waits, so the simulator runs the very code that ships.
//
// Life of a member: linked (its table stands) → stepping → halted (a peer failed or left, or it was closed). How a view is
// followed by another one is decided outside: a member serves one view, and reports what happened to its peers.
//
// Invariants:
//
//	B1  the heartbeat grows at least every Heartbeat while the member steps, and only then: a hung process is a silent one
//	B2  a peer whose heartbeat stood still for FailAfter, while this member was awake, has failed
//	B3  after halting nothing is delivered and no send is accepted; every waiting sender gets the reason
//
// Shared words of the member line, one per row:
//
//	word       written by     read by         meaning
//	heartbeat  owner's loop   everybody       cycles of the owner's life; its value means nothing, only that it changes
//	leaving    owner's loop   everybody       1: the owner goes on purpose; its connection is about to end
package member
