package logs

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/squall-go/squall/order"
)

// parseVersion reads VIEW:SEQ, or VIEW for its beginning.
func parseVersion(text string) (order.Version, error) {
	view, seq, both := strings.Cut(text, ":")
	if !both {
		seq = "0"
	}
	v, errView := strconv.ParseUint(view, 10, 64)
	q, errSeq := strconv.ParseUint(seq, 10, 64)
	if errView != nil || errSeq != nil || v == 0 {
		return order.Version{}, fmt.Errorf("%q is no version: use VIEW:SEQ, for instance 3:1200, or VIEW alone for its beginning", text)
	}
	return order.Version{View: order.ViewID(v), Seq: order.Seq(q)}, nil
}

// layouts of times, all in UTC unless they say otherwise.
var layouts = []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly}

// lastYear is the last one of which all nanoseconds have a number.
const lastYear = 2261

// parseTime reads a time, now, or how long ago. It is never 0, which would be no bound.
func parseTime(text string, now time.Time) (order.Time, error) {
	if text == "now" {
		return order.TimeOf(now), nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return max(1, order.TimeOf(now.Add(-ago))), nil
	}
	for _, layout := range layouts {
		t, err := time.Parse(layout, text)
		switch {
		case err != nil:
		case t.Year() < 1970 || t.Year() > lastYear:
			return 0, fmt.Errorf("%q lies before 1970 or after %d, where no log is", text, lastYear)
		default:
			return max(1, order.TimeOf(t)), nil
		}
	}
	return 0, fmt.Errorf("%q is no time: use 2026-03-04T05:06:07Z, 2026-03-04 05:06 (UTC), 2026-03-04, now, or how long ago, like 90s or 2h", text)
}
