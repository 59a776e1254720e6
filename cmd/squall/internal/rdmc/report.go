package rdmc

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

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
	if o.csv != "" {
		if err := writeCSV(o.csv, out, lines(o.chosen)); err != nil || o.csv == "-" {
			return err
		}
	}
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
			return number(f.value(p))
		}
	}
	return ""
}

// number prints four digits or so, with thousands apart.
func number(v float64) string {
	switch {
	case v >= 1000:
		digits := strconv.FormatFloat(math.Round(v), 'f', 0, 64)
		for i := len(digits) - 3; i > 0; i -= 3 {
			digits = digits[:i] + " " + digits[i:]
		}
		return digits
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}

// column is something that a CSV file says of a point.
type column struct {
	name  string
	value func(Point) any
}

var columns = []column{
	{"nodes", func(p Point) any { return p.Nodes }},
	{"schedule", func(p Point) any { return p.Schedule }},
	{"senders", func(p Point) any { return p.Senders }},
	{"bytes", func(p Point) any { return p.Bytes }},
	{"block_bytes", func(p Point) any { return p.BlockBytes }},
	{"steps", func(p Point) any { return p.Steps }},
	{"seconds", func(p Point) any { return p.Seconds }},
	{"skew_seconds", func(p Point) any { return p.SkewSeconds }},
	{"bytes_per_s", func(p Point) any { return p.BytesRate }},
	{"of_steps", func(p Point) any { return p.OfSteps }},
	{"left", func(p Point) any { return p.Left }},
	{"cross_bytes", func(p Point) any { return p.CrossBytes }},
	{"utilisation", func(p Point) any { return p.Utilisation }},
}

// lines are the figures as a table, every point a line.
func lines(figures []Figure) [][]string {
	head := []string{"figure", "curve"}
	for _, c := range columns {
		head = append(head, c.name)
	}
	all := [][]string{head}
	for _, f := range figures {
		for _, c := range f.Curves {
			for _, p := range c.Points {
				all = append(all, line(f.Name, c.Name, p))
			}
		}
	}
	return all
}

func line(figure, curve string, p Point) []string {
	fields := []string{figure, curve}
	for _, c := range columns {
		switch v := c.value(p).(type) {
		case float64:
			fields = append(fields, strconv.FormatFloat(v, 'g', 7, 64))
		default:
			fields = append(fields, fmt.Sprint(v))
		}
	}
	return fields
}

// writeCSV writes lines to a file, or for "-" to out.
func writeCSV(path string, out io.Writer, lines [][]string) error {
	if path == "-" {
		return csv.NewWriter(out).WriteAll(lines)
	}
	return show.CSV(path, lines)
}
