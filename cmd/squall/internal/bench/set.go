package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/squall-go/squall/cmd/squall/internal/show"
)

// Asked is what a figure, or its ratio to a limit, is held against. The zero value asks nothing.
type Asked struct {
	AtLeast float64 // 0: nothing
	AtMost  float64 // 0: nothing
	Under   float64 // 0: nothing
	None    bool    // the figure has to be 0, but for what the measurement itself does
}

// negligible is what counts as none: taking the samples allocates a few objects in each run.
const negligible = 0.0005

// nothing is what a table says where nothing is asked.
const nothing = "–"

func (a Asked) String() string {
	switch {
	case a.None:
		return "0"
	case a.AtLeast > 0:
		return "at least " + show.Number(a.AtLeast)
	case a.AtMost > 0:
		return "at most " + show.Number(a.AtMost)
	case a.Under > 0:
		return "under " + show.Number(a.Under)
	}
	return nothing
}

// Verdict says whether a value is what was asked.
func (a Asked) Verdict(v float64) string {
	ok := true
	switch {
	case a.None:
		ok = v < negligible
	case a.AtLeast > 0:
		ok = v >= a.AtLeast
	case a.AtMost > 0:
		ok = v <= a.AtMost
	case a.Under > 0:
		ok = v < a.Under
	default:
		return nothing
	}
	if ok {
		return "ok"
	}
	return "missed"
}

// Bar is a figure of a case, next to the same or another figure of other cases if it has a limit,
// and what is asked of it.
type Bar[R any] struct {
	What, Unit string // What is the name of the case unless it says something else
	Figure     Case[R]
	Of         func(R) float64
	Limits     []Case[R]       // the greatest of each round counts. None: the figure itself is held against what is asked
	LimitOf    func(R) float64 // nil: Of
	LimitName  string          // what the table says of the limit; empty: the name of its case
	// Derive makes the figure of all the cases, Figure first and the limits behind it, and replaces
	// Of and the ratio.
	Derive func(s []Series[R]) float64
	Asked
}

// Set is bars over cases that take turns.
type Set[R any] struct {
	Cases []Case[R]
	Bars  []Bar[R]
}

// Add adds cases, each once.
func (s *Set[R]) Add(cases ...Case[R]) {
	for _, c := range cases {
		if !slices.ContainsFunc(s.Cases, func(have Case[R]) bool { return have.Name == c.Name }) {
			s.Cases = append(s.Cases, c)
		}
	}
}

// Judge adds bars, and the cases that they are about.
func (s *Set[R]) Judge(bars ...Bar[R]) {
	for _, b := range bars {
		s.Bars = append(s.Bars, b)
		s.Add(b.Figure)
		s.Add(b.Limits...)
	}
}

// Compare adds a bar that asks for a ratio to the best of some limits, or without any for a figure.
func (s *Set[R]) Compare(figure Case[R], unit string, of func(R) float64, a Asked, limits ...Case[R]) {
	s.Judge(Bar[R]{Unit: unit, Figure: figure, Of: of, Limits: limits, Asked: a})
}

// Alone adds a figure that has a name of its own and no limit.
func (s *Set[R]) Alone(what, unit string, figure Case[R], of func(R) float64, a Asked) {
	s.Judge(Bar[R]{What: what, Unit: unit, Figure: figure, Of: of, Asked: a})
}

// Rows judges the bars by what was measured.
func (s Set[R]) Rows(series []Series[R]) (rows []Row) {
	byName := map[string]Series[R]{}
	for _, x := range series {
		byName[x.Name] = x
	}
	for _, b := range s.Bars {
		rows = append(rows, b.row(byName))
	}
	return rows
}

// row judges the bar by what was measured.
func (b Bar[R]) row(series map[string]Series[R]) Row {
	figure := series[b.Figure.Name]
	errs := []error{figure.Err}
	var limits []Series[R]
	for _, l := range b.Limits {
		errs = append(errs, series[l.Name].Err)
		limits = append(limits, series[l.Name])
	}
	err := errors.Join(errs...)
	r := Row{What: cmp.Or(b.What, b.Figure.Name), Unit: b.Unit, Bar: b.Asked.String()}
	judged := 0.0
	switch {
	case b.Derive == nil:
		judged = b.compare(&r, figure, limits)
	case err == nil:
		judged = b.Derive(append([]Series[R]{figure}, limits...))
		r.Figure = Summary{judged, judged, judged}
	}
	if r.Verdict = b.Verdict(judged); err != nil {
		r.Verdict, r.unknown = oneLine(err), "failed"
		if !slices.ContainsFunc(errs, isFailure) {
			r.unknown = ErrAbsent.Error()
		}
	}
	return r
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// compare fills the figures of a row and returns the figure by which the row is judged.
func (b Bar[R]) compare(r *Row, figure Series[R], limits []Series[R]) float64 {
	v := figure.Values(b.Of)
	r.Figure = v.Summary()
	if len(limits) == 0 {
		return r.Figure.Median
	}
	name, limit := b.best(limits)
	l, pairs := limit.Summary(), v.Over(limit).Summary()
	r.LimitName, r.Limit, r.Pairs, r.Ratio = cmp.Or(b.LimitName, name), &l, &pairs, pairs.Median
	return r.Ratio
}

// best is the best limit of each round, and the name of the case that is the best by its median.
func (b Bar[R]) best(limits []Series[R]) (name string, best Values) {
	of := b.LimitOf
	if of == nil {
		of = b.Of
	}
	most := 0.0
	for _, l := range limits {
		if l.Err != nil && len(limits) > 1 {
			continue
		}
		v := l.Values(of)
		for i, x := range v {
			if i == len(best) {
				best = append(best, x)
			}
			best[i] = max(best[i], x)
		}
		if m := v.Median(); name == "" || m > most {
			name, most = l.Name, m
		}
	}
	return name, best
}

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
func Failures[R any](series []Series[R]) error { return once(unmeasured(series, false)) }

func isFailure(err error) bool { return err != nil && !errors.Is(err, ErrAbsent) }

// unmeasured returns why cases have no runs: what is absent, or what failed.
func unmeasured[R any](series []Series[R], absent bool) (all []fault) {
	for _, s := range series {
		if s.Err != nil && isFailure(s.Err) != absent {
			all = append(all, fault{s.Name, s.Err})
		}
	}
	return all
}

// fault is the error of a case or of a member.
type fault struct {
	of  string
	err error
}

// once joins faults, each text once: with the first that has it, and how many more have.
func once(all []fault) error {
	count := map[string]int{}
	for _, f := range all {
		count[f.err.Error()]++
	}
	var errs []error
	for _, f := range all {
		n := count[f.err.Error()]
		if delete(count, f.err.Error()); n > 1 {
			f.of += fmt.Sprintf(" and %d more", n-1)
		}
		if n > 0 {
			errs = append(errs, fmt.Errorf("%s: %w", f.of, f.err))
		}
	}
	return errors.Join(errs...)
}
