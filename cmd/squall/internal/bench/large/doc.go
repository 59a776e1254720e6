// Package large is the command "squall bench large": what a large message costs the small ones that
// share its order.
//
// All members of a group send small messages as fast as they can, the whole time. The first one
// also sends a large message, rests, and sends the next one. Every member counts what it delivers,
// millisecond by millisecond. The rate of the slowest member while a large message is under way,
// from its Send until it is delivered, stands beside its rate while none is; and the longest time
// in which some member delivered nothing.
//
// Life of a run: members open the group → all members are told to start → rounds of rest and large
// message → all accepted messages are delivered → each member tells its counts and a digest of all
// that it delivered, which must be equal.
package large
