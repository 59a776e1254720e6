package netlab

import (
	"fmt"
	"strconv"
	"strings"
)

// Rate is how fast a link is, in bits per second.
type Rate int64

// Units of rates.
const (
	Kbit Rate = 1_000
	Mbit      = 1_000 * Kbit
	Gbit      = 1_000 * Mbit
)

// Goodput is the part of a rate that is left for TCP's payload: 1,448 of the 1,514 bytes that a
// full packet takes on the link.
const Goodput = 1448.0 / 1514

// maxRate is more than any machine can emulate.
const maxRate = 1_000 * Gbit

// units are the suffixes of rates, the longer ones first.
var units = []struct {
	suffix string
	rate   Rate
}{{"gbit", Gbit}, {"mbit", Mbit}, {"kbit", Kbit}, {"bit", 1}, {"", Mbit}}

// ParseRate reads a rate like 400mbit, 1gbit or 500kbit. A plain number is Mbit/s.
func ParseRate(text string) (Rate, error) {
	for _, u := range units {
		digits, ok := strings.CutSuffix(strings.ToLower(text), u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(digits, 64)
		if err == nil && n*float64(u.rate) >= 1 && n*float64(u.rate) <= float64(maxRate) {
			return Rate(n * float64(u.rate)), nil
		}
		break
	}
	return 0, fmt.Errorf("rate %q: want one like 400mbit, 1gbit or 500kbit, up to %v", text, maxRate)
}

// String writes a rate so that ParseRate, and tc, read it.
func (r Rate) String() string {
	for _, u := range units {
		if u.suffix != "" && r >= u.rate && r%u.rate == 0 {
			return fmt.Sprintf("%d%s", int64(r/u.rate), u.suffix)
		}
	}
	return fmt.Sprintf("%dbit", int64(r))
}

// BytesPerSecond is the same in bytes.
func (r Rate) BytesPerSecond() float64 { return float64(r) / 8 }
