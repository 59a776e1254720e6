package topics

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/cmd/squall/internal/show"
)

// figureSize is the size of the plot.
var figureSize = show.PlotSize{Width: 680, Height: 340, Legend: 198}

// figure18 measures each level for one reader and more, with the protocol's optimisations and without, and draws it.
func (o *options) figure18(ctx context.Context, out, messages io.Writer) error {
	curves := map[string]*show.PlotCurve{}
	var order []string
	var set bench.Set[run]
	var specs []spec
	for _, l := range levels {
		for _, plain := range []bool{false, true} {
			for n := 1; n <= o.base.Readers; n++ {
				x := o.base.with(func(s *spec) { s.Level, s.Plain, s.Readers = l, plain, n })
				set.Add(caseOf(x))
				set.Judge(bench.Bar[run]{Unit: "samples/s", Figure: x.name(), Of: rateOf})
				specs = append(specs, x)
			}
		}
	}
	r, err := bench.Measure(ctx, o.runs, []bench.Set[run]{set}, nil, messages)
	if err != nil {
		return err
	}
	for i, x := range specs {
		name := string(x.Level)
		if x.Plain {
			name += ", without batching"
		}
		if curves[name] == nil {
			curves[name] = &show.PlotCurve{Name: name}
			order = append(order, name)
		}
		if mean, deviation := r.Series[i].Values(rateOf).Mean(); mean > 0 {
			scale := float64(x.SizeBytes) / 1e9
			curves[name].Points = append(curves[name].Points, show.PlotPoint{X: x.Readers, Y: mean * scale, Deviation: deviation * scale})
		}
	}
	p := show.Plot{Title: "One writer, " + bench.Size(o.base.SizeBytes) + ", " + o.base.Fabric, X: "readers", Y: "GB/s at each reader", LogY: true, Size: figureSize}
	for _, name := range order {
		p.Curves = append(p.Curves, *curves[name])
	}
	if o.out != "" {
		if err := p.Draw(filepath.Join(o.out, "dds-figure-18.svg")); err != nil {
			return err
		}
	}
	title := fmt.Sprintf("%v; one writer; medians of %d runs", r.Machine, r.Runs)
	return r.Print(out, bench.Output{JSON: o.json, Markdown: o.markdown, Title: title}, nil)
}
