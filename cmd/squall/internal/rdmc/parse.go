package rdmc

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/squall-go/squall/cmd/squall/internal/linkmodel"
)

// Units of rates in bits, longest first where one ends like the other.
var bitUnits = []struct {
	suffix string
	bits   float64
}{
	{"gbit", 1e9}, {"mbit", 1e6}, {"kbit", 1e3}, {"bit", 1},
}

// parseRate reads 10Gbit or 1.25GB, per second, as bytes per second.
func parseRate(text string) (bytesPerSecond float64, err error) {
	t := strings.TrimSuffix(strings.TrimSpace(text), "/s")
	for _, u := range bitUnits {
		if count, ok := strings.CutSuffix(strings.ToLower(t), u.suffix); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(count), 64)
			if err != nil || !(v > 0 && v*u.bits >= 8 && v*u.bits < 1e18) {
				return 0, fmt.Errorf("%q is no rate: use 10Gbit or 1.25GB, per second", text)
			}
			return v * u.bits / 8, nil
		}
	}
	v, err := humanize.ParseBytes(t)
	if err != nil || v == 0 {
		return 0, fmt.Errorf("%q is no rate: use 10Gbit or 1.25GB, per second", text)
	}
	return float64(v), nil
}

// parseSize reads 256MiB, of at least one byte.
func parseSize(text string) (int64, error) {
	v, err := humanize.ParseBytes(text)
	if err != nil || v == 0 || v > 1<<50 {
		return 0, fmt.Errorf("%q is no size: use 256MiB, or 8MB", text)
	}
	return int64(v), nil
}

// parseNodes reads numbers and ranges, 2-16,32,64.
func parseNodes(text string, most int) (nodes []int, err error) {
	for part := range strings.SplitSeq(text, ",") {
		from, to, ranged := strings.Cut(strings.TrimSpace(part), "-")
		if !ranged {
			to = from
		}
		first, errFirst := strconv.Atoi(from)
		last, errLast := strconv.Atoi(to)
		if errFirst != nil || errLast != nil || first < 2 || last < first || last > most {
			return nil, fmt.Errorf("%q: use numbers from 2 to %d and ranges of them, 2-16,32,64", text, most)
		}
		nodes = append(nodes, through(first, last)...)
	}
	slices.Sort(nodes)
	return slices.Compact(nodes), nil
}

// parseSlow reads slow links, A-B:RATE. It reports all faults at once.
func parseSlow(pairs []string) (links []linkmodel.SlowLink, err error) {
	var errs []error
	for _, text := range pairs {
		who, after, _ := strings.Cut(text, ":")
		from, to, _ := strings.Cut(who, "-")
		rate, err := parseRate(after)
		a, errA := strconv.Atoi(from)
		b, errB := strconv.Atoi(to)
		if err := errors.Join(err, errA, errB); err != nil {
			errs = append(errs, fmt.Errorf("--slow-link %q: use A-B:RATE, 0-1:5Gbit", text))
		}
		links = append(links, linkmodel.SlowLink{A: a, B: b, Rate: rate})
	}
	return links, errors.Join(errs...)
}

func parseIntake(text string) (linkmodel.Intake, error) {
	for _, in := range intakes {
		if in.name == text {
			return in.intake, nil
		}
	}
	return 0, fmt.Errorf("--intake %q: use %s or %s", text, intakes[0].name, intakes[1].name)
}
