package machine

import (
	"errors"
	"fmt"

	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/replicated/internal/invoke"
)

// format is the version of an encoded machine.
const format = 4

// Append appends everything that the machine is (RO6).
func (m *Machine) Append(b []byte) []byte {
	b = order.AppendUint16(b, format)
	for _, v := range []uint64{m.time, m.view, m.executed, m.opened, m.digest.node, m.digest.count, m.digest.sum, m.at.View, m.at.Seq} {
		b = order.AppendUint64(b, v)
	}
	b = order.AppendUint16(b, uint16(m.shard))
	b = appendNames(b, m.enabled)
	b = order.AppendUint64(b, uint64(len(m.known)))
	for _, a := range m.known {
		b = appendNames(order.AppendUint64(order.AppendUint64(b, a.node), a.incarnation), a.names)
	}
	sessions := m.sessions
	if mutant.Enabled && mutant.On(mutant.SessionsLeftOut) {
		sessions = nil
	}
	b = order.AppendUint64(b, uint64(len(sessions)))
	for _, s := range sessions {
		b = s.append(b)
	}
	for _, v := range []uint64{m.dropped.View, m.dropped.Seq, m.dropped.Index, uint64(len(m.events))} {
		b = order.AppendUint64(b, v)
	}
	for _, e := range m.events {
		for _, v := range []uint64{e.View, e.Seq, e.Index} {
			b = order.AppendUint64(b, v)
		}
		b = appendBytes(appendBytes(b, []byte(e.Topic)), e.Data)
	}
	return m.appendOutboxes(b)
}

func (s *session) append(b []byte) []byte {
	b = order.AppendUint64(b, s.number)
	b = append(b, s.token[:]...)
	b = appendBytes(appendBytes(b, []byte(s.owner.Account)), []byte(s.owner.Identity))
	replies := s.replies
	if mutant.Enabled && mutant.On(mutant.RepliesLeftOut) {
		replies = nil
	}
	for _, v := range []uint64{s.timeout, s.expiry, s.acked, uint64(len(replies))} {
		b = order.AppendUint64(b, v)
	}
	for _, r := range replies {
		b = order.AppendUint64(b, r.number)
		flags := byte(0)
		if r.failed {
			flags |= failedFlag
		}
		if r.cut {
			flags |= cutFlag
		}
		b = appendBytes(append(b, flags), r.data)
	}
	return b
}

// Flags of a kept reply.
const (
	failedFlag = 1 << iota
	cutFlag
	flags = failedFlag | cutFlag
)

func appendBytes(b, data []byte) []byte {
	return append(order.AppendUint64(b, uint64(len(data))), data...)
}

func (r *reader) bytes() []byte {
	n := r.uint64()
	if n > uint64(len(r.b)) {
		if r.err == nil {
			r.err = errShort
		}
		return nil
	}
	return r.take(int(n))
}

var (
	errOrder = errors.New("sessions, replies, events or what was sent is out of order")
	errKnown = errors.New("a node has two announcements, or there are too many")
	errLong  = errors.New("bytes follow the end")
	errFlag  = errors.New("unknown flags of a reply")
	errToken = errors.New("two sessions have one token")
	errShard = errors.New("the number of the shard is too large")

	errDestination = errors.New("an unknown kind of destination")
)

// Decode replaces the machine by an encoded one. If it fails the machine is as it was.
func (m *Machine) Decode(data []byte) error {
	r := reader{b: data}
	if v := r.uint16(); r.err == nil && v != format {
		return fmt.Errorf("the state has the format %d, and this program knows %d", v, format)
	}
	var n Machine
	for _, v := range []*uint64{&n.time, &n.view, &n.executed, &n.opened, &n.digest.node, &n.digest.count, &n.digest.sum, &n.at.View, &n.at.Seq} {
		*v = r.uint64()
	}
	if n.shard = r.uint16(); n.shard > invoke.MaxShards {
		r.fail(errShard)
	}
	n.enabled = r.names()
	for i := r.uint64(); i > 0 && r.err == nil; i-- {
		a := announcement{node: r.uint64(), incarnation: r.uint64(), names: r.names()}
		if _, again := n.announcement(a.node); again || len(n.known) == MaxAnnouncements {
			return errKnown
		}
		n.known = append(n.known, a)
	}
	r.sessions(&n)
	r.events(&n)
	r.outboxes(&n)
	if r.err == nil && len(r.b) != 0 {
		r.err = errLong
	}
	if r.err != nil {
		return r.err
	}
	*m = n
	return nil
}

func (r *reader) cursor() invoke.Cursor {
	return invoke.Cursor{View: r.uint64(), Seq: r.uint64(), Index: r.uint64()}
}

func (r *reader) sessions(m *Machine) {
	for i := r.uint64(); i > 0 && r.err == nil; i-- {
		s := r.session()
		if k := len(m.sessions); k > 0 && m.sessions[k-1].number >= s.number {
			r.fail(errOrder)
			return
		}
		if m.tokens[s.token] != nil {
			r.fail(errToken)
		}
		m.sessions = append(m.sessions, s)
		m.join(s)
		m.expires(s.expiry)
	}
}

func (r *reader) events(m *Machine) {
	m.dropped = r.cursor()
	last := m.dropped
	for i := r.uint64(); i > 0 && r.err == nil; i-- {
		e := invoke.Event{Cursor: r.cursor(), Topic: string(r.bytes()), Data: append([]byte(nil), r.bytes()...)}
		if !last.Less(e.Cursor) {
			r.fail(errOrder)
			return
		}
		last = e.Cursor
		m.events = append(m.events, e)
		m.eventBytes += eventSize(&e)
	}
}

func (r *reader) session() *session {
	s := &session{number: r.uint64()}
	copy(s.token[:], r.take(invoke.TokenBytes))
	s.owner.Account = string(r.bytes())
	s.owner.Identity = string(r.bytes())
	s.timeout, s.expiry, s.acked = r.uint64(), r.uint64(), r.uint64()
	for i := r.uint64(); i > 0 && r.err == nil; i-- {
		a := reply{number: r.uint64()}
		if b := r.take(1); b != nil {
			if a.failed, a.cut = b[0]&failedFlag != 0, b[0]&cutFlag != 0; b[0]&^flags != 0 {
				r.err = errFlag
			}
		}
		if a.data = append([]byte(nil), r.bytes()...); a.cut && len(a.data) > 0 {
			r.fail(errFlag)
		}
		if k := len(s.replies); a.number <= s.acked || k > 0 && s.replies[k-1].number >= a.number {
			r.err = errOrder
		}
		s.replies = append(s.replies, a)
		s.kept += len(a.data)
	}
	return s
}
