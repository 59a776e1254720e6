package stream

import (
	"fmt"

	"github.com/squall-go/squall/fabric"
)

// Table holds the streams of a side by their numbers: the streams that it opened, or that one other
// side opened.
type Table struct {
	streams map[uint64]*Stream
	last    uint64 // the largest number that was opened
	limit   int    // how many streams another side may have open; 0 in the table of an opener
	window  uint64 // bytes of a stream that are received and not read
}

// NewTable is a table for streams that this side opens, or, with a limit, for streams that another
// side opens. The window is how many bytes of a stream the other side may send before they are read
// here.
func NewTable(limit, window int) *Table {
	return &Table{streams: map[uint64]*Stream{}, limit: limit, window: uint64(window)}
}

// Allow changes how many streams another side may have open.
func (t *Table) Allow(limit int) { t.limit = limit }

// Len is the number of streams that this side knows.
func (t *Table) Len() int { return len(t.streams) }

// Open opens a stream of this side, and returns the limit for its open frame.
func (t *Table) Open(user any) (s *Stream, limit uint64) {
	t.last++
	s = &Stream{Number: t.last, Opener: true, User: user, window: t.window, given: t.window}
	t.streams[s.Number] = s
	return s, s.given
}

// Close ends a stream for this side. It returns the frame that tells the other side: 0, an end, or
// a reset if there are bytes that will not be read. A stream that the other side did not end stays
// known, because bytes that come yet are answered with a reset.
func (t *Table) Close(s *Stream) (tell Kind) {
	if s.closed {
		return 0
	}
	s.closed = true
	switch {
	case s.reset:
	case s.filled+s.buffer.len() > 0, !s.accepted, s.given == 0: // not accepted by one side: refused, or given up
		tell = Reset
	case !s.ended:
		tell = End
	}
	s.buffer.drop()
	if s.reset || s.gotEnd || tell == Reset {
		t.Forget(s)
	}
	return tell
}

// Forget takes a stream off the table without a word, because the other side is gone.
func (t *Table) Forget(s *Stream) {
	s.gone = true
	delete(t.streams, s.Number)
}

// Find returns the stream of a frame, or nil.
func (t *Table) Find(id uint64) *Stream { return t.streams[Number(id)] }

// Outcome is what the caller has to do after a frame was taken in.
type Outcome uint8

// Outcomes.
const (
	Nothing Outcome = iota
	Changed         // the goroutines that wait for the stream look again
	Opened          // the other side asks for a stream: Accept or Close it
	Refuse          // send a reset: the other side has too many streams
	Unread          // send a reset: the other side writes to a stream that is closed here
)

// Take takes in a frame of the other side. The stream is nil if the table has none. An error is a
// violation.
func (t *Table) Take(id uint64, data []byte) (s *Stream, what Outcome, err error) {
	k, number := parse(id)
	if k == Open {
		return t.opened(number, data)
	}
	if number > t.last || number == 0 || k == 0 || k >= kinds {
		return nil, Nothing, fmt.Errorf("%w: RS1: %v for stream %d, the last one is %d", fabric.ErrViolation, k, number, t.last)
	}
	s = t.streams[number]
	if s == nil { // it crossed a reset of this side
		return nil, Nothing, nil
	}
	if s.closed && k == Data {
		t.Forget(s)
		return s, Unread, nil
	}
	if err := s.take(k, data); err != nil {
		return s, Nothing, err
	}
	if s.closed && (s.gotEnd || s.reset) {
		t.Forget(s)
	}
	return s, Changed, nil
}

// opened takes in the opening of a stream.
func (t *Table) opened(number uint64, data []byte) (s *Stream, what Outcome, err error) {
	limit, err := parseLimit(data)
	if err != nil {
		return nil, Nothing, err
	}
	if t.limit == 0 || number <= t.last {
		return nil, Nothing, fmt.Errorf("%w: RS1: stream %d is opened, the last one is %d", fabric.ErrViolation, number, t.last)
	}
	t.last = number
	if len(t.streams) >= t.limit { // RS7
		return nil, Refuse, nil
	}
	s = &Stream{Number: number, window: t.window, limit: limit, accepted: true}
	t.streams[number] = s
	return s, Opened, nil
}
