package bench

import (
	"math"
	"slices"
)

// Values are the values of one figure in several runs, in the order of the runs.
type Values []float64

// Median is the middle value, or the mean of the two in the middle; 0 of none.
func (v Values) Median() float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// Range is the least and the greatest value; 0 and 0 of none.
func (v Values) Range() (least, greatest float64) {
	if len(v) == 0 {
		return 0, 0
	}
	return slices.Min(v), slices.Max(v)
}

// Mean and standard deviation, as the paper's plots show them; the deviation of fewer than two
// values is 0.
func (v Values) Mean() (mean, deviation float64) {
	if len(v) == 0 {
		return 0, 0
	}
	n := float64(len(v))
	for _, x := range v {
		mean += x / n
	}
	if len(v) == 1 {
		return mean, 0
	}
	for _, x := range v {
		deviation += (x - mean) * (x - mean) / (n - 1)
	}
	return mean, math.Sqrt(deviation)
}

// Over is the ratio of each value to that of the same round.
func (v Values) Over(w Values) Values {
	ratios := make(Values, min(len(v), len(w)))
	for i := range ratios {
		ratios[i] = Ratio(v[i], w[i])
	}
	return ratios
}

// Ratio is a/b, or 0 where there is nothing to divide by.
func Ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// Summary is a figure's median and range.
type Summary struct {
	Median float64 `json:"median"`
	Least  float64 `json:"min"`
	Most   float64 `json:"max"`
}

// Summary is what a report says of the values.
func (v Values) Summary() Summary {
	least, most := v.Range()
	return Summary{v.Median(), least, most}
}

// Span returns the range as text for a table.
func (s Summary) Span() string { return Number(s.Least) + " – " + Number(s.Most) }
