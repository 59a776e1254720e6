package join

import (
	"fmt"
	"net"
	"slices"
	"time"
)

// probation remembers the joiners that cost the group time: each became a member, never showed a
// heartbeat, and was removed after FailAfter. Its address is held back for longer each time; and
// beyond a few of them, so is every address of its host, since ports cost nothing. Each member
// keeps its own, about what it has seen itself: a joiner needs the word of every member. It is
// pure.
type probation struct {
	unit    time.Duration // how long an address is held back the first time
	records []absences    // the most recently struck one at the end
}

// absences are how often processes at an address did not appear.
type absences struct {
	addr  string
	count int
	last  time.Duration
}

const (
	// freeOfHost is how many absences at a host hold back nothing but their own addresses.
	freeOfHost = 4
	// maxDoublings bounds how long an address is held back: 64 units.
	maxDoublings = 6
	// maxRecords bounds the addresses that are remembered; the oldest is forgotten first.
	maxRecords = 256
)

// note takes a member that did not appear.
func (p *probation) note(now time.Duration, addr string) {
	r := absences{addr: addr}
	if i := p.index(addr); i >= 0 {
		r = p.records[i]
		p.records = slices.Delete(p.records, i, i+1)
	}
	r.count, r.last = r.count+1, now
	p.records = append(p.records, r)
	p.records = slices.DeleteFunc(p.records, func(r absences) bool { return now-r.last > p.memory() })
	if len(p.records) > maxRecords {
		p.records = slices.Delete(p.records, 0, 1)
	}
}

// memory is how long an absence is remembered: twice as long as it can hold back anything.
func (p *probation) memory() time.Duration { return p.unit << (maxDoublings + 1) }

func (p *probation) index(addr string) int {
	return slices.IndexFunc(p.records, func(r absences) bool { return r.addr == addr })
}

// held returns for how long a joiner at an address is still held back, and why; 0: it is not.
func (p *probation) held(now time.Duration, addr string) (left time.Duration, why string) {
	if i := p.index(addr); i >= 0 {
		r := p.records[i]
		left, why = r.last+p.pause(r.count)-now, fmt.Sprintf("%d processes at %s became members and did not appear", r.count, clip(addr))
	}
	host, all := hostOf(addr), absences{}
	for _, r := range p.records {
		if hostOf(r.addr) == host && !shared(host) {
			all.count, all.last = all.count+r.count, r.last
		}
	}
	if more := all.last + p.pause(all.count-freeOfHost) - now; more > left {
		left, why = more, fmt.Sprintf("%d processes at host %s became members and did not appear", all.count, clip(host))
	}
	return max(left, 0), why
}

// pause is how long so many absences hold back, since the last one.
func (p *probation) pause(count int) time.Duration {
	if count <= 0 {
		return 0
	}
	return p.unit << min(count-1, maxDoublings)
}

// shared reports whether all processes of a group may have an address in common, so that one of
// them says nothing about the others.
func shared(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func hostOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return host
}
