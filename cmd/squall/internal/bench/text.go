package bench

import (
	"fmt"
	"math"
	"strconv"
)

// Number prints four digits or so, with thousands apart.
func Number(v float64) string {
	switch a := math.Abs(v); {
	case v == 0:
		return "0"
	case a >= 1000:
		digits := strconv.FormatFloat(math.Round(v), 'f', 0, 64)
		for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
			digits = digits[:i] + " " + digits[i:]
		}
		return digits
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 0.01:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

// Size is how many bytes something has, in the greatest unit that leaves no rest.
func Size(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

// crowding is a warning if others used the machine meanwhile, or nothing. foreign is how many cores
// they used in each run.
func crowding(foreign Values) string {
	if s := foreign.Summary(); s.Median > 0.1 || s.Most > 0.5 {
		return fmt.Sprintf("something else used %s cores at the same time (median of all runs; at most %s): the figures are too low, and the ratios rough",
			Number(s.Median), Number(s.Most))
	}
	return ""
}
