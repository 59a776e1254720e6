// Package wire holds a conversation between two processes over a connection of the port:
// checksummed frames, a heartbeat, deadlines, a bounded number of callers, and the choice of the
// source that is asked next. Package port makes the connections; the packages above say what is
// said.
//
// Life of a conversation: dialed or accepted → greeting (one deadline for all of it, and a place
// that a newer caller may take) → greeted (Settle: the place is its own) → messages, streams and
// pulses in both directions → over (hung up, silent for too long, or broken).
//
//	one side                                  the other side
//	Message │ Bytes │ a protocol's own  ──▶   judged as it arrives: length, then checksum, then content
//	Pulse                               ──▶   nothing else was said for a while, and the sender lives
//	End                                 ──▶   what was streamed is complete, with the number and the checksum of its bytes; or why it is not
//
// Life of a search: a round over the sources, each asked once → a pause that doubles from round to
// round → the next round … → one gave what was wanted, or none is left, or too many rounds in a row
// brought nothing.
//
// Invariants:
//
//	CV1  a frame is handed on only if its length is within the reader's bound and its checksum is
//	     right
//	CV2  a length that a peer announces takes no memory: a buffer is at most as far ahead of the
//	     bytes that arrived as the largest frame before
//	CV3  a conversation in which no frame begins and ends in time is over: a peer that trickles bytes
//	     gains no time
//	CV4  callers that did not prove themselves never keep out one that would, and no address has more
//	     than its share of their places
//	CV5  a stream that was read to its end has as many bytes as its sender wrote, and their checksum
//
// Shared words: what is written on a Conn is guarded by its mu, so that pulses go between frames;
// what is read belongs to one goroutine. Callers.mu guards the places. Slots decides and is pure.
package wire

import (
	"time"

	"github.com/squall-go/squall/internal/wait"
)

// Times are how long one side waits for the other. Zero values are replaced by the defaults.
type Times struct {
	Dial    time.Duration // for a connection, and for all of its greeting: 5 s
	Silence time.Duration // for the other side's next frame: 10 s
	Pulse   time.Duration // how often a pulse is sent: 1 s
	Stall   time.Duration // for a reader that takes nothing: 1 min
	Pause   time.Duration // before sources are asked again, at first: 5 ms
	Longest time.Duration // and at last: 1 s
}

// WithDefaults returns the times with the zero values replaced.
func (t Times) WithDefaults() Times {
	for _, v := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&t.Dial, 5 * time.Second},
		{&t.Silence, 10 * time.Second},
		{&t.Pulse, time.Second},
		{&t.Stall, time.Minute},
		{&t.Pause, 5 * time.Millisecond},
		{&t.Longest, time.Second},
	} {
		if *v.field == 0 {
			*v.field = v.value
		}
	}
	return t
}

// Backoff is the pause between two attempts.
func (t Times) Backoff() wait.Backoff {
	return wait.Backoff{First: t.Pause, Longest: t.Longest}
}
