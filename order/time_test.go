package order

import (
	"testing"
	"time"
)

func TestATimeIsAWallClockInUTC(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 89, time.UTC)
	if got := TimeOf(at); !got.Time().Equal(at) || got.String() != "2026-03-04T05:06:07.000000089Z" {
		t.Fatalf("%v became %v", at, got)
	}
	if got := TimeOf(time.Date(1960, 1, 1, 0, 0, 0, 0, time.UTC)); got != 0 {
		t.Fatalf("before the epoch is %d", got)
	}
}

func TestCompareAgreesWithBefore(t *testing.T) {
	all := []Version{{}, {1, 0}, {1, 9}, {2, 0}, {2, 1}}
	for i, v := range all {
		for k, w := range all {
			if got := v.Compare(w); got != map[bool]int{true: -1}[i < k]+map[bool]int{true: 1}[i > k] || (got < 0) != v.Before(w) {
				t.Fatalf("%v against %v is %d", v, w, got)
			}
		}
	}
}
