package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/squall-go/squall/cmd/squall/internal/show"
)

// Case is one thing that is measured several times. R is what one run of it comes to.
type Case[R any] struct {
	Name    string                               `json:"name"`
	Spec    any                                  `json:"spec,omitempty"` // nil: another program's
	Measure func(ctx context.Context) (R, error) `json:"-"`
}

// Series is a case with its runs.
type Series[R any] struct {
	Case[R]
	Runs  []R    `json:"runs"`
	Error string `json:"error,omitempty"` // Err as text
	Err   error  `json:"-"`               // why there are fewer runs than wanted
}

// Values takes one figure out of each run.
func (s Series[R]) Values(figure func(R) float64) Values {
	v := make(Values, len(s.Runs))
	for i, r := range s.Runs {
		v[i] = figure(r)
	}
	return v
}

// ErrAbsent is the error of a limit that this machine or this call does not offer. It stands in the
// row, and is no failure.
var ErrAbsent = errors.New("not measured")

// TakeTurns measures each case several times: first all cases once, then all again. A case that
// fails is not tried again. It returns early only when ctx ends.
func TakeTurns[R any](ctx context.Context, runs int, cases []Case[R], p *show.Progress) ([]Series[R], error) {
	series := make([]Series[R], len(cases))
	for n := range runs {
		for i, c := range cases {
			s := &series[i]
			s.Case = c
			p.Describe(fmt.Sprintf("run %d of %d: %s", n+1, runs, c.Name))
			if s.Err == nil {
				r, err := c.Measure(ctx)
				if ctx.Err() != nil {
					return series, context.Cause(ctx)
				}
				if s.Err = err; err == nil {
					s.Runs = append(s.Runs, r)
				} else {
					s.Error = err.Error()
				}
			}
			p.Add()
		}
	}
	return series, nil
}

// Failures are what could not be measured although it should have been.
func Failures[R any](series []Series[R]) error {
	var errs []error
	for _, s := range series {
		if s.Err != nil && !errors.Is(s.Err, ErrAbsent) {
			errs = append(errs, fmt.Errorf("%s: %w", s.Name, s.Err))
		}
	}
	return errors.Join(errs...)
}
