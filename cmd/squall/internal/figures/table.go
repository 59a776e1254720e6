package figures

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Beside is a figure beside its limit, if it has one: how a row begins.
type Beside struct {
	What      string   `json:"what"`
	Unit      string   `json:"unit"`
	Figure    Summary  `json:"figure"`
	LimitName string   `json:"limit_name,omitempty"`
	Limit     *Summary `json:"limit,omitempty"`
}

// Judged is what was asked and whether it was reached, or why nobody knows: how a row ends.
type Judged struct {
	Bar     string `json:"bar,omitempty"`
	Verdict string `json:"verdict,omitempty"`
}

// Row is a row of a report. Ratio is what is held against the bar, Pairs are the ratios of the rounds.
type Row struct {
	Beside
	Ratio float64  `json:"ratio,omitempty"`
	Pairs *Summary `json:"pairs,omitempty"`
	Judged
}

func (r Row) cells() table.Row {
	limit, ratio := "–", "–"
	if r.Limit != nil && r.LimitName != "" {
		limit = fmt.Sprintf("%s: %s (%s)", r.LimitName, Number(r.Limit.Median), r.Limit.Span())
		ratio = fmt.Sprintf("%s (%s)", Number(r.Ratio), r.Pairs.Span())
	}
	figure := fmt.Sprintf("%s %s (%s)", Number(r.Figure.Median), r.Unit, r.Figure.Span())
	return table.Row{r.What, figure, limit, ratio, r.Bar, strings.ReplaceAll(r.Verdict, "\n", "; ")}
}

// JudgedTable is a table of rows with what is asked of them. ratio is what the column of the ratios is called.
func JudgedTable(w io.Writer, ratio string, rows []Row) table.Writer {
	t := NewTable(w, "what", "figure", "limit", ratio, "bar", "ok/missed")
	for _, r := range rows {
		t.AppendRow(r.cells())
	}
	return t
}

// NewTable is a table as all reports have it. It goes to w when it is rendered.
func NewTable(w io.Writer, header ...any) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	t.AppendHeader(header)
	return t
}

// WriteJSON prints a report for programs.
func WriteJSON(w io.Writer, report any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(report)
}
