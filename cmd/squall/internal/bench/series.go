package bench

import (
	"context"
	"fmt"

	"github.com/squall-go/squall/cmd/squall/internal/figures"
)

// Case is one thing that is measured several times.
type Case struct {
	Name string `json:"name"`
	Spec *Spec  `json:"spec,omitempty"` // nil: another program's
	// measure replaces Measure(Spec).
	measure func(ctx context.Context) (Run, error)
}

// caseOf is the case of a spec.
func caseOf(name string, s Spec) Case { return Case{Name: name, Spec: &s} }

// Series is a case with its runs.
type Series struct {
	Case
	Runs []Run `json:"runs"`
	Err  error `json:"-"` // why there are fewer runs than wanted
}

func (c Case) run(ctx context.Context) (Run, error) {
	if c.measure != nil {
		return c.measure(ctx)
	}
	return Measure(ctx, *c.Spec)
}

// values takes one figure out of each run.
func (s Series) values(figure func(Run) float64) figures.Values { return figures.Of(s.Runs, figure) }

// Interleave measures each case several times, taking turns: first all cases once, then all again. A case that fails is not
// tried again. It returns early only when ctx ends.
func Interleave(ctx context.Context, runs int, cases []Case, progress *progress) ([]Series, error) {
	series := make([]Series, len(cases))
	for i, c := range cases {
		series[i].Case = c
	}
	for n := range runs {
		for i := range series {
			s := &series[i]
			progress.begin(fmt.Sprintf("run %d of %d: %s", n+1, runs, s.Name))
			if s.Err == nil {
				r, err := s.run(ctx)
				if ctx.Err() != nil {
					return series, context.Cause(ctx)
				}
				if s.Err = err; err == nil {
					s.Runs = append(s.Runs, r)
				}
			}
			progress.end()
		}
	}
	return series, nil
}
