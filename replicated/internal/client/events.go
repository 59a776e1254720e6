package client

import "github.com/squall-go/squall/replicated/internal/invoke"

// Sizes of events on the wire.
const (
	CursorBytes = cursorBytes       // a cursor: view, seq, index
	EventBytes  = CursorBytes + 2*4 // an event without its topic and data: cursor, the lengths of both
	WatchHead   = CursorBytes + 4   // a question for events without the prefix of their topics: cursor, milliseconds to wait
)

// AppendCursor appends a cursor.
func AppendCursor(b []byte, c invoke.Cursor) []byte {
	b = order.AppendUint64(b, c.View)
	b = order.AppendUint64(b, c.Seq)
	return order.AppendUint64(b, c.Index)
}

// CutCursor cuts a cursor off a text that has one.
func CutCursor(b []byte) (invoke.Cursor, []byte) { return cursor(b), b[CursorBytes:] }

// AppendWatch appends a request for events after a cursor whose topics begin with a prefix.
func AppendWatch(b []byte, after invoke.Cursor, milliseconds uint32, prefix string) []byte {
	b = AppendCursor(append(b, byte(Watch)), after)
	return append(order.AppendUint32(b, milliseconds), prefix...)
}

// ParseWatch takes what follows the kind of a request for events apart.
func ParseWatch(b []byte) (after invoke.Cursor, milliseconds uint32, prefix string, err error) {
	if len(b) < WatchHead {
		return after, 0, "", ErrMalformed
	}
	after, b = CutCursor(b)
	return after, order.Uint32(b), string(b[4:]), nil
}

// AppendEvent appends an event: its cursor, the lengths of topic and data, 4 bytes each, and both.
func AppendEvent(b []byte, e *invoke.Event) []byte {
	b = AppendCursor(b, e.Cursor)
	b = order.AppendUint32(b, uint32(len(e.Topic)))
	b = order.AppendUint32(b, uint32(len(e.Data)))
	return append(append(b, e.Topic...), e.Data...)
}

// ParseEvents takes an answer with a cursor and events apart. The events do not refer to it.
func ParseEvents(b []byte) (events []invoke.Event, next invoke.Cursor, err error) {
	if len(b) < CursorBytes {
		return nil, next, ErrMalformed
	}
	next, b = CutCursor(b)
	for len(b) > 0 {
		if len(b) < EventBytes {
			return nil, next, ErrMalformed
		}
		var e invoke.Event
		e.Cursor, b = CutCursor(b)
		topic, data := uint64(order.Uint32(b)), uint64(order.Uint32(b[4:]))
		if b = b[8:]; uint64(len(b)) < topic+data {
			return nil, next, ErrMalformed
		}
		e.Topic, e.Data = string(b[:topic]), append([]byte(nil), b[topic:topic+data]...)
		b = b[topic+data:]
		events = append(events, e)
	}
	return events, next, nil
}
