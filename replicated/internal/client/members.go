package client

import "time"

// Members decides which member of a group a client asks.
type Members struct {
	count   int
	timeout time.Duration // for which a member may leave requests without an answer
	current int           // the member that is asked
	link    uint64        // the link that is in use; 0: none
	links   uint64        // so far
	waiting int           // requests on the link that were not answered
	oldest  time.Time     // when the oldest of them began, or later
}

// Link is the way to one member.
type Link struct {
	Number uint64
	Member int // from 0
}

// backOff is how long a client waits when no member has answered, before it asks all again.
const backOff = 20 * time.Millisecond

// NewMembers returns a Members that begins with the first of count members.
func NewMembers(count int, timeout time.Duration) Members {
	return Members{count: count, timeout: timeout}
}

// Current returns the member that is asked.
func (m *Members) Current() int { return m.current }

// Begin begins a request, and returns the link for it (RC4).
func (m *Members) Begin(now time.Time) Link {
	if m.link == 0 {
		m.links++
		m.link, m.waiting = m.links, 0
	}
	if m.waiting++; m.waiting == 1 {
		m.oldest = now
	}
	return Link{m.link, m.current}
}

// End ends a request. If it failed, another member is asked from now on; dropped says that the link was in use until then.
func (m *Members) End(l Link, now time.Time, failed bool) (dropped bool) {
	if l.Number != m.link {
		return false
	}
	m.waiting--
	m.oldest = now // requests that began before this one are given a little more
	if failed {
		m.drop()
	}
	return failed
}

// Late drops the link if a request on it has waited for too long, and returns its number.
func (m *Members) Late(now time.Time) (link uint64, dropped bool) {
	if m.link == 0 || m.waiting == 0 || now.Sub(m.oldest) <= m.timeout {
		return 0, false
	}
	link = m.link
	m.drop()
	return link, true
}

// Replace notes that there are other members now, of which one is asked. It reports whether a link was in use, which is dropped.
func (m *Members) Replace(count, current int) (dropped bool) {
	dropped = m.link != 0
	m.link, m.count, m.current = 0, count, current
	return dropped
}

func (m *Members) drop() {
	m.link = 0
	m.current = (m.current + 1) % m.count
}

// Pause returns how long a client waits before it sends a request again that so many members have failed to answer.
func (m *Members) Pause(failed int) time.Duration {
	if failed%m.count == 0 {
		return backOff
	}
	return 0
}
