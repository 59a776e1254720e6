package squall

import (
	"testing"
	"time"

	"github.com/squall-go/squall/persist"
)

func TestASnapshotIsDueWhenTheLogHasGrown(t *testing.T) {
	for name, x := range map[string]struct {
		policy SnapshotPolicy
		growth persist.Growth
		since  time.Duration
		now    bool
		after  time.Duration
	}{
		"no policy":                     {SnapshotPolicy{}, persist.Growth{Records: 1 << 40, Bytes: 1 << 50}, time.Hour, false, 0},
		"none wanted":                   {NoSnapshots(), persist.Growth{Records: 1 << 40, Bytes: 1 << 50}, time.Hour, false, 0},
		"fewer records":                 {SnapshotPolicy{Records: 10}, persist.Growth{Records: 9, Bytes: 1}, time.Hour, false, 0},
		"enough records":                {SnapshotPolicy{Records: 10}, persist.Growth{Records: 10, Bytes: 1}, 0, true, 0},
		"fewer bytes":                   {SnapshotPolicy{Bytes: 10}, persist.Growth{Records: 1, Bytes: 9}, time.Hour, false, 0},
		"enough bytes":                  {SnapshotPolicy{Bytes: 10}, persist.Growth{Records: 1, Bytes: 10}, 0, true, 0},
		"one limit of two":              {SnapshotPolicy{Bytes: 10, Records: 100}, persist.Growth{Records: 1, Bytes: 10}, 0, true, 0},
		"before the time":               {SnapshotPolicy{Every: time.Hour}, persist.Growth{Records: 1, Bytes: 1}, time.Minute, false, 59 * time.Minute},
		"at the time":                   {SnapshotPolicy{Every: time.Hour}, persist.Growth{Records: 1, Bytes: 1}, time.Hour, true, 0},
		"nothing new":                   {SnapshotPolicy{Every: time.Hour, Records: 1}, persist.Growth{SnapshotBytes: 1}, 2 * time.Hour, false, 0},
		"smaller than the last state":   {SnapshotPolicy{Every: time.Hour, Records: 1, Bytes: 1}, persist.Growth{Records: 5, Bytes: 99, SnapshotBytes: 100}, 2 * time.Hour, false, 0},
		"as large as the last snapshot": {SnapshotPolicy{Records: 1}, persist.Growth{Records: 5, Bytes: 100, SnapshotBytes: 100}, 0, true, 0},
	} {
		if now, after := x.policy.due(x.growth, x.since); now != x.now || after != x.after {
			t.Errorf("%s: due now: %v, after %v", name, now, after)
		}
	}
	if (SnapshotPolicy{}).takes() || NoSnapshots().takes() || !(SnapshotPolicy{Every: 1}).takes() {
		t.Error("a policy without limits takes snapshots, or one with a limit none")
	}
}
