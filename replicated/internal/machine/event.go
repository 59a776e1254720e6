package machine

import (
	"sort"

	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/replicated/internal/invoke"
)

// MaxEventBytes bounds the events that are kept, with eventBytes for each: 4 MiB. The oldest ones
// are dropped first.
const (
	MaxEventBytes = 4 << 20
	eventBytes    = 64
)

func eventSize(e *invoke.Event) int { return eventBytes + len(e.Topic) + len(e.Data) }

// Emit keeps an event of the command that is executed. It takes data over.
func (m *Machine) Emit(view, seq uint64, topic string, data []byte) {
	c := invoke.Cursor{View: view, Seq: seq, Index: 1}
	if n := len(m.events); n > 0 && m.events[n-1].View == view && m.events[n-1].Seq == seq {
		c.Index = m.events[n-1].Index + 1
	}
	if mutant.Enabled {
		if m.emitted++; mutant.On(mutant.EventsRestart) && m.emitted == 1 {
			c.Index = 1
		}
	}
	m.events = append(m.events, invoke.Event{Cursor: c, Topic: topic, Data: data})
	m.eventBytes += eventSize(&m.events[len(m.events)-1])
	drop := 0
	for m.eventBytes > MaxEventBytes && drop < len(m.events)-1 {
		m.eventBytes -= eventSize(&m.events[drop])
		m.dropped = m.events[drop].Cursor
		m.events[drop] = invoke.Event{}
		drop++
	}
	m.events = m.events[drop:]
}

// Events returns the events behind a cursor, oldest first, which must not be changed. It reports
// false if some of them are not kept any more (RO7).
func (m *Machine) Events(after invoke.Cursor) ([]invoke.Event, bool) {
	if after.Less(m.dropped) {
		return nil, false
	}
	i := sort.Search(len(m.events), func(i int) bool { return after.Less(m.events[i].Cursor) })
	return m.events[i:], true
}

// LastEvent returns the cursor behind the newest event.
func (m *Machine) LastEvent() invoke.Cursor {
	if n := len(m.events); n > 0 {
		return m.events[n-1].Cursor
	}
	return m.dropped
}
