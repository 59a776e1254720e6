package machine

import (
	"cmp"
	"slices"
	"sort"

	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/replicated/internal/invoke"
)

// Destination is where something goes that a handler sent.
type Destination struct {
	Kind DestinationKind
	Name string
}

// DestinationKind says what a destination is.
type DestinationKind uint8

// Kinds of destinations.
const (
	ToObject   DestinationKind = iota + 1 // an object of the group, which executes a command
	ToSubgroup                            // a subgroup, in which a message is sent
	ToTask                                // a function of the members' program
	destinations
)

// Sent is what a handler sent. Its cursor is the message with the command that sent it, and the
// number among what all commands of that message sent, from 1.
type Sent struct {
	invoke.Cursor
	Operation string // of an object
	Data      []byte // arguments, a message, or what the task gets
}

// MaxOutboxBytes bounds what an object sent and what was not handed over yet, with sentBytes for
// each: 4 MiB.
const (
	MaxOutboxBytes = 4 << 20
	sentBytes      = 64
)

func (s *Sent) size() int { return sentBytes + len(s.Operation) + len(s.Data) }

// outbox is what was sent to one destination and not handed over yet, ascending.
type outbox struct {
	to   Destination
	sent []Sent
}

// source is an object whose handlers sent commands to this one, and the last of them that was
// executed (RO8).
type source struct {
	name string
	last invoke.Cursor
}

func (d Destination) compare(e Destination) int {
	return cmp.Or(cmp.Compare(d.Kind, e.Kind), cmp.Compare(d.Name, e.Name))
}

func (m *Machine) outbox(to Destination) (int, bool) {
	return slices.BinarySearchFunc(m.outboxes, to, func(o outbox, d Destination) int { return o.to.compare(d) })
}

// Send keeps what the handler of the command that is executed sends, until it was handed over
// (RO9). It takes data over. It reports false if too much is kept.
func (m *Machine) Send(to Destination, operation string, data []byte) bool {
	if m.lastSent.View != m.at.View || m.lastSent.Seq != m.at.Seq {
		m.lastSent = m.at
		m.lastSent.Index = 0
	}
	if mutant.Enabled {
		if m.sent++; mutant.On(mutant.OutboxRestart) && m.sent == 1 {
			m.lastSent.Index = 0
		}
	}
	s := Sent{Cursor: m.lastSent, Operation: operation, Data: data}
	s.Index++
	if m.outBytes+s.size() > MaxOutboxBytes {
		return false
	}
	m.lastSent = s.Cursor
	m.outBytes += s.size()
	i, ok := m.outbox(to)
	if !ok {
		m.outboxes = slices.Insert(m.outboxes, i, outbox{to: to})
	}
	m.outboxes[i].sent = append(m.outboxes[i].sent, s)
	return true
}

// Destinations returns where something is to be handed over.
func (m *Machine) Destinations(all []Destination) []Destination {
	for i := range m.outboxes {
		all = append(all, m.outboxes[i].to)
	}
	return all
}

// Outgoing returns what is to be handed over to a destination behind a cursor, oldest first. It
// must not be changed, and is valid until the next Apply.
func (m *Machine) Outgoing(to Destination, after invoke.Cursor) []Sent {
	i, ok := m.outbox(to)
	if !ok {
		return nil
	}
	all := m.outboxes[i].sent
	return all[sort.Search(len(all), func(k int) bool { return after.Less(all[k].Cursor) }):]
}

// handed drops what was handed over to a destination.
func (m *Machine) handed(rest reader) invoke.Status {
	to, upTo := rest.destination(), rest.cursor()
	if rest.err != nil || len(rest.b) != 0 {
		return invoke.Malformed
	}
	i, ok := m.outbox(to)
	if !ok {
		return invoke.Done
	}
	o := &m.outboxes[i]
	drop := sort.Search(len(o.sent), func(k int) bool { return upTo.Less(o.sent[k].Cursor) })
	for k := range drop {
		m.outBytes -= o.sent[k].size()
	}
	if drop == len(o.sent) {
		m.outboxes = slices.Delete(m.outboxes, i, i+1)
		return invoke.Done
	}
	clear(o.sent[:drop])
	o.sent = o.sent[drop:]
	return invoke.Done
}

func (m *Machine) source(name string) (int, bool) {
	return slices.BinarySearchFunc(m.sources, name, func(s source, n string) int { return cmp.Compare(s.name, n) })
}

// HasExecuted reports whether a command that a handler of an object sent was executed.
func (m *Machine) HasExecuted(source string, at invoke.Cursor) bool {
	i, ok := m.source(source)
	return ok && !m.sources[i].last.Less(at) && !(mutant.Enabled && mutant.On(mutant.SourceForgotten))
}

// forwarded executes a command that a handler of an object sent, unless it was executed before, or
// the one that its object sent before it was not (RO8). Its reply is dropped.
func (m *Machine) forwarded(r *Record, rest reader, h Handler, out *Result) {
	name, before, at := rest.name(), rest.cursor(), rest.cursor()
	if rest.err != nil || name == "" || at.Index == 0 || !before.Less(at) {
		out.Status = invoke.Malformed
		return
	}
	i, ok := m.source(name)
	last := invoke.Cursor{}
	if ok {
		last = m.sources[i].last
	}
	switch {
	case m.HasExecuted(name, at):
		out.Status = invoke.Again
		return
	case last.Less(before) && !(mutant.Enabled && mutant.On(mutant.GapExecuted)):
		out.Status = invoke.Early
		return
	case out.Operation >= len(m.enabled):
		out.Status = invoke.Disabled
		return
	case !ok:
		m.sources = slices.Insert(m.sources, i, source{name: name})
	}
	m.sources[i].last = at
	m.execute(r, h, out, 0, "", name, rest.b, nil)
}

func appendCursor(b []byte, c invoke.Cursor) []byte {
	for _, v := range []uint64{c.View, c.Seq, c.Index} {
		b = order.AppendUint64(b, v)
	}
	return b
}

func appendDestination(b []byte, to Destination) []byte {
	return appendName(append(b, byte(to.Kind)), to.Name)
}

func (r *reader) destination() (to Destination) {
	if b := r.take(1); b != nil {
		if to.Kind = DestinationKind(b[0]); to.Kind == 0 || to.Kind >= destinations {
			r.err = errDestination
		}
	}
	to.Name = r.name()
	return to
}

// appendOutboxes appends what is to be handed over, and what was.
func (m *Machine) appendOutboxes(b []byte) []byte {
	b = order.AppendUint64(b, uint64(len(m.sources)))
	for _, s := range m.sources {
		b = appendCursor(appendName(b, s.name), s.last)
	}
	b = order.AppendUint64(b, uint64(len(m.outboxes)))
	for _, o := range m.outboxes {
		b = order.AppendUint64(appendDestination(b, o.to), uint64(len(o.sent)))
		for _, s := range o.sent {
			b = appendBytes(appendName(appendCursor(b, s.Cursor), s.Operation), s.Data)
		}
	}
	return b
}

// outboxes reads what appendOutboxes appended.
func (r *reader) outboxes(m *Machine) {
	for i := r.uint64(); i > 0 && r.err == nil; i-- {
		s := source{name: r.name(), last: r.cursor()}
		if k := len(m.sources); k > 0 && m.sources[k-1].name >= s.name {
			r.fail(errOrder)
		}
		m.sources = append(m.sources, s)
	}
	for i := r.uint64(); i > 0 && r.err == nil; i-- {
		o := outbox{to: r.destination()}
		if k := len(m.outboxes); k > 0 && m.outboxes[k-1].to.compare(o.to) >= 0 {
			r.fail(errOrder)
		}
		n := r.uint64()
		if n == 0 {
			r.fail(errOrder)
		}
		for ; n > 0 && r.err == nil; n-- {
			s := Sent{Cursor: r.cursor(), Operation: r.name(), Data: slices.Clone(r.bytes())}
			if k := len(o.sent); k > 0 && !o.sent[k-1].Less(s.Cursor) {
				r.fail(errOrder)
			}
			o.sent = append(o.sent, s)
			m.outBytes += s.size()
		}
		m.outboxes = append(m.outboxes, o)
	}
}
