package benchlog

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Report is what a command measured, as --json prints it.
type Report struct {
	Dir        string   `json:"dir"`
	FileSystem string   `json:"file_system"`
	Runs       int      `json:"runs"`
	Series     []Series `json:"series"`
	Rows       []Row    `json:"rows"`
}

// Row is one figure, beside its limit if it has one. What is judged is the median of the ratios of the rounds.
type Row struct {
	What      string   `json:"what"`
	Unit      string   `json:"unit"`
	Figure    Summary  `json:"figure"`
	LimitName string   `json:"limit_name,omitempty"`
	Limit     *Summary `json:"limit,omitempty"`
	Pairs     *Summary `json:"ratio,omitempty"`
	Bar       string   `json:"bar,omitempty"`
	Verdict   string   `json:"verdict,omitempty"`
}

// err is what went wrong, but for other systems and ways to write that are not there.
func (r Report) err() error {
	var errs []error
	for _, s := range r.Series {
		if s.Err != nil && !errors.Is(s.Err, errNoRival) && !errors.Is(s.Err, errNotAround) {
			errs = append(errs, fmt.Errorf("%s: %w", s.Name, s.Err))
		}
	}
	return errors.Join(errs...)
}

// write prints the rows, as Markdown or for people.
func (r Report) write(w io.Writer, markdown bool) {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	t.AppendHeader(table.Row{"what", "figure", "limit", "ratio (of rounds)", "bar", "ok/missed"})
	for _, row := range r.Rows {
		t.AppendRow(row.cells())
	}
	if markdown {
		t.RenderMarkdown()
	} else {
		t.Render()
	}
}

func (r Row) cells() table.Row {
	limit, ratio := "–", "–"
	if r.Limit != nil && r.LimitName != "" {
		limit = fmt.Sprintf("%s: %s (%s)", r.LimitName, number(r.Limit.Median), r.Limit.span())
		ratio = fmt.Sprintf("%s (%s)", number(r.Pairs.Median), r.Pairs.span())
	}
	figure := fmt.Sprintf("%s %s (%s)", number(r.Figure.Median), r.Unit, r.Figure.span())
	return table.Row{r.What, figure, limit, ratio, r.Bar, strings.ReplaceAll(r.Verdict, "\n", "; ")}
}

func (s Summary) span() string { return number(s.Least) + " – " + number(s.Most) }

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
