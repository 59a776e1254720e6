package machine

import (
	"sort"

	"github.com/squall-go/squall/internal/mutant"
)

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

// MaxEventBytes bounds the events that are kept, with eventBytes for each: 4 MiB. The oldest ones
// are dropped first.
const (
	MaxEventBytes = 4 << 20
	eventBytes    = 64
)

func (e *Event) size() int { return eventBytes + len(e.Topic) + len(e.Data) }

// Emit keeps an event of the command that is executed. It takes data over.
func (m *Machine) Emit(view, seq uint64, topic string, data []byte) {
	c := Cursor{View: view, Seq: seq, Index: 1}
	if n := len(m.events); n > 0 && m.events[n-1].View == view && m.events[n-1].Seq == seq {
		c.Index = m.events[n-1].Index + 1
	}
	if mutant.Enabled {
		if m.emitted++; mutant.On(mutant.EventsRestart) && m.emitted == 1 {
			c.Index = 1
		}
	}
	m.events = append(m.events, Event{Cursor: c, Topic: topic, Data: data})
	m.eventBytes += m.events[len(m.events)-1].size()
	drop := 0
	for m.eventBytes > MaxEventBytes && drop < len(m.events)-1 {
		m.eventBytes -= m.events[drop].size()
		m.dropped = m.events[drop].Cursor
		m.events[drop] = Event{}
		drop++
	}
	m.events = m.events[drop:]
}

// Events returns the events behind a cursor, oldest first, which must not be changed. It reports
// false if some of them are not kept any more (RO7).
func (m *Machine) Events(after Cursor) ([]Event, bool) {
	if after.Less(m.dropped) {
		return nil, false
	}
	i := sort.Search(len(m.events), func(i int) bool { return after.Less(m.events[i].Cursor) })
	return m.events[i:], true
}

// LastEvent returns the cursor behind the newest event.
func (m *Machine) LastEvent() Cursor {
	if n := len(m.events); n > 0 {
		return m.events[n-1].Cursor
	}
	return m.dropped
}
