package stream

import (
	"fmt"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/invariants"
)

// Stream is one side of a stream.
type Stream struct {
	Number uint64
	Opener bool // this side opened it
	User   any  // what the caller keeps with it
	window uint64

	// Bytes that this side writes.
	sent     uint64
	limit    uint64 // given by the other side
	accepted bool   // by the other side
	ended    bool   // an end was sent, or is not needed any more

	// Bytes that this side reads.
	reader   []byte // of a reader that waits
	filled   int    // its bytes
	buffer   buffer
	received uint64
	given    uint64 // the limit that the other side has
	gotEnd   bool

	reset  bool
	reason string
	closed bool // this side neither reads nor writes any more
	gone   bool // nor does the table know it
}

// ID is the id of a frame of this side.
func (s *Stream) ID(k Kind) uint64 { return ID(k, !s.Opener, s.Number) }

// Accept accepts a stream that the other side opened, and returns the limit for its first credit
// frame.
func (s *Stream) Accept() (limit uint64) {
	s.given = s.window
	return s.given
}

// Gone reports whether the stream is over for this side: frames for it are not taken in any more.
func (s *Stream) Gone() bool { return s.gone }

// Accepted reports whether both sides have the stream.
func (s *Stream) Accepted() bool { return s.accepted }

// Sendable is how many of n bytes may be sent now.
func (s *Stream) Sendable(n int) int {
	if s.Broken() {
		return 0
	}
	return int(min(uint64(n), s.limit-s.sent))
}

// Sent counts bytes as sent: at most as many as Sendable said.
func (s *Stream) Sent(n int) {
	s.sent += uint64(n)
	if invariants.Enabled {
		invariants.Check(s.sent <= s.limit, "RS3", "%d bytes were sent, the limit is %d", s.sent, s.limit)
	}
}

// Broken reports whether nothing can be sent any more.
func (s *Stream) Broken() bool { return s.ended || s.reset || s.closed }

// EndWriting reports whether an end has to be sent, which it is once (RS5).
func (s *Stream) EndWriting() bool {
	if s.Broken() {
		return false
	}
	s.ended = true
	return true
}

// Readable reports whether a reader need not wait: there are bytes, or none will come.
func (s *Stream) Readable() bool {
	return s.filled > 0 || s.buffer.len() > 0 || s.gotEnd || s.reset || s.closed
}

// Read takes bytes that were received.
func (s *Stream) Read(p []byte) int { return s.buffer.read(p) }

// Expect says that a reader is about to wait: what comes next is put into its memory at once, until
// Collect. Nothing is buffered.
func (s *Stream) Expect(p []byte) { s.reader = p }

// Collect returns how many bytes were put into the memory of the reader that waited.
func (s *Stream) Collect() (n int) {
	n = s.filled
	s.reader, s.filled = nil, 0
	return n
}

// AtEnd reports whether the other side ended the stream and everything is read (RS6).
func (s *Stream) AtEnd() bool { return s.gotEnd && s.filled+s.buffer.len() == 0 }

// WasReset reports whether the stream was reset, and why.
func (s *Stream) WasReset() (why string, was bool) { return s.reason, s.reset }

// Grant returns a new limit for the other side, if it is so much larger that the other side should
// know.
func (s *Stream) Grant() (limit uint64, news bool) {
	if s.gotEnd || s.reset || s.closed {
		return s.given, false
	}
	limit = s.received - uint64(s.filled+s.buffer.len()) + s.window
	if limit-s.given < s.window/2 {
		return s.given, false
	}
	s.given = limit
	return limit, true
}

// Lose resets the stream because the other side is gone. What was received can still be read.
func (s *Stream) Lose(why string) {
	if !s.reset {
		s.reset, s.reason = true, why
	}
}

// take takes in a frame of the other side.
func (s *Stream) take(k Kind, data []byte) error {
	switch k {
	case Credit:
		limit, err := parseLimit(data)
		if err != nil {
			return err
		}
		if limit < s.limit {
			return fmt.Errorf("%w: RS4: the limit of stream %d is %d, it was %d", fabric.ErrViolation, s.Number, limit, s.limit)
		}
		s.limit, s.accepted = limit, true
	case Data:
		switch n := uint64(len(data)); {
		case s.gotEnd:
			return fmt.Errorf("%w: RS5: %d bytes after the end of stream %d", fabric.ErrViolation, n, s.Number)
		case n > s.given-s.received:
			return fmt.Errorf("%w: RS3: stream %d has %d bytes, the limit is %d", fabric.ErrViolation, s.Number, s.received+n, s.given)
		case s.reset:
			return nil
		default:
			s.received += n
			if s.buffer.len() == 0 {
				k := copy(s.reader[s.filled:], data)
				s.filled, data = s.filled+k, data[k:]
			}
			if len(data) > 0 {
				s.buffer.write(data)
			}
		}
		if invariants.Enabled {
			invariants.Check(uint64(s.buffer.len()) <= s.window, "RS4", "%d bytes are not read", s.buffer.len())
		}
	case End:
		if s.gotEnd {
			return fmt.Errorf("%w: RS5: a second end of stream %d", fabric.ErrViolation, s.Number)
		}
		s.gotEnd = true
	case Reset:
		s.Lose(string(data[:min(len(data), maxReason)]))
	default:
		return fmt.Errorf("%w: a frame of %v for stream %d", fabric.ErrViolation, k, s.Number)
	}
	return nil
}

// maxReason is how much of a reason is kept.
const maxReason = 200
