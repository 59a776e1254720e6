package rdmc

import (
	"fmt"
	"io"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/squall-go/squall/cmd/squall/internal/show"
)

// Report is what "sim" prints with --json.
type Report struct {
	Rate             float64  `json:"rate_bytes_per_s"`
	LatencyNs        int64    `json:"latency_ns"`
	OverheadNs       int64    `json:"overhead_ns"`
	JitterMaxNs      int64    `json:"jitter_max_ns"`
	Seed             uint64   `json:"seed"`
	Intake           string   `json:"intake"`
	RackSize         int      `json:"rack_size"`
	Oversubscription float64  `json:"oversubscription"`
	Figures          []Figure `json:"figures"`
}

// print shows the figures in the form that was asked for.
func (o *simOptions) print(out io.Writer) error {
	if o.json {
		return show.JSON(out, o.report())
	}
	fmt.Fprintf(out, "Computed, not measured: %s/s, latency %v, overhead %v a block, jitter up to %v (seed %d), blocks of %s taken %s.\n",
		o.rate, o.latency, o.overhead, o.jitter, o.seed, o.block, o.intake)
	for _, f := range o.chosen {
		f.writeText(out)
	}
	return nil
}

func (o *simOptions) report() Report {
	rate, _ := parseRate(o.rate) // which complete did before
	return Report{
		Rate: rate, LatencyNs: o.latency.Nanoseconds(), OverheadNs: o.overhead.Nanoseconds(), JitterMaxNs: o.jitter.Nanoseconds(),
		Seed: o.seed, Intake: o.intake, RackSize: o.rackSize, Oversubscription: o.oversubscription, Figures: o.chosen,
	}
}

// writeText prints a table with a row for each number of members and a column for each curve.
func (f Figure) writeText(w io.Writer) {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	head, align := table.Row{"members"}, []table.ColumnConfig{{Number: 1, Align: text.AlignRight}}
	for i, c := range f.Curves {
		head = append(head, c.Name)
		align = append(align, table.ColumnConfig{Number: i + 2, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.AppendHeader(head)
	t.SetColumnConfigs(align)
	for _, n := range f.members() {
		row := table.Row{n}
		for _, c := range f.Curves {
			row = append(row, f.cell(c, n))
		}
		t.AppendRow(row)
	}
	fmt.Fprintf(w, "\n%s: %s\n", f.Title, f.YLabel)
	t.Render()
}

// members lists the numbers of members of all curves.
func (f Figure) members() (nodes []int) {
	for _, c := range f.Curves {
		for _, p := range c.Points {
			nodes = append(nodes, p.Nodes)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// cell is what the figure shows of a curve at a number of members.
func (f Figure) cell(c Curve, nodes int) string {
	for _, p := range c.Points {
		if p.Nodes == nodes {
			return show.Number(f.value(p))
		}
	}
	return ""
}
