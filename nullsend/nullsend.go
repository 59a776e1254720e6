package nullsend

import "github.com/squall-go/squall/order"

// Owed is how many nulls the sender of rank self owes now. Its own count is sent: messages, nulls
// and skipped turns together, already published (see Count). got[s] is how many of sender s have
// been received here, nulls included but skipped turns not; got[self] is ignored. After it sent
// that many it owes nothing until got grows.
//
// It costs one pass over got and allocates nothing.
func Owed(self order.SenderRank, sent order.Index, got []order.Index) order.Index {
	var before, after order.Index // the most seen from anyone whose turn comes before ours in a round, and after
	for _, c := range got[:self] {
		before = max(before, c)
	}
	for _, c := range got[self+1:] {
		after = max(after, c)
	}
	before -= min(before, 1) // of the last round it showed us, our turn comes later
	return max(before, after, sent) - sent
}

// Count is the number of turns that a sender has taken: the turns in which it sent and the turns
// that it declared to skip. It is the sender's count in the order and in its own null rule, and the
// index of its next message. A receiver loads skipped before sent (N5): the other way round, a
// message sent between the two loads would be taken for a skipped turn.
func Count(sent, skipped order.Index) order.Index { return max(sent, skipped) }
