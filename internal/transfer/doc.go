// Package transfer hands the state of a subgroup to members that come into it: it gives snapshots
// over the port's connections of kind state, and fetches them, in conversations of package wire.
// What a state is only the application knows; here it is a stream of bytes.
//
// Life of a snapshot: expected (a view with fresh members is installed) → taken (what is delivered
// has reached the boundary of that view) → streamed, any number of times → forgotten (no fresh
// member waits for it any more). Every member that was in the subgroup before keeps one, so that
// any of them can take over from another; and so does a fresh member that has restored its own
// state, for the others that are fresh in the same view.
//
// Life of an attempt at one source: asked → granted → the application reads the stream → restored.
// Or it failed, and package shard says which source is asked next, from the start.
//
//	fresh member                                       source
//	                                      ◀──────────  a nonce
//	{view, subgroup, node, nonce, MAC}    ──────────▶
//	                                      ◀──────────  {MAC} and the stream, or {later}, or {refused}; the connection ends
//	{…, done, …}                          ──────────▶  on another connection, to every member that keeps the snapshot
//
// The MACs are made with the key that the two members of the view share (package trust).
//
// Invariants:
//
//	X1  a snapshot is kept as long as a fresh member of its view waits for it, and no longer
//	X2  a state goes to none but a fresh member of its view, and that member's waiting ends by no
//	    word but its own
//	X3  the application reads only bytes whose checksum is right, and a state counts as restored only
//	    if all of it was read
//	X4  a source sends a state to each fresh member once at a time, so that none of them takes the
//	    others' places
//	X5  a fresh member reads a state from no one but a member of the subgroup in the view in which it
//	    is fresh, and believes no other refusal
package transfer
