package client

import (
	"time"

	"github.com/squall-go/squall/internal/mutant"
)

// Members decides which member of a group a client asks.
type Members struct {
	count   int
	timeout time.Duration // for which a member may leave a request without an answer
	current int           // the member that is asked
	link    uint64        // the link that is in use; 0: none
	links   uint64        // so far

	// The requests on the link that were not answered. Each has a slot, and is late by itself: answers
	// to others do not excuse it.
	late    []time.Time // by slot: when the request is late; zero: the slot is free
	free    []int       // slots
	patient int         // requests that are never late
	probed  time.Time   // when the member was asked last whether it answers
}

// Link is the way to one member, as one request uses it.
type Link struct {
	Number uint64
	Member int // from 0
	slot   int // of the request; noSlot: it is never late
}

const noSlot = -1

// backOff is how long a client waits when no member has answered, before it asks all again.
const backOff = 20 * time.Millisecond

// maxGrowth bounds how often the timeout of a request doubles: once for each round of all members
// in which it was not answered. A request that takes longer than the timeout everywhere is answered
// then.
const maxGrowth = 3

// NewMembers returns a Members that begins with the first of count members.
func NewMembers(count int, timeout time.Duration) Members {
	return Members{count: count, timeout: timeout}
}

// Current returns the member that is asked.
func (m *Members) Current() int { return m.current }

// Begin begins an attempt, counted from 1, of a request, and returns the link for it (RC4).
func (m *Members) Begin(now time.Time, attempt int) Link {
	m.connect()
	late := now.Add(m.timeout << min((attempt-1)/m.count, maxGrowth))
	slot := len(m.late)
	if n := len(m.free); n > 0 {
		slot, m.free = m.free[n-1], m.free[:n-1]
		m.late[slot] = late
	} else {
		m.late = append(m.late, late)
	}
	return Link{m.link, m.current, slot}
}

// BeginPatient is Begin for a request that may take as long as it likes, as long as the member
// answers others.
func (m *Members) BeginPatient(now time.Time) Link {
	m.connect()
	if m.patient++; m.patient == 1 {
		m.probed = now
	}
	return Link{m.link, m.current, noSlot}
}

func (m *Members) connect() {
	if m.link == 0 {
		m.links++
		m.link = m.links
	}
}

// End ends a request. If it failed, another member is asked from now on; dropped says that the link
// was in use until then.
func (m *Members) End(l Link, failed bool) (dropped bool) {
	if l.Number != m.link {
		return false
	}
	if l.slot == noSlot {
		m.patient--
	} else {
		m.late[l.slot] = time.Time{}
		m.free = append(m.free, l.slot)
	}
	if failed {
		m.drop()
	}
	return failed
}

// Late drops the link if a request on it has waited for too long (RC6), and returns its number.
func (m *Members) Late(now time.Time) (link uint64, dropped bool) {
	if m.link == 0 || !m.isLate(now) {
		return 0, false
	}
	link = m.link
	m.drop()
	return link, true
}

func (m *Members) isLate(now time.Time) (any bool) {
	for _, late := range m.late {
		if late.IsZero() {
			continue
		}
		if now.After(late) {
			any = true
		} else if mutant.Enabled && mutant.On(mutant.SteadyLink) {
			return false
		}
	}
	return any
}

// Probe reports whether the member is to be asked something that it answers at once: only patient
// requests wait for it, and it was not asked for half of the timeout.
func (m *Members) Probe(now time.Time) bool {
	if m.link == 0 || m.patient == 0 || len(m.free) < len(m.late) || now.Sub(m.probed) < m.timeout/2 {
		return false
	}
	m.probed = now
	return true
}

// Replace notes that there are other members now, of which one is asked. It reports whether a link
// was in use, which is dropped.
func (m *Members) Replace(count, current int) (dropped bool) {
	dropped = m.link != 0
	m.leave()
	m.count, m.current = count, current
	return dropped
}

func (m *Members) drop() {
	m.leave()
	m.current = (m.current + 1) % m.count
}

// leave forgets the link and its requests.
func (m *Members) leave() {
	m.link, m.late, m.free, m.patient = 0, m.late[:0], m.free[:0], 0
}

// IsCurrent reports whether a link is in use.
func (m *Members) IsCurrent(l Link) bool { return l.Number == m.link }

// IsRound reports whether so many attempts are whole rounds of all members.
func (m *Members) IsRound(attempts int) bool { return attempts%m.count == 0 }

// Pause returns how long a client waits before it sends a request again that so many members have
// failed to answer.
func (m *Members) Pause(failed int) time.Duration {
	if m.IsRound(failed) {
		return backOff
	}
	return 0
}
