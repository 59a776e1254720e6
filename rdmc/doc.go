// Package rdmc copies large messages from one node of a group to all others. Receivers pass on
// blocks as they come, by a schedule (package rdmc/schedule) that every member computes for itself,
// so that the time hardly depends on how many they are. It promises the order of sending, no loss,
// no duplicate, no corruption, a reason for a failure at all members that outlive it, the same one
// unless several things fail at a time, and a Close that succeeds only if every message is
// everywhere. It stands alone, and below the ordered large messages of a group.
//
// Life of a link, which all groups of two nodes share:
//
//	needed by a group → dialed by the node of higher id → control and blocks stand → groups attach and leave → broken, or idle for a minute
//
// Life of a group:
//
//	opened → attached to each member → messages (package internal/relay) → closed by the root, or failed → left
//
// A node is a set of goroutines that each wait for one thing: per link one reads control frames,
// one writes them, one watches over the peer, and one reads blocks straight into the memory of
// their message; per group one sends blocks and one calls the application. The protocol of a group
// is internal/relay, guarded by the group's lock, which is held for no longer than it takes to step
// it. How groups meet over links is internal/attach, guarded by the node's lock.
//
// Memory of Node.Alloc is shared with the processes of the same host, by package
// internal/shared. When a link is made both ends try whether they see each other's. What lies
// there is offered to a group whose members all see it, and one more goroutine of each group looks
// and copies; its messages are the same in every other respect. TLS does not change that: such
// bytes go through no connection.
//
// Any process that reaches the port may make a link. Its two ends prove to each other that they
// have the private keys for the public keys that they show (package trust). A peer is a member if
// it shows the group's token, a hash of its secret key, which the dialer says first, and if the key
// that it proved to have, and with TLS its certificate, are the key and the certificate in the
// group's description of the member (Peer). Where a group describes members without keys, a peer
// that knows the group's key may claim to be any member: then the members trust each other. Frames
// then carry a channel, a number that the receiver of the frame gave to the group on this link.
// Numbers are not used again, so what is still in flight for a group that was left cannot be taken
// for another's.
//
// Invariants:
//
//	K1  no goroutine waits until a peer reads a control frame: frames gather in an outbox, and a peer that lets it overflow is cut off
//	K2  what a peer says is bounded before memory is touched or allocated for it, and so is the number of strangers
//	K3  a group takes frames only from links whose peer proved to be a member, as the group describes it, and showed its token
//	K4  a peer that is silent for FailAfter while something is in flight is given up, and memory that waits for it is let go of
//
// Locks are taken in the order Node.mu, Group.mu, link.mu. Shared words: groups, routes and links
// of a node by Node.mu; memberships of a group are written under Node.mu and Group.mu; the relay
// and what it asked for by Group.mu; outbox and channels by link.mu.
package rdmc
