// Package attach is how two nodes meet in a group of transfers (package relay) over the links that
// they share, as a pure state machine: links that stand and end, groups that are opened and closed,
// and control frames go in; frames to send, ties that begin and end, and news for the group's relay
// come out. Package rdmc drives it over connections, the simulator over links in virtual time.
//
// Life of a tie, which is between a group and the node at a place:
//
//	none → offered (by the dialer of a link), or answered (by the acceptor) → attached → left
//	       offered → confirmed → attached
//
// The dialer offers the group with its token, the acceptor answers, the dialer confirms, and asks
// behind the confirmation whether the acceptor is there. The acceptor counts the dialer as attached
// when it has the confirmation, the dialer the acceptor when it has the answer to its question, or
// anything else that the acceptor says in the group. docs/invariants.md says why.
//
// Invariants:
//
//	AT1  a tie is attached only if both nodes have opened the group
//	AT2  a peer that is attached, or may count this node as attached, is never lost without news for the group
//	AT3  what comes over another link than the tie's, or by another channel, changes nothing, except that an offer over a later link ends the tie
//
// Shared words: none. A driver calls one method at a time, and applies the effects in their order.
package attach
