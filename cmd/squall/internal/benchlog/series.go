package benchlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/squall-go/squall/cmd/squall/internal/figures"
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

// values takes one figure out of each run.
func (s Series) values(figure func(Run) float64) figures.Values { return figures.Of(s.Runs, figure) }

// crowding is a warning if others used the machine meanwhile, or nothing.
func crowding(series []Series) string {
	var foreign figures.Values
	for _, s := range series {
		foreign = append(foreign, s.values(func(r Run) float64 { return r.Foreign })...)
	}
	return figures.Crowding(foreign)
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
