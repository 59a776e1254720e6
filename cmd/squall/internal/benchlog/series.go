package benchlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/term"
)

// testCase is one thing that is measured several times.
type testCase struct {
	name    string
	measure func(ctx context.Context) (Run, error)
}

// Series is a case with its runs.
type Series struct {
	Name string `json:"name"`
	Runs []Run  `json:"runs"`
	Err  error  `json:"-"` // why there are fewer runs than wanted
}

// takeTurns measures each case several times: first all cases once, then all again. A case that fails is not tried again. It returns early
// only when ctx ends.
func takeTurns(ctx context.Context, runs int, cases []testCase, p *progress) ([]Series, error) {
	series := make([]Series, len(cases))
	for n := range runs {
		for i, c := range cases {
			s := &series[i]
			s.Name = c.name
			p.tell(fmt.Sprintf("run %d of %d: %s", n+1, runs, c.name))
			if s.Err != nil {
				continue
			}
			r, err := c.measure(ctx)
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if s.Err = err; err == nil {
				s.Runs = append(s.Runs, r)
			}
		}
	}
	return series, nil
}

// progress shows on a terminal how far a measurement is.
type progress struct {
	w           io.Writer
	done, total int
}

func (p *progress) tell(what string) {
	p.done++
	if f, ok := p.w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		fmt.Fprintf(p.w, "%d of %d: %s\n", p.done, p.total, what)
	}
}

// values is one figure in several runs, in the order of the runs.
type values []float64

func (s Series) values(of func(Run) float64) values {
	v := make(values, len(s.Runs))
	for i, r := range s.Runs {
		v[i] = of(r)
	}
	return v
}

// median is the middle value, or the mean of the two in the middle; 0 of none.
func (v values) median() float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// over is the ratio of each value to that of the same round.
func (v values) over(w values) values {
	ratios := make(values, min(len(v), len(w)))
	for i := range ratios {
		ratios[i] = ratio(v[i], w[i])
	}
	return ratios
}

// best is the greatest of each round, of those that have one.
func best(all []values) (most values) {
	for _, v := range all {
		for i, x := range v {
			if i == len(most) {
				most = append(most, x)
			}
			most[i] = max(most[i], x)
		}
	}
	return most
}

// Summary is a figure's median and range.
type Summary struct {
	Median float64 `json:"median"`
	Least  float64 `json:"min"`
	Most   float64 `json:"max"`
}

func (v values) summary() Summary {
	if len(v) == 0 {
		return Summary{}
	}
	return Summary{v.median(), slices.Min(v), slices.Max(v)}
}

// crowding is a warning if others used the machine meanwhile, or nothing.
func crowding(series []Series) string {
	var foreign values
	for _, s := range series {
		foreign = append(foreign, s.values(func(r Run) float64 { return r.Foreign })...)
	}
	if s := foreign.summary(); s.Median > 0.1 || s.Most > 0.5 {
		return fmt.Sprintf("something else used %s cores meanwhile (median of all runs; at most %s): the figures are too low, and the ratios rough",
			number(s.Median), number(s.Most))
	}
	return ""
}

// failures are those of series that a row needs.
func failures(series []Series) error {
	var errs []error
	for _, s := range series {
		if s.Err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.Name, s.Err))
		}
	}
	return errors.Join(errs...)
}
