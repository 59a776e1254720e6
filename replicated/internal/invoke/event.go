package invoke

// Cursor is a place in the events of an object: behind an event.
type Cursor struct {
	View, Seq uint64 // of the message with the command that emitted it
	Index     uint64 // among the events of all commands of that message, from 1
}

// Less reports whether c comes before d.
func (c Cursor) Less(d Cursor) bool {
	if c.View != d.View {
		return c.View < d.View
	}
	if c.Seq != d.Seq {
		return c.Seq < d.Seq
	}
	return c.Index < d.Index
}

// Event is what a command emitted.
type Event struct {
	Cursor
	Topic string
	Data  []byte
}
