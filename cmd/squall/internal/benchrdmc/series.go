package benchrdmc

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// Series is a case with its runs.
type Series struct {
	Case
	Runs  []Run  `json:"runs"`
	Error string `json:"error,omitempty"` // why there are fewer runs than wanted
	err   error
}

// median is the middle one of a figure of all runs, or the mean of the two in the middle; 0 of none.
func (s *Series) median(figure func(Run) float64) float64 {
	v := s.values(figure)
	if len(v) == 0 {
		return 0
	}
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// values is a figure of all runs, the least first.
func (s *Series) values(figure func(Run) float64) []float64 {
	v := make([]float64, len(s.Runs))
	for i, r := range s.Runs {
		v[i] = figure(r)
	}
	slices.Sort(v)
	return v
}

// Figures of runs.
func seconds(r Run) float64    { return r.Seconds }
func ofIdeal(r Run) float64    { return r.Ideal }
func skewBlocks(r Run) float64 { return r.SkewBlocks }
func cpuPerGB(r Run) float64   { return r.CPUPerGB }
func busyPerGB(r Run) float64  { return r.BusyPerGB }
func peakBytes(r Run) float64  { return r.PeakBytes }

// measure runs every case several times, taking turns among those that run on the same hosts. A case that fails is not tried again. It returns
// early only when ctx ends.
func measure(ctx context.Context, runs int, cases []Case, p *progress) (all []Series, err error) {
	all = make([]Series, len(cases))
	order := make([]int, len(cases))
	for i, c := range cases {
		all[i].Case, order[i] = c, i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(cases[i].Nodes, cases[j].Nodes), cmp.Compare(cases[i].Rate, cases[j].Rate))
	})
	var f *fleet
	defer func() {
		if failed := f.close(); err == nil {
			err = failed
		}
	}()
	for len(order) > 0 {
		same := 1
		for same < len(order) && cases[order[same]].Nodes == cases[order[0]].Nodes && cases[order[same]].Rate == cases[order[0]].Rate {
			same++
		}
		for n := range runs {
			for _, i := range order[:same] {
				p.begin(fmt.Sprintf("run %d of %d: %s, %d nodes", n+1, runs, cases[i].title(), cases[i].Nodes))
				if all[i].err == nil {
					f = all[i].run(ctx, f)
				}
				if ctx.Err() != nil {
					return all, context.Cause(ctx)
				}
				p.end()
			}
		}
		order = order[same:]
	}
	return all, nil
}

// run adds a run. It returns the fleet on which it was.
func (s *Series) run(ctx context.Context, f *fleet) *fleet {
	if !f.fits(s.Case) {
		if s.err = f.close(); s.err == nil {
			f, s.err = startFleet(ctx, s.Nodes, s.Rate)
		}
	}
	var r Run
	if s.err == nil && s.MPI != nil {
		r, s.err = s.MPI.run(ctx, f.lab, s.Case)
	} else if s.err == nil {
		r, s.err = f.run(ctx, s.Case)
	}
	if s.err != nil {
		s.Error = s.err.Error()
		return f
	}
	s.Runs = append(s.Runs, r)
	return f
}
