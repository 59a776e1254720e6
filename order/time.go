package order

import (
	"cmp"
	"time"
)

// Time is a reading of a hybrid logical clock, in nanoseconds since the Unix epoch: the wall clock,
// but always later than every reading that it has seen. The times of a log strictly grow with its
// versions. 0 is before every time.
//
// Source: Kulkarni et al., Logical Physical Clocks (OPODIS 2014), §3; the logical part is counted
// in the same nanoseconds.
type Time uint64

// TimeOf is the reading of a wall clock, up to the year 2262. What lies before the epoch is 0.
func TimeOf(t time.Time) Time { return Time(max(0, t.UnixNano())) }

// Time is the wall clock that it stands for.
func (t Time) Time() time.Time { return time.Unix(0, int64(t)).UTC() }

func (t Time) String() string { return t.Time().Format(time.RFC3339Nano) }

// Compare orders versions by view, then by seq: -1, 0 or 1.
func (v Version) Compare(w Version) int {
	return cmp.Or(cmp.Compare(v.View, w.View), cmp.Compare(v.Seq, w.Seq))
}
