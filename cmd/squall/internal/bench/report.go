package bench

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Report is what a command measured, as --json prints it.
type Report struct {
	Machine Machine  `json:"machine"`
	Runs    int      `json:"runs"`
	Series  []Series `json:"series"`
	Rows    []Row    `json:"rows"`
}

// Row is one figure, beside its limit if it has one.
type Row struct {
	What   string  `json:"what"`
	Unit   string  `json:"unit"`
	Figure Summary `json:"figure"`
	// Of the limit, and the figure over it: the ratio of the medians, and that of each pair of runs.
	LimitName string   `json:"limit_name,omitempty"`
	Limit     *Summary `json:"limit,omitempty"`
	Ratio     float64  `json:"ratio,omitempty"`
	Pairs     *Summary `json:"pairs,omitempty"`
	Bar       string   `json:"bar,omitempty"`
	Verdict   string   `json:"verdict,omitempty"`
}

// Summary is a figure's median and range.
type Summary struct {
	Median float64 `json:"median"`
	Least  float64 `json:"min"`
	Most   float64 `json:"max"`
}

func (v Values) summary() Summary {
	least, most := v.Range()
	return Summary{v.Median(), least, most}
}

// newRow puts a figure beside its limit.
func newRow(what, unit string, figure Values, limitName string, limit Values) Row {
	r := Row{What: what, Unit: unit, Figure: figure.summary(), LimitName: limitName}
	if len(limit) > 0 {
		l, pairs := limit.summary(), figure.over(limit).summary()
		r.Limit, r.Pairs, r.Ratio = &l, &pairs, ratio(r.Figure.Median, l.Median)
	}
	return r
}

// number prints four digits or so, with thousands apart.
func number(v float64) string {
	switch a := math.Abs(v); {
	case v == 0:
		return "0"
	case a >= 1000:
		digits := strconv.FormatFloat(math.Round(v), 'f', 0, 64)
		for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
			digits = digits[:i] + " " + digits[i:]
		}
		return digits
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 0.01:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

func (s Summary) span() string { return number(s.Least) + " – " + number(s.Most) }

// writeText prints the rows for people.
func (r Report) writeText(w io.Writer) {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	t.AppendHeader(table.Row{"", "median", "range", "unit", "limit", "its median", "figure / limit", "of pairs"})
	for _, row := range r.Rows {
		line := table.Row{row.What, number(row.Figure.Median), row.Figure.span(), row.Unit}
		if row.Limit != nil {
			line = append(line, row.LimitName, number(row.Limit.Median), number(row.Ratio), row.Pairs.span())
		}
		t.AppendRow(line)
	}
	t.SetColumnConfigs([]table.ColumnConfig{
		{Number: 2, Align: text.AlignRight}, {Number: 3, Align: text.AlignRight}, {Number: 6, Align: text.AlignRight},
		{Number: 7, Align: text.AlignRight}, {Number: 8, Align: text.AlignRight},
	})
	t.Render()
}

func (r Report) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
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
	var foreign Values
	for _, s := range series {
		foreign = append(foreign, s.values(func(r Run) float64 { return r.Foreign })...)
	}
	if m := foreign.Median(); len(foreign) > 0 && (m > 0.1 || slices.Max(foreign) > 0.5) {
		return fmt.Sprintf("something else used %s cores meanwhile (median of all runs; at most %s): the figures are too low, and the ratios rough",
			number(m), number(slices.Max(foreign)))
	}
	return ""
}
