package bench

import (
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/squall-go/squall/cmd/squall/internal/figures"
)

// Report is what a command measured, as --json prints it.
type Report struct {
	Machine Machine       `json:"machine"`
	Runs    int           `json:"runs"`
	Series  []Series      `json:"series"`
	Rows    []figures.Row `json:"rows"`
}

// newRow puts a figure beside its limit.
func newRow(what, unit string, figure figures.Values, limitName string, limit figures.Values) figures.Row {
	r := figures.Row{Beside: figures.Beside{What: what, Unit: unit, Figure: figure.Summary(), LimitName: limitName}}
	if len(limit) > 0 {
		l, pairs := limit.Summary(), figure.Over(limit).Summary()
		r.Limit, r.Pairs, r.Ratio = &l, &pairs, figures.Ratio(r.Figure.Median, l.Median)
	}
	return r
}

// writeText prints the rows for people.
func (r Report) writeText(w io.Writer) {
	t := figures.NewTable(w, "", "median", "range", "unit", "limit", "its median", "figure / limit", "of pairs")
	for _, row := range r.Rows {
		line := table.Row{row.What, figures.Number(row.Figure.Median), row.Figure.Span(), row.Unit}
		if row.Limit != nil {
			line = append(line, row.LimitName, figures.Number(row.Limit.Median), figures.Number(row.Ratio), row.Pairs.Span())
		}
		t.AppendRow(line)
	}
	t.SetColumnConfigs([]table.ColumnConfig{
		{Number: 2, Align: text.AlignRight}, {Number: 3, Align: text.AlignRight}, {Number: 6, Align: text.AlignRight},
		{Number: 7, Align: text.AlignRight}, {Number: 8, Align: text.AlignRight},
	})
	t.Render()
}

// column is a figure of a run in a CSV file.
type column struct {
	name  string
	value func(Run) float64
}

var columns = []column{
	{"rate_msgs_per_s", func(r Run) float64 { return r.Rate }},
	{"undelayed_msgs_per_s", func(r Run) float64 { return r.Undelayed }},
	{"total_msgs_per_s", func(r Run) float64 { return r.TotalRate }},
	{"bytes_per_s", func(r Run) float64 { return r.BytesRate }},
	{"cpu_us_per_msg", func(r Run) float64 { return r.CPUPerMsg }},
	{"cpu_percent_max", func(r Run) float64 { return r.CPUPercent }},
	{"allocs_per_msg", func(r Run) float64 { return r.Allocs }},
	{"nulls_per_msg", func(r Run) float64 { return r.Nulls }},
	{"send_batch", func(r Run) float64 { return r.Send }},
	{"receive_batch", func(r Run) float64 { return r.Receive }},
	{"deliver_batch", func(r Run) float64 { return r.Deliver }},
	{"loaded_p50_us", func(r Run) float64 { return r.Loaded.P50Us }},
	{"loaded_p99_us", func(r Run) float64 { return r.Loaded.P99Us }},
	{"latency_p50_us", func(r Run) float64 { return r.Latency.P50Us }},
	{"latency_p99_us", func(r Run) float64 { return r.Latency.P99Us }},
	{"foreign_cores", func(r Run) float64 { return r.Foreign }},
}

// writeCSV writes every run to a file.
func (r Report) writeCSV(path string) error {
	lines := [][]string{{"case", "run"}}
	for _, c := range columns {
		lines[0] = append(lines[0], c.name)
	}
	for _, s := range r.Series {
		for i, run := range s.Runs {
			line := []string{s.Name, strconv.Itoa(i + 1)}
			for _, c := range columns {
				line = append(line, strconv.FormatFloat(c.value(run), 'g', 7, 64))
			}
			lines = append(lines, line)
		}
	}
	return writeCSV(path, lines)
}

func writeCSV(path string, lines [][]string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := csv.NewWriter(f)
	if err := w.WriteAll(lines); err != nil {
		f.Close()
		return fmt.Errorf("%s: %w", path, err)
	}
	return f.Close()
}

// crowding is a warning if others used the machine meanwhile, or nothing.
func crowding(series []Series) string {
	var foreign figures.Values
	for _, s := range series {
		foreign = append(foreign, s.values(func(r Run) float64 { return r.Foreign })...)
	}
	return figures.Crowding(foreign)
}
