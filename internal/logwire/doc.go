// Package logwire reads logs over the port's connections of kind log: for those who ask a member, and for a member that brings its own log
// up to another one's.
//
// Life of a connection: requests, one after the other, each answered by frames that finish with an end. While nothing else is said, both
// sides pulse, so each knows that the other one lives; who is silent for too long has failed. A stream that broke is asked for again, from
// behind the last record that came: a few times by who reads what is there, and by who follows until the member is back.
//
//	reader                                         member
//	request {list|info|get|at|probe|…}   ───────▶
//	                                     ◀───────  infos, marks, records or bytes; pulses; end, or why not
//	pulses                               ───────▶
//
// Life of a catch-up: ready (the source has all that is wanted on its disk) → the common prefix is found → what lies behind it in the own log
// is cut → a snapshot is installed, if the source does not have all the records behind the prefix → records are imported → synced. If the
// source fails, another one is asked, and what is here stays.
//
// Invariants:
//
//	LW1  a reader gets records in the order of their versions and times, within what it asked for, each from a frame whose checksum is right
//	LW2  what a peer says of lengths takes no memory: it is taken as bytes arrive, and bounded
//	LW3  a catch-up that succeeds leaves the log that its source has, up to what was asked for, and durable
//	LW4  however slow readers are, a member holds one frame for each, and serves a bounded number of them
//	LW5  nothing is cut, and nothing is taken, of a source that does not prove that it is of the group whose log this is
package logwire

import "time"

// Times are how long this package waits for whom. Zero values are replaced by the defaults.
type Times struct {
	Dial    time.Duration // for a connection: 5 s
	Silence time.Duration // for the other side's next frame, or pulse: 10 s
	Pulse   time.Duration // how often one is sent: 1 s
	Stall   time.Duration // for a reader that takes nothing: 1 min
	Pause   time.Duration // before a source that is busy, or broke off, is asked again, at first: 5 ms
	Longest time.Duration // and at last: 1 s
}

func (t Times) withDefaults() Times {
	for _, v := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&t.Dial, 5 * time.Second}, {&t.Silence, 10 * time.Second}, {&t.Pulse, time.Second}, {&t.Stall, time.Minute},
		{&t.Pause, 5 * time.Millisecond}, {&t.Longest, time.Second},
	} {
		if *v.field == 0 {
			*v.field = v.value
		}
	}
	return t
}
