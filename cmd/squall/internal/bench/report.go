package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/squall-go/squall/cmd/squall/internal/show"
)

// Row is a figure next to its limit, if it has one, and what is asked of it.
type Row struct {
	What      string   `json:"what"`
	Unit      string   `json:"unit"`
	Figure    Summary  `json:"figure"`
	LimitName string   `json:"limit_name,omitempty"`
	Limit     *Summary `json:"limit,omitempty"`
	Ratio     float64  `json:"ratio,omitempty"`   // what is judged, if there is a limit: the median of those of the rounds
	Pairs     *Summary `json:"pairs,omitempty"`   // the ratios of the rounds
	Bar       string   `json:"bar,omitempty"`     // what is asked
	Verdict   string   `json:"verdict,omitempty"` // whether it was reached, or why this is unknown
	unknown   string   // a word for the table if it is unknown
}

// Report is what a command measured, as --json prints it.
type Report[R any] struct {
	Machine    Machine     `json:"machine"`
	Dir        string      `json:"dir,omitempty"` // of logs
	FileSystem string      `json:"file_system,omitempty"`
	Runs       int         `json:"runs"`
	Series     []Series[R] `json:"series"`
	Rows       []Row       `json:"rows,omitempty"`

	Tables []table.Writer `json:"-"` // printed after that of the rows
}

// Measure measures the cases of all sets and judges their bars. foreign returns how many cores
// other programs used in a run; nil if that is unknown.
func Measure[R any](ctx context.Context, runs int, sets []Set[R], foreign func(R) float64, messages io.Writer) (Report[R], error) {
	r := Report[R]{Machine: ThisMachine(), Runs: runs}
	total := 0
	for _, s := range sets {
		total += runs * len(s.Cases)
	}
	p := show.NewProgress(show.ProgressConfig{To: messages, What: "measuring", Total: int64(total)})
	defer p.End()
	for _, s := range sets {
		series, err := TakeTurns(ctx, runs, s.Cases, p)
		if err != nil {
			return r, err
		}
		r.Series = append(r.Series, series...)
		r.Rows = append(r.Rows, s.Rows(series)...)
	}
	if foreign != nil {
		var all Values
		for _, s := range r.Series {
			all = append(all, s.Values(foreign)...)
		}
		if text := crowding(all); text != "" {
			fmt.Fprintln(messages, text)
		}
	}
	return r, nil
}

// Output is the requested form of a report.
type Output struct {
	JSON     bool
	Markdown bool
	Title    string // above the tables
}

// Print shows the report. It returns what could not be measured.
func (r Report[R]) Print(w io.Writer, o Output) error {
	if o.JSON {
		return errors.Join(show.JSON(w, r), Failures(r.Series))
	}
	fmt.Fprintln(w, o.Title)
	tables := r.Tables
	if len(r.Rows) > 0 {
		tables = append([]table.Writer{r.table()}, tables...)
	}
	for _, t := range tables {
		t.SetStyle(table.StyleLight)
		t.Style().Format.Header = text.FormatDefault
		if o.Markdown {
			fmt.Fprintf(w, "\n%s\n", t.RenderMarkdown())
		} else {
			fmt.Fprintln(w, t.Render())
		}
	}
	if err := once(unmeasured(r.Series, true)); err != nil {
		fmt.Fprintf(w, "\n%v\n", err)
	}
	return Failures(r.Series)
}

// table has the rows, and what was asked of them if anything was.
func (r Report[R]) table() table.Writer {
	asked := slices.ContainsFunc(r.Rows, func(row Row) bool { return row.Verdict != nothing })
	t := table.NewWriter()
	header := table.Row{"what", "figure", "limit", "ratio (pairs)", "bar", "ok/missed"}
	limit := func(n int) int {
		if asked {
			return n
		}
		return n - 2
	}
	t.AppendHeader(header[:limit(len(header))])
	for _, row := range r.Rows {
		cells := row.cells()
		t.AppendRow(cells[:limit(len(cells))])
	}
	return t
}

func (r Row) cells() table.Row {
	limit, ratio := nothing, nothing
	if r.Limit != nil && r.LimitName != "" {
		limit = fmt.Sprintf("%s: %s (%s)", r.LimitName, show.Number(r.Limit.Median), r.Limit.Span())
		ratio = fmt.Sprintf("%s (%s)", show.Number(r.Ratio), r.Pairs.Span())
	}
	figure := strings.TrimSpace(fmt.Sprintf("%s %s", show.Number(r.Figure.Median), r.Unit))
	if r.Figure.Least != r.Figure.Most {
		figure += " (" + r.Figure.Span() + ")"
	}
	return table.Row{r.What, figure, limit, ratio, r.Bar, cmp.Or(r.unknown, r.Verdict)}
}

// Size is how many bytes something has, in the greatest unit that leaves no rest.
func Size(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

// crowding is a warning if others used the machine meanwhile, or nothing. foreign is how many cores
// they used in each run.
func crowding(foreign Values) string {
	if s := foreign.Summary(); s.Median > 0.1 || s.Most > 0.5 {
		return fmt.Sprintf("something else used %s cores at the same time (median of all runs; at most %s): the figures are too low, and the ratios rough",
			show.Number(s.Median), show.Number(s.Most))
	}
	return ""
}

// Values are the values of one figure in several runs, in the order of the runs.
type Values []float64

// Median is the middle value, or the mean of the two in the middle; 0 of none.
func (v Values) Median() float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// Range is the least and the greatest value; 0 and 0 of none.
func (v Values) Range() (least, greatest float64) {
	if len(v) == 0 {
		return 0, 0
	}
	return slices.Min(v), slices.Max(v)
}

// Mean and standard deviation, as the paper's plots show them; the deviation of fewer than two
// values is 0.
func (v Values) Mean() (mean, deviation float64) {
	if len(v) == 0 {
		return 0, 0
	}
	n := float64(len(v))
	for _, x := range v {
		mean += x / n
	}
	if len(v) == 1 {
		return mean, 0
	}
	for _, x := range v {
		deviation += (x - mean) * (x - mean) / (n - 1)
	}
	return mean, math.Sqrt(deviation)
}

// Over is the ratio of each value to that of the same round.
func (v Values) Over(w Values) Values {
	ratios := make(Values, min(len(v), len(w)))
	for i := range ratios {
		ratios[i] = Ratio(v[i], w[i])
	}
	return ratios
}

// Ratio is a/b, or 0 where there is nothing to divide by.
func Ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// Summary is a figure's median and range.
type Summary struct {
	Median float64 `json:"median"`
	Least  float64 `json:"min"`
	Most   float64 `json:"max"`
}

// Summary is what a report says of the values.
func (v Values) Summary() Summary {
	least, most := v.Range()
	return Summary{v.Median(), least, most}
}

// Span returns the range as text for a table.
func (s Summary) Span() string { return show.Number(s.Least) + " – " + show.Number(s.Most) }
